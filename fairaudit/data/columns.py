"""Columns as few plain kinds.

What Arrow offers in dozens of types, made numbers, text and times.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.dataset import Int64, Notice, image_keys, shape_of
from fairaudit.data.naming import listed

Kind = Literal["number", "category", "time", "image", "empty", "unsupported"]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_DAY = 86_400.0
FEW_VALUES = 20


@dataclass(frozen=True, slots=True)
class Levels:
    """A column as codes into its sorted distinct values.

    Args:
        codes: Level of each row, ``[N]``, -1 where the value is missing.
        names: Level names in order (numbers by size, text by code point).
    """

    codes: Int64
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Codes:
    """A column as codes in order of appearance; cheaper than :class:`Levels`.

    Args:
        codes: ``[N]``; a missing value has the code ``len(values)``.
        values: The distinct values, an Arrow array without nulls.
        kind: Kind of the column.
    """

    codes: Int32
    values: pa.Array
    kind: Kind

    @property
    def width(self) -> int:
        """Number of codes, the one for missing included."""
        return len(self.values) + 1

    def missing(self) -> NDArray[np.bool_]:
        """Which rows lack the value, ``[N]``."""
        return np.equal(self.codes, len(self.values))

    def counts(self) -> Int64:
        """Rows of each distinct value, missing left out, ``[len(values)]``."""
        return np.bincount(self.codes, minlength=self.width)[:-1].astype(np.int64)

    def take(self, rows: Int64) -> "Codes":
        """The same column on some rows; values that no longer occur stay listed."""
        return Codes(self.codes[rows], self.values, self.kind)


def kind_of(arrow_type: pa.DataType) -> Kind:
    """What a column of that type is to the audit."""
    t = pa.types
    if shape_of(arrow_type) is not None:
        return "image"
    while isinstance(arrow_type, pa.BaseExtensionType) or t.is_dictionary(arrow_type):
        inner = not t.is_dictionary(arrow_type)
        arrow_type = arrow_type.storage_type if inner else arrow_type.value_type
    if t.is_run_end_encoded(arrow_type):
        return kind_of(arrow_type.value_type)
    if t.is_null(arrow_type):
        return "empty"
    if t.is_integer(arrow_type) or t.is_floating(arrow_type) or t.is_decimal(arrow_type):
        return "number"
    if t.is_timestamp(arrow_type) or t.is_date(arrow_type) or t.is_time(arrow_type):
        return "time"
    if t.is_duration(arrow_type):
        return "time"
    text = (t.is_string, t.is_large_string, t.is_string_view, t.is_boolean)
    # Text without its annotation arrives as bytes; whether it is text shows when it is read.
    raw = (t.is_binary, t.is_large_binary, t.is_binary_view)
    if any(test(arrow_type) for test in text + raw):
        return "category"
    return "unsupported"


@dataclass(slots=True)
class PlainColumns:
    """Columns made plain, one after the other.

    Args:
        kept: Column -> its values in a plain type.
        dropped: Column -> reason.
        infinite, blank: Columns that held infinities, and empty text.
    """

    kept: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    infinite: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)

    def add(
        self, table: pa.Table, keep: Callable[[pa.ChunkedArray], pa.ChunkedArray] = lambda c: c
    ) -> None:
        """Take in a table's columns, infinities and empty text made missing.

        ``keep`` may move them.
        """
        for name in table.column_names:
            column = _plain_type(table.column(name))
            if column is None:
                self.dropped[name] = "bytes that are not text"
                continue
            finite, kind = column, column.type
            if pa.types.is_floating(kind):
                finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
            filled = finite
            if pa.types.is_large_string(kind):
                filled = pc.if_else(pc.equal(finite, ""), pa.scalar(None, kind), finite)
            self.infinite += [name] if finite.null_count > column.null_count else []
            self.blank += [name] if filled.null_count > finite.null_count else []
            self.kept[name] = keep(filled)

    def finish(self) -> tuple[pa.Table, dict[str, str], tuple[Notice, ...]]:
        """The table without unsupported columns, column -> reason for those, and what to say."""
        notices = []
        if self.infinite:
            message = f"infinite values in {listed(self.infinite)} count as missing"
            notices.append(
                Notice("infinities", message, "replace them in the data if they mean something")
            )
        if self.blank:
            message = f"empty text in {listed(self.blank)} counts as missing"
            notices.append(Notice("blank_text", message, level="notice"))
        return pa.table(self.kept), self.dropped, tuple(notices)


def plain_table(table: pa.Table) -> tuple[pa.Table, dict[str, str], tuple[Notice, ...]]:
    """The table in plain types; as :class:`PlainColumns` finishes it."""
    columns = PlainColumns()
    columns.add(table)
    return columns.finish()


def encode_codes(column: pa.ChunkedArray) -> Codes:
    """Distinct values of a plain column and the code of each row, in order of appearance."""
    kind = kind_of(column.type)
    if kind == "empty":
        return Codes(np.zeros(len(column), np.int32), pa.array([], pa.large_string()), kind)
    if kind == "image":
        return Codes(*image_keys(column), kind)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values = encoded.dictionary
    codes = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False)
    return Codes(np.asarray(codes, dtype=np.int32), values, kind)


def few_valued(table: pa.Table) -> tuple[str, ...]:
    """Columns of 2 to 20 values that could be a label or a group; images are none."""
    names = []
    for name in table.column_names:
        column = table.column(name)
        if kind_of(column.type) != "image" and 2 <= len(encode_codes(column).values) <= FEW_VALUES:
            names.append(name)
    return tuple(names)


def encode_levels(column: pa.ChunkedArray) -> Levels:
    """Sorted distinct values of a plain column, as names, and the level of each row."""
    return sorted_levels(encode_codes(column))


def sorted_levels(codes: Codes) -> Levels:
    """The levels behind codes, those that occur only, sorted."""
    if not len(codes.values):
        return Levels(np.full(len(codes.codes), -1, np.int64), ())
    order = np.asarray(pc.sort_indices(codes.values).to_numpy(zero_copy_only=False), dtype=np.int64)
    order = order[codes.counts()[order] > 0]
    rank = np.full(codes.width, -1, np.int64)
    rank[order] = np.arange(len(order))
    return Levels(rank[codes.codes], tuple(level_names(codes.values.take(pa.array(order)))))


def levels_in_use(levels: Levels, rows: Int64) -> Levels:
    """The column on some rows, renumbered over the levels that occur there."""
    used = np.unique(levels.codes[rows])
    used = used[used >= 0]
    place = np.full(len(levels.names) + 1, -1, np.int64)
    place[used] = np.arange(len(used))
    return Levels(place[levels.codes[rows]], tuple(levels.names[int(u)] for u in used))


def level_names(values: pa.Array) -> list[str]:
    """Distinct values as people write them: 1.0 is ``1``, true is ``true``."""
    kind = kind_of(values.type)
    if kind == "time":
        return [str(v) for v in values.cast(pa.large_string()).to_pylist()]
    if kind == "number":
        return [
            str(int(v)) if float(v).is_integer() else repr(float(v)) for v in values.to_pylist()
        ]
    return [str(v).lower() if isinstance(v, bool) else str(v) for v in values.to_pylist()]


def numeric_values(column: pa.ChunkedArray) -> Float64:
    """A number or time column as float64, NaN where missing; times in seconds, ``[N]``."""
    arrow_type = column.type
    scale = 1.0
    if kind_of(arrow_type) == "time":
        days = pa.types.is_date32(arrow_type)
        scale = 1 / _DAY if days else _UNITS[getattr(arrow_type, "unit", "ms")]
        column = column.cast(pa.int32() if arrow_type.bit_width == 32 else pa.int64())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    return np.asarray(values, dtype=np.float64) / scale


def listed_codes(column: pa.ChunkedArray, levels: tuple[str, ...]) -> Int64:
    """The level of each row, ``len(levels)`` where it is none of them, one more where missing."""
    codes = encode_codes(column)
    place = {level: code for code, level in enumerate(levels)}
    known = [place.get(name, len(levels)) for name in level_names(codes.values)]
    return np.array([*known, len(levels) + 1], np.int64)[codes.codes]


def within(
    values: Float64, limits: tuple[float, float], outside: Literal["clip", "missing"]
) -> tuple[Float64, NDArray[np.bool_]]:
    """Numbers within a range, and which of them were not, ``[n]`` each."""
    low, high = limits
    beyond = (values < low) | (values > high)
    if outside == "missing":
        return np.where(beyond, np.nan, values), beyond
    return np.clip(values, low, high), beyond


def _plain_type(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The column in one of the plain types, None where bytes turn out not to be text."""
    arrow_type, t = column.type, pa.types
    if kind_of(arrow_type) == "image":
        return column
    if isinstance(arrow_type, pa.BaseExtensionType):
        storage = arrow_type.storage_type
        return _plain_type(pa.chunked_array([c.storage for c in column.chunks], type=storage))
    if t.is_dictionary(arrow_type):
        return _plain_type(column.cast(arrow_type.value_type))
    if t.is_run_end_encoded(arrow_type):
        decoded = [pc.run_end_decode(c) for c in column.chunks]
        return _plain_type(pa.chunked_array(decoded, type=arrow_type.value_type))
    if t.is_floating(arrow_type) or t.is_decimal(arrow_type) or t.is_uint64(arrow_type):
        numbers = column.cast(pa.float64(), safe=False)
        # NaN is how many writers spell a missing number.
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    if kind_of(arrow_type) == "category" and not t.is_boolean(arrow_type):
        try:
            return column.cast(pa.large_string())
        except pa.ArrowInvalid:
            return None
    return column
