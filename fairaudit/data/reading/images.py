"""Files of images to pixels: what may be opened, how large, and all of one shape."""

import struct
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, Self

import numpy as np
import pyarrow as pa

from fairaudit.data.dataset import Shape, UInt8, image_column
from fairaudit.data.reading.pixels import PixelLayout
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.names import quoted

Channels = Literal["auto", "grey", "rgb"]
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
# An image of a few kilobytes may unpack to gigabytes; what a camera takes is below this.
MAX_PIXELS = 64_000_000
MAX_BYTES = 8 * 2**30  # of all images together
MAX_SIDE = 4096  # of --resize
_GREY_MODES = frozenset({"1", "L", "LA", "La"})  # Pillow's modes without colour
_DEEP_MODES = ("I", "F")  # more than eight bits per channel
_DAMAGE = (  # what Pillow's readers raise on hostile bytes
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError),
    *(struct.error, zlib.error, Warning),
)


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How images are read.

    Args:
        size: Height and width to scale to, or None to take images as they are.
        channels: ``grey``, ``rgb``, or ``auto``: grey where every image is, else colour.
        shape: What is known of all images before one is read; an image that is damaged or comes out
            in another shape is then a missing one. None: nothing, and such an image is refused.
        pixels: How a table holds images as pixels; None: it does not.
    """

    size: tuple[int, int] | None = None
    channels: Channels = "auto"
    shape: Shape | None = None
    pixels: PixelLayout | None = None

    @classmethod
    def known(cls, shape: Shape, *, resized: bool, pixels: str | None = None) -> Self:
        """Make the options of images whose shape is known.

        Args:
            shape: Height, width and channels of all images.
            resized: Whether they are scaled to it; else images of another size are missing ones.
            pixels: The text of ``--pixels``; None: not given.
        """
        height, width, channels = shape
        size = (height, width) if resized else None
        grey_or_colour: Channels = "grey" if channels == 1 else "rgb"
        return cls(size, grey_or_colour, shape, PixelLayout.of(pixels))

    @classmethod
    def of(cls, resize: str | None, channels: Channels, pixels: str | None = None) -> Self:
        """Make the options from the texts of ``--resize``, ``--channels`` and ``--pixels``.

        None: the option is not given.

        Raises:
            ConfigError: ``resize`` is not HEIGHTxWIDTH, or ``pixels`` no shape.
        """
        size = None
        if resize is not None:
            texts = resize.lower().split("x")
            # 0, which is refused, for what is no number; other scripts' digits are none.
            sides = [int(s) if s.isascii() and s.isdecimal() else 0 for s in texts]
            if len(sides) != 2 or not all(1 <= side <= MAX_SIDE for side in sides):
                raise ConfigError(
                    f"--resize {quoted(resize)} is not HEIGHTxWIDTH of 1 to {MAX_SIDE:,} pixels",
                    "write for example 28x28",
                )
            size = sides[0], sides[1]
        return cls(size, channels, None, PixelLayout.of(pixels))


def decode_files(
    n_images: int, files: Iterable[tuple[str, bytes]], options: ImageOptions
) -> pa.ChunkedArray:
    """Decode image files, which must have one size, into one column of images.

    Where some are in colour, grey ones get three equal channels.

    Args:
        n_images: How many there are.
        files: Name and content of each, one after the other.
        options: How to read them.

    Raises:
        DataError: An image that cannot be read, or that has another size than the first. Where the
            shape is known such an image is a missing one.
    """
    if options.shape is not None:
        return _decode_known(n_images, files, options, options.shape)
    pixels = np.empty((0, 0, 0, 0), np.uint8)
    for row, (name, content) in enumerate(files):
        image = decode_image(name, content, options)
        if row == 0:
            refuse_too_large(n_images, image.shape)
            pixels = np.empty((n_images, *image.shape), np.uint8)
        height, width, channels = pixels.shape[1:]
        if image.shape[:2] != (height, width):
            raise DataError(
                f"image {quoted(name)} is {image.shape[0]} x {image.shape[1]}, the first one "
                f"{height} x {width}",
                f"scale all to one size, for example --resize {height}x{width}",
            )
        if image.shape[2] > channels:  # the first one in colour: those before get three channels
            refuse_too_large(n_images, image.shape)
            pixels = np.repeat(pixels, image.shape[2], axis=3)
        pixels[row] = image  # numpy repeats the one channel of a grey image among coloured ones
    return image_column(pixels)


def _decode_known(
    n_images: int, files: Iterable[tuple[str, bytes]], options: ImageOptions, shape: Shape
) -> pa.ChunkedArray:
    """Decode image files, each by itself; null where it cannot be, or has another shape.

    Args: as of :func:`decode_files`; ``shape``: height, width and channels of all images.
    """
    refuse_too_large(n_images, shape)
    pixels = np.zeros((n_images, *shape), np.uint8)
    missing = np.zeros(n_images, np.bool_)
    for row, (name, content) in enumerate(files):
        try:
            image = decode_image(name, content, options)
        except DataError:
            missing[row] = True
            continue
        missing[row] = image.shape != shape
        if not missing[row]:
            pixels[row] = image
    return image_column(pixels, missing)


def decode_image(name: str, content: bytes, options: ImageOptions) -> UInt8:
    """Decode one file to pixels, ``[H, W, 1]`` or ``[H, W, 3]``; transparency is left out.

    The image is scaled and made grey or colour as the options say.

    Args:
        name: What errors call the image.
        content: The file's bytes.
        options: How images are read; its ``shape`` is not looked at.

    Raises:
        DataError: Damaged, of an unknown kind, too large, or of more than eight bits.
    """
    from PIL import Image, ImageOps  # only audits of images need it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of damage and of bombs
            with Image.open(BytesIO(content), formats=FORMATS) as image:
                if not 0 < image.width * image.height <= MAX_PIXELS:
                    raise _unusable(name, f"has no pixels, or more than {MAX_PIXELS:,}")
                if image.mode.startswith(_DEEP_MODES):
                    raise _unusable(name, "has more than 8 bits per channel")
                image.load()
                # Turning copies any image, so it is left out where nothing can ask for it.
                is_turned = image.format == "TIFF" or "exif" in image.info
                turned = ImageOps.exif_transpose(image) if is_turned else image
                colour = options.channels == "rgb" or turned.mode not in _GREY_MODES
                mode = "RGB" if colour and options.channels != "grey" else "L"
                plain = turned if turned.mode == mode else turned.convert(mode)
                if options.size is not None:  # ours is (height, width), Pillow's the other way
                    plain = plain.resize(options.size[::-1], Image.Resampling.BILINEAR)
                pixels = np.asarray(plain, dtype=np.uint8)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _unusable(name, f"has more than {MAX_PIXELS:,} pixels") from None
    except _DAMAGE:
        raise _unusable(name, "is damaged or of an unknown kind") from None
    if pixels.ndim == 3:
        return pixels
    return pixels[..., None]


def _unusable(name: str, why: str) -> DataError:
    """The error that an image cannot be used, for the caller to raise."""
    return DataError(f"image {quoted(name)} {why}", "repair or remove it")


def fitted(pixels: UInt8, options: ImageOptions) -> UInt8:
    """Scale images that are decoded already to the size and the channels asked for.

    Args:
        pixels: ``[N, H, W, C]``, C being 1 or 3.
        options: How images are read.

    Returns:
        Pixels of that size and those channels; the given ones where they have them already.

    Raises:
        DataError: The scaled images are too large.
    """
    channels = {"auto": pixels.shape[3], "grey": 1, "rgb": 3}[options.channels]
    size = options.size or pixels.shape[1:3]
    if (*size, channels) == pixels.shape[1:]:
        return pixels
    refuse_too_large(len(pixels), (*size, channels))
    from PIL import Image

    def change(image: UInt8) -> UInt8:
        """Convert and scale one image ``[H, W, C]``."""
        # Pillow takes grey images without an axis of channels, and sizes as (width, height).
        picture = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image)
        picture = picture.convert("L" if channels == 1 else "RGB")
        picture = picture.resize(size[::-1], Image.Resampling.BILINEAR)
        return np.asarray(picture, dtype=np.uint8).reshape(*size, channels)

    return np.stack([change(image) for image in pixels])


def refuse_too_large(n_images: int, shape: tuple[int, ...]) -> None:
    """Refuse images that together do not fit a machine's memory.

    Args:
        n_images: How many there are.
        shape: Height, width and channels of one image.

    Raises:
        DataError: Over 8 GiB of pixels.
    """
    # As Python's own integers (`object`), which do not overflow.
    size = n_images * int(np.prod([int(side) for side in shape], dtype=object))
    if size > MAX_BYTES:
        texts = " x ".join(map(str, shape))
        raise DataError(
            f"{n_images:,} images of {texts} take {size / 2**30:,.1f} GiB, more than "
            f"{MAX_BYTES // 2**30}",
            "make them smaller, for example --resize 64x64",
        )
