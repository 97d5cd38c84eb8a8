"""One seed's training and test rows; how many there are does not depend on the seed.

N, the number of training rows, enters the sampling rate and every divisor as a public constant, so
it is allocated first (in all, per group, per class in the group, each by largest remainder) and
only then does a seed decide which rows they are.

Copies of a record, where the data have some, lie on one side: a record is drawn with all of its
copies, and as a test row it stands once. Records are drawn from those with equally many copies, so
that N stays what it is.

Groups are those of the first grouping, K of them. ``balance`` draws all groups to one size before
the split; ``keep`` thins the training rows of some groups after it; a given split, from a column of
the file, takes the place of the drawn one.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.options import SplitOptions
from fairaudit.data.dataset import Dataset, Int64, Split
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.names import nearest, quoted
from fairaudit.privacy.streams import numpy_stream

SIDES = ("train", "test")


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many rows of each of the K groups are used where; the same at every seed.

    Args:
        pool: Training and test rows together, after ``balance`` and before ``keep``, ``[K]``.
        test: Test rows, ``[K]``.
        kept: Training rows after ``keep``, ``[K]``.
        cells: Test rows of each cell of :func:`_cells_of_copies`; None where no rows are copies.
    """

    pool: Int64
    test: Int64
    kept: Int64
    cells: Int64 | None = None


def training_size(dataset: Dataset, options: SplitOptions) -> int:
    """N, the training rows of every seed, known before any row is drawn.

    Raises:
        ConfigError: ``keep`` names no group or is no share, ``balance`` without a group.
        DataError: No row is left to train or to test on, or ``balance`` meets an empty group.
    """
    return int(group_sizes(dataset, options).sum())


def group_sizes(dataset: Dataset, options: SplitOptions) -> Int64:
    """Training rows of each group at every seed, ``[K]``. Raises: as :func:`training_size`."""
    return _sizes(dataset, options).kept


def holdout_size(dataset: Dataset, options: SplitOptions) -> int:
    """Test rows of every seed. Raises: as :func:`training_size`."""
    return int(_sizes(dataset, options).test.sum())


def draw_split(dataset: Dataset, options: SplitOptions, seed: int) -> Split:
    """The rows one seed trains and tests on.

    ``balance`` draws equal group sizes first (with a given split, on each side of it), then the
    split is stratified by first grouping and class, then ``keep`` thins the training rows.

    Returns:
        Indices into the dataset, ascending and disjoint.

    Raises:
        ConfigError, DataError: As :func:`training_size`.
    """
    sizes = _sizes(dataset, options)
    groups = dataset.first_grouping.groups
    if sizes.cells is not None:
        assert dataset.records is not None, "cells are of copies"
        cells, records = _cells_of_copies(dataset)
        test = _draw(records, cells, sizes.cells, numpy_stream(seed, "split", "test"))
        # All copies of the records that are not in the test; `records`: each row's first copy.
        train = np.flatnonzero(~np.isin(dataset.records, test))
    elif dataset.split is None:
        pool = _pool(dataset)
        if options.balance:
            pool = _draw(pool, groups, sizes.pool, numpy_stream(seed, "split", "balance"))
        test = draw_stratified(dataset, pool, sizes.test, numpy_stream(seed, "split", "test"))
        train = np.setdiff1d(pool, test, assume_unique=True)
    else:
        train, test = np.flatnonzero(dataset.split == 0), np.flatnonzero(dataset.split == 1)
        if options.balance:
            train_stream, test_stream = (numpy_stream(seed, "split", "balance", s) for s in SIDES)
            train = _draw(train, groups, sizes.pool - sizes.test, train_stream)
            test = _draw(test, groups, sizes.test, test_stream)
    if options.keep:
        train = _draw(train, groups, sizes.kept, numpy_stream(seed, "split", "keep"))
    return Split(seed, train.astype(np.int64), test.astype(np.int64))


def leakage_rows(dataset: Dataset, options: SplitOptions) -> Int64:
    """The rows ``[n]``, ascending, that a membership attack (``--leakage``) is tried on.

    ``balance`` and ``keep`` take out the same rows at every seed; each of the others is a member
    (trained on) or not. A given split is not followed, as chance alone must decide that.

    Raises: as :func:`training_size`.
    """
    dataset = replace(dataset, records=None)  # every row has a coin of its own
    rows, groups = np.arange(dataset.n_rows), dataset.first_grouping.groups
    if options.balance:
        counts = _sizes(dataset, options).pool
        # The stream of seed 0 at every seed, here and below: the same rows are taken out.
        rows = _draw(rows, groups, counts, numpy_stream(0, "membership", "balance"))
    if options.keep:
        counts = _thinned_counts(dataset, options, group_counts(dataset, rows))
        rows = _draw(rows, groups, counts, numpy_stream(0, "membership", "keep"))
    return rows.astype(np.int64)


