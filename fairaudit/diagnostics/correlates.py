"""Rank correlations over records of what goes with a costly one, with intervals by resampling.

Raw data: never private. Source: Tran et al. 2021, sec. 5 and 6; Tran and Fioretto 2023, sec. 6.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.privacy.streams import numpy_stream

Float64 = NDArray[np.float64]

RESAMPLES = 200
LEAST = 3  # records
LEVELS = (0.025, 0.975)  # of a 95 % percentile interval


class Stratum(NamedTuple):
    """Some rows of a sample, which are resampled among themselves.

    Args:
        rows: Where they stand.
        share: Of all records of the population.
    """

    rows: slice
    share: float


def rank_correlations(
    pairs: Sequence[tuple[Float64, Float64]], strata: Sequence[Stratum], *, seed: int, label: str
) -> Float64:
    """Spearman's correlations within each stratum, and over all records.

    Over all, a sample that is not proportional to the strata is weighed by their shares. Intervals
    are 95 % percentiles over ``RESAMPLES`` samples, drawn anew within every stratum.

    Args:
        pairs: Of values of the same n records.
        strata: K of them; they hold all n.
        seed: The audit seed.
        label: Of the random stream.

    Returns:
        Value, low and high end, [pairs, K + 1, 3]; NaN of fewer than three records, of values that
        are not known, or of a constant.
    """
    n = len(pairs[0][0])
    weights = np.zeros((RESAMPLES + 1, n))  # the sample itself, then its resamples
    stream = numpy_stream(seed, "probe", "correlates", label)
    for rows, share in strata:
        size = rows.stop - rows.start
        if size:
            drawn = stream.multinomial(size, np.full(size, 1 / size), size=RESAMPLES)
            weights[:, rows] = np.vstack([np.ones(size), drawn]) * (share / size)
    found = np.full((len(pairs), len(strata) + 1, 3), np.nan)
    for number, (a, b) in enumerate(pairs):
        for place, rows in enumerate([*(one.rows for one in strata), slice(0, n)]):
            first, second = a[rows], b[rows]
            if len(first) < LEAST or not np.isfinite([first, second]).all():
                continue
            values = spearman(first, second, weights[:, rows])
            ends = np.nanquantile(values[1:], LEVELS) if np.isfinite(values[1:]).any() else np.nan
            found[number, place, 0] = values[0]
            found[number, place, 1:] = ends
    return found


def spearman(a: Float64, b: Float64, weights: Float64) -> Float64:
    """Spearman's rank correlation under each of W rows of weights.

    Args:
        a, b: Values of n records.
        weights: [W, n], not negative.

    Returns:
        [W]; NaN where a or b is constant.
    """
    x, y = _ranks(a, weights), _ranks(b, weights)
    total = weights.sum(1, keepdims=True)
    x = x - (x * weights).sum(1, keepdims=True) / total
    y = y - (y * weights).sum(1, keepdims=True) / total
    product, of_x, of_y = ((u * v * weights).sum(1) for u, v in ((x, y), (x, x), (y, y)))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Float64 = product / np.sqrt(of_x * of_y)
    return np.where((of_x > 0) & (of_y > 0), correlation, np.nan)


def _ranks(values: Float64, weights: Float64) -> Float64:
    """Weight below each value and half of that at it, [W, n]: ranks, with ties at their mean."""
    distinct, place = np.unique(values, return_inverse=True)
    at_value = np.zeros((len(weights), len(distinct)))
    for row, of_row in zip(at_value, weights, strict=True):
        row += np.bincount(place, weights=of_row, minlength=len(distinct))
    middle: Float64 = np.cumsum(at_value, axis=1) - at_value / 2
    return middle[:, place]
