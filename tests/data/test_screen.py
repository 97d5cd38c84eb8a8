import numpy as np
import pyarrow as pa
import pytest

from fairaudit.data.column_types import encode_codes
from fairaudit.data.copies import first_alike, mixed_in
from fairaudit.data.dataset import Grouping
from fairaudit.data.leaks import leak_warnings

N = 2_000
rng = np.random.default_rng(5)
LABEL = (rng.random(N) < 0.3).astype(np.int64)
GROUP = rng.integers(0, 3, N)
NOISE = rng.normal(size=N)


def flagged(values, labels=LABEL, groups=GROUP):
    column = encode_codes(pa.chunked_array([pa.array(values)]))
    grouping = Grouping("g", groups, ("a", "b", "c"))
    return {n.code for n in leak_warnings([("x", column)], "y", labels, (grouping,))}


LEAKS = {
    "the label itself": LABEL,
    "a number past a threshold": np.where(LABEL == 1, 5 + np.abs(NOISE), -np.abs(NOISE)),
    "a number inside a band": np.where(LABEL == 1, NOISE / 10, 5 * np.sign(NOISE) + NOISE / 10),
    "a gap": [None if v else 1.0 for v in LABEL],
    "with three percent of errors": np.where(np.arange(N) % 33 == 0, 1 - LABEL, LABEL),
    "with seven percent of errors": np.where(np.arange(N) % 14 == 0, 1 - LABEL, LABEL),
}
HARMLESS = {
    "noise": NOISE,
    "unique text": [f"t{i}" for i in range(N)],
    "with nine percent of errors": np.where(np.arange(N) % 11 == 0, 1 - LABEL, LABEL),
    "a number with three percent of errors": np.where(np.arange(N) % 33 == 0, -1, 1)
    * np.where(LABEL == 1, 5 + np.abs(NOISE), -5 - np.abs(NOISE)),
}


def leak_notices(values, labels=LABEL):
    column = encode_codes(pa.chunked_array([pa.array(values)]))
    grouping = Grouping("g", GROUP, ("a", "b", "c"))
    return [n.text for n in leak_warnings([("x", column)], "y", labels, (grouping,))]


FLIPPED = np.where(np.arange(N) % 20 == 0, 1 - LABEL, LABEL)  # 5 % of errors
AMOUNTS = (1000 * rng.random(N)).round(2)
WORDS = rng.choice(list("abcdefgh"), N)
DRESSES = {
    "filled or not": (
        [a if f else None for a, f in zip(AMOUNTS, FLIPPED, strict=True)],
        "has a value",
    ),
    "empty where it happened": (
        [None if f else w for w, f in zip(WORDS, FLIPPED, strict=True)],
        "has a value",
    ),
    "zero or not": (np.where(FLIPPED, AMOUNTS + 1, 0.0), "is 0"),
    "whole zero or not": (np.where(FLIPPED, 0, AMOUNTS.astype(int) + 1), "is 0"),
    "one amount": (np.where(FLIPPED, 249.99, AMOUNTS + 300), "is 249.99"),
    "one level": (np.where(FLIPPED, "Charged Off", WORDS), "is 'Charged Off'"),
    "all levels but one": (np.where(FLIPPED, WORDS, "Current"), "is 'Current'"),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_one_value_against_all_others_is_seen_to_give_the_label_away(dress):
    values, what = DRESSES[dress]
    assert leak_notices(values) == [f"whether column 'x' {what} alone predicts the label 'y'"]


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_one_value_that_leaves_most_errors_is_harmless(share):
    flipped = np.where(rng.random(N) < share, 1 - LABEL, LABEL)
    assert leak_notices(np.where(flipped, AMOUNTS + 1, 0.0)) == []
    assert leak_notices([a if f else None for a, f in zip(AMOUNTS, flipped, strict=True)]) == []
    assert leak_notices(np.where(flipped, "Charged Off", WORDS)) == []


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
    tenth = (np.arange(N) % 8 == 0).astype(np.int64)
    flipped = np.where(np.arange(N) % 33 == 0, 1 - tenth, tenth)  # 3 %: a quarter of the errors
    assert flagged(flipped, labels=tenth) == {"feature_predicts_label"}


def test_a_column_that_gives_the_group_away_is_flagged():
    assert flagged(np.array(["p", "q", "r"])[GROUP]) == {"feature_determines_group"}
    assert flagged(GROUP * 10 + rng.random(N)) == {"feature_determines_group"}


def alike(columns):
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = mixed_in(hashes, column)
    return first_alike(hashes).tolist()


def test_rows_that_differ_in_one_bit_of_one_of_many_columns_are_no_duplicates():
    columns = [rng.integers(-(2**63), 2**63 - 1, 500) for _ in range(12)]
    columns = [np.concatenate([c, c[:100]]) for c in columns]
    for row in range(550, 600):
        columns[row % 12][row] ^= 1 << (row % 64) if row % 64 < 63 else 1
    assert alike(columns) == [*range(500), *range(50), *range(550, 600)]
    assert alike([np.array([1, 2]), np.array([2, 1])]) == [0, 1]  # exchanged
