"""What several processes read, or is too large for memory: in a file without a name, and mapped.

The file has no entry in any folder, so nothing is left of it whatever its process dies of. What is
mapped costs memory only as long as nobody else wants it.
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
    """What a worker is handed in place of a descriptor of its parent."""

    def detach(self) -> int:
        """The worker's own."""


class Spool:
    """A file without a name.

    Args:
        out: The output directory of the run; the file takes space there, or in the nearest folder
            above it that exists and may be written.
    """

    def __init__(self, out: Path) -> None:
        there = next(folder for folder in (out, *out.absolute().parents) if folder.is_dir())
        self._folder = there if os.access(there, os.W_OK) else Path(tempfile.gettempdir())
        self._end = 0
        # Each map with its first byte in the file; kept, so that no address is given again.
        self._maps: list[tuple[int, mmap.mmap]] = []

    @cached_property
    def _file(self) -> BinaryIO:
        """The temporary file, without a name, closed with this object."""
        try:
            file: BinaryIO = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (lives as long as this)
        except OSError as error:
            raise output_error(self._folder, error) from error
        weakref.finalize(self, file.close)  # maps have descriptors of their own
        return file

    def keep_rows(
        self,
        blocks: Iterator[NDArray[np.uint8]],
        width: int,
    ) -> NDArray[np.uint8]:
        """Blocks of rows ``[n, width]`` as one table, mapped.

        Args:
            blocks: At least one byte in all, for nothing cannot be mapped.
            width: Bytes of a row.

        Raises:
            OutputError: The disk is full.
        """
        try:
            for block in blocks:
                self._file.write(block.data)
            return np.frombuffer(self._map(), np.uint8).reshape(-1, width)
        except OSError as error:
            raise output_error(self._folder, error) from error

    def place_of(self, buffer: pickle.PickleBuffer) -> slice:
        """Where bytes are in the file; what is not there yet is put there.

        Raises: as :meth:`keep_rows`.
        """
        content = np.frombuffer(buffer.raw(), np.uint8)
        for start, mapped in self._maps:
            whole = np.frombuffer(mapped, np.uint8)
            if np.may_share_memory(content, whole):
                first = start + content.ctypes.data - whole.ctypes.data
                return slice(first, first + len(content))
        start = self._end
        if len(content):  # nothing cannot be mapped
            self.keep_rows(iter([content]), 1)
        return slice(start, start + len(content))

    def fileno(self) -> int:
        """Its descriptor."""
        return self._file.fileno()

    def _map(self) -> mmap.mmap:
        """A read-only map of what was written since the last map."""
        self._file.flush()
        start, self._end = self._end, self._file.tell()
        mapped = mmap.mmap(
            self._file.fileno(),
            self._end - start,
            offset=start,
            access=mmap.ACCESS_READ,
        )
        self._maps.append((start, mapped))
        self._end += -self._end % mmap.ALLOCATIONGRANULARITY  # where the next map may begin
        self._file.seek(self._end)
        return mapped


class Shared(Generic[Value]):
    """A value whose arrays the processes of this machine share: each maps one file without a name.

    A worker that is being started is handed the file's descriptor; to another machine the arrays go
    along.

    Args:
        make: The value, made when it is first asked for.
        spool: Where its arrays go for other processes, unless they lie there already.
    """

    def __init__(
        self,
        make: Callable[[], Value],
        spool: Spool | None = None,
    ) -> None:
        self._make, self._spool = make, spool

    @cached_property
    def value(self) -> Value:
        """The value; its arrays may be mapped and cannot be written then."""
        return self._make()

    @cached_property
    def _pickled(self) -> tuple[bytes, list[slice]]:
        """The value's pickle without its arrays, and where in the spool's file each array lies."""
        places: list[slice] = []
        assert self._spool is not None, "a worker starts none"
        place_of = self._spool.place_of
        head = pickle.dumps(
            self.value, 5, buffer_callback=lambda buffer: places.append(place_of(buffer))
        )
        return head, places

    def __reduce__(self) -> tuple[Callable[..., "Shared[Value]"], tuple[object, ...]]:
        if self._spool is None or get_spawning_popen() is None:
            return _carried, (self.value,)
        return _mapped, (*self._pickled, DupFd(self._spool.fileno()))


def _carried(value: Value) -> Shared[Value]:
    return Shared(lambda: value)


def _mapped(
    head: bytes,
    places: list[slice],
    descriptor: _Descriptor,
) -> Shared[Value]:
    """What another process pickled to the file, its arrays mapped rather than copied, made once."""
    file = descriptor.detach()

    def make() -> Value:
        content = memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
        value: Value = pickle.loads(head, buffers=[content[place] for place in places])
        os.close(file)
        return value

    return Shared(make)
