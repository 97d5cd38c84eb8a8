"""What ``--data`` points at.

A table file, a folder of several of one schema, images with metadata.csv, an npz archive.
Columns of lists and of pixels become here what a training reads: numbers and images.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fairaudit.config.addresses import located
from fairaudit.config.options import NO_TEXT_OPTIONS, TextOptions
from fairaudit.data.column_types import holds_bytes
from fairaudit.data.dataset import SPLIT, columns_of, image_column
from fairaudit.data.reading.archive import NPZ, open_archive
from fairaudit.data.reading.elsewhere import at_hand, is_pattern
from fairaudit.data.reading.folder import METADATA, open_folder
from fairaudit.data.reading.images import ImageOptions, decode_files, fitted, refuse_too_large
from fairaudit.data.reading.packed import ending_of
from fairaudit.data.reading.parts import parts_below, with_folders, with_sides
from fairaudit.data.reading.pixels import IMAGE as PIXELS
from fairaudit.data.reading.pixels import pixel_columns, read_pixels
from fairaudit.data.reading.published import is_published, open_published
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.tables import (
    TableFile,
    digest_of,
    explained,
    open_source,
    read_columns,
    read_stored,
)
from fairaudit.data.reading.vectors import (
    SHORTEST,
    fixed_length,
    holds_numbers,
    lengths_in,
    lengths_named,
    names_of,
    number_fields,
    with_numbers,
)
from fairaudit.errors import DataError, numbered
from fairaudit.messages.base import Message
from fairaudit.messages.names import listed, quoted, typed

NO_LISTS: Mapping[str, int] = {}  # the default: no column holds lists
_ONE_KIND = {".test": ".data"}  # endings of the two files of UCI's tables
_BYTES = "bytes"  # the field of a struct that holds an image file
# First bytes of image files.
_IMAGE_FILES = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\x00", b"MM\x00*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles(DataSource):
    """One table file, or several whose rows follow each other.

    Args:
        files: In the order of their names.
        options: How images are read.
        lists: Column of lists -> how many numbers each of them holds, and so how many columns it
            becomes.
        pixels: The columns that hold the pixels of the images; () where none do.
    """

    files: tuple[TableFile, ...]
    options: ImageOptions
    lists: Mapping[str, int] = field(default_factory=dict)
    pixels: tuple[str, ...] = ()

    @property
    def sides(self) -> str | None:
        """The column that the names of files or folders make, which says the side of a row."""
        return SPLIT if SPLIT in self.files[0].parts else None

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Message, ...]]:
        """The named columns of all files, one file's rows below another's, and notices.

        Raises:
            DataError: Damaged content, no rows, types that do not join, an unreadable image.
        """
        needed = self._stored_in(columns)
        tables = [read_columns(file, needed) for file in self.files]
        # A CSV's types are guessed file by file. What is text in one is read as text from all, so
        # that the values of all files decide together.
        texts = [name for name in needed if self.is_untyped and _is_text_somewhere(tables, name)]
        for place, file in enumerate(self.files):
            lacking = [n for n in texts if not pa.types.is_string(tables[place].column(n).type)]
            if lacking:
                as_text = read_columns(file, lacking, as_text=True)
                tables[place] = pa.table(columns_of(tables[place]) | columns_of(as_text))
        try:
            whole = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            names = f"{self.files[0].path.name} to {self.files[-1].path.name}"
            raise DataError(f"the tables {names} do not join: {error}") from None
        table = self._as_asked(StoredColumns(whole, self.files[0].marks), columns).table
        return table, ()

    def stored(self, columns: Sequence[str]) -> StoredColumns:
        """The named columns of all files as they store them.

        A column that they store in different types becomes text, in which each value means what it
        meant.

        Raises:
            DataError: As :meth:`read`, but for what a row of a source whose rows stand alone holds.
        """
        needed = self._stored_in(columns)
        parts = [read_stored(file, needed) for file in self.files]
        whole = {}
        for name in needed:
            of_parts = [part.table.column(name) for part in parts]
            if len({column.type for column in of_parts}) > 1:
                of_parts = [part.texts(name) for part in parts]
            chunks = [chunk for column in of_parts for chunk in column.chunks]
            whole[name] = pa.chunked_array(chunks, type=of_parts[0].type)
        lost = sum(part.lost for part in parts)
        return self._as_asked(StoredColumns(pa.table(whole), self.files[0].marks, lost), columns)

    def _stored_in(self, columns: Sequence[str]) -> list[str]:
        """The columns of the files that the named columns are made of.

        Images are made of all columns of pixels, and a number of a list of its column of lists.
        """
        list_of_number: dict[str, str] = {}
        for name, length in self.lists.items():
            list_of_number |= dict.fromkeys(names_of(name, length), name)
        stored: dict[str, None] = {}  # a set that keeps the order
        for name in columns:
            if name == self.image and self.pixels:
                stored |= dict.fromkeys(self.pixels)
            else:
                stored[list_of_number.get(name, name)] = None
        return list(stored)

    def _as_asked(self, stored: StoredColumns, columns: Sequence[str]) -> StoredColumns:
        """The named columns of what the files hold: lists as numbers, pixels and files as images.

        Raises:
            DataError: An image cannot be read.
        """
        if self.pixels and self.image in columns:
            images = self._images_of_pixels(stored)
            others = stored.table.drop_columns(list(self.pixels))
            stored = replace(stored, table=others.append_column(self.image, images))
        present = columns_of(stored.table)
        table = with_numbers(stored.table, {n: k for n, k in self.lists.items() if n in present})
        return replace(stored, table=self._with_images(table.select(list(columns))))

    def _images_of_pixels(self, stored: StoredColumns) -> pa.ChunkedArray:
        """The column of images of a table's pixels.

        Raises:
            DataError: A value is no pixel, unless the shape of the images is known: then it is a
                missing image.
        """
        assert self.options.pixels is not None
        refuse_too_large(stored.table.num_rows, self.options.pixels.shape)
        pixels, lacking = read_pixels(stored, self.pixels, self.options.pixels)
        if lacking.any() and self.options.shape is None:
            raise DataError(
                f"{numbered(int(lacking.sum()), 'row')} of the pixels "
                f"{listed([self.pixels[0], self.pixels[-1]])} hold other values than 0 to 255, or "
                "another number of them",
                "write whole numbers of 0 to 255: (255 * x).round() for values of 0 to 1",
            )
        return image_column(np.ascontiguousarray(fitted(pixels, self.options)), lacking)

    def _with_images(self, table: pa.Table) -> pa.Table:
        """The table with its column of images decoded, if it has one."""
        # Images of `pixels` are made already, by `_images_of_pixels`.
        if self.image is None or self.image not in table.column_names or self.pixels:
            return table
        stored = table.column(self.image)
        if pa.types.is_struct(stored.type):
            stored = pc.struct_field(stored, _BYTES)
        # A missing value is given as b"": decoding treats it as a file that is no image.
        files = ((f"row {row:,}", image.as_py() or b"") for row, image in enumerate(stored, 1))
        images = decode_files(len(stored), files, self.options)
        return table.set_column(table.column_names.index(self.image), self.image, images)

    def digest(self) -> str:
        """The sha256 of the only file's content, else over all names and contents in order."""
        if len(self.files) == 1:
            return digest_of(self.files[0].path)
        whole = hashlib.sha256()
        for file in self.files:
            name = file.within or file.path.name
            whole.update(f"{len(name)} {name} {digest_of(file.path)}\n".encode())
        return whole.hexdigest()


