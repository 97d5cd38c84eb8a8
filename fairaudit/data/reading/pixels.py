"""Images whose pixels a table holds: one column for each pixel, or one of raw bytes or lists.

``--pixels`` says their shape, so nothing is guessed of it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.column_types import holds_bytes
from fairaudit.data.dataset import Shape, UInt8
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.vectors import holds_numbers, names_of, with_numbers
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.names import listed, quoted, typed

_LARGEST: Final = 4096  # of a side
_SMALLEST: Final = 8  # side of images that numbered columns are suspected to be
_NAME: Final = re.compile(r"(.*?)[^0-9a-zA-Z]*([0-9]+)\D*", re.DOTALL)
IMAGE: Final = "pixels"  # what the column of images is called


@dataclass(frozen=True, slots=True)
class PixelLayout:
    """The shape of images and how their values follow each other.

    Args:
        shape: Height, width and channels.
        planes: Whether all values of a channel come before those of the next; else the channels of
            a pixel stand together. Rows come from the top, in both.
    """

    shape: Shape
    planes: bool = False

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """The layout that ``28x28``, ``32x32x3`` (channels together) or ``3x32x32`` (planes) says.

        None for None. Where a text reads both ways, as ``3x32x3``, the channels come last.

        Raises:
            ConfigError: The text is none of these.
        """
        if text is None:
            return None
        parts = text.lower().split("x")
        # 0, which is refused, for what is no number; other scripts' digits are none.
        sides = [int(side) if side.isascii() and side.isdecimal() else 0 for side in parts]
        if len(sides) in (2, 3) and all(1 <= side <= _LARGEST for side in sides):
            if len(sides) == 2:
                return cls((sides[0], sides[1], 1))
            if sides[2] in (1, 3):
                return cls((sides[0], sides[1], sides[2]))
            if sides[0] in (1, 3):
                return cls((sides[1], sides[2], sides[0]), planes=True)
        raise ConfigError(
            f"--pixels {quoted(text)} is no shape of images",
            "write 28x28, 32x32x3, or 3x32x32 where the channels are planes",
        )

    @property
    def values(self) -> int:
        """How many values an image has."""
        height, width, channels = self.shape
        return height * width * channels

    def images(self, values: UInt8) -> UInt8:
        """Values ``[N, values]`` as images ``[N, H, W, C]``."""
        height, width, channels = self.shape
        if not self.planes:
            return values.reshape(-1, height, width, channels)
        return np.ascontiguousarray(
            values.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        )


def pixel_columns(schema: pa.Schema, layout: PixelLayout, dropped: Sequence[str]) -> list[str]:
    """The columns that hold the pixels, in the order of the pixels; names and types alone decide.

    One column of bytes or of lists of numbers, or as many columns with numbers in their names as an
    image has values: ``pixel0`` to ``pixel783``, ``1x1`` to ``28x28``.

    Raises:
        DataError: There are none, or several could be.
    """
    fields = [field for field in schema if field.name not in dropped]
    single = [field.name for field in fields if _may_hold_images(field.type)]
    # What stands before the number in a column's name -> the number and the name of each column.
    numbered: dict[str, list[tuple[int, str]]] = {}
    for field in fields:
        match = _NAME.fullmatch(field.name)
        if match and not _may_hold_images(field.type):
            numbered.setdefault(match[1], []).append((int(match[2]), field.name))
    # Columns of one name with as many numbers as an image has values: in the order of the numbers.
    # For one value any numbered column would do, so it is not looked for here.
    series = [names for names in numbered.values() if len(names) == layout.values]
    if len(series) == 1 and layout.values > 1:
        return [name for _, name in sorted(series[0], key=lambda pair: pair[0])]
    # Else all numbered columns, as r0.., g0.., b0.. or 1x1.., in the order of the table.
    together = [name for names in numbered.values() for _, name in names]
    if not series and len(together) == layout.values:
        places = {field.name: place for place, field in enumerate(fields)}
        return sorted(together, key=places.__getitem__)
    if len(single) == 1:
        return single
    if len(single) > 1:
        raise DataError(
            f"several columns may hold the pixels: {listed(single)}",
            f"leave all but one out, for example --drop {typed(single[0])}",
        )
    raise DataError(
        f"--pixels asks for {layout.values:,} columns of pixels, and {len(together):,} have "
        "numbers in their names",
        "give the shape of the images as height x width, or leave other numbered columns out with "
        "--drop",
    )


def _may_hold_images(arrow_type: pa.DataType) -> bool:
    """Whether one value of a type may be all pixels of an image."""
    is_fixed = pa.types.is_fixed_size_binary(arrow_type)
    return bool(is_fixed or holds_bytes(arrow_type) or holds_numbers(arrow_type))


def read_pixels(
    stored: StoredColumns, columns: Sequence[str], layout: PixelLayout
) -> tuple[UInt8, NDArray[np.bool_]]:
    """The pixels of all rows.

    Args:
        stored: Holds the columns.
        columns: As of :func:`pixel_columns`.
        layout: The shape.

    Returns:
        Images ``[N, H, W, C]``; and which rows hold none, ``[N]``, since a value is missing or no
        whole number of 0 to 255, or there are more or fewer values. Their images are black.
    """
    table = stored.table.select(list(columns))
    values = np.zeros((table.num_rows, layout.values), np.uint8)
    if len(columns) == 1 and not holds_numbers(table.schema.types[0]):
        content = table.column(0)
        fits = pc.fill_null(pc.equal(pc.binary_length(content), layout.values), False)
        has_image = np.asarray(fits.to_numpy(), np.bool_)
        whole = b"".join(content.filter(fits).to_pylist())
        values[has_image] = np.frombuffer(whole, np.uint8).reshape(-1, layout.values)
        return layout.images(values), ~has_image
    if len(columns) == 1:
        name = columns[0]
        columns = names_of(name, layout.values)  # a column for each number of the lists
        table = with_numbers(table, {name: layout.values})
    pixel_table = StoredColumns(table, stored.marks)
    lacking = np.zeros(table.num_rows, np.bool_)
    for place, name in enumerate(columns):
        numbers = pixel_table.numbers(name)
        with np.errstate(invalid="ignore"):  # NaN, a missing value, fits no range
            fits = (numbers >= 0) & (numbers <= 255) & (numbers == np.floor(numbers))
        lacking |= ~fits
        values[:, place] = np.where(fits, numbers, 0)
    values[lacking] = 0
    return layout.images(values), lacking


def looks_like_pixels(schema: pa.Schema) -> tuple[str, str, str] | None:
    """The first and last of columns that may be the pixels of images, and their shape in text.

    Such columns hold whole numbers under numbered names and are as many as a square has pixels, of
    one channel or three; None where there are none. Names and types alone are looked at.

    Example:
        >>> looks_like_pixels(pa.schema([(f"px{k}", pa.int64()) for k in range(784)]))
        ('px0', 'px783', '28x28')
    """
    numbered: dict[str, list[str]] = {}
    for field in schema:
        match = _NAME.fullmatch(field.name)
        if match and pa.types.is_integer(field.type):
            numbered.setdefault(match[1], []).append(field.name)
    # All numbered columns, as r0.., g0.., b0.. may be one image's channels.
    together = [name for names in numbered.values() for name in names]
    for names in (*numbered.values(), together):
        for channels in (1, 3):
            side = math.isqrt(len(names) // channels)
            if side >= _SMALLEST and side * side * channels == len(names):
                shape = f"{side}x{side}" + (f"x{channels}" if channels > 1 else "")
                return names[0], names[-1], shape
    return None
