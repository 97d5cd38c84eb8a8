"""Leaks: single feature columns that give the label or a group away.

What a column is asked to tell, the *target*, is the class of each row or its group in one grouping.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.data.column_types import Codes, encode_codes, level_names
from fairaudit.data.dataset import Grouping, Int64, columns_of
from fairaudit.messages.base import Message
from fairaudit.messages.data import FeatureDeterminesGroup, FeaturePredictsLabel
from fairaudit.messages.names import quoted

LEAK_ACCURACY = 0.99  # share of rows that a leak predicts rightly
# With 99 % of one class, always guessing it is right as often. So a leak must also leave at most
# this share of the errors of that guess.
LEAK_ERRORS_LEFT = 0.25
_LEAK_ROWS = 100_000  # looked at, at most
_LEAK_BINS = 256  # quantile bins of a number, at most
_LEAST_IN_BIN = 5  # rows, where a table is so small that it has fewer than 256 bins


def leak_sample(n_rows: int) -> Int64:
    """Indices of the rows on which leaks are looked for: every k-th, at most 100,000."""
    step = -(-max(n_rows, 1) // _LEAK_ROWS)  # rounded up
    return np.arange(0, n_rows, step, dtype=np.int64)


def coded_sample(
    table: pa.Table, columns: Sequence[str], rows: Int64
) -> Iterator[tuple[str, Codes]]:
    """Name and codes of each of the columns, on the :func:`leak_sample` of ``rows`` ``[n]``."""
    sample = pa.array(rows[leak_sample(len(rows))])
    in_table = columns_of(table)
    for name in columns:
        yield name, encode_codes(in_table[name].take(sample))


def leak_warnings(
    columns: Iterable[tuple[str, Codes]], label: str, labels: Int64, groupings: Sequence[Grouping]
) -> Iterator[Message]:
    """Warn of every feature column that alone predicts the label or a group.

    Each column predicts a target in two ways: by all of its levels (:func:`_errors_of_levels`), and
    by one of its values against all others (:func:`_best_value`): whether it is filled, is 0, is
    one amount or one text. :func:`_label_giveaway` and :func:`_group_giveaway` have the thresholds.

    Args:
        columns: Name and codes of each, on the rows of :func:`leak_sample`.
        label: Name of the label column.
        labels: Class of every used row; those of the sample are taken from them.
        groupings: Of all used rows, likewise.
    """
    sample = leak_sample(len(labels))
    sampled_labels = labels[sample]
    sampled_groups = {grouping.name: grouping.groups[sample] for grouping in groupings}
    for name, codes in columns:
        levels = _levels_of_rows(codes)
        giveaway = _label_giveaway(codes, levels, sampled_labels)
        if giveaway is not None:  # "": by all of its levels, not by one value
            yield FeaturePredictsLabel(name, value=giveaway, label=label)
        for grouping, groups in sampled_groups.items():
            if name == grouping:  # with --group-as-feature the group column is a feature itself
                continue
            giveaway = _group_giveaway(codes, levels, groups)
            if giveaway is not None:
                yield FeatureDeterminesGroup(name, value=giveaway, grouping=grouping)


def _levels_of_rows(codes: Codes) -> Int64:
    """Level of each row, ``[n]``: of numbers their rank by size, of categories their code.

    The level of a missing value is the last, as its code is.
    """
    level_of_code = np.arange(codes.width, dtype=np.int64)
    if codes.kind != "category" and len(codes.values):
        ascending = pc.sort_indices(codes.values).to_numpy(zero_copy_only=False)
        level_of_code[ascending] = np.arange(len(ascending))
    return level_of_code[codes.codes]


def _label_giveaway(codes: Codes, levels: Int64, labels: Int64) -> str | None:
    """How a column gives the label away.

    All of its levels do if they leave at most a quarter of the errors of guessing, and are right in
    99 % of the rows, or are no more than there are classes, as in a copy of the label. One value
    does if it leaves at most a quarter of the errors of guessing.

    Args:
        codes: The column.
        levels: Level of each row, ``[n]``.
        labels: Class of each row, ``[n]``.

    Returns:
        "" if all of its levels do; if one of its values does, what a row has then, as "is 0"; None
        if it does not.
    """
    errors = _errors_of_levels(codes, levels, labels)
    could_be_copy = len(codes.values) <= int(labels.max(initial=0)) + 1
    if errors.are_few_left and (could_be_copy or errors.are_rare):
        return ""
    value = _best_value(codes, labels)
    return value.what if value.errors.are_few_left else None


def _group_giveaway(codes: Codes, levels: Int64, groups: Int64) -> str | None:
    """How a column gives the group away, or None; args and result as of :func:`_label_giveaway`.

    Its levels, or one value, must leave at most a quarter of the errors of guessing and be right in
    99 % of the rows: many honest features go together with a group.
    """
    errors = _errors_of_levels(codes, levels, groups)
    if errors.are_few_left and errors.are_rare:
        return ""
    value = _best_value(codes, groups)
    return value.what if value.errors.are_few_left and value.errors.are_rare else None


class _Errors(NamedTuple):
    """Rows for which a prediction of a target is wrong.

    Args:
        of_rows: Their share of all rows.
        of_guesses: Their number, divided by that of the rows that are wrong when the commonest
            class (or group) is guessed for all.
    """

    of_rows: float
    of_guesses: float

    @property
    def are_rare(self) -> bool:
        """Whether more than 99 % of the rows are right."""
        return self.of_rows < 1 - LEAK_ACCURACY

    @property
    def are_few_left(self) -> bool:
        """Whether at most a quarter of the errors of guessing is left."""
        return self.of_guesses <= LEAK_ERRORS_LEFT


# Of a target with one class, of which nothing is to be learned, and where no value can be tried.
_NOTHING_LEARNED = _Errors(of_rows=0.0, of_guesses=1.0)


class _BestValue(NamedTuple):
    """The value of a column that, against all others, predicts a target best.

    Args:
        errors: How often that prediction is wrong.
        what: What a row with the value has, or a row without it has not: "is 0", "has a value".
    """

    errors: _Errors
    what: str


def _best_value(codes: Codes, target: Int64) -> _BestValue:
    """The value of a column that predicts a target best, if rows have it or have it not.

    Rows with value v get the commonest class among them, the others the commonest among themselves:
    wrong(v) = n - max_c count(v, c) - max_c (count(c) - count(v, c)). To be missing counts as a
    value. A value of one row is not tried, as it is right by itself.

    Args:
        codes: The column.
        target: Class or group of each row, ``[n]``.
    """
    n, n_classes = len(target), int(target.max(initial=0)) + 1
    class_counts = np.bincount(target, minlength=n_classes)
    guess_errors = n - int(class_counts.max(initial=0))
    repeated = np.flatnonzero(np.bincount(codes.codes, minlength=codes.width) > 1)
    if not guess_errors or not len(repeated):
        return _BestValue(_NOTHING_LEARNED, "")
    # The row of each code in the table `counts`; -1: not tried.
    row_of_code = np.full(codes.width, -1, np.int64)
    row_of_code[repeated] = np.arange(len(repeated))
    tried = row_of_code[codes.codes]
    cells = tried[tried >= 0] * n_classes + target[tried >= 0]
    counts = np.bincount(cells, minlength=len(repeated) * n_classes).reshape(-1, n_classes)
    wrong = n - counts.max(axis=1) - (class_counts - counts).max(axis=1)
    best = int(wrong.argmin())
    errors = _Errors(int(wrong[best]) / n, int(wrong[best]) / guess_errors)
    return _BestValue(errors, _value_words(codes, int(repeated[best])))


def _value_words(codes: Codes, code: int) -> str:
    """What a row of this code has, in words; of the missing one, what all other rows have."""
    if code == len(codes.values):
        return "has a value"
    if codes.kind == "image":
        return "is one certain image"
    (name,) = level_names(codes.values.slice(code, 1))
    return f"is {name}" if codes.kind == "number" else f"is {quoted(name)}"


def _errors_of_levels(codes: Codes, levels: Int64, target: Int64) -> _Errors:
    """The errors if each level of a column predicts the commonest class among its rows.

    A number of many values has up to 256 quantile bins for levels. A level with one row, which is
    right by itself, counts as an error.

    Args:
        codes: The column.
        levels: Level of each row, ``[n]``; numbers are ranked by size, a missing value is last.
        target: Class or group of each row, ``[n]``.
    """
    n, n_classes = len(target), int(target.max(initial=0)) + 1
    guess_errors = n - int(np.bincount(target, minlength=1).max())
    if not guess_errors:
        return _NOTHING_LEARNED
    n_bins = min(_LEAK_BINS, max(n // _LEAST_IN_BIN, 1))
    if codes.kind != "category" and len(codes.values) > n_bins:
        rows_of_level = np.bincount(levels, minlength=codes.width)
        rows_below = np.cumsum(rows_of_level) - rows_of_level
        n_present = max(int(rows_of_level[:-1].sum()), 1)
        bin_of_level = rows_below * n_bins // n_present
        bin_of_level[-1] = n_bins + 1  # missing values have a bin of their own
        levels = bin_of_level[levels]
    n_levels = int(levels.max(initial=0)) + 1
    cells = np.bincount(levels * n_classes + target, minlength=n_levels * n_classes)
    counts = cells.reshape(n_levels, n_classes)
    is_single = counts.sum(axis=1) == 1
    wrong = n - int(counts.max(axis=1)[~is_single].sum())
    return _Errors(wrong / n, wrong / guess_errors)
