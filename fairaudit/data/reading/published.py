"""Folders of images as their authors publish them: MNIST's IDX files, and CelebA.

IDX, also of Fashion-MNIST, KMNIST and EMNIST: ``train-images-idx3-ubyte``, ``train-labels-idx1-
ubyte`` and the same of ``t10k`` or ``test``, packed or not. CelebA: a folder of images beside
``list_attr_celeba`` and, if it is there, ``list_eval_partition``, as CSV or as text.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.data.dataset import SPLIT, UInt8, image_column
from fairaudit.data.reading.folder import IMAGE, ImageFolder, images_below
from fairaudit.data.reading.images import ImageOptions, fitted, refuse_too_large
from fairaudit.data.reading.packed import unpacked
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.tables import digest_of
from fairaudit.errors import DataError, numbered
from fairaudit.messages.base import Message
from fairaudit.messages.data import ValidationLeftOut
from fairaudit.messages.names import listed, quoted

_IDX: Final = re.compile(
    r"(.*?)(train|t10k|test)-(images|labels)[-.]idx[13]-ubyte(\.gz)?", re.IGNORECASE
)
_BYTES_OF: Final = 8  # IDX's number for unsigned bytes
_LABEL: Final = "label"
_ATTRIBUTES, _PARTITION = "list_attr_celeba", "list_eval_partition"
_ENDINGS: Final = (".csv", ".txt")
# What the numbers of CelebA's partition say; the validation images are left out.
_SIDES: Final = {0: "train", 2: "test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdxFiles(DataSource):
    """A folder of IDX files that was read.

    Args:
        paths: The files.
        table: The columns ``image``, ``label`` and, where there are two sides, ``split``.
    """

    paths: tuple[Path, ...]
    table: pa.Table

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Message, ...]]:
        """The named columns in that order, and no notices."""
        return self.table.select(list(columns)), ()

    def stored(self, columns: Sequence[str]) -> StoredColumns:
        """The named columns in that order."""
        return StoredColumns(self.table.select(list(columns)))

    def digest(self) -> str:
        """The sha256 over names and contents of the files, in hexadecimal."""
        return _digest(self.paths)


def is_published(folder: Path) -> bool:
    """Whether a folder holds images as their authors publish them."""
    return bool(_idx_files(folder)) or _list_of(folder, _ATTRIBUTES) is not None


def open_published(folder: Path, options: ImageOptions) -> DataSource:
    """Read such a folder.

    Args:
        folder: One of which :func:`is_published` is true.
        options: How images are read.

    Raises:
        DataError: A file is missing, damaged or of another layout.
    """
    if _idx_files(folder):
        return _open_idx(folder, options)
    return _open_celeba(folder, options)


def _idx_files(folder: Path) -> dict[tuple[str, str, str], Path]:
    """The IDX files of a folder: (what stands before, side, ``images`` or ``labels``) -> path."""
    files = {}
    for path in sorted(folder.iterdir()):
        match = _IDX.fullmatch(path.name)
        if match and path.is_file():
            side = "train" if match[2].lower() == "train" else "test"  # also named t10k
            files[match[1], side, match[3].lower()] = path
    return files


def _open_idx(folder: Path, options: ImageOptions) -> IdxFiles:
    """Read a folder of IDX files.

    Raises:
        DataError: There are several sets of images, a side lacks images or labels, their numbers or
            sizes differ, or a file is damaged.
    """
    files = _idx_files(folder)
    names = sorted({before for before, _, _ in files})
    if len(names) > 1:
        raise DataError(
            f"{folder.name} holds several sets of images: {listed(names)}",
            "move one of them into a folder of its own",
        )
    parts: list[tuple[str, UInt8, UInt8]] = []  # side, images [N, H, W], labels [N]
    present = {side for _, side, _ in files}
    for side in (side for side in ("train", "test") if side in present):
        pair = [files.get((names[0], side, kind)) for kind in ("images", "labels")]
        if pair[0] is None or pair[1] is None:
            raise DataError(f"{folder.name} has images or labels of the {side} side, not both")
        images, labels = _idx_array(pair[0], 3), _idx_array(pair[1], 1)
        if len(images) != len(labels):
            raise DataError(
                f"{pair[0].name} holds {len(images):,} images, {pair[1].name} holds labels of "
                f"{len(labels):,}"
            )
        parts.append((side, images, labels))
    if len({images.shape[1:] for _, images, _ in parts}) > 1:
        raise DataError(f"the images of {folder.name} have different sizes")
    refuse_too_large(sum(len(images) for _, images, _ in parts), (*parts[0][1].shape[1:], 1))
    # [N, H, W, 1]: IDX images are grey.
    pixels = fitted(np.concatenate([images for _, images, _ in parts])[..., None], options)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        IMAGE: image_column(np.ascontiguousarray(pixels)),
        _LABEL: pa.array(np.concatenate([labels for _, _, labels in parts]).astype(np.int64)),
    }
    if len(parts) > 1:  # the side of each image, in the order of the parts
        sides = [side for side, images, _ in parts for _ in range(len(images))]
        columns[SPLIT] = pa.array(sides, pa.string())
    table = pa.table(columns)
    return IdxFiles(
        format="idx",
        schema=table.schema,
        declared={_LABEL: _LABEL},
        declared_by="declared by the files",
        image=IMAGE,
        paths=tuple(files.values()),
        table=table,
    )


def _idx_array(path: Path, dimensions: int) -> UInt8:
    """The array of bytes of one IDX file.

    Raises:
        DataError: It is no IDX file, has another number of dimensions, or is longer or shorter than
            its head says.
    """
    damaged = DataError(
        f"{path.name} is no IDX file of {dimensions} dimensions, or is damaged", "fetch it again"
    )
    try:
        with unpacked(path) as stream:
            head = stream.read(4 + 4 * dimensions)
            # Two zeros, the type, the number of dimensions; then each size as 4 bytes, big-endian.
            if len(head) < 4 + 4 * dimensions or head[:4] != bytes((0, 0, _BYTES_OF, dimensions)):
                raise damaged
            shape = np.frombuffer(head[4:], ">u4").astype(np.int64).tolist()
            if dimensions > 1:
                refuse_too_large(shape[0], (*shape[1:], 1))
            size = int(np.prod(shape))
            content = stream.read(size + 1)  # one more, to notice that there is more
    except OSError:
        raise damaged from None
    if len(content) != size:
        raise damaged
    return np.frombuffer(content, np.uint8).reshape(shape)


def _list_of(folder: Path, stem: str) -> Path | None:
    """The path of a list of CelebA in a folder, as CSV or as text; None where there is none."""
    for ending in _ENDINGS:
        path = folder / f"{stem}{ending}"
        if path.is_file():
            return path
    return None


def _open_celeba(folder: Path, options: ImageOptions) -> ImageFolder:
    """List CelebA's images with their attributes; images of the validation part are left out.

    Raises:
        DataError: A list is damaged, or names images that the folder lacks.
    """
    attributes = _list_of(folder, _ATTRIBUTES)
    assert attributes is not None  # else `is_published` is false
    names, ids, values = _listed_values(attributes, has_names=True)
    partition = _list_of(folder, _PARTITION)
    columns = {name: pa.array(column) for name, column in zip(names, values.T, strict=True)}
    notices: list[Message] = []
    rows = np.arange(len(ids))
    if partition is not None:
        _, images, parts = _listed_values(partition, has_names=False)
        part_of = dict(zip(images, parts[:, 0].tolist(), strict=True))
        # "": the image is left out; -1: the partition does not list it.
        sides = [_SIDES.get(part_of.get(name, -1), "") for name in ids]
        rows = np.array([row for row, side in enumerate(sides) if side], dtype=np.int64)
        columns[SPLIT] = pa.array(sides, pa.string())
        left_out = len(ids) - len(rows)
        if left_out:
            notices.append(ValidationLeftOut(left_out))
    below = {Path(path).name: path for path in images_below(folder)}
    files = [below.get(ids[row], "") for row in rows]
    missing = [ids[row] for row, file in zip(rows, files, strict=True) if not file]
    # Where the shape is known rows stand alone: a lacking image is a missing value of its row.
    if missing and options.shape is None:
        raise DataError(
            f"{attributes.name} names {numbered(len(missing), 'image')} that the folder lacks: "
            f"{listed(missing)}",
            "unpack img_align_celeba.zip beside it",
        )
    table = pa.table(columns).take(pa.array(rows))
    return ImageFolder(
        format="image folder",
        schema=table.schema.append(pa.field(IMAGE, pa.binary())),
        image=IMAGE,
        root=folder,
        files=tuple(files),
        metadata=StoredColumns(table),
        declared={},
        declared_by="",
        options=options,
        notices=tuple(notices),
        described=tuple(path.name for path in (attributes, partition) if path is not None),
    )


def _listed_values(
    path: Path, *, has_names: bool
) -> tuple[list[str], list[str], NDArray[np.int64]]:
    """A list of CelebA: names of its columns, image of each row, whole numbers ``[N, columns]``.

    Args:
        path: A CSV with a header, or text whose fields stand between blanks.
        has_names: Whether the text begins with a count and a line of names.

    Raises:
        DataError: The file is not such a list, or cannot be read.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
        lines = [line for line in lines if line.strip()]
        is_csv = path.suffix.lower() == ".csv"
        if is_csv:
            head, rows = lines[0].split(",")[1:], [line.split(",") for line in lines[1:]]
        elif has_names:
            head, rows = lines[1].split(), [line.split() for line in lines[2:]]
        else:
            rows = [line.split() for line in lines]
            head = [""] * (len(rows[0]) - 1)  # columns without names
        values = np.array([row[1:] for row in rows], dtype=np.int64)
        if values.ndim != 2 or values.shape[1] != len(head) or not len(rows):
            raise ValueError  # becomes the DataError below
    except (OSError, ValueError, IndexError):
        raise DataError(
            f"{quoted(path.name)} is not one of CelebA's lists, or is damaged", "fetch it again"
        ) from None
    return [name.strip() for name in head], [row[0].strip() for row in rows], values


def _digest(paths: Sequence[Path]) -> str:
    """The sha256 over names and contents of files, in hexadecimal."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(f"{len(path.name)} {path.name} {digest_of(path)}\n".encode())
    return whole.hexdigest()
