"""Columns of text: which hold numbers, which texts of them are missing values, what is odd of them.

A file of text gives no types, so all values of a column decide. A *mark* is a text that stands for
a missing value. In a column of numbers the usual marks, as NA, are missing values. In any other
column they are texts like others: a region may be called NA. Options say otherwise
(:class:`ValueRules`). A *word* is a text that is neither a number nor a usual mark.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.column_types import nulled
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
# Words are exceptions in a column of numbers up to 5 of them, or one for each 50 numbers up to 20;
# with more the column may be a list of codes.
_FEW_WORDS, _MORE_WORDS, _NUMBERS_A_WORD = 5, 20, 50
_SHOWN_ROWS = 2  # a word that stands in fewer rows is not shown, for it may be a person's
_FORMATS: tuple[NumberFormat, ...] = ("point", "comma")
_SIGNS = (("%", "percent signs"), (r"\p{Sc}|[A-Z]{3}|Rs", "signs of money"), (r"^\(", "brackets"))


@dataclass(frozen=True, slots=True)
class OddColumn:
    """A column of text that holds numbers, but not numbers alone or not plainly written ones.

    Args:
        name: The column.
        what: What it holds, as "holds numbers but for 'Exempt' in 320 rows".
        words: Words in it that may be shown to the user, as ``--missing-values`` takes them: alone,
            or as ``COL=WORD`` where another column holds the word as a value.
        formats: Formats that all of its numbers have; () where they share none.
        is_plain: Whether all of its numbers are plain: digits with a decimal point.
        needs_own_format: Whether ``--number-format`` has to name the column, since other columns
            have decimal points where it has decimal commas, or the other way round.
        unshown: How many more words there are, which are not shown.
    """

    name: str
    what: str
    words: tuple[str, ...] = ()
    formats: tuple[NumberFormat, ...] = ()
    is_plain: bool = True
    needs_own_format: bool = False
    unshown: int = 0


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
        trimmed: The same without blanks at their ends.
        given_marks: The marks of options that occur in the column; their rows are missing.
    """

    name: str
    codes: Int64
    values: pa.Array
    trimmed: pa.Array
    given_marks: frozenset[str]

    @property
    def are_usual_marks(self) -> pa.Array:
        """Whether each distinct value is a usual mark."""
        return pc.is_in(self.trimmed, pa.array(sorted(USUAL_MARKS), pa.large_string()))

    def row_counts(self) -> list[int]:
        """How many rows have each distinct value."""
        counts = np.bincount(self.codes, minlength=len(self.values) + 1)[:-1]
        return [int(count) for count in counts]

    def with_values(self, values: pa.Array) -> pa.ChunkedArray:
        """The column of all rows, ``[N]``, with ``values`` in the place of the distinct ones."""
        missing = self.codes == len(self.values)
        places = pa.array(self.codes, mask=missing)
        return pa.chunked_array([values.take(places)], type=values.type)


def find_types(
    table: pa.Table, rules: ValueRules, *, is_untyped: bool, by_name: Collection[str]
) -> TypedColumns:
    """Give every column of text its type, and every value that is said to be missing its null.

    Args:
        table: Columns of all types, all rows.
        rules: What options say of values.
        is_untyped: Whether the file gives no types, so that text which is numbers throughout is
            numbers; else text stays text but where a format is given.
        by_name: Columns of groups, label and split. A format counts for one of them only if it
            names that column, and none of them is refused as odd.
    """
    odd: list[OddColumn] = []
    mixed: list[OddColumn] = []  # odd columns that are read as categories, which a notice says
    usual_marks: list[MarkedValue] = []  # usual marks that columns of text hold as values
    words: set[str] = set()  # values of columns of text that are not odd
    marks_seen: set[str] = set()  # marks of options that occur in some column
    columns = columns_of(table)
    for name, column in columns.items():
        marks = rules.marks_of(name)
        if not _is_text(column.type):
            columns[name], seen = _without_marked_numbers(column, marks)
            marks_seen |= seen
            continue
        texts = _distinct(name, column, marks)
        marks_seen |= texts.given_marks
        is_named = name in rules.formats  # by an option for this very column
        number_format = rules.format_of(name) if is_named or name not in by_name else None
        numbers = None
        if number_format != "text":
            decide = is_untyped or bool(texts.given_marks)
            numbers = _as_numbers(texts, number_format, values_decide=decide, is_named=is_named)
        if numbers is not None:
            columns[name], seen = _without_marked_numbers(numbers, marks)
            marks_seen |= seen
            continue
        columns[name] = texts.with_values(texts.values)
        oddness = None
        if number_format != "text" and name not in by_name:
            content = _content_of(texts)
            oddness = _oddness(texts, content, number_format, is_untyped=is_untyped)
            if oddness is not None and _is_refused(content):
                odd.append(oddness)
                continue
        # Here the column is a category.
        if oddness is None:
            # An option for all columns would make these missing: `_with_own_options` asks for that.
            words.update(texts.trimmed.to_pylist())
        else:
            mixed.append(oddness)
        usual_marks += _usual_marks(texts)
    typed_table = pa.table(columns)
    # Only in a file without types were fractions read from text, with decimal points.
    has_points = is_untyped and any(map(pa.types.is_floating, typed_table.schema.types))
    return TypedColumns(
        typed_table,
        tuple(_with_own_options(column, words, has_points=has_points) for column in odd),
        tuple(_type_notices(mixed, usual_marks, rules, marks_seen)),
    )


