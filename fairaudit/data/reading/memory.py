"""Whether a table fits into the memory at hand, before it fills it.

A file of some kilobytes can hold billions of equal values.
"""

import io
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pacsv

from fairaudit.data.reading.lent import lent
from fairaudit.errors import DataError

HELD: Final = 2  # times that a table is in memory while its columns are given their types

_KERNEL = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def at_hand() -> int | None:
    """Bytes that this process can still take; None where the system does not say.

    What the kernel calls available, or less where the container has a limit.
    """
    try:
        lines = _KERNEL.read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    try:  # a container's limit, and what its processes have taken of it
        most, used = (
            int((_GROUP / name).read_text(encoding="ascii"))
            for name in ("memory.max", "memory.current")
        )
    except (OSError, ValueError):  # no container, or no limit (it is then "max")
        return free
    return min(free, max(0, most - used))


class MemoryBudget:
    """The memory at hand when reading a file begins, and what pieces of its table have taken of it.

    Args:
        path: The file, for messages.

    Attributes:
        free: Bytes at hand at the beginning; None where the system does not say, and all fits.
        taken: Bytes of columns that were counted so far.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.free, self.taken = path, at_hand(), 0

    def charge(self, size: int) -> None:
        """Count ``size`` bytes of columns, which are read or about to be read.

        Raises:
            DataError: ``HELD`` times the bytes counted so far are more than there is memory for.
        """
        self.taken += size
        self.require(HELD * self.taken)

    def require(self, size: int) -> None:
        """Refuse to go on unless ``size`` bytes fit the memory that was at hand.

        Raises:
            DataError: They do not fit.
        """
        if self.free is not None and size > self.free:
            raise DataError(
                f"{self.path.name} takes {_size(size)} or more to read, and {_size(self.free)} of "
                "memory are at hand",
                "leave columns out with --drop, or save a sample of the rows; of a Parquet file "
                "only those columns are in memory that are used",
            )


def read_text(
    path: Path,
    text: io.IOBase | pa.NativeFile,
    read_options: pacsv.ReadOptions | None = None,
    parse_options: pacsv.ParseOptions | None = None,
    convert_options: pacsv.ConvertOptions | None = None,
) -> pa.Table:
    """The columns that Arrow makes of delimited text, as long as there is memory.

    How much they take shows only in reading: a digit of one byte becomes a number of eight, and
    Arrow keeps the text as long as it does not know the types of its columns. So the memory is
    looked at before each piece, and once more when the table is there: Arrow may read the last
    piece before it has made a column of the first.

    Args:
        path: The file that the text is of.
        text: Its content.
        read_options: Arrow's, as are the two that follow.
        parse_options: How a line is taken apart.
        convert_options: The columns and their types.

    Raises:
        DataError: The columns are more than there is memory for.
    """
    pieces = lent(_Pieces(path, text))
    table = pacsv.read_csv(
        pa.PythonFile(pieces, mode="r"),
        read_options=read_options,
        parse_options=parse_options,
        convert_options=convert_options,
    )
    pieces.budget.require(table.nbytes)
    return table


class _Pieces(io.RawIOBase):
    """A stream of text that ends with an error where what Arrow made of it fills the memory.

    Arrow reads it piece by piece, so each :meth:`read` is a moment to look at the memory.

    Args:
        path: The file, for messages.
        text: Its content.
    """

    def __init__(self, path: Path, text: io.IOBase | pa.NativeFile) -> None:
        super().__init__()
        self.budget = MemoryBudget(path)
        self._text, self._allocated_before = text, pa.total_allocated_bytes()

    def readable(self) -> bool:
        """It is read and not written."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes; DataError where the memory is full."""
        self.budget.require(pa.total_allocated_bytes() - self._allocated_before)
        return bytes(self._text.read(size))


def _size(size: int) -> str:
    """Bytes as GiB, of less than one as MiB."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
