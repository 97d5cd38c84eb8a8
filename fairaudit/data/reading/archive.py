"""Images in an npz archive: one array of images and one array per column, never unpickled."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.data.dataset import SPLIT, image_column
from fairaudit.data.reading.images import ImageOptions, fitted, refuse_too_large
from fairaudit.data.reading.packed import HARMLESS, MOST_PACKED
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.tables import digest_of
from fairaudit.errors import DataError
from fairaudit.messages.base import Message
from fairaudit.messages.data import ArraysIgnored
from fairaudit.messages.names import listed, quoted

NPZ = ".npz"
# Endings of array names that name a side of a given split, as in ``x_train``.
_SIDES = ("train", "test", "val", "validation")
_KINDS = "biufUS"  # numpy's kinds of numbers and text, which a column can hold
_DAMAGE = (  # what reading a damaged or hostile archive raises
    *(zipfile.BadZipFile, zlib.error, ValueError, EOFError),
    *(OSError, NotImplementedError, RuntimeError, MemoryError, SyntaxError),
)
Parts = list[NDArray[Any]]  # the arrays of one column: a single one, or one for each side


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive(DataSource):
    """An npz archive that was read.

    Args:
        path: The file.
        table: Its columns, images among them.
        notices: What reading it showed.
    """

    path: Path
    table: pa.Table
    notices: tuple[Message, ...]

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Message, ...]]:
        """The named columns in that order, and the notices of reading the archive."""
        return self.table.select(list(columns)), self.notices

    def stored(self, columns: Sequence[str]) -> StoredColumns:
        """The named columns in that order, in the types of the arrays."""
        return StoredColumns(self.table.select(list(columns)))

    def digest(self) -> str:
        """The sha256 of the archive's bytes, in hexadecimal."""
        return digest_of(self.path)


def open_archive(path: Path, options: ImageOptions) -> Archive:
    """Read an archive into a table: one array of images, the others as columns beside it.

    ``x_train`` and ``x_test`` are one column ``x``, and a column ``split`` tells the two apart.
    Other arrays that cannot be a column are left out with a notice.

    Args:
        path: The file.
        options: How images are read.

    Raises:
        DataError: Not an archive, no or several arrays of images, images of another type than uint8
            or of another shape, sides whose shapes differ, or a column of another length.
    """
    arrays = _arrays(path)
    columns, sides = _group_by_column(arrays)
    # Images are [N, H, W] or [N, H, W, C].
    images = [name for name, parts in columns.items() if parts[0].ndim in (3, 4)]
    if len(images) != 1:
        raise DataError(
            f"{path.name} has {len(images)} arrays of images: {listed(images or columns)}",
            "store one, as uint8 of shape [N, height, width] or [N, height, width, 3]",
        )
    image = images[0]
    _refuse_odd_images(image, columns[image])
    rows_of_sides = [len(pixels) for pixels in columns[image]]
    n_rows = sum(rows_of_sides)
    refuse_too_large(n_rows, columns[image][0].shape[1:])
    table, ignored = {}, []
    if sides:  # an array of some sides alone, or of none, is no column beside those of every side
        ignored = [name for name in arrays if name.rpartition("_")[0] not in columns]
    for name, parts in columns.items():
        if name != image and not _holds_values(parts[0]):
            ignored.append(name)
            continue
        if [len(part) for part in parts] != rows_of_sides:
            raise DataError(
                f"array {quoted(name)} has {sum(map(len, parts)):,} entries where "
                f"{quoted(image)} has {n_rows:,} images"
            )
        try:
            values = np.concatenate(parts)
        except ValueError:  # the sides' arrays differ beyond the first axis
            raise DataError(f"the parts of {quoted(name)} have different sizes") from None
        if name == image:
            # [N, H, W, C]: grey images, stored without the last axis, get one channel.
            pixels = fitted(values.reshape(*values.shape[:3], -1), options)
            table[name] = image_column(np.ascontiguousarray(pixels))
        else:
            table[name] = _column_of(values)
    if sides and SPLIT not in table:  # a column ``split`` of the archive's own stays
        table[SPLIT] = pa.array(np.repeat(sides, rows_of_sides).tolist(), pa.string())
    notices: tuple[Message, ...] = ()
    if ignored:
        notices = (ArraysIgnored(tuple(ignored)),)
    whole = pa.table(table)
    return Archive(
        format="npz",
        schema=whole.schema,
        declared={},
        declared_by="",
        image=image,
        path=path,
        table=whole,
        notices=notices,
    )


