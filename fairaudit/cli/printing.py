"""Lines to stdout and stderr."""

import re
import sys
from collections.abc import Iterable
from typing import TextIO

from fairaudit.cli.folding import folded, width_of

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
