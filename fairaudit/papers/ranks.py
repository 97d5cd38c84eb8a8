"""Correlations of records, plain and of ranks, with bootstrap intervals."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

RESAMPLES = 200
LIMITS = (0.025, 0.975)  # of a 95 % percentile interval


class Ranked:
    """A sample sorted once, so that its ranks under any weights are one cumulative sum.

    Args:
        values: [n].
    """

    def __init__(self, values: Float64) -> None:
        self._place, counts = np.unique(values, return_inverse=True, return_counts=True)[1:]
        self._order = np.argsort(self._place, kind="stable")
        self._starts = np.cumsum(counts) - counts

    def ranks(self, weights: Float64) -> Float64:
        """Ranks in samples where value i stands ``weights[i]`` times, [n, ...].

        Ties at their mean rank.
        """
        totals = np.add.reduceat(weights[self._order], self._starts, axis=0)
        middle = np.cumsum(totals, axis=0)
        middle -= (totals - 1) / 2.0
        ranks: Float64 = middle[self._place]
        return ranks


def pearson(a: Float64, b: Float64, weights: Float64) -> Float64:
    """Pearson's correlation of weighted samples, [...] from [n, ...]; NaN where one is constant."""
    total = weights.sum(0)
    a = a - _over_records(a, weights) / total
    b = b - _over_records(b, weights) / total
    weighted = a * weights
    length = np.sqrt(_over_records(weighted, a) * _over_records(b * weights, b))
    found: Float64 = np.full(length.shape, np.nan)
    np.divide(_over_records(weighted, b), length, out=found, where=length > 0)
    return found


def _over_records(a: Float64, b: Float64) -> Float64:
    """Sum of products over the first axis."""
    summed: Float64 = np.einsum("n...,n...->...", a, b)
    return summed


def spearman(a: Float64, b: Float64) -> float:
    """Spearman's correlation of two samples [n], ties at their mean rank.

    NaN where one is constant.
    """
    ones = np.ones(len(a))
    return float(pearson(Ranked(a).ranks(ones), Ranked(b).ranks(ones), ones))


def spearman_interval(a: Float64, b: Float64, stream: np.random.Generator) -> Float64:
    """Spearman's correlation and its 95 % percentile bootstrap interval over records, [3]."""
    draws = []
    for _ in range(RESAMPLES):
        rows = stream.integers(len(a), size=len(a))
        draws.append(spearman(a[rows], b[rows]))
    return with_interval(spearman(a, b), draws)


def with_interval(value: float, draws: Iterable[float] | Float64) -> Float64:
    """A value and the 95 % percentile interval of its bootstrap draws, [3].

    NaN where no draw is defined.
    """
    found = np.array([*draws])
    if not np.isfinite(found).any():
        return np.full(3, np.nan)
    return np.array([value, *np.nanquantile(found, LIMITS)])
