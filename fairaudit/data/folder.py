"""Folders of images: one folder per class, or the ImageFolder layout with a metadata file.

Either may lie in ``train`` and ``test`` folders, which then are the column ``split``.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pyarrow as pa

from fairaudit.data.dataset import SPLIT, Notice
from fairaudit.data.decode import SUFFIXES, ImageOptions, ImageStack
from fairaudit.data.naming import listed, near_miss, quoted
from fairaudit.data.readers import open_source, read_columns
from fairaudit.errors import DataError, numbered

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FILE_NAME = "file_name"  # the metadata's column of paths, relative to the metadata file
LABEL, IMAGE = "label", "image"
_PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})
_BY_FOLDER = "declared by the folders"


@dataclass(frozen=True, slots=True)
class _Listing:
    """Images below a folder.

    Args:
        files: Paths below it with ``/``, sorted.
        others: Number of other files.
    """

    files: tuple[str, ...]
    others: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """One part of a folder: paths below the root, what is known of them, images without a row."""

    files: tuple[str, ...]
    columns: pa.Table
    unlisted: int


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """A folder of images whose files are listed and not opened yet.

    Args:
        root: The folder.
        files: Path below it of each row's image.
        columns: What is known of each image.
        metadata: Metadata files below the root.
        image: Name of the column of images.
        declared, declared_by: The label.
        options: How images are read.
        notices: What listing the files showed.
    """

    root: Path
    files: tuple[str, ...]
    columns: pa.Table
    metadata: tuple[str, ...]
    image: str
    declared: Mapping[str, str]
    declared_by: str
    options: ImageOptions
    notices: tuple[Notice, ...] = ()

    format = "image folder"

    @property
    def schema(self) -> pa.Schema:
        """The metadata's columns, then the images."""
        return self.columns.schema.append(pa.field(self.image, pa.binary()))

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Notice, ...]]:
        """Those columns in that order; images are decoded where asked for.

        Raises:
            DataError: An image that cannot be read, or that has another size than the first.
        """
        table = self.columns.select([name for name in columns if name != self.image])
        notices = self.notices
        if self.image in columns:
            images, said = self._decoded()
            table = table.append_column(self.image, images)
            notices += said
        return table.select(list(columns)), notices

    def size(self, columns: Sequence[str]) -> int:
        """0: images are read in one piece."""
        return 0

    def digest(self) -> str:
        """Over the names and contents of all files that are read, sorted by name."""
        whole = hashlib.sha256()
        for name in sorted({*self.files, *self.metadata}):
            content = hashlib.sha256(_content(self.root, name) or b"").hexdigest()
            whole.update(f"{len(name)} {name} {content}\n".encode("utf8", "surrogateescape"))
        return whole.hexdigest()

    def _decoded(self) -> tuple[pa.ChunkedArray, tuple[Notice, ...]]:
        stack = ImageStack(len(self.files), self.options)
        for row, name in enumerate(self.files):
            stack.add(row, name, _content(self.root, name))
        return stack.finish(self.root.name)


def is_image_folder(path: Path) -> bool:
    """Whether a folder holds images rather than table files."""
    if any((path / name).is_file() for name in METADATA):
        return True
    entries = [p for p in path.iterdir() if not p.name.startswith(".")]
    if any(p.is_file() and p.suffix.lower() in SUFFIXES for p in entries):
        return True
    has_tables = any(p.is_file() and p.suffix.lower() in {".csv", ".parquet", ".feather"} for p in entries)
    return any(p.is_dir() for p in entries) and not has_tables


