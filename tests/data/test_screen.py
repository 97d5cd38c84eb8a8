import numpy as np
import pyarrow as pa
import pytest

from fairaudit.data.columns import encode_codes
from fairaudit.data.dataset import Grouping
from fairaudit.data.screen import duplicates, leaks

N = 2_000
rng = np.random.default_rng(5)
LABEL = (rng.random(N) < 0.3).astype(np.int64)
GROUP = rng.integers(0, 3, N)
NOISE = rng.normal(size=N)


def flagged(values, labels=LABEL, groups=GROUP):
    column = encode_codes(pa.chunked_array([pa.array(values)]))
    grouping = Grouping("g", groups, ("a", "b", "c"))
    return {n.code for n in leaks({"x": column}, "y", labels, (grouping,))}


LEAKS = {
    "the label itself": LABEL,
    "its negation as text": np.where(LABEL == 1, "no", "yes"),
    "a number past a threshold": np.where(LABEL == 1, 5 + np.abs(NOISE), -np.abs(NOISE)),
    "a number inside a band": np.where(LABEL == 1, NOISE / 10, 5 * np.sign(NOISE) + NOISE / 10),
    "a gap": [None if v else 1.0 for v in LABEL],
    "with half a percent of errors": np.where(np.arange(N) % 200 == 0, 1 - LABEL, LABEL),
}
HARMLESS = {
    "noise": NOISE,
    "unique text": [f"t{i}" for i in range(N)],
    "unique integers": rng.permutation(N),
    "a weak predictor": LABEL + NOISE,
    "with five percent of errors": np.where(np.arange(N) % 20 == 0, 1 - LABEL, LABEL),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_column_that_gives_the_label_away_is_flagged(name):
    assert flagged(LEAKS[name]) == {"feature_predicts_label"}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_column_is_not_flagged(name):
    assert flagged(HARMLESS[name]) == set()


def test_a_rare_label_is_not_predicted_by_guessing_the_other_class():
    rare = (np.arange(N) % 250 == 0).astype(np.int64)
    assert flagged(NOISE, labels=rare) == set()
    assert flagged(np.where(rare == 1, "hit", "miss"), labels=rare) == {"feature_predicts_label"}


def test_a_column_that_gives_the_group_away_is_flagged():
    assert flagged(np.array(["p", "q", "r"])[GROUP]) == {"feature_determines_group"}
    assert flagged(GROUP * 10 + rng.random(N)) == {"feature_determines_group"}


def test_the_group_column_itself_is_not_reported_against_itself():
    column = encode_codes(pa.chunked_array([pa.array(GROUP)]))
    grouping = Grouping("x", GROUP, ("a", "b", "c"))
    assert [n.code for n in leaks({"x": column}, "y", LABEL, (grouping,))] == []


def test_duplicates_point_to_the_first_identical_row():
    rows = np.array([[1, 2], [0, 0], [1, 2], [1, 0], [0, 0], [1, 2]])
    found = duplicates([rows[:, 0], rows[:, 1]])
    assert found.first.tolist() == [0, 1, 0, 3, 1, 0]
    assert found.count == 3


def test_duplicates_are_exact_where_the_mixed_key_would_overflow():
    columns = [rng.integers(0, 2**31 - 1, 500).astype(np.int32) for _ in range(12)]
    columns = [np.concatenate([c, c[:100]]) for c in columns]
    found = duplicates(columns)
    assert found.count == 100
    assert found.first[500:].tolist() == list(range(100))
