"""Which rows and which feature columns an audit uses, and what becomes of the others.

A gap is a missing value. Columns are coded one after the other, twice: first on all labelled rows,
to find gaps, then on the rows that stay. So a table needs the memory of one coded column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import Int32, encode_codes
from fairaudit.data.copies import EqualRows, are_copies, first_alike, has_many_values, mixed_in
from fairaudit.data.dataset import Grouping, Int64, columns_of, first_grouping
from fairaudit.data.ids import looks_like_id
from fairaudit.data.infer import LabelColumn
from fairaudit.data.reading.text_columns import OddColumn, options_for
from fairaudit.errors import DataError, numbered
from fairaudit.messages.names import listed, quoted, typed

MAX_LEVELS = 1_000  # of a category that is a feature: each is an input


@dataclass(frozen=True, slots=True)
class UsedData:
    """The rows and feature columns that an audit uses, and what became of the others.

    Args:
        used: Indices of the n used rows among the N of the file, ascending.
        columns: Names of the feature columns.
        dropped: reason -> group of the first grouping -> count of its rows that are left out.
        missing: column -> group of the first grouping -> count of its missing values.
        reasons: column -> why it is no feature.
        equal: Which of the n used rows have the same features, groups and label, by their places in
            ``used``.
    """

    used: Int64
    columns: tuple[str, ...]
    dropped: dict[str, dict[str, int]]
    missing: dict[str, dict[str, int]]
    reasons: dict[str, str]
    equal: EqualRows


def choose_rows(
    table: pa.Table,
    label: LabelColumn,
    groupings: Sequence[Grouping],
    config: AuditConfig,
    group_columns: pa.Table,
    odd: Sequence[OddColumn] = (),
) -> UsedData:
    """Choose the rows that have a label and, with ``--missing drop``, no gap, and their features.

    A column is no feature if it is empty, constant or an id, unless it is declared.

    Args:
        table: The columns that may be features, all N rows.
        label: Classes of all rows; a code below 0: the row has no label.
        groupings: Groups of all rows; left-out rows are counted by those of the first grouping.
        config: What to do with missing values, and which columns are declared.
        group_columns: Group columns that are no features, all rows: equal rows agree in them, too.
        odd: Columns that are neither numbers nor categories as they stand.

    Raises:
        DataError: Nothing is left; missing values where they are an error. UnusableColumns: Columns
            are odd, or categories of more than a thousand levels.
    """
    counted = first_grouping(groupings, table.num_rows)
    labelled = np.flatnonzero(label.codes >= 0)
    gaps, reasons = _find_gaps(table, labelled, groupings, config)
    missing = {name: counted.counts(labelled[gap]) for name, gap in gaps.items()}
    is_used = _are_used(len(labelled), gaps, config)
    dropped = {}
    if len(labelled) < table.num_rows:
        dropped["label missing"] = counted.counts(label.codes < 0)
    if not is_used.all():
        dropped["value missing"] = counted.counts(labelled[~is_used])
    used = labelled[is_used]
    if not len(used):
        raise DataError("every row has a missing value")
    in_table = columns_of(table)
    candidates = {n: column for n, column in in_table.items() if n not in reasons}
    refused = [column for column in odd if column.name in in_table]
    features = _choose_features(candidates, used, config, refused)
    columns = {name: candidates[name] for name in features.names}
    equal = _equal_rows(
        features, columns, [label.codes[used], *_codes_on(group_columns, used)], used
    )
    return UsedData(used, features.names, dropped, missing, reasons | features.reasons, equal)


class _Features(NamedTuple):
    """The feature columns, and what coding them showed of the n used rows.

    Args:
        names: Names of the feature columns.
        reasons: Other column -> why it is no feature.
        hashes: Hash of each row's features, ``[n]``.
        is_identifying: Whether some number has so many values that few people share one.
    """

    names: tuple[str, ...]
    reasons: dict[str, str]
    hashes: NDArray[np.uint64]
    is_identifying: bool


def _choose_features(
    candidates: Mapping[str, pa.ChunkedArray],
    used: Int64,
    config: AuditConfig,
    refused: Sequence[OddColumn],
) -> _Features:
    """Choose the features among columns that have values, by what the used rows hold of them.

    Args:
        candidates: The columns, all rows.
        used: Indices of the used rows, ``[n]``.
        config: Which columns are declared: they are features whatever they hold.
        refused: Odd columns among all that may be features.

    Raises:
        UnusableColumns: Columns are odd, or categories of more than a thousand levels.
        DataError: No column is left.
    """
    refused_names = {column.name for column in refused}
    hashes = np.zeros(len(used), np.uint64)
    is_identifying = False
    names: list[str] = []
    reasons: dict[str, str] = {}
    too_many: dict[str, int] = {}  # column -> its different texts
    for name, column in candidates.items():
        if name in refused_names:
            continue  # one error after the loop names all columns that cannot be used
        codes = encode_codes(column).take(used)
        n_levels = int((codes.counts() > 0).sum())
        if name not in config.declared:
            if codes.kind == "category" and n_levels > MAX_LEVELS:
                too_many[name] = n_levels
                continue
            if n_levels + codes.missing().any() == 1:  # gaps beside one value are a second level
                reasons[name] = "constant"
                continue
        hashes = mixed_in(hashes, codes.codes)
        is_identifying = is_identifying or has_many_values(codes)
        names.append(name)
    if refused or too_many:
        raise unusable(refused, too_many)
    if not names:
        raise DataError(
            f"no feature column is left in {config.data.name}", "see `fairaudit inspect`"
        )
    return _Features(tuple(names), reasons, hashes, is_identifying)


def _codes_on(table: pa.Table, used: Int64) -> list[Int32]:
    """Codes of each column on the used rows, ``[n]`` each."""
    return [encode_codes(column).codes[used] for column in table.columns]


def _equal_rows(
    features: _Features,
    columns: Mapping[str, pa.ChunkedArray],
    other_codes: Sequence[NDArray[np.integer]],
    used: Int64,
) -> EqualRows:
    """Which used rows are equal in features, label and groups, and whether these are copies.

    Args:
        features: What was chosen, with the hashes of rows by features.
        columns: The feature columns, all rows.
        other_codes: Codes of the label and of group columns on the used rows, ``[n]`` each.
        used: Indices of the used rows, ``[n]``.
    """
    hashes = features.hashes
    for codes in other_codes:
        hashes = mixed_in(hashes, codes)
    first = first_alike(hashes)
    # Features are coded once more, one at a time: all codes together would fill the memory.
    feature_codes = (encode_codes(column).codes[used] for column in columns.values())
    one_record = features.is_identifying and are_copies(chain(other_codes, feature_codes), first)
    return EqualRows(first, one_record)


def _are_used(
    n_labelled: int, gaps: Mapping[str, NDArray[np.bool_]], config: AuditConfig
) -> NDArray[np.bool_]:
    """Which of the L labelled rows are used, ``[L]``: with ``--missing drop`` those without gaps.

    Otherwise all of them are.

    Args:
        n_labelled: L, how many rows have a label.
        gaps: Column -> which labelled rows lack its value, ``[L]``; only columns with gaps.
        config: What to do with missing values.

    Raises:
        DataError: Values are missing, and that is an error.
    """
    if gaps and config.missing == "error":
        raise DataError(
            f"missing values in {numbered(len(gaps), 'column')}: {listed(gaps)}",
            "use --missing impute or drop",
        )
    are_used = np.ones(n_labelled, dtype=np.bool_)
    if config.missing == "drop":
        for lacks in gaps.values():
            are_used &= ~lacks
    return are_used


class UnusableColumns(DataError):
    """The error of columns that no model can be given as they stand.

    Args:
        message, hint: As of every error.
        options: Options, (flag, value), with which the data can be used.
    """

    def __init__(self, message: str, hint: str, options: Sequence[tuple[str, str]]) -> None:
        super().__init__(message, hint)
        self.options = tuple(options)


def unusable(odd: Sequence[OddColumn], too_many: Mapping[str, int]) -> UnusableColumns:
    """The error that refuses all columns that cannot be used, with the options that mend this.

    Args:
        odd: Columns that are neither numbers nor categories.
        too_many: Column -> how many different texts it has.
    """
    problems, fixes = [], []
    options = options_for(odd)
    if odd:
        problems.append("; ".join(column.what for column in odd))
        as_text = f"--number-format {typed(f'{odd[0].name}=text')}"
        fixes.append(f"a column that is no number is kept as text by {as_text}")
        if any(column.unshown for column in odd):
            fixes.append("correct a text of one row in the file, or name it by --missing-values")
    if too_many:
        each = [f"{quoted(name)} has {n:,} different texts" for name, n in too_many.items()]
        problems.append(f"columns of more than {MAX_LEVELS:,} levels: {', '.join(each)}")
        options += [("--drop", name) for name in too_many]
        fixes.append("values may also be merged in the file")
    words = " ".join(f"{flag} {typed(value)}" for flag, value in options)
    if words:
        fixes.insert(0, f"give {words}")
    return UnusableColumns("; ".join(problems), "; ".join(fixes), options)


def _find_gaps(
    table: pa.Table, labelled: Int64, groupings: Sequence[Grouping], config: AuditConfig
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, str]]:
    """Look for missing values, and for columns that no model can use.

    Args:
        table: The columns that may be features, all rows.
        labelled: Indices of the L rows with a label, ``[L]``.
        groupings: Groups of all rows.
        config: Which columns are declared, and whether the last grouping is the intersection.

    Returns:
        Column, also of groups -> which labelled rows lack its value, ``[L]``, for those with gaps;
        and column -> why it is left out.
    """
    gaps, reasons = {}, {}
    for name, column in columns_of(table).items():
        codes = encode_codes(column).take(labelled)
        lacks = codes.missing()
        is_declared = name in config.declared  # then it is used whatever it holds
        if not is_declared and lacks.all():
            reasons[name] = "all values missing"
        elif not is_declared and looks_like_id(name, codes, len(labelled)):
            reasons[name] = "looks like an id"
        elif lacks.any():
            gaps[name] = lacks
    # The intersection, the last grouping, is missing where one of the others is.
    of_columns = groupings[:-1] if config.intersect else groupings
    for grouping in of_columns:
        if grouping.missing is not None:
            lacks = grouping.groups[labelled] == grouping.missing
            if lacks.any():
                # Of a group that is a feature, too, this counts: a value ``(missing)`` is a gap.
                gaps[grouping.name] = lacks
    return gaps, reasons
