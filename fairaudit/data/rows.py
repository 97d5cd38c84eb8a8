"""Which rows and which feature columns an audit uses, and what becomes of the others.

The columns are looked at one after the other, twice: for what is missing, then, on the rows that
stay, for what the values are worth. So a table needs the memory of one column, however many it has.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import Codes, RowKeys, encode_codes, row_keys
from fairaudit.data.dataset import Grouping, Int64
from fairaudit.data.infer import LabelColumn
from fairaudit.data.naming import listed
from fairaudit.data.pixels import unreadable
from fairaudit.data.screen import (
    Duplicates,
    RowHashes,
    is_constant,
    leak_sample,
    refuse_many_levels,
    worthless,
)
from fairaudit.errors import DataError, numbered

ALL_ROWS = "(all)"  # what rows are counted under when no group is given
BAD_IMAGE = "image cannot be read"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows that are used and what became of the others.

    Args:
        used: Row indices into the file, ascending.
        columns: Names of the feature columns.
        dropped: reason -> group -> count.
        missing: column -> group -> count.
        reasons: column -> why it is dropped.
        doubled: Rows that are alike: features, groups and label.
    """

    used: Int64
    columns: tuple[str, ...]
    dropped: dict[str, dict[str, int]]
    missing: dict[str, dict[str, int]]
    reasons: dict[str, str]
    doubled: Duplicates


class _Missing:
    """What is missing, by column and group, as the columns come by.

    Args:
        groups: Group of each labelled row, ``[n]``.
        names: Of the groups.
    """

    def __init__(self, groups: Int64, names: Sequence[str]) -> None:
        self._groups, self._names = groups, names
        self.counts: dict[str, dict[str, int]] = {}
        self.anywhere = np.zeros(len(groups), np.bool_)

    def add(self, name: str, gap: NDArray[np.bool_]) -> None:
        """Count a column's gaps, ``[n]``."""
        if gap.any():
            self.counts[name] = _by_group(self._groups[gap], self._names)
            self.anywhere |= gap


def choose_rows(
    table: pa.Table,
    label: LabelColumn,
    groupings: Sequence[Grouping],
    config: AuditConfig,
    group_columns: pa.Table,
) -> Chosen:
    """Rows with a label, thinned by the policy for missing values; columns that are left of them.

    Args:
        table: The columns that may be features.
        label: Of all rows.
        groupings: Of all rows.
        config: The policy.
        group_columns: Those that are no features, all rows: part of a record too.

    Raises:
        DataError: Nothing is left; missing values where they are an error; a column of a thousand texts.
    """
    groups, names = _counted_by(groupings, table.num_rows)
    labelled = np.flatnonzero(label.codes >= 0)
    dropped = {}
    if len(labelled) < table.num_rows:
        dropped["label missing"] = _by_group(groups[label.codes < 0], names)
    bad = np.intersect1d(labelled, unreadable(table), assume_unique=True)
    if len(bad):
        dropped[BAD_IMAGE] = _by_group(groups[bad], names)
        labelled = np.setdiff1d(labelled, bad, assume_unique=True)
    missing = _Missing(_on(groups, labelled), names)
    told = frozenset(config.declared)
    reasons = _first_look(table, labelled, missing, told)
    for grouping in groupings[: len(groupings) - config.intersect]:
        if grouping.missing is not None:
            missing.add(grouping.name, _on(grouping.groups, labelled) == grouping.missing)
    used = labelled
    if missing.counts and config.missing == "error":
        raise DataError(
            f"missing values in {numbered(len(missing.counts), 'column')}: {listed(missing.counts)}",
            "use --missing impute or drop",
        )
    if missing.counts and config.missing == "drop":
        used = labelled[~missing.anywhere]
        dropped["value missing"] = _by_group(groups[labelled[missing.anywhere]], names)
    if not len(used):
        raise DataError("every row has a missing value", "use --missing impute")
    hashes = RowHashes(len(used))
    reasons |= _second_look(table, used, reasons, hashes, told)
    columns = tuple(name for name in table.column_names if name not in reasons)
    if not columns:
        raise DataError(f"no feature column is left in {config.data.name}", "see `fairaudit inspect`")
    hashes.add(_on(label.codes, used))
    for column in group_columns.columns:
        hashes.add(*_keys_on(column, used)[:2])
    return Chosen(used, columns, dropped, missing.counts, reasons, hashes.duplicates())


def sampled(table: pa.Table, chosen: Chosen) -> Iterator[tuple[str, Codes]]:
    """The feature columns on the rows on which leaks are looked for."""
    rows = pa.array(chosen.used[leak_sample(len(chosen.used))])
    for name in chosen.columns:
        yield name, encode_codes(table.column(name).take(rows))


def _first_look(table: pa.Table, labelled: Int64, missing: _Missing, told: Collection[str]) -> dict[str, str]:
    """Columns that no model can use, by no value of a declared one; of the others, what is missing."""
    reasons = {}
    for name in table.column_names:
        column = _keys_on(table.column(name), labelled)
        is_float = pa.types.is_floating(table.column(name).type)
        reason = "" if name in told else worthless(name, column, is_float)
        if reason:
            reasons[name] = reason
        else:
            missing.add(name, column.missing)
    return reasons


def _second_look(
    table: pa.Table, used: Int64, known: dict[str, str], hashes: RowHashes, told: Collection[str]
) -> dict[str, str]:
    """Columns that say the same in every row; the others are mixed into the rows' hashes."""
    reasons = {}
    for name in table.column_names:
        if name in known:
            continue
        column = _keys_on(table.column(name), used)
        if name not in told:
            if is_constant(column):
                reasons[name] = "constant"
                continue
            refuse_many_levels(name, column)
        hashes.add(column.keys, column.missing)
    return reasons


def _keys_on(column: pa.ChunkedArray, rows: Int64) -> RowKeys:
    found = row_keys(column)
    if len(rows) == len(column):
        return found
    return RowKeys(found.keys[rows], found.missing[rows], found.codes.take(rows) if found.codes else None)


def _on(values: Int64, rows: Int64) -> Int64:
    """Values of some rows; not copied where that is all of them."""
    return values if len(rows) == len(values) else values[rows]


def counts_by_group(rows: Int64, groupings: Sequence[Grouping], total: int) -> dict[str, int]:
    """How many of some rows of a file each group of the first grouping has, where it has any."""
    groups, names = _counted_by(groupings, total)
    return _by_group(groups[rows], names)


def _counted_by(groupings: Sequence[Grouping], rows: int) -> tuple[Int64, tuple[str, ...]]:
    if groupings:
        return groupings[0].groups, groupings[0].names
    return np.zeros(rows, np.int64), (ALL_ROWS,)


def _by_group(groups: NDArray[np.int64], names: Sequence[str]) -> dict[str, int]:
    counts = np.bincount(groups, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}