def open_folder(root: Path, options: ImageOptions) -> ImageFolder:
    """List the images of a folder and what is known of each.

    Raises:
        DataError: No images, neither class folders nor metadata, metadata that name a missing file, or
            a path that leads out of the folder.
    """
    parts = _part_folders(root)
    found = [(part, _listing(root, part)) for part in parts]
    if not any(listing.files for _, listing in found):
        kinds = ", ".join(sorted(SUFFIXES))
        raise DataError(f"{root.name or root} holds no images", f"give a folder with files named {kinds}")
    metadata = [_metadata_of(root / part) for part in parts]
    if len({name is None for name in metadata}) > 1:
        raise DataError(f"only some parts of {root.name} have a metadata file", "write one in each of them")
    rows = [
        _from_metadata(root, part, name, listing) if name else _from_classes(root, part, listing)
        for (part, listing), name in zip(found, metadata, strict=True)
    ]
    columns = _columns(root, parts, rows)
    named = tuple(str(PurePosixPath(p, n)) for p, n in zip(parts, metadata, strict=True) if n)
    by = f"declared in {PurePosixPath(named[0]).name}" if named else _BY_FOLDER
    declares = LABEL in columns.column_names
    return ImageFolder(
        root=root,
        files=tuple(name for r in rows for name in r.files),
        columns=columns,
        metadata=named,
        image=IMAGE if IMAGE not in columns.column_names else f"({IMAGE})",
        declared={LABEL: LABEL} if declares else {},
        declared_by=by if declares else "",
        options=options,
        notices=tuple(_notices(sum(r.unlisted for r in rows), sum(listing.others for _, listing in found))),
    )


def _part_folders(root: Path) -> list[str]:
    """``train`` and ``test`` where all folders are such parts, else the root itself as ``""``."""
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    is_parts = len(folders) > 1 and all(p.name.lower() in _PARTS for p in folders)
    if not is_parts or _metadata_of(root) is not None:
        return [""]
    deeper = [_metadata_of(p) is not None or any(q.is_dir() for q in p.iterdir()) for p in folders]
    return [p.name for p in folders] if any(deeper) else [""]


def _metadata_of(folder: Path) -> str | None:
    found = [name for name in METADATA if (folder / name).is_file()]
    if len(found) > 1:
        raise DataError(
            f"{folder.name or folder} has several metadata files: {listed(found)}", "keep one of them"
        )
    return found[0] if found else None


def _listing(root: Path, part: str) -> _Listing:
    """All images below a part of the root, hidden files and folders aside.

    Raises:
        DataError: A link that leads out of the root, or to a folder.
    """
    files: list[str] = []
    others = 0
    inside = root.resolve()
    if part and (root / part).is_symlink():
        raise _linked(part)
    for folder, names, entries in os.walk(root / part, onerror=_refuse_folder):
        names[:] = sorted(n for n in names if not n.startswith("."))
        here = Path(folder)
        below = PurePosixPath(here.relative_to(root).as_posix())
        linked = [n for n in names if (here / n).is_symlink()]
        if linked:
            raise _linked(str(below / linked[0]))
        for name in entries:
            if name.startswith(".") or os.path.splitext(name)[1].lower() not in SUFFIXES:
                others += not name.startswith(".") and name not in METADATA
                continue
            if (here / name).is_symlink() and not (here / name).resolve().is_relative_to(inside):
                raise _outside(str(below / name))
            files.append(str(below / name))
    return _Listing(tuple(sorted(files)), others)


def _refuse_folder(error: OSError) -> None:
    raise DataError(f"{Path(str(error.filename)).name} cannot be read: {error.strerror}", "check its rights")


def _linked(name: str) -> DataError:
    return DataError(f"{quoted(name)} is a link to a folder", "copy the folder in its place")


def _outside(name: str) -> DataError:
    return DataError(f"{quoted(name)} leads out of the folder of images", "copy the file into the folder")


def _from_classes(root: Path, part: str, listing: _Listing) -> _Rows:
    """Every image with the first folder below the part as its class."""
    depth = len(PurePosixPath(part).parts)
    paths = [PurePosixPath(name).parts for name in listing.files]
    loose = [parts[-1] for parts in paths if len(parts) <= depth + 1]
    if loose:
        where = str(PurePosixPath(root.name, part))
        raise DataError(
            f"{numbered(len(loose), 'image lies', 'images lie')} in {where} itself, in no folder of a class",
            "put each into a folder named as its class, or write metadata.csv with file_name and label",
        )
    labels = pa.array([parts[depth] for parts in paths], pa.string())
    return _Rows(listing.files, pa.table({LABEL: labels}), 0)


