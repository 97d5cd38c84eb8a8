"""Text files as bytes, unpacked where they are stored packed (gzip, zstd, bzip2, lz4, brotli)."""

import io
from pathlib import Path
from typing import Final

import pyarrow as pa

from fairaudit.data.reading.lent import lent
from fairaudit.errors import DataError

HARMLESS: Final = 2**30  # bytes; what unpacks to less is read, however small the file
# Bytes that one byte of a file may unpack to: real data reach some 10, a bomb 1,000.
MOST_PACKED: Final = 100

_ENDINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4", ".br": "brotli"}
# First bytes of a packed file; brotli has none, so its ending tells.
_FIRST_BYTES = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bz2"),
    (b"\x04\x22\x4d\x18", "lz4"),
)


# What unpacks standard input to standard output in a shell, by Arrow's name of the packing.
_UNPACKERS = {
    "gzip": "gzip -dc",
    "zstd": "zstd -dc",
    "bz2": "bzip2 -dc",
    "lz4": "lz4 -dc",
    "brotli": "brotli -dc",
}


def packing_of(path: Path) -> str | None:
    """How a file is packed, by Arrow's name; None where it is not.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        head = stream.read(4)
    for first, packing in _FIRST_BYTES:
        if head.startswith(first):
            return packing
    return "brotli" if path.suffix.lower() == ".br" else None


def ending_of(path: Path) -> str:
    """The ending of a file's name in lower case, without that of its packing.

    Example:
        >>> ending_of(Path("loans.CSV.gz"))
        '.csv'
    """
    if path.suffix.lower() in _ENDINGS:
        path = path.with_suffix("")
    return path.suffix.lower()


def unpacked_name(path: Path) -> str:
    """A file's name without the ending of its packing.

    Example:
        >>> unpacked_name(Path("data/loans.csv.gz")), unpacked_name(Path("loans.csv"))
        ('loans.csv', 'loans.csv')
    """
    return path.stem if path.suffix.lower() in _ENDINGS else path.name


def printing(path: Path, name: str) -> str:
    """The shell command that prints a text file's content, unpacked.

    Args:
        path: The file.
        name: What stands for it in the command.

    Raises:
        OSError: The file cannot be read.
    """
    packing = packing_of(path)
    # `<`, as a name may begin with a hyphen.
    return f"{'cat' if packing is None else _UNPACKERS[packing]} < {name}"


def through_sed(path: Path, name: str, arguments: str) -> str:
    """The shell command that prints a text file's content, unpacked and changed by sed.

    Args:
        path, name: As of :func:`printing`, which also says what is raised.
        arguments: Of sed, as they are typed.
    """
    if packing_of(path) is None:
        return f"sed {arguments} < {name}"
    return f"{printing(path, name)} | sed {arguments}"


class _Unpacked(io.RawIOBase):
    """The unpacked content of a file, which ends with an error where it is far more than the file.

    Args:
        path: The file.
        packing: How it is packed.
    """

    def __init__(self, path: Path, packing: str) -> None:
        super().__init__()
        self._stream = pa.input_stream(str(path), compression=packing)
        self._left = max(HARMLESS, MOST_PACKED * path.stat().st_size)
        self._name = path.name

    def readable(self) -> bool:
        """It is read and not written."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes; DataError where the file unpacks to too many."""
        # One byte more than may be left, to notice that there are more.
        wanted = self._left + 1 if size is None or size < 0 else size
        piece = bytes(self._stream.read(wanted))
        self._left -= len(piece)
        if self._left < 0:
            raise DataError(f"{self._name} unpacks to more than {MOST_PACKED} times its size")
        return piece


def unpacked(path: Path) -> pa.NativeFile:
    """The content of a file as a stream of bytes, unpacked.

    Raises:
        OSError: The file cannot be read; reading the stream also raises it where it is damaged.
        DataError: Reading the stream, where it unpacks to far more than its size.
    """
    packing = packing_of(path)
    if packing is None:
        return pa.input_stream(str(path), compression=None)
    return pa.PythonFile(lent(_Unpacked(path, packing)), mode="r")


def whole(path: Path) -> pa.Buffer:
    """The content of a file, unpacked; mapped where it is not packed.

    Raises:
        OSError, DataError: As :func:`unpacked`.
    """
    packing = packing_of(path)
    if packing is None:
        with pa.memory_map(str(path)) as stream:
            return stream.read_buffer()
    return pa.py_buffer(_Unpacked(path, packing).read())
