"""Columns as a file stores them, of which every value is read by itself.

What a value is follows from what is known of its column before any row is read: that it is a
number, or which texts it may be. So no row can change how another one is read.
One value in several dresses is one value: 1, 1.0 and the texts ``1`` and ``1.0`` are the same
number, and the same code of a category ``1``.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.column_types import (
    Float64,
    encode_codes,
    is_utf8,
    kind_of,
    level_names,
    nulled,
    numeric_values,
    plain_column,
)
from fairaudit.data.dataset import Int64
from fairaudit.data.reading.values import NO_RULES, ValueRules, numbers_of

NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"  # a number as text
_NUMBER_TEXT = re.compile(NUMBER)
_DIGITS = re.compile(r"([+-]?)0*([0-9]+)")
_TRUTH: Final = {"true": "1", "false": "0"}  # how writers of numbers spell a truth value


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Columns of a file, before anything is made of their values.

    Args:
        table: N rows. A CSV's columns are text; in other formats types are the file's.
        marks: Texts that stand for a missing number. In a column of text they are values.
        lost: Lines of the file that were no record, so that they are not among the rows.
        rules: What options say of values. A text that they take for a missing value is a value all
            the same where it is one of the texts that the column may be (``names`` of a method).
    """

    table: pa.Table
    marks: frozenset[str] = frozenset()
    lost: int = 0
    rules: ValueRules = NO_RULES

    def numbers(self, name: str) -> Float64:
        """The numbers of a column, ``[N]``; NaN where a value is missing, infinite or no number."""
        return self.rules.without_marks(name, self._numbers(name))

    def _numbers(self, name: str) -> Float64:
        """The numbers of a column, ``[N]``, those that stand for a missing value among them."""
        column = self._plain(name)
        kind = kind_of(column.type)
        if kind == "number":
            return numeric_values(column)
        if not pa.types.is_large_string(column.type):
            return np.full(len(column), np.nan)
        written = self.rules.format_of(name)
        try:
            numbers = column.cast(pa.float64()) if written is None else numbers_of(column, written)
        except pa.ArrowInvalid:  # some are none, or have blanks around them
            numbers = numbers_of(column, None)
        # A number that no float64 holds becomes infinite, and with that missing.
        finite = plain_column(numbers)
        assert finite is not None
        return numeric_values(finite)

    def codes(self, name: str, names: Sequence[str]) -> Int64:
        """The index in ``names`` of each value of a column, ``[N]``.

        A text is the name that it is equal to, or else, without blanks at its ends, the first name
        that spells the same text, number or truth value. A value that is none of them has the code
        ``len(names)``, a missing one the next.
        """
        code_of_text = _codes_of_spellings(names)
        unlisted, missing = len(names), len(names) + 1
        marks = self.rules.marks_of(name)
        # In a category of numbers the marks of missing numbers count as in a column of numbers.
        if all(map(_NUMBER_TEXT.fullmatch, names)):
            marks |= self.marks
        codes = encode_codes(self._plain(name))
        code_of_value = []
        for text in level_names(codes.values):
            code = code_of_text.get(text, code_of_text.get(spelled(text)))
            if code is None:
                code = missing if text.strip() in marks else unlisted
            code_of_value.append(code)
        # The last entry is that of null, as in ``encode_codes``.
        return np.array([*code_of_value, missing], np.int64)[codes.codes]

    def texts(self, name: str, names: Sequence[str] = ()) -> pa.ChunkedArray:
        """A column as text, null where a value is missing: 1.0 is ``1``, true is ``true``.

        A value that is one of ``names``, as :meth:`codes` finds it, is spelled as that name.
        """
        column = self._plain(name)
        if not pa.types.is_large_string(column.type):
            codes = encode_codes(column)
            spellings = pa.array(level_names(codes.values), pa.large_string())
            column = _chosen(spellings, codes.codes, codes.missing())
        is_mark = self.rules.is_missing(name, column)
        unnamed = nulled(column, is_mark)
        if not names:
            return unnamed
        place = self.codes(name, names)
        is_named = place < len(names)
        named = _chosen(pa.array(names, pa.large_string()), place, ~is_named)
        return pc.if_else(pa.chunked_array([pa.array(is_named)]), named, unnamed)

    def present(self, name: str) -> NDArray[np.bool_]:
        """Which rows of a column of numbers have a value, be it a number or not, ``[N]``.

        Null, a mark of the file's format and a text or number that is said to be missing are none.
        """
        column = self._plain(name)
        present = column.is_valid().to_numpy()
        if pa.types.is_large_string(column.type):
            trimmed = pc.utf8_trim_whitespace(column)
            is_mark = pc.is_in(trimmed, pa.array(sorted(self.marks), column.type))
            is_mark = pc.or_(is_mark, self.rules.is_missing(name, column))
            present &= ~is_mark.to_numpy()
        numbers = self._numbers(name)
        is_marked_number = ~np.isnan(numbers) & np.isnan(self.rules.without_marks(name, numbers))
        present &= ~is_marked_number
        return np.asarray(present, dtype=np.bool_)

    def _plain(self, name: str) -> pa.ChunkedArray:
        """The column in a plain type; bytes that are not UTF-8 are a missing value."""
        column = self.table.column(name)
        plain = plain_column(column)
        if plain is None:
            plain = plain_column(_without_broken_text(column))
            assert plain is not None
        return plain


