"""What a text of a table is, as options say: a missing value, or a number in some country's way.

Each text is read by itself, by what was said of its column before any row was looked at.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.column_types import nulled
from fairaudit.errors import ConfigError
from fairaudit.messages.names import nearest, quoted

NumberFormat = Literal["point", "comma", "text"]
# Texts that stand for a missing number in files of text. "?" does so in some only.
USUAL_MARKS: Final = frozenset({"NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL"})

_BLANK = r"[\s\x{a0}\x{202f}]"
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_CODES = "USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|BRL|MXN|KRW|ZAR|TRY|Rs\\.?"
_MONEY = rf"(?:(?:{_CODES})|[A-Z]{{0,2}}\p{{Sc}})"
_FIRST = r"[1-9]\d{0,2}"  # before a sign between thousands: 0,123 is no thousand
_BETWEEN = rf"(?:{_BLANK}|[{_APOSTROPHES}])"
# Digits with or without a sign between thousands; before the last three there may be groups of two,
# as in the Indian 12,34,567.
_DIGITS = {
    "point": rf"(?:(?:{_FIRST}(?:,\d{{2,3}})*,\d{{3}}|{_FIRST}(?:{_BETWEEN}\d{{3}})+|\d+)"
    r"(?:\.\d*)?|\.\d+)",
    "comma": rf"(?:(?:{_FIRST}(?:\.\d{{3}})+|{_FIRST}(?:{_BETWEEN}\d{{3}})+|\d+)(?:,\d*)?|,\d+)",
}
_SIGN = "[-+\N{MINUS SIGN}]?"


def _whole(digits: str) -> str:
    """The pattern of a text that is a number: digits, signs of money, %, plus, minus, brackets."""
    number = f"{_SIGN}{_BLANK}*{_MONEY}?{_BLANK}*{_SIGN}{digits}(?:[eE][-+]?\\d+)?"
    ends = rf"{_BLANK}*(?:%|{_MONEY})?"
    return rf"^(?:{number}{ends}|\({number}{ends}\))$"


_WHOLE = {name: _whole(digits) for name, digits in _DIGITS.items()}
_PLAIN = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_NOT_OF_A_NUMBER = {
    "point": rf"[,%()+{_APOSTROPHES}]|{_BLANK}|{_MONEY}",
    "comma": rf"[.%()+{_APOSTROPHES}]|{_BLANK}|{_MONEY}",
}


@dataclass(frozen=True, slots=True)
class ValueRules:
    """What options say of the texts of columns.

    Args:
        marks: Column -> texts that stand for a missing value in it; of ``None``: in all columns.
        formats: Column -> how its numbers are written; of ``None``: in all columns.
    """

    marks: Mapping[str | None, frozenset[str]] = field(default_factory=dict)
    formats: Mapping[str | None, NumberFormat] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        missing_values: Sequence[str],
        number_format: Sequence[str],
        columns: Sequence[str],
        declared: Mapping[str, Sequence[str]] = {},
    ) -> "ValueRules":
        """The rules that ``--missing-values`` and ``--number-format`` give, and declarations.

        ``COL=TEXT`` is about one column where the data have a column of that name.

        Args:
            missing_values: ``TEXT`` or ``COL=TEXT``.
            number_format: ``point``, ``comma`` or ``text``, or ``COL=`` and one of them.
            columns: Names of all columns of the data.
            declared: Column -> texts that its declaration names.

        Raises:
            ConfigError: A format that is none, of a column that is none, or two of one column.
        """
        marks: dict[str | None, set[str]] = {}
        for text in missing_values:
            column, mark = _divided(text, columns)
            marks.setdefault(column, set()).add(mark.strip())
        for name, texts in declared.items():
            if texts:
                marks.setdefault(name, set()).update(text.strip() for text in texts)
        frozen_marks = {name: frozenset(texts) for name, texts in marks.items()}
        return cls(frozen_marks, _given_formats(number_format, columns))

    def marks_of(self, column: str) -> frozenset[str]:
        """Texts, without blanks at their ends, that are said to be a missing value of a column."""
        return self.marks.get(None, frozenset()) | self.marks.get(column, frozenset())

    def format_of(self, column: str) -> NumberFormat | None:
        """How the numbers of a column are said to be written; None: nothing is said."""
        return self.formats.get(column, self.formats.get(None))

    def is_missing(self, column: str, texts: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
        """Whether each text of a column is said to be a missing value; never null."""
        marks = pa.array(sorted(self.marks_of(column)), texts.type)
        return pc.is_in(pc.utf8_trim_whitespace(texts), marks)

    def without_marks(self, column: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers of a column with NaN for those that are said to be a missing value, as -999."""
        missing = [float(mark) for mark in self.marks_of(column) if re.fullmatch(_PLAIN, mark)]
        if not missing:
            return numbers
        return np.where(np.isin(numbers, missing), np.nan, numbers)