def open_data(
    path: Path,
    options: ImageOptions,
    dropped: Sequence[str] = (),
    text: TextOptions = NO_TEXT_OPTIONS,
) -> DataSource:
    """Find out what the data at a path are.

    Args:
        path: A file or a folder.
        options: How images are read.
        dropped: Columns that are not read, so images are not looked for in them.
        text: How a text file is read.

    Raises:
        DataError: Missing, unreadable, or neither a table nor images.
    """
    path = at_hand(_located(path))
    paths = _paths_of_tables(path)
    if paths is None:
        return _images_at(path, options)
    files = _of_one_schema(
        _in_folders(path, [open_source(path, names=text.names) for path in paths])
    )
    files = with_sides(files)
    if options.pixels is not None and not _has_images(files[0].schema):
        columns = pixel_columns(files[0].schema, options.pixels, dropped)
        return _tables(files, options, _name_of(columns, files[0].schema), pixels=columns)
    return _tables(files, options, _image_column(files[0], dropped), _lists(files, dropped))


def open_alone(
    path: Path,
    options: ImageOptions,
    image: str | None,
    columns: Sequence[str],
    text: TextOptions = NO_TEXT_OPTIONS,
) -> DataSource:
    """Open data to read what they store, row by row: no row changes how another one is read.

    Args:
        path: A file or a folder.
        options: How images are read, with the shape of images where the data are some.
        image: The column of a table that holds images; None where none does.
        columns: Names of the columns that will be read, by which it is known how long lists are.
        text: How a text file is read.

    Raises:
        DataError: As :func:`open_data`.
    """
    path = at_hand(_located(path))
    paths = _paths_of_tables(path)
    if paths is None:
        return _images_at(path, options)
    opened = [open_source(p, is_alone=True, names=text.names) for p in paths]
    # What folders' names say stays text: to guess its type, all of them would be looked at.
    files = _of_one_schema(_in_folders(path, opened, as_text=True))
    files = with_sides(files)
    schema = files[0].schema
    if options.pixels is not None and not _has_images(schema):
        return _tables(files, options, image, pixels=pixel_columns(schema, options.pixels, ()))
    return _tables(files, options, image, lengths_named(columns, schema))


