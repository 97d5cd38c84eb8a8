"""Lines to stdout and stderr; in a narrow terminal broken between words and cells, never inside one."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from fairaudit.report.render.terminal import TableLine

# How a line begins that GitHub Actions runs; Markdown and people read the backslash as nothing.
_COMMAND = re.compile(r"^([ \t]*)(?=::)", re.MULTILINE)


def print_stdout(lines: Iterable[str]) -> None:
    """A command's answer on stdout, for people and pipes."""
    _write(map(no_command, lines), sys.stdout)


def print_stderr(line: str) -> None:
    """How the program ended, on stderr."""
    _write([no_command(line)], sys.stderr)


def command(lines: Iterable[str]) -> None:
    """Lines for the runner of GitHub Actions, on stderr, which it reads too."""
    _write(lines, sys.stderr)


def no_command(text: str) -> str:
    """The text with no line in it that is a command, whatever a column is called.

    Where there is none it is the very text that was given: a row of a table still knows its cells.
    """
    return _COMMAND.sub(r"\1\\", text) if _COMMAND.search(text) else text


def lost_answer() -> OSError | None:
    """Why the answer did not arrive where it should."""
    sys.stdout.flush()
    lost: OSError | None = getattr(sys.stdout, "lost", None)
    return lost


def _write(lines: Iterable[str], stream: TextIO) -> None:
    width = width_of(stream)
    for line in lines:
        for piece in folded(line, width):
            stream.write(piece + "\n")
    stream.flush()


_INDENT = 4  # of what goes on, beside the line's own
_LEAST = 20  # columns; below it nothing can be laid out
_UNIT = re.compile(r"\s*(?:\[[^\]\s]+, [^\]\s]+\]|\S+)")  # an interval is one number
_WORD = re.compile(r"""\s*(?:'[^']*'|"[^"]*"|\S)+""")  # of a command, quotes and all
_TYPED = re.compile(r"\bfairaudit (?:run|plan) ")


def folded(line: str, width: int | None) -> Iterator[str]:
    """The line in pieces of at most ``width`` columns; whole where width is None or it fits.

    A word that is longer stays whole. A command goes on after a backslash, so that it can be copied.
    """
    if width is None or "\n" in line or width < _LEAST:
        yield line
        return
    from rich.cells import cell_len  # only a terminal is folded for, and most commands need no rich

    if cell_len(line) <= width:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + _INDENT)
    command = _TYPED.search(line)
    start = len(line) if command is None or isinstance(line, TableLine) else command.start()
    now, is_empty = "", True
    for unit, is_command in _units(line, start, width - len(indent)):
        room = width - 2 * is_command
        if not is_empty and cell_len(now + unit.rstrip()) > room:
            yield now.rstrip() + " \\" * (is_command and not now.endswith("("))
            # A cell keeps its padding, so that its column stays one.
            now, unit = (
                indent,
                unit[2:] if isinstance(line, TableLine) and unit[:2] == "  " else unit.lstrip(),
            )
        now, is_empty = now + unit, False
    yield now.rstrip()


def _units(line: str, start: int, room: int) -> Iterator[tuple[str, bool]]:
    """What is not broken, with the blanks before it, and whether it goes on a command."""
    if isinstance(line, TableLine):
        for i, cell in enumerate((*line.cells, line.note)):
            whole = f"{'  ' if i else ' '}{cell}"
            # A cell of text, or a note, may be longer than the terminal is wide.
            yield from ((unit, False) for unit in ([whole] if len(whole) <= room else _UNIT.findall(whole)))
        return
    before = line[:start]
    yield from ((unit, False) for unit in _UNIT.findall(before))
    for i, word in enumerate(_WORD.findall(before[len(before.rstrip()) :] + line[start:])):
        yield word, i > 0


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal that a stream is, or None where it is none."""
    try:
        if not stream.isatty():
            return None
        given = os.environ.get("COLUMNS", "")
        columns = int(given) if given.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None
    return columns or shutil.get_terminal_size().columns
