"""Standard streams that never stop a program: its files and its exit code are still to come."""

import codecs
import io
import json
import os
import sys
from typing import BinaryIO, TextIO, cast

_ESCAPED = "fairaudit-escaped"


class Stream(io.TextIOWrapper):
    """A stream that takes everything, though its other end may be gone, full or closed.

    Attributes:
        lost: Why what was written did not arrive; None also where a reader has seen enough and
            left.
        before: What this stands for; it would close the file that both write to if nobody held it.
    """

    lost: OSError | None = None
    before: TextIO | None = None

    def write(self, text: str) -> int:
        """Write, or remember why not."""
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or remember why not."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.lost = self.lost or error
        write_to_nothing(self)


def write_to_nothing(stream: TextIO) -> None:
    """Send nowhere what follows, and what is still in the buffer: Python flushes it at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def secure() -> None:
    """Make the streams of this process such; call it before anything is opened.

    A file would take the number of a closed stream, and what is printed would go into the file.
    What an encoding has no character for is written as JSON escapes it.
    """
    codecs.register_error(_ESCAPED, _escaped)
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            os.open(
                os.devnull, mode
            )  # takes the lowest free number; what is written to 1 must be missed
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (lives as long as this)
    sys.stdout, sys.stderr = _secured(sys.stdout, 1), _secured(sys.stderr, 2)


def _secured(stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        return Stream(open(number, "wb", closefd=False), "utf-8", _ESCAPED)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    secured = Stream(
        _buffer_of(stream, number),
        stream.encoding,
        _ESCAPED,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    secured.before = stream
    return secured


def _buffer_of(stream: io.TextIOWrapper, number: int) -> BinaryIO:
    """A buffer on what the descriptor is now.

    The old one may be of a file where there is a pipe.
    """
    try:
        is_own = stream.fileno() == number
        stream.flush()
    except (OSError, ValueError):
        is_own = False
    return cast(BinaryIO, open(number, "wb", closefd=False) if is_own else stream.buffer)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
