"""Columns too large for memory: put into a file without a name, and mapped back.

The file has no entry in any folder, so nothing is left of it whatever its process dies of. What is
mapped costs memory only as long as nobody else wants it.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.io.atomic import output_error


class Spool:
    """A file without a name.

    Args:
        out: The output directory of the run; the file takes space there, or in the nearest folder above
            it that exists and may be written.
    """

    def __init__(self, out: Path) -> None:
        self._folder = _writable(out)
        self._file: BinaryIO = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (lives as long as this)
        weakref.finalize(self, self._file.close)  # maps have descriptors of their own
        self._end = 0

    def keep(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The same column in one piece, mapped.

        Raises:
            OutputError: The disk is full.
        """
        array = column.combine_chunks()
        batch = pa.record_batch([array.chunk(0) if isinstance(array, pa.ChunkedArray) else array], ["x"])
        try:
            # A descriptor of its own, because Arrow closes what it has written to.
            with (
                open(os.dup(self._file.fileno()), "wb") as sink,
                pa.ipc.new_stream(sink, batch.schema) as writer,
            ):
                writer.write_batch(batch)
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise output_error(self._folder, error) from error
        del array, batch
        pa.default_memory_pool().release_unused()
        return pa.ipc.open_stream(pa.py_buffer(self._map())).read_all().column(0)

    def keep_rows(self, blocks: Iterator[NDArray[np.uint8]], width: int) -> NDArray[np.uint8]:
        """Blocks of rows ``[n, width]`` as one table, mapped. Raises: as :meth:`keep`."""
        try:
            for block in blocks:
                self._file.write(block.data)
        except OSError as error:
            raise output_error(self._folder, error) from error
        return np.frombuffer(self._map(), np.uint8).reshape(-1, width)

    def _map(self) -> mmap.mmap:
        """What was written since the last map."""
        self._file.flush()
        start, self._end = self._end, self._file.tell()
        mapped = mmap.mmap(self._file.fileno(), self._end - start, offset=start, access=mmap.ACCESS_READ)
        self._end += -self._end % mmap.ALLOCATIONGRANULARITY  # where the next map may begin
        self._file.seek(self._end)
        return mapped


def _writable(out: Path) -> Path:
    for folder in (out, *out.absolute().parents):
        if folder.is_dir():
            return folder if os.access(folder, os.W_OK) else Path(tempfile.gettempdir())
    return Path(tempfile.gettempdir())
