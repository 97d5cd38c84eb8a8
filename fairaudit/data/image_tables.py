"""Images inside a table file.

Encoded files, Hugging Face's {bytes, path}, Arrow tensors.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairaudit.data.dataset import Notice, Shape, image_column
from fairaudit.data.decode import ImageOptions, ImageStack, fitted, refuse_too_large
from fairaudit.data.naming import listed, near_miss, quoted, typed
from fairaudit.data.readers import Source, read_columns
from fairaudit.errors import DataError, numbered

_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\x00", b"MM\x00*")
_SNIFFED_ROWS = 16


@dataclass(frozen=True, slots=True)
class StoredImages:
    """Where a table keeps its images and in what form.

    Args:
        name: The column.
        form: ``files`` (PNG, JPEG, ... as bytes), ``struct`` (the same in {bytes, path}) or
            ``tensor`` (Arrow's own type of pixels).
        shape: Of ``tensor``; None where each file has its own.
    """

    name: str
    form: Literal["files", "struct", "tensor"]
    shape: Shape | None = None


def find_images(
    source: Source, wanted: str | None, dropped: tuple[str, ...]
) -> StoredImages | None:
    """The column of images of a table file, None where it holds none.

    Args:
        source: The file.
        wanted: ``image_column``, or None to find it.
        dropped: Columns left out.

    Raises:
        DataError: Several columns hold images, the wanted one does not, or its shape is no image's.
    """
    names = [n for n in source.schema.names if n not in dropped]
    if wanted is not None:
        if wanted not in names:
            raise DataError(
                f"image column {quoted(wanted)} is not in {source.path.name} ({listed(names)})",
                near_miss(wanted, names),
            )
        names = [wanted]
    found = []
    for name in names:
        stored = _stored(source, name)
        if stored is not None:
            found.append(stored)
    if len(found) > 1:
        raise DataError(
            f"several columns of {source.path.name} hold images: {listed(s.name for s in found)}",
            f"choose one, for example --image-column {typed(found[0].name)}",
        )
    if found:
        return found[0]
    if wanted is not None:
        raise DataError(
            f"column {quoted(wanted)} holds no images",
            "store PNG or JPEG bytes, or a fixed-shape tensor of uint8",
        )
    return None


def with_pixels(
    table: pa.Table, stored: StoredImages, options: ImageOptions, source: str
) -> tuple[pa.Table, tuple[Notice, ...]]:
    """The table with its images decoded to one Arrow tensor per row, null where one was skipped.

    Raises:
        DataError: An image that cannot be read, or that has another size than the first.
    """
    column = table.column(stored.name)
    if stored.shape is not None:
        notices: tuple[Notice, ...] = ()
        refuse_too_large(len(column), stored.shape)
        if column.null_count:
            lacking = numbered(column.null_count, "row")
            raise DataError(f"{lacking} of column {quoted(stored.name)} without an image")
        pixels = np.concatenate([chunk.to_numpy_ndarray().ravel() for chunk in column.chunks])
        pixels = fitted(pixels.reshape(len(column), *stored.shape), options)
        images = image_column(pixels, np.ones(len(pixels), np.bool_))
    else:
        stack = ImageStack(len(column), options)
        for row, value in enumerate(column):
            content, path = value, None
            if stored.form == "struct":
                content, path = value["bytes"], value["path"].as_py()
            stack.add(
                row,
                PurePath(path).name if path else f"row {row + 1:,}",
                content.as_py(),
            )
        images, notices = stack.finish(source)
    return table.set_column(
        table.column_names.index(stored.name),
        stored.name,
        images,
    ), notices


def _stored(source: Source, name: str) -> StoredImages | None:
    field = source.schema.field(name)
    kind, t = field.type, pa.types
    if isinstance(kind, pa.FixedShapeTensorType):
        if kind.value_type != pa.uint8() or kind.permutation is not None:
            return None
        sides = kind.shape
        height, width, channels = (
            (*sides, 1)[:3]
            if len(sides) in (2, 3)
            else (
                0,
                0,
                0,
            )
        )
        if not height or not width or channels not in (1, 3):
            raise DataError(
                f"column {quoted(name)} of {source.path.name}: {' x '.join(map(str, sides))} is "
                "not the shape of an image",
                "store height x width, or height x width x 3",
            )
        return StoredImages(name, "tensor", (height, width, channels))
    if t.is_struct(kind) and {"bytes", "path"} <= {part.name for part in kind}:
        return StoredImages(name, "struct")
    if not t.is_binary(kind) and not t.is_large_binary(kind):
        return None
    if _looks_encoded(source, name, kind):
        return StoredImages(name, "files")
    return None


def _looks_encoded(source: Source, name: str, kind: pa.DataType) -> bool:
    """Whether the first values begin like image files."""
    if source.format == "parquet":  # not all of it is read
        batches = pq.ParquetFile(source.path).iter_batches(_SNIFFED_ROWS, columns=[name])
        column = pa.chunked_array([batch.column(0) for batch in islice(batches, 1)], kind)
    else:
        column = read_columns(source, [name])[0].column(0)[:_SNIFFED_ROWS]
    known = column.drop_null().to_pylist()
    return bool(known) and all(value.startswith(_MAGIC) for value in known)
