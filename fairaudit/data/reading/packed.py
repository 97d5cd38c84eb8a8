"""Text files as bytes, unpacked where they are stored packed (gzip, zstd, bzip2, lz4, brotli)."""

from pathlib import Path

import pyarrow as pa

_ENDINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4", ".br": "brotli"}
# First bytes of a packed file; brotli has none, so its ending tells.
_FIRST_BYTES = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bz2"),
    (b"\x04\x22\x4d\x18", "lz4"),
)


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


def unpacked(path: Path) -> pa.NativeFile:
    """The content of a file as a stream of bytes, unpacked.

    Raises:
        OSError: The file cannot be read; reading the stream also raises it where it is damaged.
    """
    return pa.input_stream(str(path), compression=packing_of(path))


def whole(path: Path) -> pa.Buffer:
    """The content of a file, unpacked; mapped where it is not packed.

    Raises:
        OSError: The file cannot be read or is damaged.
    """
    if packing_of(path) is None:
        with pa.memory_map(str(path)) as stream:
            return stream.read_buffer()
    with unpacked(path) as stream:
        return pa.py_buffer(stream.read())
