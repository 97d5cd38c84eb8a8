"""What a stored value is follows from the value alone, in whatever dress a file has it."""

import decimal
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.data.column_types import encode_levels, numeric_values, plain_table
from fairaudit.data.reading.stored import NUMBER, StoredColumns, spelled, type_of_names
from fairaudit.data.reading.values import ValueRules

MARKS = frozenset({"", "NA", "nan"})
NAMES = ("1", "2", "true", "Private", "2.5", "NA")


def stored(values, kind=None, marks=MARKS):
    return StoredColumns(pa.table({"x": pa.array(values, kind)}), marks)


ODD = [
    "1.0",
    " 2 ",
    "TRUE",
    "1e999",
    "inf",
    "nan",
    "NA",
    "",
    "  ",
    "x\0y",
    "-0",
    "0x1F",
    "1_0",
    "٣",
]
TEXT = st.one_of(
    st.sampled_from([*NAMES, *ODD, " Private", "private"]),
    st.from_regex(rf"\A[ \t]?{NUMBER}[ ]?\Z"),
    st.floats().map(repr),
    st.integers().map(str),
    st.text(max_size=6),
    st.none(),
)


@given(st.lists(TEXT, max_size=8))
def test_a_text_is_read_alike_alone_and_among_others(values):
    whole = stored(values, pa.large_string())
    alone = [stored([value], pa.large_string()) for value in values]
    for read in (
        lambda column: column.numbers("x").tolist(),
        lambda column: column.codes("x", NAMES).tolist(),
        lambda column: column.texts("x").to_pylist(),
        lambda column: column.texts("x", NAMES).to_pylist(),
        lambda column: column.present("x").tolist(),
    ):
        one_by_one = [value for column in alone for value in read(column)]
        np.testing.assert_array_equal(read(whole), one_by_one)


@given(st.from_regex(rf"\A{NUMBER}\Z"))
def test_a_number_is_what_python_reads_of_it_and_too_large_a_one_is_missing(text):
    wanted = float(text)
    (found,) = stored([text], pa.large_string()).numbers("x")
    if abs(wanted) > 1e100:
        assert math.isnan(found)
    else:
        assert found == wanted
        assert float(spelled(text)) == wanted


