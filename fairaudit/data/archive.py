"""Images in an npz archive: arrays read by their headers, never unpickled."""

import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.data.bounds import refuse_bomb
from fairaudit.data.dataset import SPLIT, Notice, image_column
from fairaudit.data.decode import ImageOptions, fitted, refuse_too_large
from fairaudit.data.naming import listed, near_miss, quoted, typed
from fairaudit.data.readers import digest_of
from fairaudit.errors import DataError

NPZ = ".npz"
_PART = re.compile(
    r"(?:(?P<first>train|test|val|validation)_(?P<base>.+)|(?P<name>.+)_(?P<last>train|test|val|validation))"
)
_KINDS = "biufUS"  # of a column; numbers and text
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, ValueError, EOFError),
    *(OSError, NotImplementedError, RuntimeError, MemoryError, SyntaxError),
)


class _Header(NamedTuple):
    """An array of the archive, unread."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def size(self) -> int:
        """Bytes that it takes unpacked, as it says."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_column(self) -> bool:
        """Whether it has one number or text per row."""
        return self.shape[1:] in ((), (1,)) and self.shape != () and self.dtype.kind in _KINDS


@dataclass(frozen=True, slots=True)
class Archive:
    """An npz archive of one array of images and one array per column.

    ``x_train`` and ``x_test`` (or ``train_x`` and ``test_x``) are one column ``x``, and a column
    ``split`` tells the two apart.

    Args:
        path: The file.
        columns: Column -> its arrays, in order of the parts.
        parts: Part of each such array, ``("",)`` where the archive has no parts.
        rows: Rows of each part.
        image: The column of images.
        options: How they are read.
        ignored: Arrays that are no column.
    """

    path: Path
    columns: Mapping[str, tuple[_Header, ...]]
    parts: tuple[str, ...]
    rows: tuple[int, ...]
    image: str
    options: ImageOptions
    ignored: tuple[str, ...] = ()

    format = "npz"
    declared_by = ""

    @property
    def declared(self) -> Mapping[str, str]:
        """An archive declares nothing."""
        return {}

    @property
    def schema(self) -> pa.Schema:
        """Columns and types, from the arrays' headers."""
        fields = []
        for name, (first, *_) in self.columns.items():
            if len(first.shape) > 2:
                kind = pa.binary()  # images; their own type shows once they are read
            elif first.dtype.kind in "US":
                kind = pa.string()
            else:
                kind = pa.from_numpy_dtype(first.dtype.newbyteorder("="))
            fields.append(pa.field(name, kind))
        if self._has_split:
            fields.append(pa.field(SPLIT, pa.string()))
        return pa.schema(fields)

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Notice, ...]]:
        """Those columns in that order.

        Raises:
            DataError: Damaged content.
        """
        found = {name: self._column(name) for name in columns}
        notices: tuple[Notice, ...] = ()
        if self.ignored:
            message = f"arrays that are no column of numbers or text: {listed(self.ignored)}"
            notices = (Notice("arrays_ignored", message, level="notice"),)
        return pa.table(found), notices

    def digest(self) -> str:
        """Of the file."""
        return digest_of(self.path)

    @property
    def _has_split(self) -> bool:
        return len(self.parts) > 1 and SPLIT not in self.columns

    def _column(self, name: str) -> pa.ChunkedArray:
        if name == SPLIT and self._has_split:
            sides = np.repeat(self.parts, self.rows).tolist()
            return pa.chunked_array([pa.array(sides, pa.string())])
        arrays: list[NDArray[Any]] = []
        for header in self.columns[name]:
            try:
                with zipfile.ZipFile(self.path) as file, file.open(f"{header.name}.npy") as stream:
                    arrays.append(np.lib.format.read_array(stream, allow_pickle=False))
            except _DAMAGE:
                raise DataError(
                    f"array {quoted(header.name)} of {self.path.name} is damaged"
                ) from None
        values = np.concatenate(arrays) if len(arrays) > 1 else np.ascontiguousarray(arrays[0])
        if name == self.image:
            shaped = fitted(values if values.ndim == 4 else values[..., None], self.options)
            return image_column(np.ascontiguousarray(shaped), np.ones(len(shaped), np.bool_))
        values = values.reshape(len(values))
        if values.dtype.kind == "S":
            values = np.char.decode(values, "utf8", "replace")
        if values.dtype.kind == "U":
            return pa.chunked_array([pa.array(values.tolist(), pa.string())])
        return pa.chunked_array([pa.array(values.astype(values.dtype.newbyteorder("=")))])


