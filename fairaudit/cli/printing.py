"""Lines to stdout and stderr, broken between words where a terminal is narrow.

GitHub's runner executes a line of a job's output that begins with ``::`` (a *workflow command*), so
no text that may hold a name from the data is printed with such a line in it.
"""

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

# The beginning of a workflow command's line. A backslash is put before it, which Markdown hides.
_COMMAND = re.compile(r"^([ \t]*)(?=::)", re.MULTILINE)


def print_stdout(lines: Iterable[str]) -> None:
    """Print lines on stdout: a command's answer, for people and pipes."""
    _write(map(no_command, lines), sys.stdout)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    print_stdout([json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)])


def print_stderr(line: str) -> None:
    """Print a line on stderr: how the program ended."""
    _write([no_command(line)], sys.stderr)


def command(lines: Iterable[str]) -> None:
    """Print workflow commands for GitHub's runner on stderr, which it reads as well as stdout."""
    _write(lines, sys.stderr)


def no_command(text: str) -> str:
    """The text, with every line that is a workflow command made harmless by a backslash."""
    return _COMMAND.sub(r"\1\\", text)


def write_to_nothing(stream: TextIO) -> None:
    """Redirect a stream whose reader has gone to the null device.

    What is still in its buffer goes there too: Python flushes it at exit, which would fail.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class QuietStderr(io.TextIOWrapper):
    """Standard error whose reader may have gone, which must not end the program.

    The exit code and the files still say how a command ended.
    """

    def write(self, text: str) -> int:
        """Write the text, return its length; where nobody reads, drop it and all that follows."""
        try:
            return super().write(text)
        except OSError:
            write_to_nothing(self)
            return len(text)

    def flush(self) -> None:
        """Flush; where nobody reads, drop what is in the buffer and all that follows."""
        try:
            super().flush()
        except OSError:
            write_to_nothing(self)


def _write(lines: Iterable[str], stream: TextIO) -> None:
    """Write lines to a stream and flush it; in a terminal they are folded to its width."""
    width = width_of(stream)
    for line in lines:
        for piece in folded(line, width):
            stream.write(piece + "\n")
    stream.flush()


_INDENT = 4  # blanks before the second and later pieces of a line, beside the line's own
_USUAL_WIDTH = 80  # columns of a terminal that does not know how many it has
_LEAST = 20  # columns; a narrower terminal is not folded for
_UNIT = re.compile(r"\s*(?:\[[^\]\s]+, [^\]\s]+\]|\S+)")  # an interval is one number
_TYPED = re.compile(r"\bfairaudit (?:run|plan|train|choose|clean) ")  # a command that people copy


def folded(line: str, width: int | None) -> Iterator[str]:
    """The line in pieces of at most ``width`` columns, broken between words, never in an interval.

    A word that is longer stays whole. So does a line with a command to copy
    (the terminal wraps it without a break), a text of several lines, and every line where ``width``
    is None (no terminal) or below 20.
    """
    if width is None or "\n" in line or width < _LEAST or _TYPED.search(line):
        yield line
        return
    from rich.cells import cell_len  # only a terminal is folded for, and most commands need no rich

    indent = " " * (len(line) - len(line.lstrip()) + _INDENT)
    piece = ""
    for unit in _UNIT.findall(line):  # a word or an interval, with the blanks before it
        # Without a word in `piece` yet, a word that is too long goes beyond the width.
        if piece.strip() and cell_len(piece + unit) > width:
            yield piece
            piece = indent + unit.lstrip()
        else:
            piece += unit
    yield piece


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal that a stream writes to; None where it writes to no terminal."""
    try:
        if not stream.isatty():
            return None
        given = os.environ.get("COLUMNS", "")
        columns = int(given) if given.isdecimal() else 0
        columns = columns or os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return None
    return columns or _USUAL_WIDTH  # some terminals give 0, as they do not know their width
