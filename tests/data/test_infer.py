import pyarrow as pa
import pytest

from fairaudit.data.column_types import encode_codes
from fairaudit.data.ids import looks_like_id
from fairaudit.errors import DataError
from fairaudit.messages.names import listed, quoted


def test_hostile_names_are_shown_short_and_on_one_line():
    assert len(quoted("x" * 5_000)) < 70
    assert "\n" not in quoted("a\nb")
    assert listed(["a"] * 20).endswith("and 8 more")


@pytest.mark.parametrize(
    ("name", "values", "verdict"),
    [
        ("customerId", range(1_000_000, 1_000_100), True),
        ("paid", range(20, 120), False),
        ("number", [(7 + 7919 * i) % 1_000_003 for i in range(1_200)], True),
        ("number", [(7 + 7919 * i) % 1_000_003 for i in range(1_200)] + [7], False),
        ("who", [f"name {i}" for i in range(100)], True),
        ("__index_level_0__", [i % 9 for i in range(100)], True),  # of pandas
        ("visit_id", [i % 3 for i in range(100)], False),
        ("person_id", [i // 2 for i in range(100)], True),
        ("key", [2**63 - 1 - i for i in range(1_200)], True),  # beyond what a float64 tells apart
    ],
)
def test_ids_are_columns_that_only_tell_rows_apart(name, values, verdict):
    values = list(values)
    assert looks_like_id(name, encode_codes(pa.chunked_array([values])), len(values)) is verdict


@pytest.mark.parametrize("name", ["label", "Target", "y", "class"])
def test_one_column_of_such_a_name_is_the_label_and_a_notice_says_so(load, people, name):
    columns = {name: people.pop("income"), **people}
    dataset = load(columns)
    assert (dataset.label, dataset.label_origin, dataset.positive) == (name, "by its name", 1)
    assert [n.code for n in dataset.notices].count("label_by_name") == 1


def test_several_such_columns_and_none_are_refused(load, people):
    with pytest.raises(DataError, match="several columns may be the label: 'y', 'class'"):
        load({**people, "y": people["income"], "class": people["income"]}, label=None)
    with pytest.raises(DataError, match="2 to 20 values: 'sex', 'income', 'height', 'town'"):
        load(people, label=None)
    used = {"class": people["town"], "target": people["town"], **people, "y": people["income"]}
    assert load(used, label=None, group=("class",), drop=("target",)).label == "y"


def test_a_declared_label_that_is_not_there_is_refused(load, people):
    with pytest.raises(DataError, match="declared in the file"):
        load(pa.table(people).replace_schema_metadata({"fairaudit.label": "gone"}), label=None)


@pytest.mark.parametrize(
    ("values", "options", "positive", "favourable", "origin"),
    [
        ([0, 1], {}, 1, 1, "assumed"),
        ([0, 1], {"positive": " 0.0"}, 0, 0, "assumed"),
        ([0, 1], {"favourable": " 1.0"}, 1, 1, "given"),
        (["b", "a"], {"positive": "b", "favourable": "a"}, 1, 0, "given"),
        (["a", "b", "c"], {}, None, None, ""),
        (["a", "b", "c"], {"favourable": "b"}, 1, 1, "given"),
    ],
)
def test_which_outcome_is_positive_and_which_people_want(
    load, people, values, options, positive, favourable, origin
):
    labels = [values[i % len(values)] for i in range(40)]
    dataset = load({**people, "income": labels}, **options)
    assert (dataset.positive, dataset.favourable) == (positive, favourable)
    assert dataset.favourable_origin == origin
    assert ("favourable_assumed" in [n.code for n in dataset.notices]) is (origin == "assumed")


def test_the_outcome_is_declared_in_the_file_for_its_own_label_only(load, people):
    declared = {"fairaudit.label": "income", "fairaudit.favourable": "0", "fairaudit.positive": "1"}
    table = pa.table({**people, "default": people["income"][::-1]}).replace_schema_metadata(
        declared
    )
    dataset = load(table, label=None)
    assert (dataset.positive, dataset.favourable) == (1, 0)
    assert dataset.favourable_origin == "declared in the file"
    assert load(table, label="income").favourable == 0
    assert load(table, label=None, favourable="1").favourable == 1
    other = load(table, label="default")
    assert (other.favourable, other.favourable_origin) == (1, "assumed")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.1 * i for i in range(40)], "looks continuous"),
        ([1] * 40, "one value"),
        (pa.nulls(40, pa.int64()), "missing in all rows"),
    ],
)
def test_a_label_that_makes_no_classes_is_refused(load, people, values, said):
    with pytest.raises(DataError, match=said):
        load({**people, "z": values}, label="z")


def test_an_array_of_labels_is_the_label(people, load):
    people = dict(people)
    people["labels"] = people.pop("income")
    assert load(people).label == "labels"
