"""Whether the first line of a CSV file names its columns, as its first lines show.

Public files come without such a line, with two of them, with the same one twice, or with a title
above it. Each would be read as a table of other columns, so each is refused with what to do.
"""

import csv
import io
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, Never

from fairaudit.data.reading.mending import without_last_line, without_lines
from fairaudit.data.reading.packed import unpacked, whole
from fairaudit.data.reading.stored import NUMBER
from fairaudit.data.reading.text_form import TextForm
from fairaudit.errors import DataError, numbered
from fairaudit.messages.names import quoted

_SAMPLED = 200  # lines below the first that are looked at
_MOST_CHARACTERS = 1 << 20  # of these together
_NUMBER = re.compile(rf"\s*{NUMBER}\s*")
_PIECE_BYTES = 1 << 25  # of which line feeds are counted at once


class _Record(NamedTuple):
    """A record of a CSV text that is not empty.

    Args:
        fields: Its fields.
        first, last: The lines that it takes, counted from 1 by line feeds. 0: it shares a line
            with another record, as where carriage returns alone end lines.
    """

    fields: list[str]
    first: int
    last: int


def refuse_odd_header(path: Path, form: TextForm) -> None:
    """Refuse a CSV file whose first line does not name its columns, or not alone.

    Only the first lines are looked at. What is no UTF-8, or no CSV, is left to whoever reads it.

    Args:
        path: The file.
        form: What is between its fields.

    Raises:
        DataError: There is no header, a second one, the same line twice, or a title above it; the
            hint says what to change.
    """
    records = _first_records(path, form)
    if len(records) < 3:  # too few to tell a header from rows
        return
    lines = [record.fields for record in records]
    first, second, rest = lines[0], lines[1], lines[2:]
    width = len(rest[0])  # fields of a row
    regular = [line for line in rest if len(line) == width]
    if len(first) == 1 and width == len(second) > 1 and len(regular) == len(rest):
        refuse_title(path, form, width)
    if len(first) != width or len(second) != width:  # whoever reads the file refuses that
        return
    if first == second:
        raise DataError(
            f"{path.name} has its header twice",
            f"delete the second line{_edited(path, records[1])}",
        )
    columns = list(zip(*regular, strict=True))  # the values of each below the first two lines
    are_numbers = [_of_numbers(column) for column in columns]
    if not any(are_numbers):  # where all values are texts, a header looks like a row
        return
    if _is_second_header(second, are_numbers, columns):
        edited = _edited(path, records[1])
        if edited and records[0].first == records[0].last > 0:
            edited += f", or sed {records[0].first}d for the first"
        raise DataError(
            f"{path.name} has two header lines: the second names columns, too "
            f"({', '.join(map(quoted, second[:3]))}..)",
            f"delete one of them{edited}",
        )
    # The values of each column below the first line.
    below = [[value, *column] for value, column in zip(second, columns, strict=True)]
    if _is_row(first, are_numbers, below):
        raise DataError(
            f"{path.name} has no header: its first line is a row like those below",
            f"name its {width} columns: --names age,sex,.. or --names FILE, a name in each line",
        )


def refuse_title(path: Path, form: TextForm, width: int) -> Never:
    """Refuse a CSV file with a title above its header.

    Args:
        path: The file.
        form: What is between the words or fields of its first line.
        width: How many fields the lines below have.

    Raises:
        DataError: Always.
    """
    title = next(iter(_first_records(path, form)), _Record([], 0, 0))
    if title.last:  # what is above it is empty, and goes with it
        title = title._replace(first=1)
    raise DataError(
        f"{path.name}: the first line has one field where the lines below have {width}",
        f"it looks like a title; delete it{_edited(path, title)}",
    )


def refuse_footer(path: Path, form: TextForm) -> None:
    """Refuse a CSV file of which the last line alone has another number of fields.

    Args:
        path: The file.
        form: What is between its fields.

    Raises:
        DataError: The last line looks like a footer.
    """
    content = whole(path)
    start = max(0, len(content) - _MOST_CHARACTERS)
    end = content[start:].to_pybytes()
    text = form.with_single_delimiters(end, keeps_lines=True).decode(errors="replace")
    # Without the first record, of which the beginning may be cut.
    records = _records(text.splitlines(keepends=True), form)[1:]
    widths = {len(record.fields) for record in records[:-1]}
    if len(widths) != 1 or len(records[-1].fields) in widths:
        return
    footer = records[-1]
    if not footer.first:
        command = ""
    elif footer.first == text.count("\n") + (not text.endswith("\n")):
        command = without_last_line(path)
    else:  # lines that are empty are below it, or it takes several
        above = sum(
            content[place : min(place + _PIECE_BYTES, start)].to_pybytes().count(b"\n")
            for place in range(0, start, _PIECE_BYTES)
        )
        command = without_lines(path, above + footer.first)
    raise DataError(
        f"{path.name}: the last line has {numbered(len(footer.fields), 'field')} where those above "
        f"have {widths.pop()}",
        f"it looks like a footer; delete it{_after_colon(command)}",
    )