def open_archive(path: Path, image: str | None, options: ImageOptions) -> Archive:
    """Find the arrays of an archive.

    Args:
        path: The file.
        image: ``image_column``, or None to find it.
        options: How images are read.

    Raises:
        DataError: Not an archive, no or several arrays of images, one of another type or shape, or
            a column of another length.
    """
    headers = list(_headers(path))
    columns, parts = _columns(headers)
    image = _image_array(path, columns, image)
    rows = tuple(header.shape[0] for header in columns[image])
    for header in columns[image]:
        _check_images(header)
    refuse_too_large(sum(rows), columns[image][0].shape[1:])
    refuse_bomb(path, sum(header.size for header in headers))
    if len({header.shape[1:] for header in columns[image]}) > 1:
        raise DataError(f"the parts of {quoted(image)} hold images of different sizes")
    plain = {name for name, arrays in columns.items() if all(a.is_column for a in arrays)}
    for name in sorted(plain):
        for header, images, expected in zip(columns[name], columns[image], rows, strict=True):
            if header.shape[0] != expected:
                raise DataError(
                    f"array {quoted(header.name)} has {header.shape[0]:,} entries where "
                    f"{quoted(images.name)} has {expected:,} images",
                )
    kept = {name: arrays for name, arrays in columns.items() if name in plain or name == image}
    ignored = tuple(
        sorted(a.name for name, arrays in columns.items() if name not in kept for a in arrays)
    )
    return Archive(path, kept, parts, rows, image, options, ignored)


def _headers(path: Path) -> Iterator[_Header]:
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    with archive.open(member) as stream:
                        read = readers[np.lib.format.read_magic(stream)]
                        shape, _, dtype = read(stream)
                    yield _Header(member.filename.removesuffix(".npy"), shape, dtype)
    except (*_DAMAGE, KeyError):  # a version for structured arrays only
        raise DataError(f"{path.name} is not an npz archive (or is damaged)") from None


def _columns(headers: Sequence[_Header]) -> tuple[dict[str, tuple[_Header, ...]], tuple[str, ...]]:
    """Arrays by column; where names say train or test, those are parts of one column."""
    named: dict[str, dict[str, _Header]] = {}
    for header in headers:
        match = _PART.fullmatch(header.name)
        part = (match["first"] or match["last"]) if match else ""
        base = (match["base"] or match["name"]) if match else header.name
        named.setdefault(base, {})[part] = header
    parts = tuple(dict.fromkeys(part for arrays in named.values() for part in arrays if part))
    if {"train", "test"} <= set(parts):
        whole = {
            base: tuple(arrays[p] for p in parts)
            for base, arrays in named.items()
            if set(parts) <= set(arrays)
        }
        if whole:
            return whole, parts
    return {header.name: (header,) for header in headers}, ("",)


def _image_array(path: Path, columns: Mapping[str, tuple[_Header, ...]], wanted: str | None) -> str:
    found = [name for name, arrays in columns.items() if len(arrays[0].shape) in (3, 4)]
    if wanted is not None:
        if wanted not in columns:
            raise DataError(
                f"image array {quoted(wanted)} is not in {path.name} ({listed(columns)})",
                near_miss(wanted, list(columns)),
            )
        return wanted
    if not found:
        raise DataError(
            f"{path.name} has no array of images: {listed(columns)}",
            "store them as uint8 of shape [N, height, width] or [N, height, width, 3]",
        )
    if len(found) > 1:
        raise DataError(
            f"{path.name} has several arrays of images: {listed(found)}",
            f"choose one, for example --image-column {typed(found[0])}",
        )
    return found[0]


def _check_images(header: _Header) -> None:
    name = f"array {quoted(header.name)}"
    shape = " x ".join(map(str, header.shape)) or "a single number"
    if len(header.shape) not in (3, 4):
        raise DataError(f"{name} of shape {shape} holds no images")
    if len(header.shape) == 4 and header.shape[3] not in (1, 3):
        raise DataError(
            f"{name} of shape {shape} has {header.shape[3]} channels", "give 1 or 3 channels, last"
        )
    if header.dtype != np.uint8:
        raise DataError(
            f"{name} holds {'Python objects' if header.dtype.hasobject else header.dtype}, not "
            "uint8",
            "write pixels of 0 to 255: (255 * x).round().astype('uint8') for values of 0 to 1",
        )
    if 0 in header.shape:
        raise DataError(f"{name} of shape {shape} is empty")
