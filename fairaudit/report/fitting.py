"""A text cut to a number of lines: the longest tables give up rows, the main ones last, and say how many."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairaudit.errors import numbered

_LEAST = 12  # rows that tables of second rank keep while those of no rank have any
_HEAD = 2  # lines of a table above its rows
_NOTE = re.compile(r"([\d,]+) more rows? (?:are|is) in report\.json\.")


class _Caps(NamedTuple):
    """Most rows of a table by its rank."""

    first: int
    second: int
    other: int


@dataclass(frozen=True, slots=True)
class _Table:
    """Where a table's rows start, how many there are, how many its note already leaves out, its rank."""

    start: int
    rows: int
    left_out: int
    rank: int


def fitted(lines: Sequence[str], most: int, ranks: Mapping[str, int] | None = None) -> list[str]:
    """``lines`` with as many table rows as leave at most ``most`` lines.

    Args:
        lines: Markdown. most: Lines to keep.
        ranks: Heading -> 0 or 1. Tables under other headings lose their rows first, down to a word
            on how many there are, then those of rank 1; one of rank 0 keeps a row whatever comes.
    """
    tables = _tables(lines, ranks or {})
    cut = list(lines)
    for caps in _caps(max((table.rows for table in tables), default=0)):
        cut = _cut(lines, tables, caps)
        if len(cut) <= most:
            break
    return cut


def _caps(longest: int) -> Iterator[_Caps]:
    """From all rows to few."""
    yield from (_Caps(longest, max(cap, _LEAST), cap) for cap in range(longest, 0, -1))
    yield from (_Caps(longest, cap, 0) for cap in range(longest, -1, -1))
    yield from (_Caps(cap, 0, 0) for cap in range(longest, 0, -1))


def _tables(lines: Sequence[str], ranks: Mapping[str, int]) -> list[_Table]:
    found = []
    heading = ""
    for number, line in enumerate(lines):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if re.fullmatch(r"\|[-:|]+\|", line) and number and lines[number - 1].startswith("| "):
            start = number + 1
            rows = 0
            while start + rows < len(lines) and lines[start + rows].startswith("| "):
                rows += 1
            below = lines[start + rows + 1] if start + rows + 1 < len(lines) else ""
            note = _NOTE.fullmatch(below)
            rank = ranks.get(heading, len(_Caps._fields) - 1)
            found.append(_Table(start, rows, int(note[1].replace(",", "")) if note else 0, rank))
    return found


def _cut(lines: Sequence[str], tables: Sequence[_Table], caps: _Caps) -> list[str]:
    kept = list(lines)
    for table in reversed(tables):  # from the end, so that the places above stay true
        cap = caps[table.rank]
        over = table.rows - cap
        if over <= 0 or (over <= _HEAD and not table.left_out):
            continue  # the note would be as long as the rows
        end = table.start + table.rows
        after = end + _HEAD if table.left_out else end
        missing = over + table.left_out
        if cap:
            more = numbered(missing, "more row is", "more rows are")
            kept[table.start + cap : after] = ["", f"{more} in report.json."]
        else:
            told = numbered(missing, "row is", "rows are")
            _leave_out(kept, slice(table.start - _HEAD, after), f"{told} in report.json.")
    return kept


def _leave_out(lines: list[str], table: slice, note: str) -> None:
    """Put a note in a table's place, if it can be at the end of the paragraph that introduces it."""
    above = lines[table.start - 2]
    if table.start >= 2 and above and not above.startswith(("#", "-", "|")):
        lines[table.start - 2 : table.stop] = [f"{above} {note}"]
    else:
        lines[table] = [note]
