import pyarrow as pa
import pytest

from fairaudit.data.dataset import ALL_ROWS, MISSING
from fairaudit.errors import DataError


def codes(dataset):
    return [n.code for n in dataset.notices]


def test_label_and_group_are_no_features_unless_asked(load, people):
    assert load(people, group=("sex",)).features.column_names == ["height", "town"]
    asked = load(people, group=("sex",), group_as_feature=True)
    assert asked.features.column_names == ["sex", "height", "town"]


def test_rows_without_a_label_are_dropped_and_counted_by_group(load, people):
    label = [None if i < 3 else v for i, v in enumerate(people["income"])]
    columns = {**people, "income": label, "town": [f"SECRET{i % 3}" for i in range(40)]}
    assert load(columns).dropped_rows == {"label missing": {ALL_ROWS: 3}}
    dataset = load(columns, group=("sex",))
    assert dataset.n_rows == dataset.features.num_rows == len(dataset.groupings[0].groups) == 37
    assert dataset.rows_read == 40
    assert dataset.dropped_rows == {"label missing": {"F": 2, "M": 1}}
    assert "rows_dropped" in codes(dataset)
    assert not any("SECRET" in n.text + n.fix for n in dataset.notices)


def gappy(people):
    height = [None if i in (0, 2, 3) else v for i, v in enumerate(people["height"])]
    sex = [None if i == 5 else v for i, v in enumerate(people["sex"])]
    return {**people, "height": height, "sex": sex}


def test_the_drop_policy_drops_rows_that_lack_a_feature_or_a_group(load, people):
    dataset = load(gappy(people), group=("sex",), missing="drop")
    assert dataset.n_rows == 36
    assert dataset.dropped_rows == {"value missing": {"F": 2, "M": 1, MISSING: 1}}
    assert dataset.groupings[0].missing is None
    assert all(c.null_count == 0 for c in dataset.features.columns)


def test_the_error_policy_names_the_columns(load, people):
    with pytest.raises(DataError, match="2 columns: 'height', 'sex'"):
        load(gappy(people), group=("sex",), missing="error")
    assert load(people, group=("sex",), missing="error").n_rows == 40


def test_a_class_that_lives_in_dropped_rows_only_is_gone(load, people):
    label = ["Rare" if i < 2 else "ab"[v] for i, v in enumerate(people["income"])]
    height = [None if i < 2 else v for i, v in enumerate(people["height"])]
    columns = {**people, "income": label, "height": height}
    assert load(columns).classes == ("Rare", "a", "b")  # the first of three goes
    dataset = load(columns, missing="drop", positive="a", favourable="b")
    assert (dataset.classes, dataset.positive, dataset.favourable) == (("a", "b"), 0, 1)
    with pytest.raises(DataError, match="one value in the rows"):
        load({**people, "height": [None if v else 1.0 for v in people["income"]]}, missing="drop")


def test_ids_constants_and_empty_columns_are_dropped_with_a_notice(load, people):
    columns = {**people, "id": list(range(40)), "one": [1] * 40, "none": pa.nulls(40, pa.float64())}
    columns |= {"nest": [[1]] * 40, "tall": people["height"]}
    dataset = load(columns, drop=("town",))
    assert dataset.features.column_names == ["sex", "height", "tall"]
    assert dataset.dropped_columns == {
        "town": "dropped by option",
        "nest": "nested or unsupported type",
        "id": "looks like an id",
        "one": "constant",
        "none": "all values missing",
    }
    assert codes(dataset).count("columns_dropped") == 3
    assert codes(dataset).count("unsupported_columns") == 1


def test_a_text_column_of_over_a_thousand_levels_is_refused(load):
    n = 4_000
    columns = {"y": [0, 1] * (n // 2), "job": [f"job {i % 1_001}" for i in range(n)]}
    with pytest.raises(DataError, match="1,001 different texts") as caught:
        load(columns)
    assert "--drop job" in caught.value.hint
    columns["job"] = [f"job {i % 1_000}" for i in range(n)]
    assert load(columns).features.column_names == ["job"]


def test_contrast_makes_a_column_one_value_against_the_rest(load, people):
    town = [None if i == 0 else t for i, t in enumerate(people["town"])]
    dataset = load({**people, "town": town}, contrast={"town": "b"})
    assert set(dataset.features["town"].to_pylist()) == {"b", "not b", None}
    grouped = load({**people, "town": town}, contrast={"town": "b"}, group=("town",))
    assert grouped.groupings[0].names == ("b", "not b", MISSING)
    with pytest.raises(DataError, match="did you mean 'abc'"):
        load({**people, "town": ["abc", "x"] * 20}, contrast={"town": "abcd"})


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("town", "abcd", "did you mean 'abc'"),
        ("age", "20", "no feature of text values"),
        ("job", "x", "has 3 values and not two"),
    ],
)
def test_only_one_of_two_texts_can_be_named_zero(load, people, column, value, said):
    columns = {
        **people,
        "town": ["abc", "x"] * 20,
        "age": [float(i) for i in range(40)],
        "job": (["x", "y", "z"] * 14)[:40],
    }
    with pytest.raises(DataError, match=said):
        load(columns, zero={column: value})
    assert load(columns, zero={"town": "x"}).features["town"].to_pylist() == columns["town"]


@pytest.mark.parametrize("values", [["Train", "TEST "], [0, 1], [False, True]])
def test_a_split_column_fixes_the_sides_and_is_no_feature(load, people, values):
    dataset = load({**people, "part": values * 20}, split_column="part")
    assert dataset.split.tolist() == [0, 1] * 20
    assert "part" not in dataset.features.column_names


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["train", "valid"], "values other than train and test"),
        (["train", "train"], "one side"),
        (["train", None], "missing in some rows"),
    ],
)
def test_a_bad_split_column_is_refused(load, people, values, said):
    with pytest.raises(DataError, match=said):
        load({**people, "part": values * 20}, split_column="part")


@pytest.mark.parametrize(
    "option", ["drop", "bin", "contrast", "zero", "split_column", "label", "group"]
)
def test_every_option_that_names_a_column_checks_it(load, people, option):
    value = {
        "bin": {"twon": "q4"},
        "contrast": {"twon": "a"},
        "zero": {"twon": "a"},
        "label": "twon",
        "split_column": "twon",
    }
    with pytest.raises(DataError, match="did you mean 'town'"):
        load(people, **{option: value.get(option, ("twon",))})


def test_duplicates_are_rows_that_are_equal_in_features_groups_and_label(load):
    columns = {
        "y": [0, 0, 1, 0, 0, 1, 0],
        "a": [1.0, 1.0, 1.0, None, None, 2.0, 1.0],
        "b": ["x", "x", "x", "x", "x", "y", "x"],
        "g": ["m", "f", "m", "f", "m", "f", "m"],
    }
    dataset = load(columns, group=("g",))
    assert dataset.duplicate_rows == 1
    assert dataset.duplicate_of.tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert load(columns, group=("g",), group_as_feature=True).duplicate_rows == 1
    assert load(columns, label="g", group=("b",)).duplicate_rows == 1
