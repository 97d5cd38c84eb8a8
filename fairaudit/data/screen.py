"""What each feature column is worth before any model: dropped, refused, or suspected of leaking."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairaudit.data.columns import Codes
from fairaudit.data.dataset import Grouping, Int64, Notice
from fairaudit.data.infer import looks_like_id
from fairaudit.data.naming import quoted, typed
from fairaudit.errors import DataError

MAX_LEVELS = 1_000
LEAK_ACCURACY = 0.99
# With 99 % of one class, guessing is right as often: most of the guess's errors must be gone too.
LEAK_ERRORS_LEFT = 0.2
_LEAK_ROWS = 100_000
_LEAK_BINS = 256
_LEAK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Rows that repeat an earlier one.

    Args:
        first: Index of the first identical row, ``[N]``.
        count: Rows that are not the first of their kind.
    """

    first: Int64
    count: int


def worthless(columns: Mapping[str, Codes], rows: int) -> dict[str, str]:
    """Columns that no model can use, with the reason: all missing, or ids."""
    reasons = {}
    for name, codes in columns.items():
        if not codes.counts().any():
            reasons[name] = "all values missing"
        elif looks_like_id(name, codes, rows):
            reasons[name] = "looks like an id"
    return reasons


def constant(columns: Mapping[str, Codes]) -> dict[str, str]:
    """Columns with one value in every row; one value and gaps still says something."""
    return {name: "constant" for name, codes in columns.items() if codes.codes.min() == codes.codes.max()}


def refuse_many_levels(columns: Mapping[str, Codes]) -> None:
    """Refuse text columns that would make a thousand inputs.

    Raises:
        DataError: A categorical column with over 1,000 levels.
    """
    for name, codes in columns.items():
        levels = int((codes.counts() > 0).sum())
        if codes.kind == "category" and levels > MAX_LEVELS:
            raise DataError(
                f"column {quoted(name)} has {levels:,} different texts, more than {MAX_LEVELS:,}",
                f"leave it out with --drop {typed(name)}, or merge its values",
            )


def leaks(
    columns: Mapping[str, Codes], label: str, labels: Int64, groupings: Sequence[Grouping]
) -> Iterator[Notice]:
    """Warnings for single columns that give away the label or a group.

    A column predicts by the commonest class of each of its levels (numbers: of each of up to 256
    quantile bins, or of the two sides of the best threshold). Levels with one row count as errors.
    On more than 100,000 rows every k-th row is used.
    """
    step = -(-max(len(labels), 1) // _LEAK_ROWS)
    for name, codes in columns.items():
        if codes.kind == "image":
            continue  # no single value of it stands for anything
        level = _ordered(codes)[codes.codes[::step]]
        if _predicts(level, labels[::step], codes):
            message = f"column {quoted(name)} alone predicts the label {quoted(label)}"
            yield Notice(
                "feature_predicts_label", message, f"if it is known only afterwards: --drop {typed(name)}"
            )
        for grouping in groupings:
            if grouping.name != name and _predicts(level, grouping.groups[::step], codes):
                message = f"column {quoted(name)} alone determines the group {quoted(grouping.name)}"
                fix = f"a model that must not see the group needs --drop {typed(name)}"
                yield Notice("feature_determines_group", message, fix)


def duplicates(columns: Sequence[NDArray[np.integer]]) -> Duplicates:
    """Rows equal in all columns, by mixing the columns' codes into one exact key.

    Args:
        columns: Non-negative codes of each column, ``[N]`` each; at least one column.
    """
    rows = len(columns[0])
    key, size = np.zeros(rows, np.int64), 1
    # The widest first: once the key tells all rows apart, the other columns cannot join any.
    for codes in sorted(columns, key=lambda c: -int(c.max(initial=0))):
        width = int(codes.max(initial=0)) + 1
        if size > np.iinfo(np.int64).max // width:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            size = int(key.max(initial=0)) + 1
            if size == rows:
                break
        key, size = key * width + codes, size * width
    first, inverse = np.unique(key, return_index=True, return_inverse=True)[1:]
    return Duplicates(first[inverse].astype(np.int64), rows - len(first))


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
