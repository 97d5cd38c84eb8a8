"""What ``--data`` points at.

A table file, a folder of several of one schema, images with metadata.csv, an npz archive.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fairaudit.data.archive import NPZ, open_archive
from fairaudit.data.dataset import Notice
from fairaudit.data.decode import ImageOptions, decode_files
from fairaudit.data.folder import METADATA, open_folder
from fairaudit.data.naming import listed, quoted, typed
from fairaudit.data.readers import (
    Source,
    digest_of,
    explained,
    is_table_name,
    open_source,
    read_columns,
)
from fairaudit.data.source import DataSource
from fairaudit.errors import DataError

_BYTES = "bytes"  # the field of a struct that holds an image file
# First bytes of image files.
_IMAGE_FILES = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\x00", b"MM\x00*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles(DataSource):
    """One table file, or several whose rows follow each other.

    Args:
        files: In the order of their names.
        options: How images are read.
    """

    files: tuple[Source, ...]
    options: ImageOptions

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Notice, ...]]:
        """The named columns of all files, one file's rows below another's, and notices.

        Raises:
            DataError: Damaged content, no rows, types that do not join, an unreadable image.
        """
        tables: list[pa.Table] = []
        notices: list[Notice] = []
        for file in self.files:
            table, notes = read_columns(file, columns)
            tables.append(table)
            notices += notes
        try:
            whole = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            names = f"{self.files[0].path.name} to {self.files[-1].path.name}"
            raise DataError(f"the tables {names} do not join: {error}") from None
        if self.image is not None and self.image in columns:
            stored = whole.column(self.image)
            if pa.types.is_struct(stored.type):
                stored = pc.struct_field(stored, _BYTES)
            files = ((f"row {row:,}", image.as_py() or b"") for row, image in enumerate(stored, 1))
            images = decode_files(len(stored), files, self.options)
            place = whole.column_names.index(self.image)
            whole = whole.set_column(place, self.image, images)
        return whole, tuple(dict.fromkeys(notices))

    def digest(self) -> str:
        """The sha256 of the only file's content, else over all names and contents in order."""
        if len(self.files) == 1:
            return digest_of(self.files[0].path)
        whole = hashlib.sha256()
        for file in self.files:
            name = file.path.name
            whole.update(f"{len(name)} {name} {digest_of(file.path)}\n".encode())
        return whole.hexdigest()


def open_data(path: Path, options: ImageOptions, dropped: Sequence[str] = ()) -> DataSource:
    """Find out what the data at a path are.

    Args:
        path: A file or a folder.
        options: How images are read.
        dropped: Columns that are not read, so images are not looked for in them.

    Raises:
        DataError: Missing, unreadable, or neither a table nor images.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that no file can have
        why = error.strerror or "not a path"
        raise DataError(f"{quoted(str(path))}: {why}") from None
    paths = [path]
    if is_folder:
        if (path / METADATA).is_file():
            return open_folder(path, options)
        paths = sorted(p for p in path.iterdir() if is_table_name(p) and not p.name.startswith("."))
        if not paths:
            raise DataError(
                f"{path.name or path} is a folder without tables and without images",
                "give a table file, or images with metadata.csv",
            )
        if len({p.suffix.lower() for p in paths}) > 1:
            raise DataError(
                f"{path.name or path} holds tables of several kinds: "
                f"{listed(p.name for p in paths)}",
                f"give one file, for example --data {typed(str(paths[0]))}",
            )
    elif path.suffix.lower() == NPZ and path.is_file():
        return open_archive(path, options)
    files = tuple(open_source(path) for path in paths)
    first = files[0]
    for file in files[1:]:
        if set(file.schema.names) != set(first.schema.names):
            raise DataError(f"{file.path.name} has other columns than {first.path.name}")
    return TableFiles(
        format=first.format,
        schema=first.schema,
        declared=first.declared,
        declared_by=first.declared_by,
        image=_image_column(first, dropped),
        files=files,
        options=options,
    )


def _image_column(source: Source, dropped: Sequence[str]) -> str | None:
    """The column of a Parquet file that holds image files, by its first value; None if none does.

    They are stored as bytes, or in structs with a field ``bytes``.

    Raises:
        DataError: Several columns do, or the file is damaged.
    """
    columns = []
    for field in source.schema if source.format == "parquet" else ():
        is_struct = pa.types.is_struct(field.type) and field.type.get_field_index(_BYTES) >= 0
        if field.name in dropped or not (is_struct or pa.types.is_binary(field.type)):
            continue
        with explained(source.path):
            first = next(pq.ParquetFile(source.path).iter_batches(1, columns=[field.name]), None)
        value = first.column(0)[0].as_py() if first else None
        content = value.get(_BYTES) if isinstance(value, dict) else value
        if isinstance(content, bytes) and content.startswith(_IMAGE_FILES):
            columns.append(field.name)
    if len(columns) > 1:
        raise DataError(
            f"several columns of {source.path.name} hold images: {listed(columns)}",
            f"leave all but one out, for example --drop {typed(columns[0])}",
        )
    return columns[0] if columns else None