def _from_metadata(root: Path, part: str, name: str, listing: _Listing) -> _Rows:
    if not (root / part / name).resolve().is_relative_to(root.resolve()):
        raise _outside(str(PurePosixPath(part, name)))
    table = _read_metadata(root / part / name)
    if FILE_NAME not in table.column_names:
        raise DataError(
            f"{name} has no column {FILE_NAME!r} ({listed(table.column_names)})",
            near_miss(FILE_NAME, table.column_names)
            or "it names each row's image, relative to the metadata file",
        )
    if table.column(FILE_NAME).null_count:
        raise DataError(f"{name}: {FILE_NAME} is missing in some rows", "name an image in every row")
    named = [str(value) for value in table.column(FILE_NAME).to_pylist()]
    files = _resolved(root, part, named, listing, name)
    unlisted = len(set(listing.files) - set(files))
    return _Rows(files, table.drop_columns([FILE_NAME]), unlisted)


def _read_metadata(path: Path) -> pa.Table:
    if path.suffix != ".jsonl":
        source = open_source(path)
        return read_columns(source, source.schema.names)[0]
    try:
        # Not Arrow's reader: it crashes the process on some damaged files.
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        # Every key of any row is a column; Arrow alone would take those of the first.
        names = dict.fromkeys(name for row in rows for name in row)
        schema = pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])
        table = pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OSError, ValueError, TypeError, RecursionError, OverflowError, AttributeError):
        raise DataError(f"{path.name} is not readable as JSON lines", "write one object per line") from None
    if not table.num_rows:
        raise DataError(f"{path.name} has no rows", "write one object per image")
    return table


def _resolved(
    root: Path, part: str, named: Sequence[str], listing: _Listing, metadata: str
) -> tuple[str, ...]:
    """Paths below the root of the images that metadata name.

    Raises:
        DataError: A path out of the folder, or a file that is not there.
    """
    known, inside = set(listing.files), root.resolve()
    files, missing = [], []
    for name in named:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or PureWindowsPath(name).is_absolute() or "\0" in name:
            raise _outside(name)
        below = str(PurePosixPath(part, path))
        if below not in known:  # also one that the listing does not know by its suffix
            if not (root / below).resolve().is_relative_to(inside):
                raise _outside(name)
            if not (root / below).is_file():
                missing.append(name)
        files.append(below)
    if missing:
        count = len(missing)
        what = "a file that is" if count == 1 else f"{count:,} files that are"
        raise DataError(
            f"{metadata} names {what} not in the folder: {listed(missing)}",
            f"correct {FILE_NAME}, or take the row{'s' * (count > 1)} out",
        )
    return tuple(files)


def _columns(root: Path, parts: Sequence[str], rows: Sequence[_Rows]) -> pa.Table:
    """What is known of the images of all parts, with the part as the split."""
    tables = [r.columns for r in rows]
    try:
        table = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    except pa.ArrowException:
        raise DataError(
            f"the metadata files of {root.name} differ in a column's type", "write them alike"
        ) from None
    if parts == [""] or SPLIT in table.column_names:
        return table
    sides = np.repeat([part.lower() for part in parts], [len(r.files) for r in rows])
    return table.append_column(SPLIT, pa.array(sides.tolist(), pa.string()))


def _notices(unlisted: int, others: int) -> Iterator[Notice]:
    if unlisted:
        message = f"{numbered(unlisted, 'image')} of the folder left out: no row in the metadata"
        yield Notice("images_not_listed", message, "add a row for each that should count")
    if others:
        yield Notice("other_files", f"no images in the folder: {numbered(others, 'file')}", level="notice")


def _content(root: Path, name: str) -> bytes | None:
    """A file's bytes, None where it cannot be read."""
    try:
        with open(os.path.join(root, name), "rb") as file:  # pathlib takes as long as the reading
            return file.read()
    except OSError:
        return None
