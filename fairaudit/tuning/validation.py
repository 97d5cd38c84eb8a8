"""Which training rows score the candidates of a search and train none."""

import numpy as np

from fairaudit.config.options import SplitOptions
from fairaudit.data.dataset import Dataset, Int64, Split
from fairaudit.data.inputs.split import (
    draw_stratified,
    group_counts,
    group_sizes,
    largest_remainder,
)
from fairaudit.privacy.streams import numpy_stream

VALIDATION_SHARE = 0.2  # of the training rows


def validation_size(n_train: int) -> int:
    """How many of ``n_train`` training rows are for validation: ``VALIDATION_SHARE``, rounded.

    Candidates train on the others. At least one row stays on either side.
    """
    return min(max(round(VALIDATION_SHARE * n_train), 1), n_train - 1)


def with_validation(n_fit: int) -> int:
    """How many training rows leave ``n_fit`` to train on, once validation rows are taken out.

    The inverse of ``n - validation_size(n)``.
    """
    n = round(n_fit / (1.0 - VALIDATION_SHARE))
    # validation_size rounds, so the number may be one more or one less.
    return next(m for m in (n, n + 1, n - 1) if m - validation_size(m) == n_fit)


def validation_groups(dataset: Dataset, options: SplitOptions) -> Int64:
    """How many validation rows each group of the first grouping has, ``[K]``, at every seed.

    Raises: as :func:`fairaudit.data.inputs.split.training_size`.
    """
    sizes = group_sizes(dataset, options)
    return largest_remainder(validation_size(int(sizes.sum())), sizes)


def draw_validation(dataset: Dataset, split: Split) -> Int64:
    """Draw a seed's validation rows: places ``[m]`` among ``split.train``, ascending.

    Stratified by first grouping and class, like the test rows.
    """
    counts = group_counts(dataset, split.train)
    sizes = largest_remainder(validation_size(len(split.train)), counts)
    chosen = draw_stratified(dataset, split.train, sizes, numpy_stream(split.seed, "validation"))
    # From rows of the dataset to places; both are ascending.
    return np.searchsorted(split.train, chosen).astype(np.int64)
