"""Files that hold far more than they weigh, refused before their content fills the memory."""

import gzip
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from fairaudit.errors import DataError

HELD = 3 * 2**29  # bytes of a table that are read at once: several times what is asked for at once
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


def unpacked_size(path: Path) -> int:
    """Bytes that a gzip file holds; its own word for it counts to 4 GiB and no further.

    Raises:
        DataError: A bomb. OSError, EOFError: Damaged.
    """
    size = 0
    with gzip.open(path) as stream:
        while piece := len(stream.read(_PIECE)):
            size += piece
            refuse_bomb(path, size)
    return size


def gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema, name: str) -> pa.Table:
    """A table of the batches; what is mapped and not copied costs no memory and is not counted.

    Raises:
        DataError: They take too much memory, as texts repeated by a few codes can.
    """
    before, kept = pa.total_allocated_bytes(), []
    for batch in batches:
        kept.append(batch)
        if pa.total_allocated_bytes() - before > HELD:
            raise DataError(
                f"the columns of {name} take more than {HELD / 2**30:.1f} GiB of memory",
                "leave long texts out with --drop, or give fewer rows",
            )
    if kept:
        return pa.Table.from_batches(kept)
    return schema.empty_table()