def draw_members(dataset: Dataset, options: SplitOptions, seed: int) -> Split:
    """Draw by a fair coin for each row who is trained on at one seed of a membership attack.

    No count is fixed, in all or in a group, so a row's membership tells nothing of another's. The
    bound that epsilon puts on an attacker's success holds only then, as he may know all others.

    Returns:
        The members as training rows and the others as test rows.

    Raises: as :func:`training_size`.
    """
    rows = leakage_rows(dataset, options)
    member = numpy_stream(seed, "membership").random(len(rows)) < 0.5
    return Split(seed, rows[member], rows[~member])


def largest_remainder(total: int, sizes: Int64) -> Int64:
    """Share out ``total`` in proportion to sizes, in whole numbers, no share above its size.

    Ties go to the first; exact integer arithmetic, so every machine agrees.

    Args:
        total: How many to share out; at most ``sizes.sum()``.
        sizes: Rows of each part, ``[K]``.

    Returns:
        The share of each part, ``[K]``, within 1 of the exact share.
    """
    rows = int(sizes.sum())
    if rows == 0:
        return np.zeros_like(sizes)
    share, remainder = np.divmod(total * sizes, rows)
    n_left = total - int(share.sum())
    share[np.argsort(-remainder, kind="stable")[:n_left]] += 1
    return share


def group_counts(dataset: Dataset, rows: Int64 | NDArray[np.bool_]) -> Int64:
    """Rows of each group of the first grouping among ``rows`` (indices, or a mask), ``[K]``."""
    first = dataset.first_grouping
    return np.bincount(first.groups[rows], minlength=len(first.names)).astype(np.int64)


def _sizes(dataset: Dataset, options: SplitOptions) -> _Sizes:
    """Allocate the pool, the test rows and the training rows to the groups, before any is drawn.

    Raises: as :func:`training_size`.
    """
    # With `balance` a record is its first row alone (`_pool`), so its copies need no allocation.
    if dataset.records is not None and dataset.split is None and not options.balance:
        return _sizes_of_copies(dataset, options)
    if dataset.split is None:
        pool = group_counts(dataset, _pool(dataset))
        if options.balance:
            pool = _balanced_counts(dataset, pool)
        n = int(pool.sum())
        # At least one row on either side.
        test = largest_remainder(min(max(round(options.test_size * n), 1), n - 1), pool)
    else:
        train = group_counts(dataset, dataset.split == 0)
        test = group_counts(dataset, dataset.split == 1)
        if options.balance:
            train, test = _balanced_counts(dataset, train), _balanced_counts(dataset, test)
        pool = train + test
    kept = _thinned_counts(dataset, options, pool - test)
    if not kept.sum() or not test.sum():
        side = "train" if not kept.sum() else "test"
        raise DataError(f"no row is left to {side} on ({int(pool.sum())} usable)")
    return _Sizes(pool, test, kept)


def _pool(dataset: Dataset) -> Int64:
    """The rows that ``balance`` and the split draw from: all, or each record's first."""
    if dataset.records is None:
        return np.arange(dataset.n_rows, dtype=np.int64)
    return np.unique(dataset.records)


def _cells_of_copies(dataset: Dataset) -> tuple[Int64, Int64]:
    """The cell that each row's record is drawn in, and the records.

    A cell holds the records of one group, class and number of copies.

    Returns:
        The cell of each row, ``[N]``, numbered group by group; and the first row of each record,
        ascending.
    """
    assert dataset.records is not None
    # How many rows each row's record has, ``[N]``; `records` is the first row of each row's record.
    copies = np.bincount(dataset.records, minlength=dataset.n_rows)[dataset.records]
    _, copies_index = np.unique(copies, return_inverse=True)  # 0.. of the counts that occur
    n_counts = int(copies_index.max()) + 1
    cells = dataset.first_grouping.groups * len(dataset.classes) + dataset.labels
    return cells * n_counts + copies_index, np.unique(dataset.records)


