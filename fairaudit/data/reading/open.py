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

from fairaudit.data.dataset import Notice
from fairaudit.data.naming import listed, quoted, typed
from fairaudit.data.reading.archive import NPZ, open_archive
from fairaudit.data.reading.folder import METADATA, open_folder
from fairaudit.data.reading.images import ImageOptions, decode_files
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.tables import (
    TableFile,
    digest_of,
    explained,
    is_table_name,
    open_source,
    read_columns,
    read_stored,
)
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

    files: tuple[TableFile, ...]
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
        return self._with_images(whole), tuple(dict.fromkeys(notices))

    def stored(self, columns: Sequence[str]) -> StoredColumns:
        """The named columns of all files as they store them.

        A column that they store in different types becomes text, in which each value means what it
        meant.

        Raises:
            DataError: As :meth:`read`, but for what a row of a source whose rows stand alone holds.
        """
        parts = [read_stored(file, columns) for file in self.files]
        whole = {}
        for name in columns:
            of_parts = [part.table.column(name) for part in parts]
            if len({column.type for column in of_parts}) > 1:
                of_parts = [part.texts(name) for part in parts]
            chunks = [chunk for column in of_parts for chunk in column.chunks]
            whole[name] = pa.chunked_array(chunks, type=of_parts[0].type)
        table = self._with_images(pa.table(whole))
        return StoredColumns(table, self.files[0].marks, sum(part.lost for part in parts))

    def _with_images(self, table: pa.Table) -> pa.Table:
        """The table with its column of images decoded, if it has one."""
        if self.image is None or self.image not in table.column_names:
            return table
        stored = table.column(self.image)
        if pa.types.is_struct(stored.type):
            stored = pc.struct_field(stored, _BYTES)
        files = ((f"row {row:,}", image.as_py() or b"") for row, image in enumerate(stored, 1))
        images = decode_files(len(stored), files, self.options)
        return table.set_column(table.column_names.index(self.image), self.image, images)

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
    paths = _paths_of_tables(path)
    if paths is None:
        return _images_at(path, options)
    files = _of_one_schema([open_source(path) for path in paths])
    return _tables(files, options, _image_column(files[0], dropped))


def open_alone(path: Path, options: ImageOptions, image: str | None) -> DataSource:
    """Open data to read what they store, row by row: no row changes how another one is read.

    Args:
        path: A file or a folder.
        options: How images are read, with the shape of images where the data are some.
        image: The column of a table that holds images; None where none does.

    Raises:
        DataError: As :func:`open_data`.
    """
    paths = _paths_of_tables(path)
    if paths is None:
        return _images_at(path, options)
    return _tables(_of_one_schema([open_source(p, is_alone=True) for p in paths]), options, image)


def _paths_of_tables(path: Path) -> list[Path] | None:
    """The table files at a path, in the order of their names; None where images lie there.

    Raises:
        DataError: A folder without tables, or with tables of several kinds.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that no file can have
        why = error.strerror or "not a path"
        raise DataError(f"{quoted(str(path))}: {why}") from None
    if not is_folder:
        is_archive = path.suffix.lower() == NPZ and path.is_file()
        return None if is_archive else [path]
    if (path / METADATA).is_file():
        return None
    paths = sorted(p for p in path.iterdir() if is_table_name(p) and not p.name.startswith("."))
    if not paths:
        raise DataError(
            f"{path.name or path} is a folder without tables and without images",
            "give a table file, or images with metadata.csv",
        )
    if len({p.suffix.lower() for p in paths}) > 1:
        raise DataError(
            f"{path.name or path} holds tables of several kinds: {listed(p.name for p in paths)}",
            f"give one file, for example --data {typed(str(paths[0]))}",
        )
    return paths


def _images_at(path: Path, options: ImageOptions) -> DataSource:
    """The images at a path: a folder with metadata, or an archive."""
    return open_folder(path, options) if path.is_dir() else open_archive(path, options)


def _of_one_schema(files: Sequence[TableFile]) -> tuple[TableFile, ...]:
    """The files, once it is known that they have the same columns; DataError where they do not."""
    for file in files[1:]:
        if set(file.schema.names) != set(files[0].schema.names):
            raise DataError(f"{file.path.name} has other columns than {files[0].path.name}")
    return tuple(files)


def _tables(files: tuple[TableFile, ...], options: ImageOptions, image: str | None) -> TableFiles:
    """The data of table files that have the same columns."""
    first = files[0]
    return TableFiles(
        format=first.format,
        schema=first.schema,
        declared=first.declared,
        declared_by=first.declared_by,
        image=image,
        files=files,
        options=options,
    )


def _image_column(source: TableFile, dropped: Sequence[str]) -> str | None:
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
