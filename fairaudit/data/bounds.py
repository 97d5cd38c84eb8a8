"""Files that hold far more than they weigh, refused before their content fills the memory."""

import gzip
from pathlib import Path

from fairaudit.errors import DataError

_HARMLESS = 2**30  # bytes; what unpacks to less is read, however small the file
_MOST_PACKED = 100  # data of people pack to a tenth; a thousandth is a bomb
_PIECE = 2**20


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Stop at a compressed file of almost nothing that would fill the memory.

    Args:
        path: The file.
        unpacked: Bytes that it holds, as declared or counted so far.

    Raises:
        DataError: More than a hundred times its size, and more than 1 GiB.
    """
    if unpacked > max(_HARMLESS, _MOST_PACKED * path.stat().st_size):
        raise DataError(
            f"{path.name} unpacks to more than {_MOST_PACKED} times its size",
        )


def refuse_packed_bomb(path: Path) -> None:
    """Stop at a gzip file that is a bomb; its own word for what it holds counts to 4 GiB only.

    Raises:
        DataError: A bomb. OSError, EOFError: Damaged.
    """
    size = 0
    with gzip.open(path) as stream:
        while piece := len(stream.read(_PIECE)):
            size += piece
            refuse_bomb(path, size)
