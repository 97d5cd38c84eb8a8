"""Arrays that several processes read, or that are too large for memory: a nameless file, mapped.

The file has no entry in any folder, so nothing is left of it whatever its process dies of. Pages
that are mapped from it are given up by the system when memory is short. A parent process writes the
arrays of a value to such a :class:`Spool`; pickling a :class:`Shared` value for a worker sends the
rest of it and where the arrays lie, and the worker maps them.
"""

import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import BinaryIO, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairaudit.io.atomic import output_error

Value = TypeVar("Value")


class _Descriptor(Protocol):
    """What a starting worker is handed in place of a file descriptor of its parent."""

    def detach(self) -> int:
        """Take over the worker's own descriptor of the same file."""


class Spool:
    """A file without a name.

    Args:
        out: The output directory of the run; the file takes space there, or in the nearest folder
            above it that exists, or in the temporary folder where that may not be written.
    """

    def __init__(self, out: Path) -> None:
        there = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
        self._folder = there if os.access(there, os.W_OK) else Path(tempfile.gettempdir())
        self._end = 0
        # Where in the file each map begins, and the map; kept, so that no address is used again.
        self._maps: list[tuple[int, mmap.mmap]] = []

    @cached_property
    def _file(self) -> BinaryIO:
        """The file, made on first use and closed when this object goes."""
        try:
            file: BinaryIO = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (lives as long as this)
        except OSError as error:
            raise output_error(self._folder, error) from error
        weakref.finalize(self, file.close)  # maps have descriptors of their own
        return file

    def keep_rows(self, blocks: Iterator[NDArray[np.uint8]], width: int) -> NDArray[np.uint8]:
        """Write blocks of rows ``[n, width]`` to the file and map them as one table ``[N, width]``.

        Args:
            blocks: At least one byte in all, as zero bytes cannot be mapped.
            width: Bytes of a row.

        Raises:
            OutputError: The disk is full.
        """
        try:
            for block in blocks:
                self._file.write(block.data)
            return np.frombuffer(self._map_written(), np.uint8).reshape(-1, width)
        except OSError as error:
            raise output_error(self._folder, error) from error

    def place_of(self, buffer: pickle.PickleBuffer) -> slice:
        """The bytes of the file that hold an array's buffer, as a slice.

        An array that is mapped from the file lies there already; another is written to it.

        Raises: as :meth:`keep_rows`.
        """
        content = np.frombuffer(buffer.raw(), np.uint8)
        for start, mapped in self._maps:
            whole = np.frombuffer(mapped, np.uint8)
            if np.may_share_memory(content, whole):
                # The array's place in the map, after the map's own place in the file.
                first = start + content.ctypes.data - whole.ctypes.data
                return slice(first, first + len(content))
        start = self._end
        if len(content):  # zero bytes cannot be mapped
            self.keep_rows(iter([content]), 1)
        return slice(start, start + len(content))

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._file.fileno()

    def _map_written(self) -> mmap.mmap:
        """Map what was written since the last map, for reading only."""
        self._file.flush()
        start, self._end = self._end, self._file.tell()
        mapped = mmap.mmap(
            self._file.fileno(), self._end - start, offset=start, access=mmap.ACCESS_READ
        )
        self._maps.append((start, mapped))
        # Maps begin at multiples of this, so the next one begins at the first that is free.
        self._end += -self._end % mmap.ALLOCATIONGRANULARITY
        self._file.seek(self._end)
        return mapped


class Shared(Generic[Value]):
    """A value whose arrays the processes of this machine share: each maps one file without a name.

    Pickled for a worker that this process starts, it is the file's descriptor and the arrays'
    places; pickled for another machine, it holds the arrays.

    Args:
        make: Makes the value when it is first asked for.
        spool: The file that its arrays are written to for other processes, unless they lie there
            already; None: the value is pickled whole.
    """

    def __init__(self, make: Callable[[], Value], spool: Spool | None = None) -> None:
        self._make, self._spool = make, spool

    @cached_property
    def value(self) -> Value:
        """The value, made once; its arrays may be mapped and are then read-only."""
        return self._make()

    @cached_property
    def _pickled(self) -> tuple[bytes, list[slice]]:
        """The value's pickle without its arrays, and where in the spool's file each array lies."""
        places: list[slice] = []
        # Workers, which have no spool, start no process that the value is pickled for.
        assert self._spool is not None, "a worker starts none"
        place_of = self._spool.place_of
        # What `append` returns, None, tells pickle to leave the buffer out of `head`.
        head = pickle.dumps(
            self.value, 5, buffer_callback=lambda buffer: places.append(place_of(buffer))
        )
        return head, places

    def __reduce__(self) -> tuple[Callable[..., "Shared[Value]"], tuple[object, ...]]:
        """How pickle takes it: the function that restores it elsewhere, and its arguments."""
        # A descriptor can be handed over only to a process that is being started.
        if self._spool is None or get_spawning_popen() is None:
            return _restore_carried, (self.value,)
        return _restore_mapped, (*self._pickled, DupFd(self._spool.fileno()))


def _restore_carried(value: Value) -> Shared[Value]:
    """The shared value in a process that got all of it pickled."""
    return Shared(lambda: value)


def _restore_mapped(head: bytes, places: list[slice], descriptor: _Descriptor) -> Shared[Value]:
    """The shared value in a worker, which maps its arrays from the file of the parent.

    Args:
        head: The pickle without the arrays.
        places: Where in the file each array lies.
        descriptor: The file.
    """
    file = descriptor.detach()

    def make() -> Value:
        """Map the file and unpickle the value over it; called once, when the value is needed."""
        content = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
        value: Value = pickle.loads(head, buffers=[content[place] for place in places])
        os.close(file)  # the map keeps the file
        return value

    return Shared(make)
