import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from pictures import encoded, pixels
from PIL import Image

from fairaudit.data.dataset import pixels_of
from fairaudit.data.reading.images import (
    MAX_PIXELS,
    ImageOptions,
    decode_files,
    decode_image,
    fitted,
    refuse_too_large,
)
from fairaudit.errors import ConfigError, DataError

AS_IS = ImageOptions()
GREY, COLOUR = pixels(4), pixels(4, channels=3)


def saved(mode, kind="PNG", **options):
    picture = Image.new(
        mode, (5, 4), color=3 if mode in {"P", "I", "I;16", "F", "1", "L"} else None
    )
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def bomb(width, height):
    """A PNG that says it is of that size, with hardly a byte in it."""

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")):
        checked = kind + content
        whole += struct.pack(">I", len(content)) + checked
        whole += struct.pack(">I", zlib.crc32(checked))
    return whole


@pytest.mark.parametrize(
    ("mode", "channels"), [("1", 1), ("L", 1), ("LA", 1), ("P", 3), ("RGB", 3), ("RGBA", 3)]
)
def test_grey_stays_grey_and_all_else_is_colour(mode, channels):
    assert decode_image("i.png", saved(mode), AS_IS).shape == (4, 5, channels)


def test_resize_means_height_then_width():
    options = ImageOptions.of("3x8", "auto")
    assert decode_image("i.png", encoded(GREY[0]), options).shape == (3, 8, 1)


def test_a_turned_photograph_is_turned_back():
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    Image.new("L", (5, 4)).save(stream, "JPEG", exif=exif)
    assert decode_image("i.png", stream.getvalue(), AS_IS).shape == (5, 4, 1)


@pytest.mark.parametrize("text", ["28", "0x28", "-4x4", "9999x2", "²x2"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="HEIGHTxWIDTH"):
        ImageOptions.of(text, "auto")


UNREADABLE = {
    "text": b"not an image",
    "a torn png": encoded(GREY[0])[:60],
    "a torn jpeg": encoded(np.zeros((64, 64, 3), np.uint8), "JPEG")[:300],
    "another format": saved("RGB", "PPM"),
    "sixteen bits": saved("I;16"),
    "a bomb": bomb(60_000, 60_000),
    "a smaller bomb": bomb(9_000, 9_000),
    "no height": bomb(5, 0),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_refused_without_a_warning(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="image 'i") as caught:
            decode_image("i.png", UNREADABLE[case], AS_IS)
    if "bomb" in case:
        assert f"{MAX_PIXELS:,}" in str(caught.value)


def test_one_colour_image_makes_all_colour():
    files = [(f"{i}.png", encoded(image)) for i, image in enumerate((GREY[0], COLOUR[1], GREY[2]))]
    found = pixels_of(decode_files(3, files, AS_IS))
    assert np.array_equal(found[1], COLOUR[1])
    for row in (0, 2):
        assert np.array_equal(found[row], np.repeat(GREY[row], 3, axis=2))


def test_pixels_without_files_are_fitted_as_files_are():
    options = ImageOptions(size=(3, 4), channels="grey")
    alike = np.stack([decode_image("i.png", encoded(image), options) for image in COLOUR])
    assert np.array_equal(fitted(COLOUR, options), alike)
    assert fitted(GREY, AS_IS) is GREY


def test_what_would_not_fit_memory_is_refused_before_it_is_made():
    refuse_too_large(60_000, (28, 28, 1))
    with pytest.raises(DataError, match="GiB"):
        refuse_too_large(10_000_000, (1024, 1024, 3))


def test_images_of_two_sizes_are_refused_by_name():
    files = [("a.png", encoded(GREY[0])), ("b.png", encoded(pixels(1, side=9)[0]))]
    with pytest.raises(DataError, match=r"'b\.png' is 9 x 9, the first one 6 x 6") as caught:
        decode_files(2, files, AS_IS)
    assert "--resize 6x6" in caught.value.hint
