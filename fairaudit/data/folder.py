"""Folders of images: one folder per class, or the ImageFolder layout with a metadata file.

Folders of classes may lie in ``train`` and ``test`` folders, which then are the column ``split``.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from fairaudit.data.dataset import SPLIT, Notice
from fairaudit.data.decode import SUFFIXES, ImageOptions, ImageStack
from fairaudit.data.naming import listed, near_miss, quoted
from fairaudit.data.readers import open_source, read_columns
from fairaudit.errors import DataError, numbered

METADATA = "metadata.csv"
FILE_NAME = "file_name"  # the metadata's column of paths, relative to the metadata file
LABEL, IMAGE = "label", "image"
_PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})


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
    if (path / METADATA).is_file():
        return True
    entries = [p for p in path.iterdir() if not p.name.startswith(".")]
    if any(p.is_file() and p.suffix.lower() in SUFFIXES for p in entries):
        return True
    has_tables = any(
        p.is_file() and p.suffix.lower() in {".csv", ".parquet", ".feather"} for p in entries
    )
    return any(p.is_dir() for p in entries) and not has_tables


def open_folder(root: Path, options: ImageOptions) -> ImageFolder:
    """List the images of a folder and what is known of each.

    Raises:
        DataError: No images, neither class folders nor metadata, metadata that name a missing file,
            or a path that leads out of the folder.
    """
    files, others = _listing(root)
    if not files:
        kinds = ", ".join(sorted(SUFFIXES))
        raise DataError(
            f"{root.name or root} holds no images", f"give a folder with files named {kinds}"
        )
    notices = []
    has_metadata = (root / METADATA).is_file()
    if has_metadata:
        rows, columns = _from_metadata(root, files)
        unlisted = len(set(files) - set(rows))
        files, by = rows, f"declared in {METADATA}"
        if unlisted:
            message = (
                f"{numbered(unlisted, 'image')} of the folder left out: no row in the metadata"
            )
            fix = "add a row for each that should count"
            notices.append(Notice("images_not_listed", message, fix))
    else:
        columns, by = _from_classes(root, files), "declared by the folders"
    if others:
        message = f"no images in the folder: {numbered(others, 'file')}"
        notices.append(Notice("other_files", message, level="notice"))
    is_declared = LABEL in columns.column_names
    return ImageFolder(
        root=root,
        files=tuple(files),
        columns=columns,
        metadata=(METADATA,) if has_metadata else (),
        image=IMAGE if IMAGE not in columns.column_names else f"({IMAGE})",
        declared={LABEL: LABEL} if is_declared else {},
        declared_by=by if is_declared else "",
        options=options,
        notices=tuple(notices),
    )


def _listing(root: Path) -> tuple[list[str], int]:
    """Paths of all images below the root, sorted, and the number of other files; none hidden.

    Raises:
        DataError: A link that leads out of the root, or to a folder.
    """

    def refuse(error: OSError) -> None:
        raise DataError(f"{Path(str(error.filename)).name} cannot be read: {error.strerror}")

    files: list[str] = []
    others = 0
    inside = root.resolve()
    for folder, names, entries in os.walk(root, onerror=refuse):
        names[:] = sorted(n for n in names if not n.startswith("."))
        here = Path(folder)
        below = PurePosixPath(here.relative_to(root).as_posix())
        for name in names:
            if (here / name).is_symlink():
                raise DataError(f"{quoted(str(below / name))} is a link to a folder")
        for name in entries:
            if name.startswith("."):
                continue
            if os.path.splitext(name)[1].lower() not in SUFFIXES:
                if name == METADATA and here != root:
                    raise DataError(
                        f"{quoted(str(below / name))}: one metadata.csv names all images"
                    )
                others += name != METADATA
                continue
            if (here / name).is_symlink() and not (here / name).resolve().is_relative_to(inside):
                raise _outside(str(below / name))
            files.append(str(below / name))
    return sorted(files), others


def _outside(name: str) -> DataError:
    return DataError(f"{quoted(name)} leads out of the folder of images")


def _from_classes(root: Path, files: Sequence[str]) -> pa.Table:
    """The folder of each image as its class; above it may be ``train`` and ``test`` folders."""
    paths = [PurePosixPath(name).parts for name in files]
    sides = {parts[0] for parts in paths}
    has_parts = (
        len(sides) > 1
        and all(side.lower() in _PARTS for side in sides)
        and any(len(parts) > 2 for parts in paths)
    )
    loose = [parts for parts in paths if len(parts) < 2 + has_parts]
    if loose:
        raise DataError(
            f"{numbered(len(loose), 'image lies', 'images lie')} in "
            f"{PurePosixPath(root.name, *loose[0][:-1])} itself, in no folder of a class",
            "put each into a folder named as its class, or write metadata.csv with file_name and "
            "label",
        )
    columns = {LABEL: [parts[has_parts] for parts in paths]}
    if has_parts:
        columns[SPLIT] = [parts[0].lower() for parts in paths]
    return pa.table(columns)


def _from_metadata(root: Path, known: Sequence[str]) -> tuple[list[str], pa.Table]:
    """Path below the root of each row's image, and the other columns.

    Raises:
        DataError: A path out of the folder, or a file that is not there.
    """
    inside = root.resolve()
    if not (root / METADATA).resolve().is_relative_to(inside):
        raise _outside(METADATA)
    source = open_source(root / METADATA)
    table = read_columns(source, source.schema.names)[0]
    if FILE_NAME not in table.column_names:
        raise DataError(
            f"{METADATA} has no column {FILE_NAME!r} ({listed(table.column_names)})",
            near_miss(FILE_NAME, table.column_names)
            or "it names each row's image, relative to the metadata file",
        )
    if table.column(FILE_NAME).null_count:
        raise DataError(f"{METADATA}: {FILE_NAME} is missing in some rows")
    listing = set(known)
    files, missing = [], []
    for value in table.column(FILE_NAME).to_pylist():
        path = PurePosixPath(str(value))
        below = str(path)
        if path.is_absolute() or ".." in path.parts or "\0" in below:
            raise _outside(below)
        if below not in listing:  # also one that the listing does not know by its suffix
            if not (root / below).resolve().is_relative_to(inside):
                raise _outside(below)
            if not (root / below).is_file():
                missing.append(below)
        files.append(below)
    if missing:
        raise DataError(
            f"{METADATA} names {numbered(len(missing), 'file')} not in the folder: "
            f"{listed(missing)}"
        )
    return files, table.drop_columns([FILE_NAME])


def _content(root: Path, name: str) -> bytes | None:
    """A file's bytes, None where it cannot be read."""
    try:
        with open(os.path.join(root, name), "rb") as file:  # pathlib takes as long as the reading
            return file.read()
    except OSError:
        return None
