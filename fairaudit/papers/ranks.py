"""Rank correlations of records with bootstrap intervals."""

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
        self._place, counts = np.unique(
            values,
            return_inverse=True,
            return_counts=True,
        )[1:]
        self._order = np.argsort(self._place, kind="stable")
        self._starts = np.cumsum(counts) - counts

    def ranks(self, weights: Float64) -> Float64:
        """Ranks in samples where value i stands ``weights[i]`` times, [n, D].

        Ties at their mean rank.
        """
        totals = np.add.reduceat(
            weights[self._order],
            self._starts,
            axis=0,
        )
        middle = np.cumsum(totals, axis=0)
        middle -= (totals - 1) / 2.0
        ranks: Float64 = middle[self._place]
        return ranks


def rank_correlation(
    a: Float64, b: Float64, weights: Float64, resamples: Iterable[Float64]
) -> Float64:
    """Spearman's correlation of two weighted samples and its 95 % percentile interval, [3].

    NaN where one sample is constant.

    Args:
        a, b: [n].
        weights: Of the records, [n].
        resamples: Weights of the records in bootstrap samples, [n, D] each.
    """
    first, second = Ranked(a), Ranked(b)

    def spearman(own: Float64) -> Float64:
        return _pearson(first.ranks(own), second.ranks(own), own)

    value = spearman(weights[:, None])
    draws = np.concatenate([spearman(own) for own in resamples])
    if not np.isfinite(draws).any():
        return np.full(3, np.nan)
    return np.array([value[0], *np.nanquantile(draws, LIMITS)])


def _pearson(a: Float64, b: Float64, weights: Float64) -> Float64:
    """Pearson's correlation of weighted samples, [D] from [n, D]; NaN where one is constant."""
    total = weights.sum(0)
    a = a - _over_records(a, weights) / total
    b = b - _over_records(b, weights) / total
    weighted = a * weights
    length = np.sqrt(_over_records(weighted, a) * _over_records(b * weights, b))
    correlation: Float64 = np.full(length.shape, np.nan)
    np.divide(
        _over_records(weighted, b),
        length,
        out=correlation,
        where=length > 0,
    )
    return correlation


def _over_records(a: Float64, b: Float64) -> Float64:
    """Sum of products over the first axis."""
    summed: Float64 = np.einsum("nd,nd->d", a, b)
    return summed
