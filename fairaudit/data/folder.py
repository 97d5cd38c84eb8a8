"""Folders of images: one folder per class, or the ImageFolder layout with a metadata file.

Folders of classes may lie in ``train`` and ``test`` folders, which then are the column ``split``.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from fairaudit.data.dataset import SPLIT, Notice
from fairaudit.data.decode import SUFFIXES, ImageOptions, ImageStack
from fairaudit.data.naming import listed, near_miss
from fairaudit.data.readers import is_table_name, open_source, read_columns
from fairaudit.data.source import DataSource
from fairaudit.errors import DataError, numbered

METADATA = "metadata.csv"
FILE_NAME = "file_name"  # the metadata's column of paths, relative to the metadata file
LABEL, IMAGE = "label", "image"
_PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder(DataSource):
    """A folder of images whose files are listed and not opened yet.

    Args:
        root: The folder.
        files: Path below it of each row's image.
        columns: What is known of each image.
        options: How images are read.
        notices: What listing the files showed.
    """

    root: Path
    files: tuple[str, ...]
    columns: pa.Table
    options: ImageOptions
    notices: tuple[Notice, ...]

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Notice, ...]]:
        """Those columns in that order; images are decoded where asked for.

        Raises:
            DataError: An image that cannot be read, or that has another size than the first.
        """
        table = self.columns.select([name for name in columns if name != self.image])
        notices = self.notices
        if self.image is not None and self.image in columns:
            stack = ImageStack(len(self.files), self.options)
            for row, name in enumerate(self.files):
                stack.add(row, name, _content(self.root, name))
            images, said = stack.finish(self.root.name)
            table = table.append_column(self.image, images)
            notices += said
        return table.select(list(columns)), notices

    def digest(self) -> str:
        """Over the names and contents of all files that are read, sorted by name."""
        whole = hashlib.sha256()
        for name in sorted({*self.files, METADATA}):
            content = hashlib.sha256(_content(self.root, name) or b"").hexdigest()
            whole.update(f"{len(name)} {name} {content}\n".encode("utf8", "surrogateescape"))
        return whole.hexdigest()


def is_image_folder(path: Path) -> bool:
    """Whether a folder holds metadata, images or folders, and else no table."""
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    if any(e.name == METADATA or e.suffix.lower() in SUFFIXES for e in entries):
        return True
    return any(e.is_dir() for e in entries) and not any(is_table_name(e) for e in entries)


def open_folder(root: Path, options: ImageOptions) -> ImageFolder:
    """List the images of a folder and what is known of each.

    Raises:
        DataError: No images, neither class folders nor metadata, or metadata that name no image of
            the folder.
    """
    files, others = _listing(root)
    if not files:
        raise DataError(
            f"{root.name or root} holds no images", f"name them {', '.join(sorted(SUFFIXES))}"
        )
    notices = []
    if (root / METADATA).is_file():
        listed_files, columns = _from_metadata(root, files)
        by, unlisted = f"declared in {METADATA}", len(set(files) - set(listed_files))
        files = listed_files
        if unlisted:
            message = f"{numbered(unlisted, 'image')} left out: no row in the metadata"
            fix = "add a row for each that should count"
            notices.append(Notice("images_not_listed", message, fix))
    else:
        columns, by = _from_classes(root, files), "declared by the folders"
    if others:
        message = f"no images in the folder: {numbered(others, 'entry', 'entries')}"
        notices.append(Notice("other_files", message, level="notice"))
    declared: dict[str, str] = {}
    if LABEL in columns.column_names:
        declared[LABEL] = LABEL
    else:
        by = ""
    image = IMAGE if IMAGE not in columns.column_names else f"({IMAGE})"
    return ImageFolder(
        format="image folder",
        schema=columns.schema.append(pa.field(image, pa.binary())),
        image=image,
        root=root,
        files=tuple(files),
        columns=columns,
        declared=declared,
        declared_by=by,
        options=options,
        notices=tuple(notices),
    )


def _listing(root: Path) -> tuple[list[str], int]:
    """Paths of all images below the root, sorted, and the number of other entries; none hidden.

    A link to a folder is not entered; one to a file may lead anywhere.
    """
    files: list[str] = []
    others = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        others += sum((Path(folder) / name).is_symlink() for name in folders)
        for name in names:
            path = Path(folder, name).relative_to(root)
            if path.suffix.lower() in SUFFIXES and not name.startswith("."):
                files.append(path.as_posix())
            elif path.name != METADATA and not name.startswith("."):
                others += 1
    return sorted(files), others


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
        DataError: No column of paths, or a path that is no image of the folder.
    """
    source = open_source(root / METADATA)
    table = read_columns(source, source.schema.names)[0]
    if FILE_NAME not in table.column_names:
        raise DataError(
            f"{METADATA} has no column {FILE_NAME!r} ({listed(table.column_names)})",
            near_miss(FILE_NAME, table.column_names)
            or "it names each row's image, relative to the metadata file",
        )
    files = [PurePosixPath(str(name)).as_posix() for name in table.column(FILE_NAME).to_pylist()]
    missing = sorted(set(files) - set(known))
    if missing:
        raise DataError(
            f"{METADATA} names {numbered(len(missing), 'file')} that are no images of the folder: "
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
