"""A folder of images and ``metadata.csv``, which says of each what is known.

The layout is that of Hugging Face's ImageFolder.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa

from fairaudit.data.reading.images import SUFFIXES, ImageOptions, decode_files
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.tables import open_source, read_columns, read_stored
from fairaudit.errors import DataError, numbered
from fairaudit.messages.base import Message
from fairaudit.messages.data import ImagesNotListed
from fairaudit.messages.names import listed

METADATA = "metadata.csv"
FILE_NAME = "file_name"  # the metadata's column of paths, relative to the metadata file
LABEL, IMAGE = "label", "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder(DataSource):
    """A folder of images whose files are listed and not opened yet.

    Args:
        root: The folder.
        files: Path below it of each row's image; "" where the metadata name none of the folder.
        metadata: What is known beside the images, one row for each image.
        options: How images are read.
        notices: What listing the files showed.
        described: The files below the root that the metadata were read from.
    """

    root: Path
    files: tuple[str, ...]
    metadata: StoredColumns
    options: ImageOptions
    notices: tuple[Message, ...]
    described: tuple[str, ...] = (METADATA,)

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Message, ...]]:
        """The named columns in that order, and notices; images are decoded where asked for.

        Raises:
            DataError: An image that cannot be read, or that has another size than the first.
        """
        table = self.metadata.table
        if self.image is not None and self.image in columns:
            contents = ((name, self._content(name)) for name in self.files)
            images = decode_files(len(self.files), contents, self.options)
            table = table.append_column(self.image, images)
        return table.select(list(columns)), self.notices

    def stored(self, columns: Sequence[str]) -> StoredColumns:
        """The named columns as the metadata store them, and the images.

        Raises:
            DataError: As :meth:`read`, unless the shape of the images is known.
        """
        return replace(self.metadata, table=self.read(columns)[0])

    def digest(self) -> str:
        """The sha256 over names and contents of all files that are read, sorted by name."""
        whole = hashlib.sha256()
        for name in sorted({*self.files, *self.described} - {""}):  # "": a row without its image
            content = hashlib.sha256(self._content(name)).hexdigest()
            whole.update(f"{len(name)} {name} {content}\n".encode("utf8", "surrogateescape"))
        return whole.hexdigest()

    def _content(self, name: str) -> bytes:
        """A file's bytes; none where it cannot be read, which decoding then refuses by its name."""
        if not name:
            return b""
        try:  # os.path, as pathlib would take as long as the reading
            with open(os.path.join(self.root, name), "rb") as file:
                return file.read()
        except OSError:
            return b""


def open_folder(root: Path, options: ImageOptions) -> ImageFolder:
    """List the images of a folder and read its metadata; the images are opened later.

    The metadata's column ``label`` is declared to be the label. Images without a row there are left
    out with a notice.

    Args:
        root: The folder.
        options: How images are read. Where their shape is known rows stand alone: the metadata are
            kept as text, and a row that names no image of the folder has a missing one.

    Raises:
        DataError: Metadata without a column of paths, or of a path that is no image of the folder.
    """
    source = open_source(root / METADATA, is_alone=options.shape is not None)
    if source.is_alone:
        metadata = read_stored(source, source.schema.names)
    else:
        metadata = StoredColumns(read_columns(source, source.schema.names), source.marks)
    table = metadata.table
    if FILE_NAME not in table.column_names:
        raise DataError(
            f"{METADATA} has no column {FILE_NAME!r}",
            "it names each row's image, relative to the metadata file",
        )
    files = [PurePosixPath(str(name)).as_posix() for name in table.column(FILE_NAME).to_pylist()]
    known = images_below(root)
    missing = sorted(set(files) - known)
    if source.is_alone:
        files = [name if name in known else "" for name in files]  # "": a missing image
    elif missing:
        raise DataError(
            f"{METADATA} names {numbered(len(missing), 'file')} that are no images of the folder: "
            f"{listed(missing)}"
        )
    notices = []
    unlisted = len(known - set(files))
    if unlisted:
        notices.append(ImagesNotListed(unlisted))
    columns = table.drop_columns([FILE_NAME])
    declared = {LABEL: LABEL} if LABEL in columns.column_names else {}
    # The metadata may have a column `image` already.
    image = IMAGE if IMAGE not in columns.column_names else f"({IMAGE})"
    return ImageFolder(
        format="image folder",
        schema=columns.schema.append(pa.field(image, pa.binary())),
        image=image,
        root=root,
        files=tuple(files),
        metadata=replace(metadata, table=columns),
        declared=declared,
        declared_by=f"declared in {METADATA}" if declared else "",
        options=options,
        notices=tuple(notices),
    )


def images_below(root: Path) -> set[str]:
    """Paths of all images below the root, none hidden.

    A link to a folder is not entered; a link to a file counts as the file, wherever that is.
    """
    files = set()
    for folder, folders, names in os.walk(root):
        # In place: `os.walk` enters those that are left.
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name).relative_to(root)
            if path.suffix.lower() in SUFFIXES and not name.startswith("."):
                files.add(path.as_posix())
    return files
