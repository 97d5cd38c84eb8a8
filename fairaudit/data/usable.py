"""Which rows and which feature columns an audit uses, and what becomes of the others.

A gap is a missing value. A leak is a single column that gives the label or a group away.
The columns are looked at one after the other, twice: for what is missing, then, on the rows that
stay, for what the values are worth. So a table needs the memory of one column, however many it has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import Codes, encode_codes, level_names
from fairaudit.data.copies import EqualRows, are_copies, first_alike, has_many_values, mixed_in
from fairaudit.data.dataset import Grouping, Int64, columns_of, first_grouping
from fairaudit.data.ids import looks_like_id
from fairaudit.data.infer import LabelColumn
from fairaudit.data.reading.text_columns import OddColumn, options_for
from fairaudit.errors import DataError, numbered
from fairaudit.messages.base import Message
from fairaudit.messages.data import FeatureDeterminesGroup, FeaturePredictsLabel
from fairaudit.messages.names import listed, quoted, typed

MAX_LEVELS = 1_000  # of a category that is a feature: each is an input
LEAK_ACCURACY = 0.99  # from which a single column gives the label or a group away
# With 99 % of one class, always guessing it is right as often. So a leak must also leave at most
# this share of the errors of that guess.
LEAK_ERRORS_LEFT = 0.25
_LEAK_ROWS = 100_000  # looked at, at most
_LEAK_BINS = 256  # quantile bins of a number, at most


def leak_sample(rows: int) -> Int64:
    """The rows ``[n]`` on which columns that give the label or a group away are looked for.

    All, or every k-th of more than 100,000.
    """
    return np.arange(0, rows, -(-max(rows, 1) // _LEAK_ROWS), dtype=np.int64)


def leaks(
    columns: Iterable[tuple[str, Codes]], label: str, labels: Int64, groupings: Sequence[Grouping]
) -> Iterator[Message]:
    """Warnings for single columns that give away the label or a group.

    A column predicts by the commonest class of each of its levels (numbers: of each of up to 256
    quantile bins). Levels with one row count as errors.
    It gives the label away if it leaves at most a quarter of the errors of always guessing the
    commonest class, and is right in 99 % of the rows or has no more levels than there are classes.
    So it is asked of a column, and of every one of its values against all others: whether it is
    filled, whether it is 0, whether it is one amount or one text.

    Args:
        columns: Names and codes, on the rows of :func:`leak_sample`.
        label: Its column.
        labels, groupings: On all rows.
    """
    sample = leak_sample(len(labels))
    classes = labels[sample]
    groups = {grouping.name: grouping.groups[sample] for grouping in groupings}
    for name, codes in columns:
        level = _ranked(codes)
        giveaway = _tells_label(level, classes, codes)
        if giveaway is not None:
            yield FeaturePredictsLabel(name, value=giveaway, label=label)
        for grouping, of_rows in groups.items():
            giveaway = None if grouping == name else _tells_group(level, of_rows, codes)
            if giveaway is not None:
                yield FeatureDeterminesGroup(name, value=giveaway, grouping=grouping)


def _ranked(codes: Codes) -> Int64:
    """Level of each row: of numbers their rank by size, of categories in order of appearance."""
    rank = np.arange(codes.width, dtype=np.int64)
    if codes.kind != "category" and len(codes.values):
        rank[pc.sort_indices(codes.values).to_numpy(zero_copy_only=False)] = rank[:-1].copy()
    return rank[codes.codes]


def _tells_label(level: Int64, labels: Int64, codes: Codes) -> str | None:
    """What of a column gives the label away.

    Args:
        level: Of each row, ``[n]``.
        labels: Class of each row, ``[n]``.
        codes: The column.

    Returns:
        "" for the column itself; what a row with one value of it does, as "is 0"; None for nothing.
    """
    alone = _error_shares(level, labels, codes)
    could_be_a_copy = codes.width - 1 <= int(labels.max(initial=0)) + 1
    if alone.is_little and (could_be_a_copy or alone.is_rare):
        return ""
    value = _telling_value(codes, labels)
    return value.what if value.errors.is_little else None


def _tells_group(level: Int64, groups: Int64, codes: Codes) -> str | None:
    """What of a column gives the group away, as :func:`_tells_label` says it of the label."""
    alone = _error_shares(level, groups, codes)
    if alone.is_little and alone.is_rare:
        return ""
    value = _telling_value(codes, groups)
    return value.what if value.errors.is_little and value.errors.is_rare else None


class _ErrorShares(NamedTuple):
    """How wrong a column is about a target.

    Args:
        of_rows: Wrong rows as a share of all.
        of_guesses: As a share of those that are wrong when the commonest class is guessed for all.
    """

    of_rows: float
    of_guesses: float

    @property
    def is_rare(self) -> bool:
        """Whether hardly a row is wrong."""
        return self.of_rows < 1 - LEAK_ACCURACY

    @property
    def is_little(self) -> bool:
        """Whether little is left of the errors of guessing."""
        return self.of_guesses <= LEAK_ERRORS_LEFT


_NOTHING_LEAKS = _ErrorShares(0.0, 1.0)  # there is one class


class _TellingValue(NamedTuple):
    """The value of a column that, against all others, tells most of a target.

    Args:
        errors: Of the value.
        what: What a row with it does, as "has a value" or "is 0".
    """

    errors: _ErrorShares
    what: str


def _telling_value(codes: Codes, target: Int64) -> _TellingValue:
    """The value that tells most of a target if the column is known to be it, or not to be it.

    A missing value is one of them. A value of one row proves nothing.

    Args:
        codes: The column.
        target: Class or group of each row, ``[n]``.
    """
    n, n_classes = len(target), int(target.max(initial=0)) + 1
    of_classes = np.bincount(target, minlength=n_classes)
    guess_errors = n - int(of_classes.max(initial=0))
    often = np.flatnonzero(np.bincount(codes.codes, minlength=codes.width) > 1)
    if not guess_errors or not len(often):
        return _TellingValue(_NOTHING_LEAKS, "")
    place = np.full(codes.width, -1, np.int64)
    place[often] = np.arange(len(often))
    of_rows = place[codes.codes]
    cells = np.bincount(
        of_rows[of_rows >= 0] * n_classes + target[of_rows >= 0], minlength=len(often) * n_classes
    ).reshape(len(often), n_classes)
    wrong = n - cells.max(axis=1) - (of_classes - cells).max(axis=1)
    best = int(wrong.argmin())
    value = int(often[best])
    if value == len(codes.values):
        what = "has a value"
    elif codes.kind == "image":
        what = "is one certain image"
    else:
        (name,) = level_names(codes.values.slice(value, 1))
        what = f"is {name}" if codes.kind == "number" else f"is {quoted(name)}"
    errors = int(wrong[best])
    return _TellingValue(_ErrorShares(errors / n, errors / guess_errors), what)


def _error_shares(level: Int64, target: Int64, codes: Codes) -> _ErrorShares:
    """How wrong a column is about a target if each of its levels predicts its commonest class.

    Args:
        level: Level of each row, ``[n]``; numbers are ranked by size, the missing value is last.
        target: Class or group of each row, ``[n]``.
        codes: The column.

    Returns:
        The shares; 0 and 1 where there is one class, so that nothing leaks.
    """
    n, n_classes = len(target), int(target.max(initial=0)) + 1
    guess_errors = n - int(np.bincount(target, minlength=1).max())
    if not guess_errors:
        return _NOTHING_LEAKS
    # Bins of five rows or more, and one of missing values.
    bins = min(_LEAK_BINS, max(n // 5, 1))
    if codes.kind != "category" and codes.width - 1 > bins:
        sizes = np.bincount(level, minlength=codes.width)
        place = (np.cumsum(sizes) - sizes) * bins // max(int(sizes[:-1].sum()), 1)
        place[-1] = bins + 1
        level = place[level]
    n_levels = int(level.max(initial=0)) + 1
    cells = np.bincount(level * n_classes + target, minlength=n_levels * n_classes)
    counts = cells.reshape(n_levels, n_classes)
    alone = counts.sum(axis=1) == 1  # right by itself, which proves nothing: counts as wrong
    wrong = n - int(counts.max(axis=1)[~alone].sum())
    return _ErrorShares(wrong / n, wrong / guess_errors)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows that are used and what became of the others.

    Args:
        used: Row indices into the file, ascending.
        columns: Names of the feature columns.
        dropped: reason -> group -> count of rows left out, by the first grouping.
        missing: column -> group -> count of missing values, likewise.
        reasons: column -> why it is no feature.
        equal: Which used rows have the same features, groups and label, as places in ``used``.
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
) -> Chosen:
    """Choose the rows that have a label and, with ``--missing drop``, no gap, and their features.

    A column is no feature if it is empty, constant or an id, unless it is declared.

    Args:
        table: The columns that may be features.
        label: Of all rows.
        groupings: Of all rows.
        config: What to do with missing values, and which columns are declared.
        group_columns: Group columns that are no features, all rows: duplicates agree in them, too.
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
    hashes = np.zeros(len(used), np.uint64)
    tells_apart = False  # whether some number has so many values that few people share one
    columns = []
    in_table = columns_of(table)
    odd = [column for column in odd if column.name in in_table]
    odd_names = {column.name for column in odd}
    too_many = {}  # column -> its different texts
    for name, column in in_table.items():
        if name in reasons or name in odd_names:
            continue
        codes = encode_codes(column).take(used)
        levels = int((codes.counts() > 0).sum())
        if name not in config.declared:
            if codes.kind == "category" and levels > MAX_LEVELS:
                too_many[name] = levels
                continue
            if levels + codes.missing().any() == 1:  # gaps beside one value say something
                reasons[name] = "constant"
                continue
        hashes = mixed_in(hashes, codes.codes)
        tells_apart = tells_apart or has_many_values(codes)
        columns.append(name)
    if odd or too_many:
        raise unusable(odd, too_many)
    if not columns:
        raise DataError(
            f"no feature column is left in {config.data.name}", "see `fairaudit inspect`"
        )
    other_codes: list[NDArray[np.integer]] = [label.codes[used]]
    other_codes += [encode_codes(column).codes[used] for column in group_columns.columns]
    for codes_of_label_and_groups in other_codes:
        hashes = mixed_in(hashes, codes_of_label_and_groups)
    first = first_alike(hashes)
    of_features = (encode_codes(in_table[name]).codes[used] for name in columns)
    one = tells_apart and are_copies(chain(other_codes, of_features), first)
    return Chosen(used, tuple(columns), dropped, missing, reasons, EqualRows(first, one))


