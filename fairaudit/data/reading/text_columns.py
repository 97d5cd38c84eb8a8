"""Columns of text: which hold numbers, which texts of them are missing values, what is odd of them.

A file of text gives no types, so all values of a column decide. In a column of numbers the usual
marks, as NA, are missing values. In any other column they are texts like others: a region may be
called NA. Options say otherwise (:class:`ValueRules`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.data.dataset import Int64, columns_of
from fairaudit.data.reading.values import (
    USUAL_MARKS,
    NumberFormat,
    ValueRules,
    is_number,
    numbers_of,
)
from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.messages.data import MarkedValue, MarksAsValues, MixedTypes, UnusedMarks
from fairaudit.messages.names import quoted

FEW_NUMBERS = 20  # a column of more distinct numbers is a measurement, whatever words it holds
_FEW_WORDS, _MORE_WORDS = 5, 20  # among its numbers; with more it may be a list of codes
_NUMBERS_A_WORD = 50  # from which a column may have more than few words
_SHOWN_ROWS = 2  # a word that stands in fewer rows is not shown, for it may be a person's
_FORMATS: tuple[NumberFormat, ...] = ("point", "comma")
_SIGNS = (("%", "percent signs"), (r"\p{Sc}|[A-Z]{3}|Rs", "signs of money"), (r"^\(", "brackets"))


@dataclass(frozen=True, slots=True)
class OddColumn:
    """A column that is neither numbers nor a category as it stands.

    Args:
        name: The column.
        what: What it holds, as "holds numbers but for 'Exempt' in 320 rows".
        words: Texts that keep it from being numbers and are shown.
        formats: Formats that all of its numbers have; () where they are plain.
        is_plain: Whether all of its numbers are plain.
        is_alone: Whether a format has to name the column, since others have decimal points where
            it has decimal commas, or it where they have.
        lone: How many other texts there are that are not shown.
    """

    name: str
    what: str
    words: tuple[str, ...] = ()
    formats: tuple[NumberFormat, ...] = ()
    is_plain: bool = True
    is_alone: bool = False
    lone: int = 0


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """A table of which every column has a type.

    Args:
        table: N rows; numbers, or text with null where a value is missing.
        odd: Columns that no model should be given as they are.
        notices: What reading them showed.
    """

    table: pa.Table
    odd: tuple[OddColumn, ...]
    notices: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class _Texts:
    """A column of text by its distinct values.

    Args:
        name: The column.
        codes: Index of each row's value, ``[N]``; ``len(values)`` where it is missing.
        values: The distinct values as they stand, large_string.
        marked: Whether some value is said to be a missing one.
    """

    name: str
    codes: Int64
    values: pa.Array
    marked: bool

    @property
    def trimmed(self) -> pa.Array:
        """The distinct values without blanks at their ends."""
        return pc.utf8_trim_whitespace(self.values)

    def rows(self) -> list[int]:
        """How many rows have each value."""
        counts = np.bincount(self.codes, minlength=len(self.values) + 1)[:-1]
        return [int(count) for count in counts]

    def read_as(self, of_values: pa.Array) -> pa.ChunkedArray:
        """The column with another value in place of each."""
        missing = self.codes == len(self.values)
        places = pa.array(self.codes, mask=missing)
        return pa.chunked_array([of_values.take(places)], type=of_values.type)


def find_types(
    table: pa.Table, rules: ValueRules, *, is_untyped: bool, by_name: Collection[str]
) -> TypedColumns:
    """Give every column of text its type, and every value that is said to be missing its null.

    Args:
        table: Columns of all types, all rows.
        rules: What options say of values.
        is_untyped: Whether the file gives no types, so that text which is numbers throughout is
            numbers; else text stays text but where a format is given.
        by_name: Columns of groups and labels: a format counts there only where it names them, and
            none is odd.
    """
    odd: list[OddColumn] = []
    kept_marks: list[MarkedValue] = []  # usual marks that columns of text hold as values
    mixed: list[OddColumn] = []
    words: set[str] = set()  # what columns of text hold that are not odd
    marks_seen: set[str] = set()  # marks of options that occur
    columns = columns_of(table)
    for name, column in columns.items():
        marks = rules.marks_of(name)
        if not _is_text(column.type):
            columns[name] = _without_numbers(column, marks, marks_seen)
            continue
        texts = _distinct(name, column, marks, marks_seen)
        explicit = name in rules.formats
        written = rules.format_of(name) if explicit or name not in by_name else None
        typed_column = None
        if written != "text":
            typed_column = _as_numbers(
                texts, written, is_untyped=is_untyped or texts.marked, is_named=explicit
            )
        if typed_column is not None:
            typed_column = _without_numbers(typed_column, marks, marks_seen)
        else:
            typed_column = texts.read_as(texts.values)
            odd_column = None
            if name not in by_name and written != "text":
                odd_column = _oddness(texts, written, is_untyped=is_untyped)
            if odd_column is not None and _is_refused(texts, odd_column):
                odd.append(odd_column)
            else:
                if odd_column is None:
                    words.update(texts.trimmed.to_pylist())
                else:
                    mixed.append(odd_column)
                kept_marks += _usual_marks(texts)
        columns[name] = typed_column
    notices: list[Message] = []
    if mixed:
        shown = dict.fromkeys(word for column in mixed for word in column.words)
        notices.append(MixedTypes(tuple(column.what for column in mixed), tuple(shown)))
    if kept_marks:
        notices.append(MarksAsValues(tuple(kept_marks)))
    given = frozenset().union(*rules.marks.values())
    lost = sorted(given - marks_seen)
    if lost:
        notices.append(UnusedMarks(tuple(lost)))
    typed_table = pa.table(columns)
    points = is_untyped and any(map(pa.types.is_floating, typed_table.schema.types))
    odd_columns = []
    for column in odd:
        own = [f"{column.name}={word}" if word in words else word for word in column.words]
        alone = column.is_alone or (points and "point" not in column.formats)
        odd_columns.append(
            replace(column, words=tuple(own), is_alone=alone and bool(column.formats))
        )
    return TypedColumns(typed_table, tuple(odd_columns), tuple(notices))


def options_for(odd: Sequence[OddColumn]) -> list[tuple[str, str]]:
    """Options, (flag, value), with which odd columns would be numbers; each once."""
    options: dict[tuple[str, str], None] = {}
    for column in odd:
        for word in column.words:
            options["--missing-values", word] = None
    formatted = [column for column in odd if not column.is_plain and not column.is_alone]
    shared = [kind for kind in _FORMATS if all(kind in column.formats for column in formatted)]
    if formatted and shared:
        options["--number-format", shared[0]] = None
        formatted = []
    for column in odd:
        if column in formatted or column.is_alone:
            kind = next(iter(column.formats), "text")
            options["--number-format", f"{column.name}={kind}"] = None
    return list(options)


def _is_text(of: pa.DataType) -> bool:
    """Whether a type is text, or a dictionary of text."""
    if pa.types.is_dictionary(of):
        return _is_text(of.value_type)
    return bool(
        pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    )


def _distinct(
    name: str, column: pa.ChunkedArray, marks: Collection[str], marks_seen: set[str]
) -> _Texts:
    """The distinct values of a column of text; blank ones and ``marks`` are missing.

    Marks that occur are added to ``marks_seen``.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    values = encoded.dictionary
    trimmed = pc.utf8_trim_whitespace(values).to_pylist()
    present = set(trimmed) & set(marks)
    marks_seen.update(present)
    kept = [text != "" and text not in marks for text in trimmed]
    place = np.full(len(values) + 1, sum(kept), np.int64)
    place[:-1][kept] = np.arange(sum(kept))
    codes = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False)
    return _Texts(name, place[codes], values.filter(pa.array(kept, pa.bool_())), bool(present))


