"""The lines of a CSV file, each taken for one record whatever the others hold.

A reader of a whole file follows a quote that a line opens into the next lines, and ends at the
first line that it cannot read. Here a record ends where its line ends. A line that cannot be read
by itself is no record: it leaves a quote open, is not UTF-8, or is longer than ``MOST_BYTES``.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.data.column_types import is_utf8
from fairaudit.data.reading.packed import unpacked, whole
from fairaudit.data.reading.text_form import BLANK, TextForm

MOST_BYTES = 2**21  # of a line with its end, for it to be a record
_PIECE_BYTES = 2**25  # of a file that are looked at together
_LINE_FEED, _RETURN = b"\n\r"  # as numbers, which the items of bytes are


class LoneLines(NamedTuple):
    """The content of a CSV file of which every line can be read by itself.

    Args:
        content: The lines, each with an end, from the first on, which names the columns.
        lost: How many other lines there were.
    """

    content: pa.Buffer
    lost: int


def header_of(path: Path) -> bytes:
    """The first line of a file that is not empty, without its end; ``b""`` where there is none.

    Raises:
        OSError: The file cannot be read.
    """
    with io.BufferedReader(unpacked(path)) as stream:
        for line in stream:  # to the next line feed; a carriage return alone ends a line, too
            header = next(filter(None, re.split(rb"[\r\n]", line)), b"")
            if header:
                return header
    return b""


def is_closed(lines: pa.Array, delimiter: str) -> pa.Array:
    """Whether each line, given as bytes, ends outside of quotes.

    A quote opens a field as its first character, and closes it where it is not doubled; elsewhere
    it is a character like others.
    """
    sign = re.escape(delimiter)
    after = rf'(?:[^"{sign}][^{sign}]*)?'  # an unquoted field, or what follows a closing quote
    field = rf'(?:"(?:[^"]|"")*")?{after}'
    return pc.match_substring_regex(lines, f"^{field}(?:{sign}{field})*$")


def lone_lines(path: Path, form: TextForm) -> LoneLines:
    """The lines of a CSV file that can be read by themselves, its first one included.

    Raises:
        OSError: The file cannot be read. DataError: It unpacks to far more than its size.
    """
    content = whole(path)
    if form.delimiter == BLANK:
        content = pa.py_buffer(form.with_single_delimiters(content.to_pybytes()))
    kept: list[pa.Buffer] = []
    lost = 0
    for lines in _pieces(content):
        is_record = pc.less_equal(pc.binary_length(lines), MOST_BYTES)
        is_record = pc.and_(is_record, is_utf8(lines))
        is_record = pc.and_(is_record, is_closed(lines, form.delimiter))
        records = lines.filter(is_record)
        lost += len(lines) - len(records)
        if len(records):
            # Arrow's filter has copied the kept lines into one piece of bytes, line after line.
            # Offset k is where line k begins there.
            _, offsets, bytes_of_lines = records.buffers()
            ends = np.frombuffer(offsets, np.int64)[records.offset :][: len(records) + 1]
            kept.append(bytes_of_lines[int(ends[0]) : int(ends[-1])])
    if not lost and content[-1:].to_pybytes() in (b"\n", b"\r"):
        return LoneLines(content, 0)  # the file as it lies there, uncopied
    # The last line may have had no end; where it had one, an empty line more is no record.
    return LoneLines(pa.py_buffer(b"".join([*kept, b"\n"])), lost)


def _pieces(content: pa.Buffer) -> Iterator[pa.Array]:
    """The lines of a file with their ends, some at a time, as Arrow arrays of bytes in place.

    A carriage return and a line feed are two ends, with an empty line between them.
    """
    signs = np.frombuffer(content, np.uint8)
    start = 0  # of the first line that is not given yet
    for first in range(0, len(signs), _PIECE_BYTES):
        piece = signs[first : first + _PIECE_BYTES]
        is_end = (piece == _LINE_FEED) | (piece == _RETURN)
        after = first + 1 + np.flatnonzero(is_end)
        if first + len(piece) == len(signs):  # the last line may have no end
            after = np.union1d(after, [len(signs)])
        if len(after):
            starts = np.concatenate([[start], after]).astype(np.int64)
            offsets = pa.py_buffer(starts)
            yield pa.Array.from_buffers(pa.large_binary(), len(after), [None, offsets, content])
            start = int(after[-1])
