"""Given predictions of several seeds in one table: which row is of which seed, and of which record."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairaudit.data.columns import Levels, encode_levels
from fairaudit.data.dataset import Int64
from fairaudit.data.naming import near_miss, quoted
from fairaudit.data.readers import read_columns
from fairaudit.data.sources import TableFiles
from fairaudit.data.tabular import CheckedTable
from fairaudit.errors import ConfigError, DataError, numbered

SEED_COLUMN = "seed"  # taken for what it says unless it is used for something else
_SAME_ROWS = (
    "give every seed the same rows in the same order, or name what identifies a row: --row-column COL"
)
_ONE_ROW = "a row is the same in every seed: one truth, the same groups"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the N rows of a table are cut.

    Args:
        seed: Place of each row's seed, [N] in 0..S-1.
        record: Which record each row is, [N] in 0..n-1: the same in every seed.
        first: First row of each record, [n].
        names: Of the seeds, [S].
    """

    seed: Int64
    record: Int64
    first: Int64
    names: tuple[str, ...]


def lay_out(
    checked: CheckedTable,
    seed_column: str | None,
    row_column: str | None,
    *,
    used: Sequence[str],
    fixed: Sequence[str],
) -> Layout | None:
    """Seeds of a table: its column of them, else the files of a folder; None where there is neither.

    Args:
        checked: The table.
        seed_column: Column of seeds; None: ``seed``, where there is one that is not used otherwise.
        row_column: Column that identifies rows; None: their order within a seed does.
        used: Columns that are predictions, truth or groups.
        fixed: Those of them that must agree over the seeds of a record: truth and groups.

    Raises:
        DataError: No such column; a row without a seed; rows that are not the same in all seeds.
    """
    table = checked.table
    for column in filter(None, (seed_column, row_column)):
        if column not in table.column_names:
            raise DataError(f"there is no column {quoted(column)}", near_miss(column, table.column_names))
    if seed_column is None and SEED_COLUMN in table.column_names and SEED_COLUMN not in used:
        seed_column = SEED_COLUMN
    found = _seeds(checked, seed_column)
    if found is None:
        if row_column is not None:
            raise ConfigError("--row-column is about several seeds, and there is one", "add --seed-column")
        return None
    seed, names = found.codes, found.names
    record = _places(seed, len(names)) if row_column is None else _whole(table, row_column).codes
    twice = len(seed) - np.unique(np.stack([seed, record]), axis=1).shape[1]
    if twice:
        raise DataError(f"{numbered(twice, 'row')} of {row_column} stand twice in a seed", "give each once")
    _, first, record = np.unique(record, return_index=True, return_inverse=True)
    layout = Layout(seed.astype(np.int64), record.astype(np.int64), first.astype(np.int64), names)
    if row_column is None and len(record) != len(names) * len(first):
        raise DataError(f"the {len(names)} seeds have different numbers of rows", _SAME_ROWS)
    _refuse_changed(table, layout, fixed, _SAME_ROWS if row_column is None else _ONE_ROW)
    return layout


def _seeds(checked: CheckedTable, column: str | None) -> Levels | None:
    """The seed of each row: by the column, else by the file that it is in."""
    source = checked.source
    if column is not None:
        return _whole(checked.table, column)
    if not isinstance(source, TableFiles) or len(source.files) < 2:
        return None
    counts = [read_columns(file, source.schema.names[:1])[0].num_rows for file in source.files]
    return Levels(np.repeat(np.arange(len(counts)), counts), tuple(file.path.name for file in source.files))


def _refuse_changed(table: pa.Table, layout: Layout, fixed: Sequence[str], hint: str) -> None:
    """What is true of a record, and its groups, are the same whatever was predicted."""
    for column in dict.fromkeys(fixed):
        codes = encode_levels(table.column(column)).codes
        other = np.flatnonzero(codes != codes[layout.first][layout.record])
        if len(other):
            where = layout.names[int(layout.seed[other[0]])]
            rows = numbered(len(other), "row")
            raise DataError(f"{quoted(column)} differs between seeds in {rows}, first in seed {where}", hint)


def _places(seed: Int64, seeds: int) -> Int64:
    """The place of each row among those of its seed."""
    order = np.argsort(seed, kind="stable")
    counts = np.bincount(seed, minlength=seeds)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.empty(len(seed), dtype=np.int64)
    places[order] = np.arange(len(seed)) - starts
    return places


def _whole(table: pa.Table, column: str) -> Levels:
    """A column that says something of every row."""
    levels = encode_levels(table.column(column))
    lacking = int((levels.codes < 0).sum())
    if lacking:
        raise DataError(f"{numbered(lacking, 'row')} without a value in {quoted(column)}", "give one to each")
    return levels
