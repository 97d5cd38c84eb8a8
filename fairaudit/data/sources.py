"""What ``--data`` points at.

A table file, several of one schema, a folder of images, an npz archive.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fairaudit.config.options import AuditConfig
from fairaudit.data.archive import NPZ, open_archive
from fairaudit.data.dataset import Notice
from fairaudit.data.decode import ImageOptions
from fairaudit.data.folder import is_image_folder, open_folder
from fairaudit.data.image_tables import StoredImages, find_images, with_pixels
from fairaudit.data.naming import listed, quoted, typed
from fairaudit.data.readers import (
    Source,
    digest_of,
    is_table_name,
    open_source,
    read_columns,
)
from fairaudit.data.source import DataSource
from fairaudit.errors import DataError

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles(DataSource):
    """One table file, or several whose rows follow each other.

    Args:
        files: In the order of their names.
        images: Where images are in them, or None.
        options: How those are read.
    """

    files: tuple[Source, ...]
    images: StoredImages | None
    options: ImageOptions

    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Notice, ...]]:
        """Those columns of all files.

        Raises:
            DataError: Damaged content, no rows, types that do not join, an unreadable image.
        """
        parts = [read_columns(file, columns) for file in self.files]
        notices = tuple(dict.fromkeys(notice for _, said in parts for notice in said))
        tables = [table for table, _ in parts]
        table = tables[0]
        try:
            if len(tables) > 1:
                table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            names = f"{self.files[0].path.name} to {self.files[-1].path.name}"
            raise DataError(f"the tables {names} do not join: {error}") from None
        if self.images is None or self.images.name not in columns:
            return table, notices
        table, said = with_pixels(
            table,
            self.images,
            self.options,
            self.files[0].path.name,
        )
        return table, (*notices, *said)

    def digest(self) -> str:
        """Of the only file's content, else of all names and contents in order."""
        if len(self.files) == 1:
            return digest_of(self.files[0].path)
        whole = hashlib.sha256()
        for file in self.files:
            whole.update(
                f"{len(file.path.name)} {file.path.name} {digest_of(file.path)}\n".encode()
            )
        return whole.hexdigest()


def open_data(config: AuditConfig) -> DataSource:
    """Find out what the data of an audit are.

    Raises:
        DataError: Missing, unreadable, or neither a table nor images.
        ConfigError: ``resize`` is no size.
    """
    options, path = ImageOptions.of(config), config.data
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that no file can have
        why = error.strerror or "not a path"
        raise DataError(f"{quoted(str(path))}: {why}") from None
    if is_folder:
        if is_image_folder(path):
            return open_folder(path, options)
        found = sorted(p for p in path.iterdir() if is_table_name(p) and not p.name.startswith("."))
        if not found:
            raise DataError(
                f"{path.name or path} is a folder without tables and without images",
                "give a table file, a folder of class folders, or a folder with metadata.csv",
            )
        if len({p.suffix.lower() for p in found}) > 1:
            raise DataError(
                f"{path.name or path} holds tables of several kinds: "
                f"{listed(p.name for p in found)}",
                f"give one file, for example --data {typed(str(found[0]))}",
            )
        return _tables(found, config, options)
    if path.suffix.lower() == NPZ and path.is_file():
        return open_archive(path, config.image_column, options)
    if _WILD & set(str(path)) and not path.exists():
        start = Path(path.anchor) if path.is_absolute() else Path()
        matching = sorted(p for p in start.glob(str(path.relative_to(start))) if p.is_file())
        if not matching:
            raise DataError(f"no file matches {quoted(str(path))}")
        return _tables(matching, config, options)
    return _tables([path], config, options)


def _tables(
    paths: Sequence[Path],
    config: AuditConfig,
    options: ImageOptions,
) -> TableFiles:
    files = tuple(open_source(path) for path in paths)
    first = files[0]
    for file in files[1:]:
        if file.format != first.format or set(file.schema.names) != set(first.schema.names):
            what = "another format" if file.format != first.format else "other columns"
            raise DataError(
                f"{file.path.name} has {what} than {first.path.name}",
            )
    images = find_images(first, config.image_column, config.drop)
    return TableFiles(
        format=first.format,
        schema=first.schema,
        declared=first.declared,
        declared_by=first.declared_by,
        image=images.name if images else None,
        files=files,
        images=images,
        options=options,
    )