def _located(path: Path) -> Path:
    """The path, or the address that its text is (a :class:`Path` loses a slash of it)."""
    where = located(path)
    assert isinstance(where, Path)
    return where


def _is_text_somewhere(tables: Sequence[pa.Table], name: str) -> bool:
    """Whether a column is text in some of the tables and of another type in others."""
    types = {table.column(name).type for table in tables}
    return len(types) > 1 and any(map(pa.types.is_string, types))


def _paths_of_tables(path: Path) -> list[Path] | None:
    """The table files at a path, in the order of their names; None where images lie there.

    Raises:
        DataError: A folder without tables, a folder or pattern with tables of several kinds, a
            pattern that no file fits, or a name that no file can have.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that no file can have
        why = error.strerror or "not a path"
        raise DataError(f"{quoted(str(path))}: {why}") from None
    if not is_folder and is_pattern(path):
        fitting = [p for p in sorted(path.parent.glob(path.name)) if p.is_file()]
        if not fitting:
            raise DataError(f"no file fits {quoted(str(path))}")
        return _of_one_kind(path, fitting)
    if not is_folder:
        is_archive = path.suffix.lower() == NPZ and path.is_file()
        return None if is_archive else [path]
    if (path / METADATA).is_file() or is_published(path):
        return None
    paths = parts_below(path)
    if not paths:
        raise DataError(
            f"{path.name or path} is a folder without tables and without images",
            "give a table file, or images with metadata.csv",
        )
    return _of_one_kind(path, paths)


def _of_one_kind(path: Path, paths: list[Path]) -> list[Path]:
    """The files at a path; DataError where they are tables of several kinds."""
    if len({_ONE_KIND.get(ending_of(p), ending_of(p)) for p in paths}) > 1:
        raise DataError(
            f"{path.name or path} holds tables of several kinds: {listed(p.name for p in paths)}",
            f"give one file, for example --data {typed(str(paths[0]))}",
        )
    return paths


def _images_at(path: Path, options: ImageOptions) -> DataSource:
    """The images at a path: a folder with metadata or as published, or an archive."""
    if not path.is_dir():
        return open_archive(path, options)
    if (path / METADATA).is_file():
        return open_folder(path, options)
    return open_published(path, options)


def _in_folders(
    path: Path, files: Sequence[TableFile], *, as_text: bool = False
) -> Sequence[TableFile]:
    """The files at a path, with the columns that folders below it name (:func:`with_folders`)."""
    return with_folders(path, files, as_text=as_text) if path.is_dir() else files


def _of_one_schema(files: Sequence[TableFile]) -> tuple[TableFile, ...]:
    """The files, once it is known that they have the same columns; DataError where they do not."""
    for file in files[1:]:
        if set(file.schema.names) != set(files[0].schema.names):
            raise DataError(f"{file.path.name} has other columns than {files[0].path.name}")
    return tuple(files)


def _tables(
    files: tuple[TableFile, ...],
    options: ImageOptions,
    image: str | None,
    lists: Mapping[str, int] = NO_LISTS,
    pixels: Sequence[str] = (),
) -> TableFiles:
    """The data of table files that have the same columns.

    Args:
        files: At least one.
        options: How images are read.
        image: The column of images, or the name of the one that ``pixels`` become; None where there
            is none.
        lists: Column -> how many numbers each of its lists holds; they become so many columns.
        pixels: Columns that become one column of images.
    """
    first = files[0]
    fields: list[pa.Field] = []
    for one in first.schema:
        if one.name in lists:
            fields += number_fields(one, lists[one.name])
        elif one.name not in pixels:
            fields.append(one)
    if pixels:
        assert image is not None
        # Binary stands for images: their own type is known only once they are made.
        fields.append(pa.field(image, pa.binary()))
    return TableFiles(
        format=first.format,
        schema=pa.schema(fields, first.schema.metadata),
        declared=first.declared,
        declared_by=first.declared_by,
        image=image,
        files=files,
        options=options,
        lists=lists,
        pixels=tuple(pixels),
    )


def _name_of(pixels: Sequence[str], schema: pa.Schema) -> str:
    """The name of the column of images that columns of pixels become, used by no other column."""
    if len(pixels) == 1:
        return pixels[0]
    # A column of pixels that has the name itself makes way for the images.
    return PIXELS if PIXELS not in schema.names or PIXELS in pixels else f"({PIXELS})"


def _lists(files: Sequence[TableFile], dropped: Sequence[str]) -> dict[str, int]:
    """Column of lists of numbers -> their one length, where that is eight or more.

    Where the type does not tell the length, all rows are looked at.
    """
    lengths: dict[str, int] = {}
    names = set(files[0].schema.names)
    for one in files[0].schema:
        if one.name in dropped or not holds_numbers(one.type):
            continue
        length = fixed_length(one.type)
        if length is None:
            length = _common_length(files, one.name)
        if length is None or length < SHORTEST:
            continue
        if names.isdisjoint(names_of(one.name, length)):  # else its columns would hide others
            lengths[one.name] = length
    return lengths


def _common_length(files: Sequence[TableFile], name: str) -> int | None:
    """The length of all lists of a column, whose rows are read for it; None if they differ."""
    seen: set[int] = set()
    for file in files:
        seen |= lengths_in(read_columns(file, [name]).column(name))
    return seen.pop() if len(seen) == 1 else None


def _has_images(schema: pa.Schema) -> bool:
    """Whether a column holds image files by its type, a struct with a field ``bytes``.

    Then they are the images, and ``--pixels`` has nothing to say of them.
    """
    return any(
        pa.types.is_struct(one.type) and one.type.get_field_index(_BYTES) >= 0 for one in schema
    )


def _image_column(source: TableFile, dropped: Sequence[str]) -> str | None:
    """The column of a Parquet file that holds image files, by its first value; None if none does.

    Image files are stored as bytes, or in structs with a field ``bytes``.

    Raises:
        DataError: Several columns hold image files, or the file is damaged.
    """
    columns = []
    for one in source.schema if source.format == "parquet" else ():
        is_struct = pa.types.is_struct(one.type) and one.type.get_field_index(_BYTES) >= 0
        if one.name in dropped or not (is_struct or holds_bytes(one.type)):
            continue
        with explained(source.path):
            first = next(pq.ParquetFile(source.path).iter_batches(1, columns=[one.name]), None)
        value = first.column(0)[0].as_py() if first else None
        content = value.get(_BYTES) if isinstance(value, dict) else value
        if isinstance(content, bytes) and content.startswith(_IMAGE_FILES):
            columns.append(one.name)
    if len(columns) > 1:
        raise DataError(
            f"several columns of {source.path.name} hold images: {listed(columns)}",
            f"leave all but one out, for example --drop {typed(columns[0])}",
        )
    return columns[0] if columns else None
