"""Which rows and which feature columns an audit uses, and what becomes of the others.

The columns are looked at one after the other, twice: for what is missing, then, on the rows that
stay, for what the values are worth. So a table needs the memory of one column, however many it has.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import Codes, encode_codes
from fairaudit.data.dataset import Grouping, Int64, Notice
from fairaudit.data.ids import looks_like_id
from fairaudit.data.infer import LabelColumn
from fairaudit.data.naming import listed, quoted, typed
from fairaudit.errors import DataError, numbered

ALL_ROWS = "(all)"  # what rows are counted under when no group is given
MAX_LEVELS = 1_000
LEAK_ACCURACY = 0.99
# With 99 % of one class, guessing is right as often: most of the guess's errors must be gone too.
LEAK_ERRORS_LEFT = 0.25
_LEAK_ROWS = 100_000
_LEAK_BINS = 256
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Rows that repeat an earlier one.

    Args:
        first: Index of the first identical row, ``[N]``.
        count: Rows that are not the first of their kind.
    """

    first: Int64
    count: int


def leak_sample(rows: int) -> Int64:
    """The rows on which leaks are looked for: all, or every k-th of more than 100,000."""
    return np.arange(
        0,
        rows,
        -(-max(rows, 1) // _LEAK_ROWS),
        dtype=np.int64,
    )


def leaks(
    columns: Iterable[tuple[str, Codes]],
    label: str,
    labels: Int64,
    groupings: Sequence[Grouping],
) -> Iterator[Notice]:
    """Warnings for single columns that give away the label or a group.

    A column predicts by the commonest class of each of its levels (numbers: of each of up to 256
    quantile bins). Levels with one row count as errors.
    It gives the label away if it leaves at most a quarter of the errors of always guessing the
    commonest class, and is right in 99 % of the rows or has no more levels than there are classes.

    Args:
        columns: Names and codes, on the rows of :func:`leak_sample`.
        label: Its column.
        labels, groupings: On all rows.
    """
    sample = leak_sample(len(labels))
    target = labels[sample]
    groups = {grouping.name: grouping.groups[sample] for grouping in groupings}
    for name, codes in columns:
        place = np.arange(codes.width, dtype=np.int64)  # by size, where values have an order
        if codes.kind != "category" and len(codes.values):
            place[pc.sort_indices(codes.values).to_numpy(zero_copy_only=False)] = place[:-1].copy()
        level = place[codes.codes]
        could_be_a_copy = codes.width - 1 <= int(target.max(initial=0)) + 1
        wrong, left = _errors(level, target, codes)
        if left <= LEAK_ERRORS_LEFT and (could_be_a_copy or wrong < 1 - LEAK_ACCURACY):
            message = f"column {quoted(name)} alone predicts the label {quoted(label)}"
            fix = f"if it is known only afterwards: --drop {typed(name)}"
            yield Notice("feature_predicts_label", message, fix)
        for grouping, group in groups.items():
            wrong, left = _errors(level, group, codes)
            if grouping != name and wrong < 1 - LEAK_ACCURACY and left <= LEAK_ERRORS_LEFT:
                message = f"column {quoted(name)} alone determines the group {quoted(grouping)}"
                fix = f"a model that must not see the group needs --drop {typed(name)}"
                yield Notice("feature_determines_group", message, fix)


class RowHashes:
    """Which rows are equal in all columns, told by 64 bits per row that the columns are mixed into.

    So it needs no more memory for more columns. Of ten million different rows some two are taken
    for equal with a chance of 3 in a million.

    Args:
        rows: N.
    """

    def __init__(self, rows: int) -> None:
        self._hashes = np.zeros(rows, np.uint64)

    def add(self, codes: NDArray[np.integer]) -> None:
        """Mix in a column, ``[N]``."""
        mixed = codes.astype(np.uint64) * _MIX ^ self._hashes
        # The finaliser of SplitMix64: every bit of the code moves every bit of the hash.
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        self._hashes = (mixed ^ mixed >> np.uint64(31)) + _MIX

    def duplicates(self) -> Duplicates:
        """Rows that repeat an earlier one."""
        first, inverse = np.unique(
            self._hashes,
            return_index=True,
            return_inverse=True,
        )[1:]
        return Duplicates(
            first[inverse].astype(np.int64, copy=False), len(self._hashes) - len(first)
        )


def _errors(
    level: Int64,
    target: Int64,
    codes: Codes,
) -> tuple[float, float]:
    """Share of rows that a column predicts wrongly; and per error of guessing the commonest class.

    Args:
        level: Of each row, ``[n]``, numbers by size, missing the last.
        target: Class of each row, ``[n]``.
        codes: The column.
    """
    n, n_classes = len(target), int(target.max(initial=0)) + 1
    guess_errors = n - int(np.bincount(target, minlength=1).max())
    if not guess_errors:
        return 0.0, 1.0
    bins = min(_LEAK_BINS, max(n // 5, 1))  # of five rows or more, and one of missing values
    if codes.kind != "category" and codes.width - 1 > bins:
        sizes = np.bincount(level, minlength=codes.width)
        place = (np.cumsum(sizes) - sizes) * bins // max(int(sizes[:-1].sum()), 1)
        place[-1] = bins + 1
        level = place[level]
    n_levels = int(level.max(initial=0)) + 1
    cells = np.bincount(level * n_classes + target, minlength=n_levels * n_classes)
    counts = cells.reshape(n_levels, n_classes)
    alone = counts.sum(axis=1) == 1
    wrong = n - int(counts.max(axis=1)[~alone].sum())
    return wrong / n, wrong / guess_errors


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
        DataError: Nothing is left; missing values where they are an error; a column of a thousand
            texts.
    """
    groups, names = _counted_by(groupings, table.num_rows)
    labelled = np.flatnonzero(label.codes >= 0)
    dropped = {}
    if len(labelled) < table.num_rows:
        dropped["label missing"] = by_group(groups[label.codes < 0], names)
    gaps, reasons = _gaps(table, labelled, groupings, config)
    missing = {name: by_group(groups[labelled[gap]], names) for name, gap in gaps.items()}
    used = labelled
    if missing and config.missing == "error":
        raise DataError(
            f"missing values in {numbered(len(missing), 'column')}: {listed(missing)}",
            "use --missing impute or drop",
        )
    if missing and config.missing == "drop":
        anywhere = np.logical_or.reduce(list(gaps.values()))
        used = labelled[~anywhere]
        dropped["value missing"] = by_group(groups[labelled[anywhere]], names)
    if not len(used):
        raise DataError("every row has a missing value")
    hashes = RowHashes(len(used))
    columns = []
    for name in table.column_names:
        if name in reasons:
            continue
        codes = encode_codes(table.column(name)).take(used)
        if name not in config.declared and _is_constant(name, codes):
            reasons[name] = "constant"
            continue
        hashes.add(codes.codes)
        columns.append(name)
    if not columns:
        raise DataError(
            f"no feature column is left in {config.data.name}", "see `fairaudit inspect`"
        )
    hashes.add(label.codes[used])
    for column in group_columns.columns:
        hashes.add(encode_codes(column).codes[used])
    return Chosen(
        used,
        tuple(columns),
        dropped,
        missing,
        reasons,
        hashes.duplicates(),
    )


def _is_constant(name: str, codes: Codes) -> bool:
    """Whether a column is the same in every row; gaps beside one value say something.

    Raises:
        DataError: It has more than a thousand texts.
    """
    levels = int((codes.counts() > 0).sum())
    if codes.kind == "category" and levels > MAX_LEVELS:
        raise DataError(
            f"column {quoted(name)} has {levels:,} different texts, more than {MAX_LEVELS:,}",
            f"leave it out with --drop {typed(name)}, or merge its values",
        )
    return levels + bool(codes.missing().any()) == 1


def _gaps(
    table: pa.Table,
    labelled: Int64,
    groupings: Sequence[Grouping],
    config: AuditConfig,
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, str]]:
    """Where columns or groups lack a value, ``[n]`` each, and why no model can use others."""
    gaps, reasons = {}, {}
    for name in table.column_names:
        codes = encode_codes(table.column(name)).take(labelled)
        is_declared = name in config.declared  # then it is used whatever it holds
        if not is_declared and codes.missing().all():
            reasons[name] = "all values missing"
        elif not is_declared and looks_like_id(name, codes, len(labelled)):
            reasons[name] = "looks like an id"
        elif codes.missing().any():
            gaps[name] = codes.missing()
    for grouping in groupings[: len(groupings) - config.intersect]:
        if grouping.missing is not None:
            lacks = grouping.groups[labelled] == grouping.missing
            if lacks.any():
                gaps[grouping.name] = lacks
    return gaps, reasons


def sampled(table: pa.Table, chosen: Chosen) -> Iterator[tuple[str, Codes]]:
    """The feature columns on the rows on which leaks are looked for."""
    rows = pa.array(chosen.used[leak_sample(len(chosen.used))])
    for name in chosen.columns:
        yield name, encode_codes(table.column(name).take(rows))


def counts_by_group(
    rows: Int64 | NDArray[np.bool_],
    groupings: Sequence[Grouping],
    total: int,
) -> dict[str, int]:
    """How many of some rows of a file each group of the first grouping has, where it has any."""
    groups, names = _counted_by(groupings, total)
    return by_group(groups[rows], names)


def _counted_by(groupings: Sequence[Grouping], rows: int) -> tuple[Int64, tuple[str, ...]]:
    if groupings:
        return groupings[0].groups, groupings[0].names
    return np.zeros(rows, np.int64), (ALL_ROWS,)


def by_group(groups: NDArray[np.int64], names: Sequence[str]) -> dict[str, int]:
    """How many rows each group has, where it has any."""
    counts = np.bincount(groups, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}
