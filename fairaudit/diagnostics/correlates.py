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

        A value's rank is the weight below it and half of the weight at it, so equal values have one
        rank, the mean of their places.
        """
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        # Place of the first of equal values, for each distinct value among the ordered ones.
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        at_value = weights[order]  # weight of each distinct value
        if len(starts) < len(values):
            at_value = np.add.reduceat(at_value, starts, axis=0)
        of_distinct = np.cumsum(at_value, axis=0)
        total = of_distinct[-1].copy()  # a copy, for the row is changed in place below
        of_distinct -= at_value / 2
        of_distinct -= np.einsum("nw,nw->w", of_distinct, at_value) / total  # less their mean
        variance = np.einsum("nw,nw,nw->w", of_distinct, of_distinct, at_value)
        if len(starts) == 1:  # exactly 0 of a constant, which rounding would miss
            variance = np.zeros(len(total))
        ranks = np.empty_like(weights)
        ranks[order] = np.repeat(of_distinct, np.diff(np.r_[starts, len(values)]), axis=0)
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

    Over all records, each stratum's rows have together the weight of its share, for the sample need
    not be proportional to the strata. Intervals are 95 % percentiles over ``RESAMPLES`` samples,
    drawn anew within every stratum.

    Args:
        values: Of the same n records, by name.
        pairs: Names of the values that are compared.
        strata: K of them, in the order of the rows; together they hold all n.
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
        of_rows = weights[rows]
        ranked = {
            name: Ranked.of(value[rows], of_rows)
            for name, value in values.items()
            if np.isfinite(value[rows]).all()
        }
        for number, (first, second) in enumerate(pairs):
            if first in ranked and second in ranked:
                of_samples = _correlation(ranked[first], ranked[second], of_rows)
                correlations[number, place] = _with_interval(of_samples)
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
    """Correlation of two values' ranks under the same weights [n, W]: [W].

    NaN where one of the values is constant.
    """
    product = np.einsum("nw,nw,nw->w", a.ranks, b.ranks, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Float64 = product / np.sqrt(a.variance * b.variance)
    return np.where((a.variance > 0) & (b.variance > 0), correlation, np.nan)


def _with_interval(values: Float64) -> Float64:
    """The sample's value, which is first, and a 95 % interval's ends by its resamples', [3]."""
    ends = np.nanquantile(values[1:], LEVELS) if np.isfinite(values[1:]).any() else [np.nan] * 2
    return np.asarray([values[0], *ends])
