"""Lines to stdout and stderr.

In a narrow terminal broken between words, never inside a number.
"""

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

# How a line begins that GitHub Actions runs; Markdown and people read the backslash as nothing.
_COMMAND = re.compile(r"^([ \t]*)(?=::)", re.MULTILINE)


def print_stdout(lines: Iterable[str]) -> None:
    """A command's answer on stdout, for people and pipes."""
    _write(map(no_command, lines), sys.stdout)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    print_stdout(
        [
            json.dumps(
                value,
                sort_keys=True,
                indent=1,
                ensure_ascii=False,
                allow_nan=False,
            )
        ]
    )


def print_stderr(line: str) -> None:
    """How the program ended, on stderr."""
    _write([no_command(line)], sys.stderr)


def command(lines: Iterable[str]) -> None:
    """Lines for the runner of GitHub Actions, on stderr, which it reads too."""
    _write(lines, sys.stderr)


def no_command(text: str) -> str:
    """The text with no line in it that is a command, whatever a column is called."""
    return _COMMAND.sub(r"\1\\", text)


def write_to_nothing(stream: TextIO) -> None:
    """Send nowhere what follows, and what is still in the buffer: Python flushes it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Unheard(io.TextIOWrapper):
    """Standard error that nobody may read: the exit code and the files still say how it ended."""

    def write(self, text: str) -> int:
        """Write the text, or drop it and all that follows where the stream is closed."""
        try:
            return super().write(text)
        except OSError:
            write_to_nothing(self)
            return len(text)

    def flush(self) -> None:
        """Flush, or drop all that follows where the stream is closed."""
        try:
            super().flush()
        except OSError:
            write_to_nothing(self)


def _write(lines: Iterable[str], stream: TextIO) -> None:
    """Write lines folded to the terminal's width."""
    width = width_of(stream)
    for line in lines:
        for piece in folded(line, width):
            stream.write(piece + "\n")
    stream.flush()


_INDENT = 4  # of what goes on, beside the line's own
_LEAST = 20  # columns; below it nothing can be laid out
_UNIT = re.compile(r"\s*(?:\[[^\]\s]+, [^\]\s]+\]|\S+)")  # an interval is one number
_TYPED = re.compile(r"\bfairaudit (?:run|plan) ")


def folded(line: str, width: int | None) -> Iterator[str]:
    """The line in pieces of at most ``width`` columns, broken between words and never in a number.

    A word that is longer stays whole. So does a line with a command, which a terminal wraps so that
    it can be copied, a text of several lines, and every line where there is no terminal (None) or
    one of less than 20 columns.
    """
    if width is None or "\n" in line or width < _LEAST or _TYPED.search(line):
        yield line
        return
    from rich.cells import cell_len  # only a terminal is folded for, and most commands need no rich

    indent = " " * (len(line) - len(line.lstrip()) + _INDENT)
    piece = ""
    for unit in _UNIT.findall(line):  # a word or an interval, with the blanks before it
        if piece.strip() and cell_len(piece + unit) > width:
            yield piece
            piece = indent + unit.lstrip()
        else:
            piece += unit
    yield piece


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
