"""A text cut to a number of lines: the longest tables give up rows, the main ones last, and say how many."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST = 1  # rows that every table keeps
_HEAD = 2  # lines of a table above its rows
_MAIN = ("## Cost of privacy by group", "## Gates", "## Why")  # sections whose tables give up rows last
_NOTE = re.compile(r"(\d+) more rows are in report\.json\.")


@dataclass(frozen=True, slots=True)
class _Table:
    """Where a table's rows start, how many there are, and how many its note already leaves out."""

    start: int
    rows: int
    left_out: int
    is_main: bool


def fitted(lines: Sequence[str], most: int) -> list[str]:
    """``lines`` with as many table rows as leave at most ``most`` lines; every table keeps one."""
    tables = _tables(lines)
    for spared in (True, False):
        cuttable = [table for table in tables if not (spared and table.is_main)]
        longest = max((table.rows for table in cuttable), default=0)
        for cap in range(longest, _LEAST - 1, -1):
            cut = _cut(lines, cuttable, cap)
            if len(cut) <= most:
                return cut
    return _cut(lines, tables, _LEAST)


def _tables(lines: Sequence[str]) -> list[_Table]:
    found = []
    is_main = False
    for number, line in enumerate(lines):
        if line.startswith("## "):
            is_main = line in _MAIN
        if re.fullmatch(r"\|[-:|]+\|", line) and number and lines[number - 1].startswith("| "):
            start = number + 1
            rows = 0
            while start + rows < len(lines) and lines[start + rows].startswith("| "):
                rows += 1
            below = lines[start + rows + 1] if start + rows + 1 < len(lines) else ""
            note = _NOTE.fullmatch(below)
            found.append(_Table(start, rows, int(note[1]) if note else 0, is_main))
    return found


def _cut(lines: Sequence[str], tables: Sequence[_Table], cap: int) -> list[str]:
    kept = list(lines)
    for table in reversed(tables):  # from the end, so that the places above stay true
        over = table.rows - cap
        if over <= 0 or (over <= _HEAD and not table.left_out):
            continue  # the note would be as long as the rows
        end = table.start + table.rows
        after = end + _HEAD if table.left_out else end
        note = ["", f"{over + table.left_out} more rows are in report.json."]
        kept[table.start + cap : after] = note
    return kept
