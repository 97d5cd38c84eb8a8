"""White-box laws on the score query.

One record's share is bounded, and what is released has noise.
"""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.tuning.score import Score, WorstGroup, make_score, score_sensitivity

GOALS = ("accuracy", "worst-group")
RECORDS = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


def arrays(records):
    correct, groups = zip(*records, strict=True)
    return np.array(correct), np.array(groups)


def score_rule(goal, n=40, missing=None):
    return make_score(goal, validation_rows=n, n_groups=4, missing=missing)


@pytest.mark.parametrize("goal", GOALS)
@given(records=RECORDS)
def test_one_record_moves_the_counts_by_no_more_than_is_charged(goal, records):
    correct, groups = arrays(records)
    score = score_rule(goal)
    whole = score.rows(correct, groups).sum(0)
    for i in range(len(correct)):
        fewer = score.rows(np.delete(correct, i), np.delete(groups, i)).sum(0)
        assert np.linalg.norm(whole - fewer) <= score.sensitivity + 1e-12


def test_the_sensitivity_is_reached():
    for goal in GOALS:
        row = score_rule(goal).rows(np.array([True]), np.array([2]))
        assert np.linalg.norm(row) == pytest.approx(score_sensitivity(goal))


def noise_that_shows(score, goal):
    """Standard deviation of the counts over fresh noise, as ``value`` is handed them."""
    seen = []

    class Watched(type(score)):
        def value(self, counts):
            seen.append(counts)
            return 0.0

    watched = Watched(40) if goal == "accuracy" else Watched(4)
    rng = np.random.default_rng(1)
    correct, groups = rng.random(40) < 0.7, rng.integers(0, 4, 40)
    for _ in range(2_000):
        watched.release(correct, groups, 3.0, rng.standard_normal(watched.counts))
    return np.std(seen, axis=0)


@pytest.mark.parametrize("goal", GOALS)
def test_every_released_count_has_its_noise(goal):
    np.testing.assert_allclose(noise_that_shows(score_rule(goal), goal), 3.0, rtol=0.1)


def test_a_charged_score_cannot_be_had_without_noise():
    with pytest.raises(AssertionError, match="noise"):
        score_rule("accuracy").release(np.array([True]), np.array([0]), 1.0, None)


def test_what_is_made_of_the_counts_sees_no_record():
    assert list(inspect.signature(Score.value).parameters) == ["self", "counts"]


@given(records=RECORDS)
def test_exact_scores_by_brute_force(records):
    correct, groups = arrays(records)
    share = score_rule("accuracy", n=len(correct)).release(correct, groups, 0.0, None)
    assert share == pytest.approx(correct.mean())
    present = WorstGroup(4).release(correct, groups, 0.0, None)
    expected = [correct[groups == k].mean() if (groups == k).any() else 0.0 for k in range(4)]
    assert present == pytest.approx(min(expected))


def test_records_without_a_group_steer_nothing():
    correct, groups = np.array([False, False, True, True]), np.array([3, 3, 0, 1])
    score = WorstGroup(4, missing=3)
    assert not score.rows(correct, groups)[:2].any()
    assert WorstGroup(2, missing=1).release(np.array([True]), np.array([0]), 0.0, None) == 1.0


def test_counts_below_one_make_no_infinite_score():
    assert np.isfinite(WorstGroup(4).value(np.array([3.0, 1, 1, 1, -2.0, 0.0, 0.5, 9.0])))