def _as_numbers(
    texts: _Texts, written: NumberFormat | None, *, is_untyped: bool, is_named: bool
) -> pa.ChunkedArray | None:
    """The column as numbers, or moments, with null for the usual marks; None where it is text.

    Args:
        texts: The column.
        written: The format that is given for it.
        is_untyped: Whether its values decide what it is: the file gives no types, or some are said
            to be missing.
        is_named: Whether the format is given for this column by its name.
    """
    trimmed = texts.trimmed
    is_mark = pc.is_in(trimmed, pa.array(sorted(USUAL_MARKS), trimmed.type))
    others = trimmed.filter(pc.invert(is_mark))
    if not len(others):  # with two marks it says something; with one, nothing
        return texts.read_as(pa.nulls(len(trimmed), pa.float64())) if len(trimmed) == 1 else None
    if written is not None:
        signed = not pc.all(is_number(others, None)).as_py()
        if not (is_untyped or is_named or signed) or _is_of_two(others, written):
            return None
        numbers = numbers_of(others, written)
        if numbers.null_count:
            return None
        exact = numbers.cast(pa.int64(), safe=False)
        if pc.all(pc.equal(exact.cast(pa.float64()), numbers)).as_py() and not is_untyped:
            numbers = numbers.cast(pa.float64())
    elif not is_untyped:
        return None
    else:
        numbers = None
        for kind in (pa.int64(), pa.float64(), pa.timestamp("us")):
            try:
                numbers = others.cast(kind)
                break
            except pa.ArrowInvalid:
                continue
        if numbers is None:
            return None
    places = np.cumsum(~is_mark.to_numpy(zero_copy_only=False)) - 1
    of_values = numbers.take(pa.array(places, mask=is_mark.to_numpy(zero_copy_only=False)))
    return texts.read_as(of_values)


def _is_of_two(others: pa.Array, written: NumberFormat) -> bool:
    """Whether numbers with a decimal point stand where decimal commas are said to be used."""
    if written != "comma":
        return False
    not_comma = pc.and_(is_number(others, None), pc.invert(is_number(others, "comma")))
    return bool(pc.any(not_comma).as_py())


