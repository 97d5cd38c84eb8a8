"""Folders of parts: files of one table, whose folders may name the value of a column.

``sex=F/part-0.parquet`` holds rows of which ``sex`` is F, as Spark, Hive and pyarrow write them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.data.dataset import SPLIT
from fairaudit.data.reading.packed import ending_of
from fairaudit.data.reading.tables import TableFile, is_table_name
from fairaudit.errors import DataError
from fairaudit.messages.names import listed

_NONE: Final = "__HIVE_DEFAULT_PARTITION__"  # how a folder says that the value is missing
_SIDE: Final = re.compile(r"(?<![a-zA-Z])(train|test)(?![a-zA-Z])", re.IGNORECASE)
_SIDE_OF_ENDING: Final = {".data": "train", ".test": "test"}  # of UCI's files
_HIDDEN: Final = (".", "_")  # first signs of names that are no parts, as _SUCCESS


def parts_below(folder: Path) -> list[Path]:
    """The files of tables in a folder, and in folders below it that name a value, in order."""
    paths = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(_HIDDEN):
            continue
        if path.is_dir() and "=" in path.name:
            paths += parts_below(path)
        elif is_table_name(path) and not path.is_dir():  # a broken link is refused when it is read
            paths.append(path)
    return paths


def named_by_folders(folder: Path, path: Path) -> dict[str, str | None]:
    """Column -> the value that the folders from ``folder`` to a file name; None: it is missing.

    Example:
        >>> named_by_folders(Path("loans"), Path("loans/sex=F/year=2020/part-0.parquet"))
        {'sex': 'F', 'year': '2020'}
    """
    named: dict[str, str | None] = {}
    for step in path.relative_to(folder).parts[:-1]:
        name, _, value = step.partition("=")
        named[unquote(name)] = None if value == _NONE else unquote(value)
    return named


def with_folders(
    folder: Path, files: Sequence[TableFile], *, as_text: bool = False
) -> list[TableFile]:
    """The files with the columns that their folders name, after their own.

    Args:
        folder: The folder that is read.
        files: The table files of that folder.
        as_text: Whether every value stays text; else a column is of whole numbers where all its
            values are.

    Raises:
        DataError: Some files lie in folders that name a column, and others not.
    """
    named = [named_by_folders(folder, file.path) for file in files]  # of each file
    types: dict[str, pa.DataType] = {}  # column -> its type, decided by all folders together
    for name in named[0]:
        if not all(name in values for values in named):
            raise DataError(f"some files of {folder.name} lie in no folder {name}=..")
        texts = pa.array([values[name] for values in named], pa.string())
        types[name] = pa.string()
        if not as_text and pc.all(pc.match_substring_regex(texts, "^-?[0-9]{1,18}$")).as_py():
            types[name] = pa.int64()
    with_parts = []
    for file, values in zip(files, named, strict=True):
        others = sorted(set(values) - set(types))
        if others:
            raise DataError(f"only some folders of {folder.name} name {listed(others)}")
        own_columns = set(file.schema.names)
        parts: dict[str, pa.Scalar] = {}
        for name, arrow_type in types.items():
            if name not in own_columns:  # a file's own column comes before its folder
                parts[name] = _scalar(values[name], arrow_type)
        with_parts.append(_with_columns(file, parts, file.path.relative_to(folder).as_posix()))
    return with_parts


def with_sides(files: Sequence[TableFile]) -> tuple[TableFile, ...]:
    """The files with a column ``split`` where their names tell training rows from test rows.

    ``train-00000-of-00001.parquet`` and ``test-00000-of-00001.parquet``, as Hugging Face lays data
    sets out, or ``adult.data`` and ``adult.test``, as UCI does. Files of which one has another
    name, or a column ``split``, are left as they are.

    Args:
        files: The files of one table.
    """
    words = [_side_of(file.path) for file in files]
    if set(words) != {"train", "test"} or any(SPLIT in file.schema.names for file in files):
        return tuple(files)
    with_parts = []
    for file, word in zip(files, words, strict=True):
        parts = {**file.parts, SPLIT: pa.scalar(word, pa.string())}
        schema = file.schema.append(pa.field(SPLIT, pa.string()))
        with_parts.append(replace(file, schema=schema, parts=parts))
    return tuple(with_parts)


def _side_of(path: Path) -> str:
    """The side that a file's name tells: ``train``, ``test`` or ""."""
    named = {word.lower() for word in _SIDE.findall(path.name.removesuffix(path.suffix))}
    if named:
        return named.pop() if len(named) == 1 else ""
    return _SIDE_OF_ENDING.get(ending_of(path), "")


def _scalar(text: str | None, arrow_type: pa.DataType) -> pa.Scalar:
    """A folder's value in the column's type; None is null."""
    return pa.scalar(text, pa.string()).cast(arrow_type)


def _with_columns(file: TableFile, parts: Mapping[str, pa.Scalar], within: str) -> TableFile:
    """The file with the columns that its folders name, as ``year=2020/``, after its own columns.

    ``within``: the file's path in the folder that is read.
    """
    schema = file.schema
    for name, value in parts.items():
        schema = schema.append(pa.field(name, value.type))
    return replace(file, schema=schema, parts=parts, within=within)