def _are_used(
    rows: int, gaps: Mapping[str, NDArray[np.bool_]], config: AuditConfig
) -> NDArray[np.bool_]:
    """Which of the rows with a label are used, ``[n]``: with ``--missing drop`` those without gaps.

    Args:
        rows: How many there are.
        gaps: Column -> which of them lack its value, ``[n]``; only columns that lack some.
        config: What to do with missing values.

    Raises:
        DataError: Values are missing, and that is an error.
    """
    if gaps and config.missing == "error":
        raise DataError(
            f"missing values in {numbered(len(gaps), 'column')}: {listed(gaps)}",
            "use --missing impute or drop",
        )
    are_used = np.ones(rows, dtype=np.bool_)
    if config.missing == "drop":
        for lacks in gaps.values():
            are_used &= ~lacks
    return are_used


class UnusableColumns(DataError):
    """Columns that no model can be given as they stand.

    Args:
        message, hint: As of every error.
        options: Options, (flag, value), with which the others can be used.
    """

    def __init__(self, message: str, hint: str, options: Sequence[tuple[str, str]]) -> None:
        super().__init__(message, hint)
        self.options = tuple(options)


def unusable(odd: Sequence[OddColumn], too_many: Mapping[str, int]) -> UnusableColumns:
    """The refusal of all columns that cannot be used, with the options that mend it.

    Args:
        odd: Neither numbers nor categories.
        too_many: Column -> how many different texts it has.
    """
    problems, fixes = [], []
    options = options_for(odd)
    if odd:
        problems.append("; ".join(column.what for column in odd))
        one = next((column.name for column in odd), "")
        as_text = f"--number-format {typed(f'{one}=text')}"
        fixes.append(f"a column that is no number is kept as text by {as_text}")
        if any(column.lone for column in odd):
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
        labelled: Rows with a label, ``[n]``.
        groupings: Of all rows.
        config: Which columns are declared, and whether the last grouping is the intersection.

    Returns:
        Column, also of groups -> which labelled rows lack its value, ``[n]``, for those with gaps;
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
    # Not the intersection, which is the last: it lacks a value where one of the others does.
    for grouping in groupings[: len(groupings) - config.intersect]:
        if grouping.missing is not None:
            lacks = grouping.groups[labelled] == grouping.missing
            if lacks.any():
                gaps[grouping.name] = lacks
    return gaps, reasons


def sampled(table: pa.Table, chosen: Chosen) -> Iterator[tuple[str, Codes]]:
    """Name and codes of each feature column, on the rows of :func:`leak_sample`."""
    rows = pa.array(chosen.used[leak_sample(len(chosen.used))])
    in_table = columns_of(table)
    for name in chosen.columns:
        yield name, encode_codes(in_table[name].take(rows))