def _without_numbers(
    column: pa.ChunkedArray, marks: Collection[str], marks_seen: set[str]
) -> pa.ChunkedArray:
    """A column that is no text, with null for numbers that are said to be missing values.

    Marks that occur are added to ``marks_seen``.
    """
    of = column.type
    if not (pa.types.is_integer(of) or pa.types.is_floating(of)):
        return column
    for mark in marks:
        number = numbers_of(pa.chunked_array([pa.array([mark], pa.large_string())]), None)[0]
        if not number.is_valid:
            continue
        is_mark = pc.fill_null(pc.equal(column.cast(pa.float64(), safe=False), number), False)
        if pc.any(is_mark).as_py():
            marks_seen.add(mark)
            column = pc.if_else(is_mark, pa.scalar(None, of), column)
    return column


def _oddness(texts: _Texts, written: NumberFormat | None, *, is_untyped: bool) -> OddColumn | None:
    """What a column of text holds beside or instead of plain numbers; None: nothing odd."""
    trimmed = texts.trimmed
    rows = dict(zip(trimmed.to_pylist(), texts.rows(), strict=True))
    is_mark = pc.is_in(trimmed, pa.array(sorted(USUAL_MARKS), trimmed.type))
    others = trimmed.filter(pc.invert(is_mark))
    fits = {kind: np.asarray(is_number(others, kind)) for kind in _FORMATS}
    plain = np.asarray(is_number(others, None))
    number = fits["point"] | fits["comma"]
    formats = tuple(kind for kind in _FORMATS if fits[kind][number].all())
    words = others.filter(pa.array(~number)).to_pylist()
    n_numbers, is_plain = int(number.sum()), bool(plain[number].all())
    if not n_numbers or n_numbers < len(words):
        return None
    if not words and is_plain and not is_untyped:
        return None  # codes that a typed file holds as text
    if words and is_plain and not is_untyped:
        are_codes = pc.any(pc.match_substring_regex(others, r"^0\d")).as_py()  # as 02139
        if are_codes or n_numbers <= FEW_NUMBERS:
            return None
    name = texts.name
    signs = "" if is_plain else _signs(others.filter(pa.array(number)), formats)
    is_of_two = written == "comma" and not words and _is_of_two(others, written)
    if is_of_two:
        signs = " with decimal points, and is said to have decimal commas"
    what = f"{quoted(name)} holds numbers{signs}"
    shown = [word for word in words if rows[word] >= _SHOWN_ROWS]
    if words and _are_few(len(words), n_numbers):
        exceptions = [f"{quoted(word)} in {numbered(rows[word], 'row')}" for word in shown]
        if len(words) > len(shown):
            exceptions.append(f"{numbered(len(words) - len(shown), 'other text')} in one row each")
        what += f" but for {', '.join(exceptions)}"
    elif words:
        what += f" and {len(words):,} other texts"
    few = _are_few(len(words), n_numbers)
    return OddColumn(
        name=name,
        what=what,
        words=tuple(shown) if few else (),
        formats=formats,
        is_plain=is_plain,
        is_alone=is_of_two,
        lone=len(words) - len(shown) if few else 0,
    )


def _is_refused(texts: _Texts, odd: OddColumn) -> bool:
    """Whether an odd column is refused; else it is read as a category, and that is said."""
    trimmed = texts.trimmed
    number = np.asarray(is_number(trimmed, "point")) | np.asarray(is_number(trimmed, "comma"))
    marks = np.asarray(pc.is_in(trimmed, pa.array(sorted(USUAL_MARKS), trimmed.type)))
    n_words = int((~number & ~marks).sum())
    if not n_words:
        return True
    n_numbers = int(number.sum())
    return _are_few(n_words, n_numbers) and n_numbers > FEW_NUMBERS


def _are_few(words: int, numbers: int) -> bool:
    """Whether so many different words are exceptions among so many different numbers."""
    return words <= max(_FEW_WORDS, min(_MORE_WORDS, numbers // _NUMBERS_A_WORD))


def _signs(numbers: pa.Array, formats: Sequence[str]) -> str:
    """Which signs numbers have, as " with percent signs and decimal commas"."""
    signs = [
        words
        for pattern, words in _SIGNS
        if pc.any(pc.match_substring_regex(numbers, pattern)).as_py()
    ]
    if pc.any(pc.match_substring_regex(numbers, r",")).as_py():
        if "point" not in formats:
            signs.append("decimal commas")
        elif "comma" in formats:
            signs.append("commas, between thousands (point) or before decimals (comma)")
        else:
            signs.append("commas between thousands")
    elif "point" not in formats:
        signs.append("points between thousands")
    if not signs:
        signs.append("blanks or apostrophes between thousands")
    return f" with {' and '.join(signs)}"


def _usual_marks(texts: _Texts) -> Iterator[MarkedValue]:
    """The usual marks that a column of text holds as values."""
    counts: Counter[str] = Counter()
    for text, rows in zip(texts.trimmed.to_pylist(), texts.rows(), strict=True):
        if text in USUAL_MARKS:
            counts[text] += rows
    for mark, rows in counts.items():
        yield MarkedValue(texts.name, mark, rows)