def spelled(text: str) -> str:
    """The common spelling of a number or truth value: ``1`` for ``1.0``, ``true`` for ``TRUE``.

    Of any other text, itself without blanks at its ends.
    """
    text = text.strip()
    if _NUMBER_TEXT.fullmatch(text):
        digits = _DIGITS.fullmatch(text)
        if digits:  # exact, however many there are
            sign = "-" if digits[1] == "-" and digits[2] != "0" else ""
            return sign + digits[2]
        number = float(text)
        if math.isfinite(number):
            return level_names(pa.array([number]))[0]
        return text
    return text.casefold() if text.casefold() in _TRUTH else text


def type_of_names(names: Sequence[str]) -> Literal["bool", "int64", "double", "string"]:
    """The type, by Arrow's name, in which a released model predicts the classes of these names.

    Truth values or numbers where every name is exactly how :func:`level_names` writes one.
    """
    if set(names) <= _TRUTH.keys():
        return "bool"
    if all(_NUMBER_TEXT.fullmatch(name) and spelled(name) == name for name in names):
        # Any whole number of at most 18 characters fits into 64 bits.
        is_whole = all(_DIGITS.fullmatch(name) and len(name) < 19 for name in names)
        return "int64" if is_whole else "double"
    return "string"


def _codes_of_spellings(names: Sequence[str]) -> dict[str, int]:
    """Text -> the index of the name that it is, or that it spells in other digits or case.

    A name itself comes before all other spellings, and the first of two names before the second.
    """
    # Backwards, so that of two equal names the first one stays.
    codes = {name: code for code, name in reversed(list(enumerate(names)))}
    for code, name in enumerate(names):
        codes.setdefault(spelled(name), code)
    for truth, number in _TRUTH.items():
        if truth in codes:
            codes.setdefault(number, codes[truth])
    return codes


def _chosen(
    texts: pa.Array, places: NDArray[np.integer], missing: NDArray[np.bool_]
) -> pa.ChunkedArray:
    """The text at each place, ``[N]``; null where ``missing`` (``[N]``) is true."""
    return pa.chunked_array([texts.take(pa.array(places, mask=missing))])


def _without_broken_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text or bytes as bytes, null where a value is not UTF-8."""
    stored = column
    while pa.types.is_dictionary(stored.type) or isinstance(stored.type, pa.BaseExtensionType):
        if pa.types.is_dictionary(stored.type):
            stored = stored.cast(stored.type.value_type)
        else:
            chunks = [chunk.storage for chunk in stored.chunks]
            stored = pa.chunked_array(chunks, type=stored.type.storage_type)
    content = stored.cast(pa.large_binary())
    return nulled(content, pc.invert(is_utf8(content)))
