"""What each feature column is worth before any model: dropped, refused, or suspected of leaking."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.columns import Codes, RowKeys
from fairaudit.data.dataset import Grouping, Int64, Notice
from fairaudit.data.ids import looks_like_id, numbers_look_like_ids
from fairaudit.data.naming import quoted, typed
from fairaudit.errors import DataError

MAX_LEVELS = 1_000
IDS = "looks like an id"
LEAK_ACCURACY = 0.99
# With 99 % of one class, guessing is right as often: most of the guess's errors must be gone too.
LEAK_ERRORS_LEFT = 0.2
_LEAK_ROWS = 100_000
_LEAK_BINS = 256
_LEAK_CELLS = 4_000_000
_PIECE = 65_536
_MISSING_KEY = 0xD1B54A32D192ED03  # no number that occurs, and not the bits of a likely one


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Rows that repeat an earlier one.

    Args:
        first: Index of the first identical row, ``[N]``.
        count: Rows that are not the first of their kind.
    """

    first: Int64
    count: int


def worthless(name: str, column: RowKeys, is_float: bool) -> str:
    """Why no model can use a column: all missing, or ids; "" for all others."""
    rows = len(column.keys)
    if column.missing.all():
        return "all values missing"
    if column.codes is not None:
        return IDS if looks_like_id(name, column.codes, rows) else ""
    values = column.keys.view(np.float64) if is_float else column.keys
    present = values[~column.missing] if column.missing.any() else values
    return IDS if numbers_look_like_ids(name, present, rows) else ""


def is_constant(column: RowKeys) -> bool:
    """Whether every row has one value; one value and gaps still says something."""
    if column.missing.any():
        return bool(column.missing.all())
    return bool(column.keys.min() == column.keys.max())


def refuse_many_levels(name: str, column: RowKeys) -> None:
    """Refuse a text column that would make a thousand inputs.

    Raises:
        DataError: A categorical column with over 1,000 levels.
    """
    if column.codes is None or column.codes.kind != "category":
        return
    levels = int((column.codes.counts() > 0).sum())
    if levels > MAX_LEVELS:
        raise DataError(
            f"column {quoted(name)} has {levels:,} different texts, more than {MAX_LEVELS:,}",
            f"leave it out with --drop {typed(name)}, or merge its values",
        )


def leak_sample(rows: int) -> Int64:
    """The rows on which leaks are looked for: all, or every k-th of more than 100,000."""
    return np.arange(0, rows, -(-max(rows, 1) // _LEAK_ROWS), dtype=np.int64)


def leaks(
    columns: Iterable[tuple[str, Codes]], label: str, labels: Int64, groupings: Sequence[Grouping]
) -> Iterator[Notice]:
    """Warnings for single columns that give away the label or a group.

    A column predicts by the commonest class of each of its levels (numbers: of each of up to 256
    quantile bins, or of the two sides of the best threshold). Levels with one row count as errors.

    Args:
        columns: Names and codes, on the rows of :func:`leak_sample`.
        label: Its column.
        labels, groupings: On all rows.
    """
    sample = leak_sample(len(labels))
    target = labels[sample]
    groups = {grouping.name: grouping.groups[sample] for grouping in groupings}
    for name, codes in columns:
        level = _ordered(codes)[codes.codes]
        if _predicts(level, target, codes):
            message = f"column {quoted(name)} alone predicts the label {quoted(label)}"
            yield Notice(
                "feature_predicts_label", message, f"if it is known only afterwards: --drop {typed(name)}"
            )
        for grouping, group in groups.items():
            if grouping != name and _predicts(level, group, codes):
                message = f"column {quoted(name)} alone determines the group {quoted(grouping)}"
                fix = f"a model that must not see the group needs --drop {typed(name)}"
                yield Notice("feature_determines_group", message, fix)


class RowHashes:
    """Which rows are equal in all columns, told by 64 bits per row that the columns are mixed into.

    So it needs no more memory for more columns. Of ten million different rows some two are taken for
    equal with a chance of 3 in a million.

    Args:
        rows: N.
    """

    def __init__(self, rows: int) -> None:
        self._hashes = np.zeros(rows, np.uint64)

    def add(self, keys: Int64, missing: NDArray[np.bool_] | None = None) -> None:
        """Mix in a column, ``[N]``; rows where it is missing are alike in it."""
        for start in range(0, len(self._hashes), _PIECE):
            piece = slice(start, start + _PIECE)
            mixed = keys[piece].astype(np.uint64)
            if missing is not None:
                mixed[missing[piece]] = _MISSING_KEY
            # The finaliser of SplitMix64: every bit of the key moves every bit of the hash.
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= self._hashes[piece]
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                mixed ^= mixed >> np.uint64(shift)
                mixed *= np.uint64(factor)
            mixed ^= mixed >> np.uint64(31)
            self._hashes[piece] = mixed + np.uint64(0x9E3779B97F4A7C15)

    def duplicates(self) -> Duplicates:
        """Rows that repeat an earlier one."""
        first, inverse = np.unique(self._hashes, return_index=True, return_inverse=True)[1:]
        return Duplicates(first[inverse].astype(np.int64, copy=False), len(self._hashes) - len(first))


def _ordered(codes: Codes) -> Int64:
    """New code of each code: by size where the values have an order, missing last, ``[width]``."""
    place = np.arange(codes.width, dtype=np.int64)
    if codes.kind != "category" and len(codes.values):
        order = pc.sort_indices(codes.values).to_numpy(zero_copy_only=False)
        place[order] = np.arange(len(order))
    return place


def _predicts(level: Int64, target: Int64, codes: Codes) -> bool:
    n, n_classes = len(target), int(target.max(initial=0)) + 1
    if n < 2:
        return False
    right = 0
    if codes.kind != "category":
        level, right = _by_threshold(level, target, n_classes, codes.width - 1)
    counts = _table(level, target, n_classes)
    alone = counts.sum(axis=1) == 1
    right = max(right, int(counts.max(axis=1)[~alone].sum()))
    guessed = int(np.bincount(target).max())
    return right > LEAK_ACCURACY * n and (n - right) <= LEAK_ERRORS_LEFT * (n - guessed)


def _by_threshold(level: Int64, target: Int64, n_classes: int, missing: int) -> tuple[Int64, int]:
    """Levels merged into quantile bins, and the rows that the best single threshold gets right."""
    right = 0
    if (missing + 1) * n_classes <= _LEAK_CELLS:
        counts = _table(level, target, n_classes, missing + 1)
        below = np.cumsum(counts[:missing], axis=0)
        if missing:
            above = below[-1] - below
            right = int((below.max(axis=1) + above.max(axis=1)).max()) + int(counts[missing].max())
    sizes = np.bincount(level, minlength=missing + 1)
    bins = min(_LEAK_BINS, max(len(level) // 20, 1))
    if missing > bins:
        place = (np.cumsum(sizes) - sizes) * bins // max(int(sizes[:missing].sum()), 1)
        place[missing] = bins + 1
        level = place[level]
    return level, right


def _table(level: Int64, target: Int64, n_classes: int, n_levels: int = 0) -> Int64:
    """Rows of each level and class, ``[levels, classes]``."""
    n_levels = max(n_levels, int(level.max(initial=0)) + 1)
    cells = np.bincount(level * n_classes + target, minlength=n_levels * n_classes)
    return cells.reshape(n_levels, n_classes).astype(np.int64)