DRESSES = {
    "text": (["1.0", "2", None, "7"], pa.string()),
    "long text": (["1", "2.00", None, "7"], pa.large_string()),
    "bytes": ([b"1", b" 2", None, b"7"], pa.binary()),
    "a dictionary": (["01", "2e0", None, "7"], pa.dictionary(pa.int8(), pa.string())),
    "numbers in a dictionary": ([1, 2, None, 7], pa.dictionary(pa.int8(), pa.int64())),
    "small integers": ([1, 2, None, 7], pa.int8()),
    "large integers": ([1, 2, None, 7], pa.uint64()),
    "floats that a null made": ([1.0, 2.0, None, 7.0], pa.float64()),
    "floats with NaN": ([1.0, 2.0, math.nan, 7.0], pa.float32()),
    "decimals": ([decimal.Decimal(n) if n else None for n in ("1.00", "2.00", None, "7.00")], None),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_a_value_is_the_same_in_every_dress(dress):
    column = stored(*DRESSES[dress])
    np.testing.assert_array_equal(column.numbers("x"), [1.0, 2.0, math.nan, 7.0])
    for names in (("2", "1"), ("2.0", "1.0"), ("02", "1e0")):
        assert column.codes("x", names).tolist() == [1, 0, 3, 2]
        assert column.texts("x", names).to_pylist()[:3] == [names[1], names[0], None]
    assert column.present("x").tolist() == [True, True, False, True]


def test_truth_values_are_no_numbers_and_ones_and_zeros_spell_them_where_nothing_else_does():
    texts = ["True", "false", "TRUE", "1", "0.0", "x", "NA"]
    assert stored(texts).codes("x", ("false", "true")).tolist() == [1, 0, 1, 1, 0, 2, 2]
    assert stored(texts).codes("x", ("true", "1")).tolist() == [0, 2, 0, 1, 2, 2, 2]
    truth = stored([True, False, None], pa.bool_())
    assert truth.codes("x", ("false", "true")).tolist() == [1, 0, 3]
    assert np.isnan(truth.numbers("x")).all()
    assert np.isnan(stored(texts[:3]).numbers("x")).all()


def test_a_name_is_itself_before_it_is_a_number_or_a_missing_value():
    texts = ["1.0", "1", "01", "NA", "nan", " A ", "A"]
    names = ("1", "1.0", "NA", "A")
    assert stored(texts).codes("x", names).tolist() == [1, 0, 0, 2, 4, 3, 3]
    assert stored(texts).texts("x").to_pylist() == texts
    said = replace(stored(texts), rules=ValueRules({None: frozenset({"nan"}), "x": frozenset("A")}))
    assert said.codes("x", names).tolist() == [1, 0, 0, 2, 5, 3, 3]
    assert said.texts("x").to_pylist() == ["1.0", "1", "01", "NA", None, None, None]
    assert said.texts("x", ("A",)).to_pylist()[5:] == ["A", "A"]
    assert replace(said, rules=ValueRules({"y": frozenset({"nan"})})).texts("x").null_count == 0
    # Among numbers alone the usual marks stand for a missing one, whatever options say.
    assert stored(texts).codes("x", ("1", "2")).tolist() == [0, 0, 0, 3, 3, 2, 2]


def test_integers_keep_all_their_digits_as_codes():
    many = 2**53 + 1
    names = (str(many), str(many - 1), "-5")
    for column in (
        stored([many, many - 1, -5, 0]),
        stored([f"0{many}", str(many - 1), "-05", "-0"]),
    ):
        assert column.codes("x", names).tolist() == [0, 1, 2, 3]
    assert spelled("0" * 9000) == "0"
    assert spelled("9" * 9000) == "9" * 9000
    assert math.isnan(stored(["9" * 9000]).numbers("x")[0])


def test_bytes_that_are_no_text_are_a_missing_value_of_their_own_row():
    for kind in (pa.binary(), pa.large_binary(), pa.dictionary(pa.int8(), pa.binary())):
        column = StoredColumns(pa.table({"x": pa.array([b"1", b"\xff", b"2", b"\xc3\xa9"], kind)}))
        np.testing.assert_array_equal(column.numbers("x"), [1.0, math.nan, 2.0, math.nan])
        assert column.codes("x", ("é", "1")).tolist() == [1, 3, 2, 0]
        assert column.texts("x").to_pylist() == ["1", None, "2", "é"]


VALUES = st.one_of(
    st.lists(st.integers(-99, 99).map(str), min_size=1, max_size=9),
    st.lists(st.integers(-99, 99).map(lambda n: f" {n:04d}"), min_size=1, max_size=9),
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr), min_size=1),
    st.lists(st.sampled_from(["1", "1.0", "2.50", "1e1", "-0", "-0.0", "+3"]), min_size=1),
    st.lists(st.sampled_from(["True", "false", "TRUE"]), min_size=1),
    st.lists(st.sampled_from(["a", "b ", "007", "B", "1"]), min_size=1),
)


@given(VALUES)
def test_a_csv_column_read_by_its_names_is_what_arrow_makes_of_it_as_a_whole(values):
    """So that an audit, which looks at all rows, and a release, which may not, agree."""
    content = "x,y\n" + "".join(f"{value},\n" for value in values)
    whole = plain_table(pacsv.read_csv(pa.py_buffer(content.encode())))[0].column("x")
    levels = encode_levels(whole)
    column = stored(values, pa.large_string())
    assert column.codes("x", levels.names).tolist() == levels.codes.tolist()
    if pa.types.is_integer(whole.type) or pa.types.is_floating(whole.type):
        np.testing.assert_array_equal(column.numbers("x"), numeric_values(whole))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("0", "1"), "int64"),
        (("-7", "12"), "int64"),
        (("0.5", "1"), "double"),
        (("false", "true"), "bool"),
        (("False", "True"), "string"),
        (("007", "1"), "string"),
        (("1.0", "2"), "string"),
        (("nan", "inf"), "string"),
        (("no", "yes"), "string"),
        (("9" * 5000, "1"), "double"),
    ],
)
def test_the_type_of_classes_follows_from_their_names(names, kind):
    assert type_of_names(names) == kind


def test_blanks_around_a_mark_of_a_missing_number_are_no_part_of_it():
    read = stored(["1", " NA ", "NA", "n/a?", "2 "])
    assert read.present("x").tolist() == [True, False, False, True, True]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_a_slice_of_a_column_has_the_values_of_its_rows(kind):
    """Also in versions of Arrow that take the offsets of a slice for those of a column."""
    texts = [f"{'x' * (i % 5)}{i % 3}" if i % 7 else None for i in range(70)]
    whole, rows = stored(texts, kind), range(10, 40)
    piece = replace(whole, table=whole.table.slice(10, 30))
    names = ("x1", "xx2")
    piece.texts("x").validate(full=True)
    assert piece.texts("x").to_pylist() == [texts[i] for i in rows]
    assert piece.codes("x", names).tolist() == [whole.codes("x", names)[i] for i in rows]
    assert piece.texts("x", names).combine_chunks().to_pylist() == [texts[i] for i in rows]
