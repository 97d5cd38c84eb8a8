"""Arrow's dozens of column types reduced to a few plain ones, and columns as codes of their values.

A plain column (:func:`plain_table`) holds numbers, text, truth values or images, and null where a
value is missing. A level is a distinct value of a column, known by its name as text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.dataset import Int64, columns_of, image_keys, shape_of
from fairaudit.messages.base import Message
from fairaudit.messages.data import Infinities

Kind = Literal["number", "category", "image", "empty", "unsupported"]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

FEW_VALUES = 20  # a column of more is not suggested as a label or group
NOT_TEXT = "bytes that are not text"  # the reason why a column is left out
LARGEST = 1e100  # a larger number counts as infinite, so that the square of any other is finite
# Bytes of any length, in whichever of Arrow's ways a writer stored them.
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
# Text without its annotation arrives as bytes; whether it is text shows when it is read.
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, *_BYTES)
# Well-formed UTF-8 as bytes (Unicode 16.0, table 3-7).
_UTF8 = (
    r"^(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]"
    r"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    r"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*$"
)


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
        """The same column on some rows, ``[n]``; ``values`` keeps those that no longer occur."""
        return Codes(self.codes[rows], self.values, self.kind)


def kind_of(arrow_type: pa.DataType) -> Kind:
    """What the audit takes a column of an Arrow type for.

    Text, bytes and truth values are a ``category``; Arrow's null type, of a column without any
    value, is ``empty``; dates and nested types are ``unsupported``.
    """
    t = pa.types
    if shape_of(arrow_type) is not None:
        return "image"
    if isinstance(arrow_type, pa.BaseExtensionType):
        return kind_of(arrow_type.storage_type)
    if t.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    if t.is_null(arrow_type):
        return "empty"
    if t.is_integer(arrow_type) or t.is_floating(arrow_type) or t.is_decimal(arrow_type):
        return "number"
    if t.is_boolean(arrow_type) or any(is_text(arrow_type) for is_text in _TEXTS):
        return "category"
    return "unsupported"


def holds_bytes(arrow_type: pa.DataType) -> bool:
    """Whether values are bytes of any length; text without its annotation is, too."""
    return any(is_bytes(arrow_type) for is_bytes in _BYTES)


def plain_table(table: pa.Table) -> tuple[pa.Table, dict[str, str], tuple[Message, ...]]:
    """Bring every column to a plain type; blank text, NaN and infinities become missing.

    Returns:
        The table of the columns that can be used; column -> reason for those left out; a notice of
        infinite values, or ().
    """
    kept: dict[str, pa.ChunkedArray] = {}
    dropped: dict[str, str] = {}
    too_large = []
    for name, stored in columns_of(table).items():
        column = _plain_type(stored)
        if column is None:
            dropped[name] = NOT_TEXT
            continue
        kept[name] = _without_blanks(column)
        # NaN is null in `column` already: what is null only now was infinite.
        if pa.types.is_floating(column.type) and kept[name].null_count > column.null_count:
            too_large.append(name)
    if not too_large:
        return pa.table(kept), dropped, ()
    return pa.table(kept), dropped, (Infinities(tuple(too_large)),)


def is_utf8(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Whether each value of an array of bytes is UTF-8 text; null where the value is null."""
    return pc.match_substring_regex(values, _UTF8)


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """One column in a plain type, as of :func:`plain_table`; None where bytes are not text."""
    plain = _plain_type(column)
    return None if plain is None else _without_blanks(plain)


def _without_blanks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a plain type with null for texts of blanks and for infinite numbers."""
    if pa.types.is_large_string(column.type):
        return nulled(column, pc.equal(pc.utf8_trim_whitespace(column), ""))
    if pa.types.is_floating(column.type):
        return nulled(column, pc.greater(pc.abs(column), LARGEST))
    return column


def nulled(column: pa.ChunkedArray, where: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with null where the truth values ``where`` are true, or null."""
    # Nulls as an array: of a scalar and a slice of texts Arrow 18 to 21 make texts that are broken.
    return pc.if_else(where, pa.nulls(len(column), column.type), column)


