"""Disagreement of trainings: pairs by hand, the jackknife by leaving out, exact ends, coverage."""

from itertools import combinations

import numpy as np
import pytest

from fairaudit.metrics.disagreement import disagreement_tables, exact_upper, pairs
from fairaudit.metrics.gaps import GroupSelection, gaps_of
from fairaudit.metrics.intervals import EvaluatedRecords, contrast, estimate


def share_by_hand(answers, people):
    """Differing over tested pairs, counted one by one; NaN without a pair."""
    differing = tested = 0
    for first, second in combinations(answers, 2):
        for i in people:
            if first[i] >= 0 and second[i] >= 0:
                tested += 1
                differing += first[i] != second[i]
    return differing / tested if tested else float("nan")


def drawn(trainings, people, classes, untested, seed):
    rng = np.random.default_rng(seed)
    answers = rng.integers(0, classes, (trainings, people))
    return np.where(rng.random(answers.shape) < untested, -1, answers)


@pytest.mark.parametrize("untested", [0.0, 0.4])
@pytest.mark.parametrize("classes", [2, 5])
def test_disagreement_is_the_share_of_pairs_that_differ(classes, untested):
    answers = drawn(4, 60, classes, untested, seed=classes)
    counted = pairs(answers)
    share = counted.differing.sum() / counted.tested.sum()
    assert share == pytest.approx(share_by_hand(answers, range(60)))


@pytest.mark.parametrize("untested", [0.0, 0.4])
def test_a_table_holds_groups_all_rows_reference_and_the_difference(untested):
    groups = np.repeat([0, 1, 2], [40, 30, 20])
    records = EvaluatedRecords.of([np.arange(90)], groups, 3)
    ours, theirs = drawn(5, 90, 3, untested, seed=1), drawn(5, 90, 2, 0.0, seed=2)
    theirs = np.where(ours < 0, -1, theirs)
    tables = disagreement_tables(ours, records, theirs)
    for k, people in enumerate([*(np.flatnonzero(groups == k) for k in range(3)), range(90)]):
        own, other = share_by_hand(ours, people), share_by_hand(theirs, people)
        of = {name: table.by_seed[:, k].mean() for name, table in tables.items()}
        assert of["disagreement"] == pytest.approx(own)
        assert of["reference.disagreement"] == pytest.approx(other)
        assert of["disagreement_cost"] == pytest.approx(own - other)


def test_pseudo_values_are_those_of_leaving_each_training_out():
    answers = drawn(6, 50, 2, 0.0, seed=3)
    records = EvaluatedRecords.of([np.arange(50)], np.zeros(50, int), 1)
    table = disagreement_tables(answers, records)["disagreement"]
    whole = share_by_hand(answers, range(50))
    for s in range(6):
        without = share_by_hand(np.delete(answers, s, axis=0), range(50))
        assert table.by_seed[s, 0] == pytest.approx(6 * whole - 5 * without)


def test_the_variance_over_people_is_that_of_their_shares():
    answers = drawn(4, 80, 2, 0.0, seed=4)
    records = EvaluatedRecords.of([np.arange(80)], np.zeros(80, int), 1)
    table = disagreement_tables(answers, records)["disagreement"]
    shares = np.array([share_by_hand(answers, [i]) for i in range(80)])
    floor = 2 / 82**2  # of which a part counts, by how alike the trainings are
    assert 0 <= table.covariance[0, 0, 0] - shares.var() / 80 <= floor


def test_where_nobody_differs_the_upper_end_is_exact():
    groups = np.repeat([0, 1], [50, 400])
    records = EvaluatedRecords.of([np.arange(450)], groups, 2)
    answers = np.zeros((5, 450), int)
    answers[:, 50:] = drawn(5, 400, 2, 0.0, seed=5)
    tables = disagreement_tables(answers, records, answers)
    one = estimate(contrast(tables["disagreement"], 0))
    assert (one.value, one.low) == (0.0, 0.0)
    # 50 people of whom a share of that size decides nobody once in twenty.
    assert (1 - one.high) ** 50 == pytest.approx(0.05)
    assert exact_upper(np.array([50]))[0] == pytest.approx(one.high)
    cost = estimate(contrast(tables["disagreement_cost"], 0))
    assert (cost.low, cost.high) == pytest.approx((-one.high, one.high))


def test_gaps_are_made_as_of_every_metric():
    groups = np.repeat([0, 1], 300)
    records = EvaluatedRecords.of([np.arange(600)], groups, 2)
    rng = np.random.default_rng(6)
    chance = np.where(groups == 0, 0.3, 0.02)
    answers = (rng.random((8, 600)) < chance).astype(np.int64)
    table = disagreement_tables(answers, records)["disagreement"]
    cut = GroupSelection(("F", "M"), None, records.count(), n_seeds=8)
    pair = next(gap for gap in gaps_of(table, cut) if gap.kind == "pair")
    assert pair.direction == "worse for F"
    assert pair.signed.low < 2 * 0.3 * 0.7 - 2 * 0.02 * 0.98 < pair.signed.high


def test_two_trainings_have_no_table():
    records = EvaluatedRecords.of([np.arange(9)], np.zeros(9, int), 1)
    with pytest.raises(AssertionError, match="too few"):
        disagreement_tables(np.zeros((2, 9), int), records)


@pytest.mark.slow
@pytest.mark.parametrize(("trainings", "least"), [(3, 0.93), (5, 0.93), (10, 0.93)])
def test_intervals_hold_for_new_people_and_new_trainings(trainings, least):
    """Linear models of 20 inputs whose weights vary; what is true is known from many of them."""
    rng, inputs, people, audits = np.random.default_rng(trainings), 20, 300, 400
    centre, scale = np.full(inputs, inputs**-0.5), np.linspace(1.5, 0.5, inputs)

    def population(size):
        x = rng.normal(size=(2 * size, inputs))
        x[size:] += 0.2
        return x

    def answers(x, spread, count):
        weights = centre + spread * rng.normal(size=(count, inputs)) * scale
        return (x @ weights.T > 0).T.astype(np.int64)

    def truth(spread):
        x = population(20_000)
        p = np.mean([answers(x, spread, 50).mean(axis=0) for _ in range(20)], axis=0)
        chance = 2 * p * (1 - p) * 1_000 / 999
        return np.array([chance[:20_000].mean(), chance[20_000:].mean()])

    private, reference = truth(0.1), truth(0.05)
    true = [private[0], private[0] - reference[0], private[0] - private[1]]
    records = EvaluatedRecords.of([np.arange(2 * people)], np.repeat([0, 1], people), 2)
    holds = np.zeros(3)
    for _ in range(audits):
        x = population(people)
        tables = disagreement_tables(
            answers(x, 0.1, trainings), records, answers(x, 0.05, trainings)
        )
        own, cost = tables["disagreement"], tables["disagreement_cost"]
        spreads = [contrast(own, 0), contrast(cost, 0), contrast(own, 0, 1)]
        for place, (spread, value) in enumerate(zip(spreads, true, strict=True)):
            holds[place] += abs(spread.value - value) <= spread.half_width()
    assert (holds / audits >= least).all(), holds / audits
