from itertools import pairwise

import numpy as np
import pytest

from fairaudit.data.dataset import MISSING
from fairaudit.data.groups import binned, require_groups
from fairaudit.errors import ConfigError, DataError


def sizes(grouping):
    counts = np.bincount(grouping.groups, minlength=len(grouping.names))
    return dict(zip(grouping.names, counts.tolist(), strict=True))


def test_each_group_option_gives_a_grouping_in_order(load, people):
    dataset = load(people, group=("town", "sex", "town"))
    assert [g.name for g in dataset.groupings] == ["town", "sex"]
    assert sizes(dataset.groupings[1]) == {"F": 20, "M": 20}


def test_rows_without_a_group_are_a_level_of_their_own_and_said(load, people):
    sex = [None, None, MISSING, MISSING, *people["sex"][4:]]  # spelled like it means the same
    dataset = load({**people, "sex": sex}, group=("sex",))
    grouping = dataset.groupings[0]
    assert sizes(grouping) == {"F": 18, "M": 18, MISSING: 4}
    assert grouping.missing == 2
    assert "group_missing" in [n.code for n in dataset.notices]
    assert dataset.missing["sex"] == {MISSING: 4}


def test_a_numeric_group_is_cut_at_its_quartiles_and_said(load, people):
    dataset = load({**people, "age": [20 + i for i in range(40)]}, group=("age",))
    assert list(sizes(dataset.groupings[0]).values()) == [10, 10, 10, 10]
    assert dataset.groupings[0].names[0] == "under 29.75"
    assert "group_binned" in [n.code for n in dataset.notices]


def test_edges_make_bins_closed_at_the_lower_end(load, people):
    ages = [17, 18, 29, 30, 60] * 8
    dataset = load({**people, "age": ages}, group=("age",), bin={"age": "18,30"})
    assert sizes(dataset.groupings[0]) == {"under 18": 8, "18 to under 30": 16, "30 and over": 16}
    assert "group_binned" not in [n.code for n in dataset.notices]


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ("1234567.25,1234567.5,1234567.75", ("1234567.2", "1234567.5", "1234567.8")),
        ("1234567.26,1234567.29", ("1234567.26", "1234567.29")),
        ("100000,100000.04", ("100000", "100000.04")),
        ("0.1,0.30000000000000004,0.3000000000000001", None),
        ("0.3333333333,29.75,1234567.25", ("0.333333", "29.75", "1.23457e+06")),  # as ever
    ],
)
def test_edges_that_differ_make_names_that_differ(spec, texts):
    edges = np.array([float(part) for part in spec.split(",")])
    levels = binned("height", np.append(edges, edges[0] - 1), spec)
    assert levels.codes.tolist() == [*range(1, len(edges) + 1), 0]
    assert len(set(levels.names)) == len(edges) + 1
    if texts is not None:
        between = [f"{low} to under {high}" for low, high in pairwise(texts)]
        assert levels.names == (f"under {texts[0]}", *between, f"{texts[-1]} and over")


def test_groups_of_edges_that_lie_close_are_not_merged(load, people):
    wealth = [1234567.0, 1234567.3, 1234567.6, 1234568.0] * 10
    bins = {"wealth": "1234567.25,1234567.5,1234567.75"}
    grouping = load({**people, "wealth": wealth}, group=("wealth",), bin=bins).groupings[0]
    assert list(sizes(grouping).values()) == [10, 10, 10, 10]


def test_quantiles_of_a_column_full_of_ties_still_make_two_groups(load, people):
    gains = [0.0] * 30 + [float(i) for i in range(30, 40)]
    grouping = load({**people, "gain": gains}, group=("gain",), bin={"gain": "q2"}).groupings[0]
    assert list(sizes(grouping).values()) == [30, 10]


@pytest.mark.parametrize("spec", ["q1", "q51", "18,18", "a,b", "inf"])
def test_a_bad_bin_is_refused(load, people, spec):
    with pytest.raises(ConfigError, match="--bin 'height'"):
        load(people, group=("height",), bin={"height": spec})


def test_a_bin_on_text_or_on_no_group_is_refused(load, people):
    with pytest.raises(ConfigError, match="does not hold numbers"):
        load(people, group=("sex",), bin={"sex": "q4"})
    with pytest.raises(ConfigError, match="is not a group column"):
        load(people, group=("sex",), bin={"height": "q4"})


def test_a_row_that_lacks_one_group_lacks_the_intersection(load, people):
    """Of three groups the first and the second are missing in rows of their own."""
    columns = {**people, "sex": [None, "M", "F", "M"] * 10, "town": ["a", None, "b", "a"] * 10}
    columns["age"] = ["old"] * 40
    columns["age"][2] = "young"
    dataset = load(columns, group=("sex", "town", "age"), intersect=True)
    names = {"F x b x old": 9, "F x b x young": 1, "M x a x old": 10, MISSING: 20}
    assert sizes(dataset.groupings[3]) == names


def test_intersection_of_one_group_is_refused(load, people):
    with pytest.raises(ConfigError, match="two or more"):
        load(people, group=("sex",), intersect=True)


def test_names_that_hold_the_cross_stay_apart(load, people):
    columns = {**people, "g": ["a x b", "a", "a x b", "a"] * 10, "h": ["c", "b x c"] * 20}
    names = load(columns, group=("g", "h"), intersect=True).groupings[2].names
    assert len(set(names)) == len(names) == 2


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["F"] * 40, "one value"),
        (["F"] * 39 + [None], "one value"),
        ([None] * 40, "missing in all rows"),
        ([f"person {i}" for i in range(40)], "looks like an id"),
        ([f"g{i // 2}" for i in range(440)], "has 220 values, more than 200"),
    ],
)
def test_a_column_that_makes_no_groups_is_refused(load, people, values, said):
    columns = {name: column * (len(values) // 40) for name, column in people.items()}
    with pytest.raises(DataError, match=said):
        load({**columns, "g": values}, group=("g",))


def test_groups_of_dropped_rows_only_are_gone(load, people):
    label = [None if i < 8 else v for i, v in enumerate(people["income"])]
    group = ["gone" if i < 8 else "ab"[i % 2] for i in range(40)]
    dataset = load({**people, "g": group, "income": label}, group=("g",))
    assert dataset.groupings[0].names == ("a", "b")
    assert dataset.dropped_rows == {"label missing": {"gone": 8}}


def test_without_a_group_the_table_loads_and_a_run_is_told_the_candidates(load, people):
    dataset = load(people)
    assert dataset.groupings == ()
    with pytest.raises(ConfigError, match="values: 'sex', 'height', 'town'"):
        require_groups(dataset)
    require_groups(load(people, group=("sex",)))