def _edited(path: Path, record: _Record) -> str:
    """The end of a hint: the command that copies a file without a record; "" where none can."""
    return _after_colon(without_lines(path, record.first, record.last) if record.first else "")


def _after_colon(command: str) -> str:
    """The end of a hint: a colon and a command, or nothing where there is no command."""
    return f": {command}" if command else ""


def fields_of(line: str, form: TextForm) -> list[str]:
    """The fields of one line, without the blanks around them."""
    rows = _records([form.with_single_delimiters(line.encode()).decode()], form)
    return [value.strip() for value in rows[0].fields] if rows else []


def _records(lines: Sequence[str], form: TextForm) -> list[_Record]:
    """The records of lines, each with its end, that are not empty; none where they are no CSV."""
    feeds = [0, *accumulate(line.count("\n") for line in lines)]  # above each line
    reader = csv.reader(lines, delimiter=form.delimiter)
    records = []
    start = 0  # lines above the record
    try:
        for fields in reader:
            end = reader.line_num
            # Lines that end with another sign than a line feed share a line with the next.
            is_apart = (not start or lines[start - 1].endswith("\n")) and (
                end == len(lines) or lines[end - 1].endswith("\n")
            )
            last = feeds[end] + (not lines[end - 1].endswith("\n"))
            if fields:
                place = (feeds[start] + 1, last) if is_apart else (0, 0)
                records.append(_Record(fields, *place))
            start = end
    except csv.Error:
        return []
    return records


def _first_records(path: Path, form: TextForm) -> list[_Record]:
    """The first records that are not empty, or none where they cannot be read."""
    try:
        with io.TextIOWrapper(unpacked(path), encoding="utf-8-sig", newline="") as stream:
            text = stream.read(_MOST_CHARACTERS)
    except (OSError, UnicodeError):
        return []
    lines = form.with_single_delimiters(text.encode()).decode().splitlines(keepends=True)
    if len(text) == _MOST_CHARACTERS:  # the last may be cut
        lines = lines[:-1]
    return _records(lines, form)[: _SAMPLED + 2]


def _of_numbers(column: Sequence[str]) -> bool:
    """Whether all values of a column that are not empty are numbers, and some are there."""
    given = [value for value in column if value.strip()]
    return bool(given) and all(_NUMBER.fullmatch(value) for value in given)


def _is_second_header(
    second: Sequence[str], are_numbers: Sequence[bool], columns: Sequence[Sequence[str]]
) -> bool:
    """Whether the second line has words where all lines below it have numbers.

    One such word may mark a missing value, so two different ones are asked for, or one where there
    is a single column of numbers; and no other field may repeat a value below it.

    Args:
        second: The fields of the second line.
        are_numbers: Of each column whether all lines below have numbers or nothing there.
        columns: The values of each column below the second line.
    """
    words = []
    for value, is_number, column in zip(second, are_numbers, columns, strict=True):
        if is_number and value.strip() and not _NUMBER.fullmatch(value):
            words.append(value)
        elif value in column:
            return False
    needed = min(2, sum(are_numbers))
    return len(set(words)) >= needed and len(words) == len(set(words))


def _is_row(
    first: Sequence[str], are_numbers: Sequence[bool], columns: Sequence[Sequence[str]]
) -> bool:
    """Whether the first line could be one of the rows.

    Such a line has a number in every column of numbers, and what a name has not: a value of a text
    column that stands below it, too, a number that stands twice, or one with a sign or decimals.
    Whole numbers in their order, as pixels or years, are names.

    Args:
        first: The fields of the first line.
        are_numbers: Of each column whether all lines below have numbers or nothing there.
        columns: The values of each column below the first line.
    """
    values = []
    repeats = False
    for value, is_number, column in zip(first, are_numbers, columns, strict=True):
        if is_number:
            if not _NUMBER.fullmatch(value):
                return False
            values.append(float(value))
        elif value.strip() and value in column:
            repeats = True
    if repeats:
        return True
    if len(values) < len(first):  # texts that stand nowhere below are names
        return False
    ascending = all(one < other for one, other in pairwise(values))
    are_whole = all(value.is_integer() and value >= 0 for value in values)
    return not (ascending and are_whole)
