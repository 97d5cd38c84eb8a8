"""Lines to stdout and stderr, whether or not anybody reads them: files and exit code are still to come."""

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from fairaudit.cli.folding import folded, width_of


def answer(lines: Iterable[str]) -> None:
    """A command's answer on stdout, for people and pipes."""
    _write(lines, sys.stdout)


def tell(line: str) -> None:
    """How the program ended, on stderr."""
    _write([line], sys.stderr)


def _write(lines: Iterable[str], stream: TextIO) -> None:
    try:
        width = width_of(stream)
        for line in lines:
            for piece in folded(line, width):
                stream.write(piece + "\n")
        stream.flush()
    except BrokenPipeError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Send what follows nowhere, also what is flushed at the end: nobody reads."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
