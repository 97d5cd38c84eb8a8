"""Rank correlations over records of what goes with a costly one, with intervals by resampling.

Raw data: never private. Source: Tran et al. 2021, sec. 5 and 6; Tran and Fioretto 2023, sec. 6.
"""

from collections.abc import Mapping, Sequence
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


class Ranked(NamedTuple):
    """Ranks of n records under each of W columns of weights, less their mean.

    Args:
        ranks: [n, W].
        variance: Their weighted sum of squares, [W]; 0 where all values are equal.
    """

    ranks: Float64
    variance: Float64

    @classmethod
    def of(cls, values: Float64, weights: Float64) -> "Ranked":
        """Rank values [n] under weights [n, W], not negative.

        A rank is the weight below a value and half of that at it, so ties stand at their mean.
        """
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])  # of equal values
        at_value = weights[order]
        if len(starts) < len(values):
            at_value = np.add.reduceat(at_value, starts, axis=0)
        middle = np.cumsum(at_value, axis=0)
        total = middle[-1].copy()
        middle -= at_value / 2
        middle -= np.einsum("nw,nw->w", middle, at_value) / total
        variance = np.einsum("nw,nw,nw->w", middle, middle, at_value)
        if len(starts) == 1:
            variance = np.zeros(len(total))
        ranks = np.empty_like(weights)
        ranks[order] = np.repeat(middle, np.diff(np.r_[starts, len(values)]), axis=0)
        return cls(ranks, variance)


def rank_correlations(
    values: Mapping[str, Float64],
    pairs: Sequence[tuple[str, str]],
    strata: Sequence[Stratum],
    *,
    seed: int,
    label: str,
) -> Float64:
    """Spearman's correlations within each stratum, and over all records.

    Over all, a sample that is not proportional to the strata is weighed by their shares. Intervals
    are 95 % percentiles over ``RESAMPLES`` samples, drawn anew within every stratum.

    Args:
        values: Of the same n records, by name.
        pairs: Names of the values that are compared.
        strata: K of them; they hold all n.
        seed: The audit seed.
        label: Of the random stream.

    Returns:
        Value, low and high end, [pairs, K + 1, 3]; NaN of fewer than three records, of values that
        are not known, or of a constant.
    """
    n = strata[-1].rows.stop
    weights = np.zeros((n, RESAMPLES + 1))  # the sample itself, then its resamples
    stream = numpy_stream(seed, "probe", "correlates", label)
    for rows, share in strata:
        size = rows.stop - rows.start
        if size:
            drawn = stream.multinomial(size, np.full(size, 1 / size), size=RESAMPLES)
            weights[rows] = np.vstack([np.ones(size), drawn]).T * (share / size)
    correlations = np.full((len(pairs), len(strata) + 1, 3), np.nan)
    for place, rows in enumerate([*(one.rows for one in strata), slice(0, n)]):
        if rows.stop - rows.start < LEAST:
            continue
        here = weights[rows]
        ranked = {
            name: Ranked.of(value[rows], here)
            for name, value in values.items()
            if np.isfinite(value[rows]).all()
        }
        for number, (first, second) in enumerate(pairs):
            if first in ranked and second in ranked:
                correlations[number, place] = _with_interval(
                    _correlation(ranked[first], ranked[second], here)
                )
    return correlations


def spearman(a: Float64, b: Float64, weights: Float64) -> Float64:
    """Spearman's rank correlation under each of W columns of weights.

    Args:
        a, b: Values of n records.
        weights: [n, W], not negative.

    Returns:
        [W]; NaN where a or b is constant.
    """
    return _correlation(Ranked.of(a, weights), Ranked.of(b, weights), weights)


def _correlation(a: Ranked, b: Ranked, weights: Float64) -> Float64:
    """Of two values' ranks under the same weights [n, W], [W]; NaN where one is constant."""
    product = np.einsum("nw,nw,nw->w", a.ranks, b.ranks, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Float64 = product / np.sqrt(a.variance * b.variance)
    return np.where((a.variance > 0) & (b.variance > 0), correlation, np.nan)


def _with_interval(values: Float64) -> Float64:
    """The first value, and the ends of a 95 % interval by the others, [3]."""
    ends = np.nanquantile(values[1:], LEVELS) if np.isfinite(values[1:]).any() else [np.nan] * 2
    return np.asarray([values[0], *ends])