def _type_notices(
    mixed: Sequence[OddColumn],
    usual_marks: Sequence[MarkedValue],
    rules: ValueRules,
    marks_seen: Collection[str],
) -> Iterator[Message]:
    """Notices of odd columns that are categories, of usual marks as values, of marks without use.

    Args:
        mixed: Odd columns that are read as categories.
        usual_marks: Usual marks that columns of text hold as values.
        rules: What options say of values.
        marks_seen: Marks of options that occur in some column.
    """
    if mixed:
        shown = dict.fromkeys(word for column in mixed for word in column.words)
        yield MixedTypes(tuple(column.what for column in mixed), tuple(shown))
    if usual_marks:
        yield MarksAsValues(tuple(usual_marks))
    unused = frozenset().union(*rules.marks.values()).difference(marks_seen)
    if unused:
        yield UnusedMarks(tuple(sorted(unused)))


def _with_own_options(column: OddColumn, words: Collection[str], *, has_points: bool) -> OddColumn:
    """An odd column with options for it alone where one for all columns would change others.

    Args:
        column: The column.
        words: Values of columns of text, which an option for all columns would make missing.
        has_points: Whether other columns have decimal points.
    """
    own = [f"{column.name}={word}" if word in words else word for word in column.words]
    is_alone = column.needs_own_format or (has_points and "point" not in column.formats)
    # Of a column without a format `options_for` says ``COL=text`` in any case.
    return replace(column, words=tuple(own), needs_own_format=is_alone and bool(column.formats))


def options_for(odd: Sequence[OddColumn]) -> list[tuple[str, str]]:
    """Options, (flag, value), with which odd columns would be numbers; each once.

    One format for all columns where they share one; else a format for each.
    """
    options: dict[tuple[str, str], None] = {}  # a set that keeps the order
    for column in odd:
        for word in column.words:
            options["--missing-values", word] = None
    of_all = [column for column in odd if not column.is_plain and not column.needs_own_format]
    shared = [kind for kind in _FORMATS if all(kind in column.formats for column in of_all)]
    if of_all and shared:
        options["--number-format", shared[0]] = None
        of_all = []  # the shared format serves them: none of them needs one of its own below
    for column in odd:
        if column in of_all or column.needs_own_format:
            kind = column.formats[0] if column.formats else "text"
            options["--number-format", f"{column.name}={kind}"] = None
    return list(options)