def encode_codes(column: pa.ChunkedArray) -> Codes:
    """Code each row of a plain column by its value, in order of appearance; images by a hash."""
    kind = kind_of(column.type)
    if kind == "empty":
        return Codes(np.zeros(len(column), np.int32), pa.array([], pa.large_string()), kind)
    array = image_keys(column) if kind == "image" else column.combine_chunks()
    encoded = array.dictionary_encode()
    values = encoded.dictionary
    codes = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False)
    return Codes(np.asarray(codes, dtype=np.int32), values, kind)


def coded(table: pa.Table) -> Iterator[tuple[str, Codes]]:
    """Name and codes of each column, one after the other."""
    for name, column in columns_of(table).items():
        yield name, encode_codes(column)


def few_valued(columns: Iterable[tuple[str, Codes]]) -> tuple[str, ...]:
    """Names of the columns of 2 to 20 values, to suggest as a label or group; never images."""
    names = []
    for name, codes in columns:
        if codes.kind != "image" and 2 <= len(codes.values) <= FEW_VALUES:
            names.append(name)
    return tuple(names)


def encode_levels(column: pa.ChunkedArray) -> Levels:
    """Sorted distinct values of a plain column, as names, and the level of each row."""
    return sorted_levels(encode_codes(column))


def sorted_levels(codes: Codes) -> Levels:
    """Turn codes in order of appearance into sorted levels, without values that no row has."""
    order = np.asarray(pc.sort_indices(codes.values).to_numpy(zero_copy_only=False), dtype=np.int64)
    order = order[codes.counts()[order] > 0]
    level_of_code = np.full(codes.width, -1, np.int64)  # the last is that of a missing value
    level_of_code[order] = np.arange(len(order))
    names = level_names(codes.values.take(pa.array(order)))
    return Levels(level_of_code[codes.codes], tuple(names))


def levels_in_use(levels: Levels, rows: Int64) -> Levels:
    """The column on some rows alone, recoded to the levels that occur there.

    ``rows``: indices of the rows, ``[n]``.
    """
    used = np.unique(levels.codes[rows])
    used = used[used >= 0]
    # The new code of each old one; a missing value's -1 reads the last entry, which is -1.
    place = np.full(len(levels.names) + 1, -1, np.int64)
    place[used] = np.arange(len(used))
    return Levels(place[levels.codes[rows]], tuple(levels.names[int(u)] for u in used))


def level_names(values: pa.Array) -> list[str]:
    """Distinct values as people write them: 1.0 is ``1``, true is ``true``."""
    kind = kind_of(values.type)
    if kind == "number":
        return [
            str(int(v)) if float(v).is_integer() else repr(float(v)) for v in values.to_pylist()
        ]
    return [str(v).lower() if isinstance(v, bool) else str(v) for v in values.to_pylist()]


def numeric_values(column: pa.ChunkedArray) -> Float64:
    """A number column as float64, NaN where missing, ``[N]``."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def number_column(values: Float64) -> pa.ChunkedArray:
    """Numbers ``[N]`` as a column, null where one is NaN."""
    return pa.chunked_array([pa.array(values, pa.float64(), from_pandas=True)])


def within(
    values: Float64, limits: tuple[float, float], treatment: Literal["clip", "missing"]
) -> tuple[Float64, NDArray[np.bool_]]:
    """Clip numbers to a range, or make those beyond it missing (NaN).

    Args:
        values: The numbers, ``[n]``; NaN where missing already, which lies beyond no range.
        limits: The lowest and the highest of the range.
        treatment: What numbers beyond the range become: the nearer limit, or missing.

    Returns:
        The numbers, ``[n]``; and whether each lay beyond the range, ``[n]``.
    """
    low, high = limits
    beyond = (values < low) | (values > high)
    if treatment == "missing":
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
    # All numbers become float64, but whole ones that int64 holds: these stay as they are, exact.
    if t.is_floating(arrow_type) or t.is_decimal(arrow_type) or t.is_uint64(arrow_type):
        numbers = pc.add(column.cast(pa.float64(), safe=False), 0.0)  # -0.0 becomes 0.0
        return nulled(numbers, pc.is_nan(numbers))  # NaN is how many writers spell a gap
    if kind_of(arrow_type) == "category" and not t.is_boolean(arrow_type):
        try:
            return column.cast(pa.large_string())
        except pa.ArrowInvalid:
            return None
    return column