def _refuse_odd_images(name: str, parts: Parts) -> None:
    """Refuse arrays that are no images of bytes.

    Args:
        name: The column that they are of.
        parts: Its arrays, one for each side.

    Raises:
        DataError: An array is empty, has neither 1 nor 3 channels, or is of another type than
            uint8.
    """
    for pixels in parts:
        channels = pixels.shape[3:] or (1,)  # without a last axis, [N, H, W]: grey
        if not pixels.size or channels not in ((1,), (3,)):
            raise DataError(
                f"array {quoted(name)} of shape {' x '.join(map(str, pixels.shape))} holds no "
                "images",
                "give [N, height, width], or 1 or 3 channels last",
            )
        if pixels.dtype != np.uint8:
            raise DataError(
                f"array {quoted(name)} holds {pixels.dtype}, not uint8",
                "write pixels of 0 to 255: (255 * x).round().astype('uint8') for values of 0 to 1",
            )


def _holds_values(array: NDArray[Any]) -> bool:
    """Whether an array holds one number or text for each row: ``[N]`` or ``[N, 1]``."""
    is_flat = array.ndim > 0 and array.shape[1:] in ((), (1,))
    return is_flat and array.dtype.kind in _KINDS


def _column_of(values: NDArray[Any]) -> pa.Array:
    """Numbers or texts ``[N]`` or ``[N, 1]`` as a column; bytes are read as UTF-8."""
    values = values.reshape(len(values))
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf8", "replace")
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.string())
    # Arrow takes numbers in this machine's byte order alone.
    return pa.array(values.astype(values.dtype.newbyteorder("=")))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read an npz file: name -> array.

    Raises:
        DataError: The file is damaged, holds Python objects, or unpacks to far more than its size.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > max(HARMLESS, MOST_PACKED * path.stat().st_size):
                raise DataError(f"{path.name} unpacks to more than {MOST_PACKED} times its size")
            for name in archive.namelist():
                with archive.open(name) as stream:
                    array = np.lib.format.read_array(stream, allow_pickle=False)
                arrays[name.removesuffix(".npy")] = array
    except _DAMAGE:
        message = f"{path.name} is not an npz archive, is damaged or holds Python objects"
        raise DataError(message) from None
    return arrays


def _group_by_column(arrays: Mapping[str, NDArray[Any]]) -> tuple[dict[str, Parts], list[str]]:
    """Put ``x_train`` and ``x_test`` together as the parts of one column ``x``.

    Returns:
        Column -> its parts, one for each side; and the names of the sides in that order. Where the
        names do not tell train from test, every array is a column of one part, and no side is
        given.
    """
    named: dict[str, dict[str, NDArray[Any]]] = {}  # column -> side -> array
    for name, values in arrays.items():
        column, _, side = name.rpartition("_")
        if side in _SIDES:
            named.setdefault(column, {})[side] = values
    sides = [side for side in _SIDES if any(side in parts for parts in named.values())]
    columns = {}
    for name, parts in named.items():
        if len(parts) == len(sides):  # the column has an array for every side of the archive
            columns[name] = [parts[side] for side in sides]
    if columns and {"train", "test"} <= set(sides):
        return columns, sides
    return {name: [values] for name, values in arrays.items()}, []
