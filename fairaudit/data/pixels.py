"""Images as one Arrow column: N pictures of one shape, uint8, in one contiguous buffer.

So a data set of images is a table like any other. Only its encoder and its reader know more.
"""

import hashlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

UInt8 = NDArray[np.uint8]
Shape = tuple[int, int, int]  # height, width, channels

_KEY_BYTES = 16


def image_column(pixels: UInt8, present: NDArray[np.bool_]) -> pa.ChunkedArray:
    """The column of some images; nothing is copied.

    Args:
        pixels: ``[N, H, W, C]``, C-contiguous.
        present: ``[N]``; where it is False the image could not be read and is null.
    """
    shape = pixels.shape[1:]
    missing = None if present.all() else pa.array(~present)
    values = pa.array(pixels.reshape(-1))
    storage = pa.FixedSizeListArray.from_arrays(values, int(np.prod(shape)), mask=missing)
    return pa.chunked_array(
        [pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.uint8(), shape), storage)]
    )


def shape_of(arrow_type: pa.DataType) -> Shape | None:
    """Height, width and channels of a column of images; None for any other type."""
    if not isinstance(arrow_type, pa.FixedShapeTensorType) or arrow_type.value_type != pa.uint8():
        return None
    if len(arrow_type.shape) != 3 or arrow_type.permutation is not None:
        return None
    height, width, channels = arrow_type.shape
    return height, width, channels


def image_columns(schema: pa.Schema) -> tuple[str, ...]:
    """The columns of images in a table that was read."""
    return tuple(field.name for field in schema if shape_of(field.type) is not None)


def pixels_of(column: pa.ChunkedArray) -> UInt8:
    """All pixels of a column without nulls, ``[N, H, W, C]``; a view where it is in one piece."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    pixels: UInt8 = array.to_numpy_ndarray()
    return pixels


def image_keys(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    """A code per different image, in order of appearance, and the keys behind the codes.

    Returns:
        Codes ``[N]``, a null's being one past the last; the keys, without nulls.
    """
    seen: dict[bytes, int] = {}
    codes = [-1 if image is None else seen.setdefault(_key(image), len(seen)) for image in _buffers(column)]
    found = np.array(codes, dtype=np.int32)
    found[found < 0] = len(seen)
    return found, pa.array(list(seen), pa.binary(_KEY_BYTES))


def mapped(pixels: UInt8, change: Callable[[UInt8], UInt8]) -> UInt8:
    """Every image changed in the same way to images of one other shape."""
    first = change(pixels[0])
    out = np.empty((len(pixels), *first.shape), np.uint8)
    for row, image in enumerate(pixels):
        out[row] = change(image)
    return out


def unreadable(table: pa.Table) -> NDArray[np.int64]:
    """Rows of a table whose image could not be read, ascending."""
    missing = np.zeros(table.num_rows, np.bool_)
    for name in image_columns(table.schema):
        missing |= table.column(name).is_null().to_numpy()
    return np.flatnonzero(missing).astype(np.int64)


def _buffers(column: pa.ChunkedArray) -> list[memoryview | None]:
    found: list[memoryview | None] = []
    for chunk in column.chunks:
        storage = chunk.storage
        size = storage.type.list_size
        values = storage.values.to_numpy()
        # `values` ignores the offset of a slice, so rows are counted from it.
        rows = values[storage.offset * size : (storage.offset + len(storage)) * size].reshape(-1, size)
        valid = storage.is_valid().to_numpy(zero_copy_only=False)
        found += [memoryview(row) if there else None for row, there in zip(rows, valid, strict=True)]
    return found


def _key(image: memoryview) -> bytes:
    return hashlib.blake2b(image, digest_size=_KEY_BYTES).digest()
