from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from fairaudit.data.column_types import (
    encode_codes,
    encode_levels,
    kind_of,
    numeric_values,
    plain_table,
)

ACCEPTED = {
    "int8": pa.array([3, 1, None, 3], pa.int8()),
    "decimal": pa.array(
        [Decimal("10.00"), Decimal("1.50"), None, Decimal("10.00")], pa.decimal128(9, 2)
    ),
    "bool": pa.array([True, False, None, True]),
    "string_view": pa.array(["b", "a", None, "b"], pa.string_view()),
    "text as bytes": pa.array([b"b", b"a", None, b"b"], pa.binary()),
    "dictionary": pa.array(["b", "a", None, "b"]).dictionary_encode(),
}
APART = {"int8": 2, "decimal": 8.5}


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_accepted_type_becomes_two_sorted_levels_and_a_gap(name):
    table, dropped, _ = plain_table(pa.table({"x": ACCEPTED[name]}))
    levels = encode_levels(table.column("x"))
    if name == "decimal":
        assert levels.names == ("1.5", "10")  # by size, as people write them
    assert dropped == {}
    assert len(levels.names) == 2
    assert levels.codes.tolist() == [1, 0, -1, 1]
    assert encode_codes(table.column("x")).missing().tolist() == [False, False, True, False]
    if kind_of(ACCEPTED[name].type) == "number":
        values = numeric_values(table.column("x"))
        assert values.dtype == np.float64
        assert np.isnan(values).tolist() == [False, False, True, False]
        assert values[0] - values[1] == APART[name]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32(), pa.duration("ms")])
def test_times_are_neither_numbers_nor_text(kind):
    assert kind_of(kind) == "unsupported"


def test_bytes_that_are_not_text_are_left_out_with_a_reason():
    table, dropped, _ = plain_table(pa.table({"x": pa.array([b"\xff\xfe", b"a"]), "y": [1, 2]}))
    assert table.column_names == ["y"]
    assert dropped == {"x": "bytes that are not text"}


def test_blank_text_nan_and_numbers_without_a_square_are_missing_and_the_last_are_said():
    columns = {"x": ["a", " "], "y": [np.nan, 2.0], "z": [-np.inf, 1.0], "w": [1e101, 1.0]}
    table, _, notices = plain_table(pa.table(columns))
    assert [column.null_count for column in table.columns] == [1] * 4
    assert [n.code for n in notices] == ["infinities"]
    assert [name for name in columns if repr(name) in notices[0].text] == ["z", "w"]


def test_zero_is_one_value_whatever_its_sign():
    table, _, _ = plain_table(pa.table({"x": [0.0, -0.0, 1.0, None]}))
    levels = encode_levels(table.column("x"))
    assert levels.names == ("0", "1")
    assert levels.codes.tolist() == [0, 0, 1, -1]