def _is_text(arrow_type: pa.DataType) -> bool:
    """Whether a type is text, or a dictionary of text."""
    if pa.types.is_dictionary(arrow_type):
        return _is_text(arrow_type.value_type)
    return bool(
        pa.types.is_string(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_string_view(arrow_type)
    )


def _distinct(name: str, column: pa.ChunkedArray, marks: Collection[str]) -> _Texts:
    """The distinct values of a column of text; blank ones and ``marks`` are missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    values = encoded.dictionary
    trimmed = pc.utf8_trim_whitespace(values)
    texts = trimmed.to_pylist()
    is_value = pa.array([text != "" and text not in marks for text in texts], pa.bool_())
    n_values = is_value.true_count
    # The new code of each old code. What is no value is missing, and so is null, the last entry.
    new_codes = np.full(len(values) + 1, n_values, np.int64)
    new_codes[:-1][is_value.to_numpy(zero_copy_only=False)] = np.arange(n_values)
    old_codes = pc.fill_null(encoded.indices, len(values)).to_numpy(zero_copy_only=False)
    return _Texts(
        name=name,
        codes=new_codes[old_codes],
        values=values.filter(is_value),
        trimmed=trimmed.filter(is_value),
        given_marks=frozenset(texts) & frozenset(marks),
    )


def _as_numbers(
    texts: _Texts, number_format: NumberFormat | None, *, values_decide: bool, is_named: bool
) -> pa.ChunkedArray | None:
    """The column as numbers, or moments, with null for the usual marks; None where it stays text.

    Args:
        texts: The column.
        number_format: The format that is given for it; None: none is.
        values_decide: Whether text that is numbers throughout is numbers: the file gives no types,
            or some values are said to be missing.
        is_named: Whether the format is given for this column by its name.
    """
    is_mark = texts.are_usual_marks
    others = texts.trimmed.filter(pc.invert(is_mark))
    if not len(others):
        # One mark throughout says nothing: all values are missing. Several marks tell rows apart:
        # they are text.
        n_marks = len(texts.values)
        return texts.with_values(pa.nulls(n_marks, pa.float64())) if n_marks == 1 else None
    if number_format is not None:
        is_plain = pc.all(is_number(others, None)).as_py()
        # In a typed file plain digits stored as text are codes, unless the option names the column.
        are_codes = is_plain and not values_decide and not is_named
        if are_codes or _contradicts(others, number_format):
            return None
        numbers = numbers_of(others, number_format)
        if numbers.null_count:
            return None
    else:
        numbers = _cast_to_numbers(others) if values_decide else None
        if numbers is None:
            return None
    mask = is_mark.to_numpy(zero_copy_only=False)
    places = np.cumsum(~mask) - 1  # of each distinct value among those that are no marks
    return texts.with_values(numbers.take(pa.array(places, mask=mask)))


def _cast_to_numbers(texts: pa.Array) -> pa.Array | None:
    """Texts as whole numbers, else as fractions, else as moments; None where some are none."""
    for arrow_type in (pa.int64(), pa.float64(), pa.timestamp("us")):
        try:
            return texts.cast(arrow_type)
        except pa.ArrowInvalid:
            continue
    return None


def _contradicts(texts: pa.Array, number_format: NumberFormat | None) -> bool:
    """Whether decimal commas are said to be used, and some number has a decimal point instead."""
    if number_format != "comma":
        return False
    has_point = pc.and_(is_number(texts, None), pc.invert(is_number(texts, "comma")))
    return bool(pc.any(has_point).as_py())


def _without_marked_numbers(
    column: pa.ChunkedArray, marks: Collection[str]
) -> tuple[pa.ChunkedArray, set[str]]:
    """A column that is no text, with null for numbers that are marks, as -999; and these marks."""
    arrow_type = column.type
    seen: set[str] = set()
    if not (pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type)):
        return column, seen
    for mark in marks:
        number = numbers_of(pa.chunked_array([pa.array([mark], pa.large_string())]), None)[0]
        if not number.is_valid:  # the mark is a word
            continue
        # Not `safe`: that refuses whole numbers which a float does not hold exactly.
        is_mark = pc.fill_null(pc.equal(column.cast(pa.float64(), safe=False), number), False)
        if pc.any(is_mark).as_py():
            seen.add(mark)
            column = nulled(column, is_mark)
    return column, seen


class _Content(NamedTuple):
    """The distinct texts of a column, without the usual marks, by what they are.

    Args:
        numbers: Texts that are numbers, with decimal points or commas.
        words: The others.
        formats: Formats that all of the numbers have.
        is_plain: Whether all of the numbers are plain.
    """

    numbers: pa.Array
    words: list[str]
    formats: tuple[NumberFormat, ...]
    is_plain: bool

    @property
    def has_few_words(self) -> bool:
        """Whether there are so few words that they are exceptions among the numbers."""
        most = min(_MORE_WORDS, len(self.numbers) // _NUMBERS_A_WORD)
        return len(self.words) <= max(_FEW_WORDS, most)


def _content_of(texts: _Texts) -> _Content:
    """What the distinct texts of a column are."""
    others = texts.trimmed.filter(pc.invert(texts.are_usual_marks))
    fits: dict[NumberFormat, NDArray[np.bool_]] = {}
    for kind in _FORMATS:
        fits[kind] = np.asarray(is_number(others, kind))
    numeric = fits["point"] | fits["comma"]
    plain = np.asarray(is_number(others, None))
    return _Content(
        numbers=others.filter(pa.array(numeric)),
        words=others.filter(pa.array(~numeric)).to_pylist(),
        formats=tuple(kind for kind in _FORMATS if fits[kind][numeric].all()),
        is_plain=bool(plain[numeric].all()),
    )


def _oddness(
    texts: _Texts, content: _Content, number_format: NumberFormat | None, *, is_untyped: bool
) -> OddColumn | None:
    """What a column of text holds beside or instead of plain numbers; None: nothing odd.

    A column with more words than numbers is plain text.

    Args:
        texts: The column.
        content: What its distinct values are.
        number_format: The format that is given for it; None: none is.
        is_untyped: Whether the file gives no types.
    """
    words, n_numbers = content.words, len(content.numbers)
    if not n_numbers or n_numbers < len(words):
        return None
    if content.is_plain and not is_untyped:
        # A typed file that stores plain digits as text holds codes, as 02139, or a few levels.
        has_leading_zero = pc.any(pc.match_substring_regex(texts.trimmed, r"^0\d")).as_py()
        if not words or has_leading_zero or n_numbers <= FEW_NUMBERS:
            return None
    signs = "" if content.is_plain else _signs(content.numbers, content.formats)
    # Where there are words, they are what is told: their option comes first.
    contradicts = not words and _contradicts(content.numbers, number_format)
    if contradicts:
        signs = " with decimal points, and is said to have decimal commas"
    row_counts = dict(zip(texts.trimmed.to_pylist(), texts.row_counts(), strict=True))
    shown = [word for word in words if row_counts[word] >= _SHOWN_ROWS]
    unshown = len(words) - len(shown)
    what = f"{quoted(texts.name)} holds numbers{signs}"
    if words and content.has_few_words:
        exceptions = [f"{quoted(word)} in {numbered(row_counts[word], 'row')}" for word in shown]
        if unshown:
            exceptions.append(f"{numbered(unshown, 'other text')} in one row each")
        what += f" but for {', '.join(exceptions)}"
    elif words:
        what += f" and {len(words):,} other texts"
    return OddColumn(
        name=texts.name,
        what=what,
        words=tuple(shown) if content.has_few_words else (),
        formats=content.formats,
        is_plain=content.is_plain,
        needs_own_format=contradicts,
        unshown=unshown if content.has_few_words else 0,
    )


def _is_refused(content: _Content) -> bool:
    """Whether an odd column is refused; else it is read as a category, and a notice says that.

    Refused are numbers that a format would make numbers, and measurements with a few exceptions.
    """
    if not content.words:
        return True
    return content.has_few_words and len(content.numbers) > FEW_NUMBERS


def _signs(numbers: pa.Array, formats: Sequence[str]) -> str:
    """What numbers are written with, as " with percent signs and decimal commas".

    Args:
        numbers: Texts that are not all plain numbers.
        formats: Formats that all of them have.
    """
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
    if not signs:  # nothing else makes a number not plain
        signs.append("blanks or apostrophes between thousands")
    return f" with {' and '.join(signs)}"


def _usual_marks(texts: _Texts) -> Iterator[MarkedValue]:
    """The usual marks that a column of text holds as values, with their numbers of rows."""
    counts: Counter[str] = Counter()  # "NA" and "NA " are one mark
    for text, rows in zip(texts.trimmed.to_pylist(), texts.row_counts(), strict=True):
        if text in USUAL_MARKS:
            counts[text] += rows
    for mark, rows in counts.items():
        yield MarkedValue(texts.name, mark, rows)