NO_RULES: Final = ValueRules()


def numbers_of(texts: pa.ChunkedArray, kind: NumberFormat | None) -> pa.ChunkedArray:
    """The number that each text is, as float64; null where it is none.

    Args:
        texts: Of type large_string.
        kind: ``point``: 1,234.5, and ``comma``: 1.234,5, both also with signs of money, with a
            percent sign (13.5 % is 13.5), with blanks or apostrophes between thousands, and in
            brackets where they are below 0. None or ``text``: digits with a decimal point, as
            1234.5 or 1e3. A text that does not fit ``point`` or ``comma`` is read as with None.

    Example:
        >>> texts = pa.chunked_array([pa.array(["$1,234.50", "13.5%", "(20)"], pa.large_string())])
        >>> numbers_of(texts, "point").to_pylist()
        [1234.5, 13.5, -20.0]
    """
    trimmed = pc.utf8_trim_whitespace(texts)
    # As text that Arrow's cast reads, null where there is none.
    readable = nulled(trimmed, pc.invert(is_number(trimmed, None)))
    if kind in _WHOLE:
        # Without all signs that the format allows beside digits, a point and a minus.
        bare = pc.replace_substring_regex(trimmed, _NOT_OF_A_NUMBER[kind], "")
        bare = pc.replace_substring(bare, "\N{MINUS SIGN}", "-")
        if kind == "comma":
            bare = pc.replace_substring(bare, ",", ".")
        is_below_0 = pc.starts_with(trimmed, "(")  # bookkeepers write (20) for -20
        bare = pc.if_else(is_below_0, pc.replace_substring_regex(bare, "^", "-"), bare)
        # Two signs, as in -$-5, fit the format and are no number all the same.
        fits = pc.and_(is_number(trimmed, kind), is_number(bare, None))
        readable = pc.if_else(fits, bare, readable)
    return readable.cast(pa.float64())


def is_number(texts: pa.ChunkedArray, kind: NumberFormat | None) -> pa.ChunkedArray:
    """Whether each text is a number of a format; None or ``text``: digits with a decimal point.

    Args:
        texts: Without blanks at their ends.
        kind: As of :func:`numbers_of`.
    """
    return pc.match_substring_regex(texts, _PLAIN if kind in (None, "text") else _WHOLE[kind])


def _given_formats(
    number_format: Sequence[str], columns: Sequence[str]
) -> dict[str | None, NumberFormat]:
    """Column, or None for all columns -> its format, as the texts of ``--number-format`` say.

    Args:
        number_format: A format, or ``COL=`` and a format, each.
        columns: Names of all columns of the data.

    Raises:
        ConfigError: As :meth:`ValueRules.of`.
    """
    formats: dict[str | None, NumberFormat] = {}
    for text in number_format:
        before, sign, after = text.rpartition("=")
        kind = next((kind for kind in get_args(NumberFormat) if kind == after.strip()), None)
        if kind is None:
            raise ConfigError(
                f"--number-format {quoted(text)}: {quoted(after)} is no format",
                "point (1,234.5), comma (1.234,5) or text; of one column: COL=point",
            )
        column = before.strip() if sign else None
        if column is not None and column not in columns:
            raise ConfigError(
                f"--number-format: {quoted(column)} is not in the data", nearest(column, columns)
            )
        if formats.setdefault(column, kind) != kind:
            raise ConfigError(f"--number-format {quoted(text)}: another format is given, too")
    if formats.get(None) == "text":
        raise ConfigError("--number-format text is about one column", "write COL=text")
    return formats


def _divided(text: str, columns: Sequence[str]) -> tuple[str | None, str]:
    """The column and the text of ``COL=TEXT``; None and all of it where no column is named.

    A name may hold ``=`` itself: the first sign is taken before which a column's name stands.
    """
    for sign in re.finditer("=", text):
        if text[: sign.start()] in columns:
            return text[: sign.start()], text[sign.end() :]
    return None, text