def _sizes_of_copies(dataset: Dataset, options: SplitOptions) -> _Sizes:
    """As :func:`_sizes`, where a record and its copies lie on one side of the split.

    Test rows are shared out among groups by their records, then within a group among its cells. A
    test record stands once; a training record stands with all of its copies.

    Raises: as :func:`training_size`.
    """
    assert dataset.records is not None
    cells, records = _cells_of_copies(dataset)
    n_groups, n_cells = len(dataset.first_grouping.names), int(cells.max()) + 1
    n = len(records)
    n_test = min(max(round(options.test_size * n), 1), n - 1)  # at least one record on either side
    test = largest_remainder(n_test, group_counts(dataset, records))
    cell_of_record = cells[records]
    group_of_record = dataset.first_grouping.groups[records]
    records_of_cell = np.bincount(cell_of_record, minlength=n_cells)
    test_of_cell = np.zeros(n_cells, np.int64)
    for group in range(n_groups):
        cells_of_group = np.unique(cell_of_record[group_of_record == group])
        test_of_cell[cells_of_group] = largest_remainder(
            int(test[group]), records_of_cell[cells_of_group]
        )
    # All records of a cell have equally many copies, so its rows divide evenly.
    rows_of_cell = np.bincount(cells, minlength=n_cells)
    # The cells that have records, and the place among the records of one record of each.
    used_cells, one_record = np.unique(cell_of_record, return_index=True)
    copies = rows_of_cell[used_cells] // records_of_cell[used_cells]
    train_of_cell = (records_of_cell - test_of_cell)[used_cells] * copies
    train = np.zeros(n_groups, np.int64)
    np.add.at(train, group_of_record[one_record], train_of_cell)
    kept = _thinned_counts(dataset, options, train)
    if not kept.sum() or not test.sum():
        side = "train" if not kept.sum() else "test"
        raise DataError(f"no row is left to {side} on ({dataset.n_rows} usable)")
    return _Sizes(train + test, test, kept, test_of_cell)


def _balanced_counts(dataset: Dataset, counts: Int64) -> Int64:
    """Cut the counts ``[K]`` of all named groups to that of the smallest, for ``balance``.

    The missing level, of rows without a group, gets 0.

    Raises:
        ConfigError: There is no group column.
        DataError: A named group has no row.
    """
    if not dataset.groupings:
        raise ConfigError("balance needs a group")
    grouping = dataset.groupings[0]
    missing = -1 if grouping.missing is None else grouping.missing  # -1: no group's index
    named = np.arange(len(counts)) != missing
    smallest = int(counts[named].min())
    # Groups without any row are gone already, so only a side of a given split can lack one.
    if smallest == 0:
        empty = grouping.names[int(np.flatnonzero(named & (counts == 0))[0])]
        raise DataError(
            f"balance: group {quoted(empty)} has no row on one side of the given split",
            "balance without --split-column, or give the group rows on both sides",
        )
    return np.where(named, smallest, 0).astype(np.int64)


def _thinned_counts(dataset: Dataset, options: SplitOptions, train: Int64) -> Int64:
    """Training rows of each group, ``[K]``, after ``--keep`` has thinned the groups it names.

    Args:
        dataset: Says what the groups are called.
        options: ``keep``: group -> the share of its training rows that stay.
        train: Training rows of each group before, ``[K]``.

    Raises:
        ConfigError: ``keep`` names no group, or a number that is no share.
    """
    if not options.keep:
        return train
    names = dataset.first_grouping.names if dataset.groupings else ()
    kept = train.copy()
    for name, fraction in options.keep.items():
        if name not in names:
            raise ConfigError(f"keep: there is no group {quoted(name)}", nearest(name, names))
        if not 0 <= fraction <= 1:
            raise ConfigError(f"keep: {fraction:g} for group {quoted(name)} is not between 0 and 1")
        group = names.index(name)
        kept[group] = round(fraction * int(train[group]))
    return kept


def draw_stratified(
    dataset: Dataset, pool: Int64, wanted: Int64, stream: np.random.Generator
) -> Int64:
    """Draw ``wanted[k]`` rows of each group k, each class in proportion, from ``pool``; ascending.

    Args:
        dataset: Its first grouping and its labels are the strata.
        pool: Indices of the rows to draw from.
        wanted: Rows of each group, ``[K]``.
        stream: What they are drawn by.
    """
    n_classes = len(dataset.classes)
    cells = dataset.first_grouping.groups * n_classes + dataset.labels
    counts = np.bincount(cells[pool], minlength=len(wanted) * n_classes)
    wanted_of_cells = []
    for of_group, class_counts in zip(wanted, counts.reshape(-1, n_classes), strict=True):
        wanted_of_cells.append(largest_remainder(int(of_group), class_counts))
    return _draw(pool, cells, np.concatenate(wanted_of_cells), stream)


def _draw(
    rows: Int64, cells: NDArray[np.int64], wanted: Int64, stream: np.random.Generator
) -> Int64:
    """Draw ``wanted[c]`` rows of each cell c, at random without replacement; ascending.

    Args:
        rows: Indices of the rows to draw from.
        cells: Cell (group, or group and class) of every row of the dataset, ``[N]``.
        wanted: Rows of each cell; a cell that has fewer gives all.
        stream: What they are drawn by.
    """
    # Shuffled, then sorted by cell: the first rows of each cell are a random draw from it.
    shuffled = stream.permutation(rows)
    by_cell = shuffled[np.argsort(cells[shuffled], kind="stable")]
    cell = cells[by_cell]
    counts = np.bincount(cell, minlength=len(wanted))
    first_of_cell = np.cumsum(counts) - counts
    rank = np.arange(len(rows)) - first_of_cell[cell]  # place of each row within its cell
    return np.sort(by_cell[rank < wanted[cell]])
