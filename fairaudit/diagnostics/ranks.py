"""Rank correlations with bootstrap intervals."""

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

RESAMPLES = 200


def spearman(a: Float64, b: Float64) -> float:
    """Spearman's correlation of two samples [n], ties at their mean rank; NaN where one is constant."""
    return _pearson(_ranks(a), _ranks(b))


def spearman_interval(a: Float64, b: Float64, stream: np.random.Generator) -> Float64:
    """Spearman's correlation and its 95 % percentile bootstrap interval over records, [3]."""
    draws = []
    for _ in range(RESAMPLES):
        rows = stream.integers(len(a), size=len(a))
        draws.append(spearman(a[rows], b[rows]))
    found = np.array(draws)
    if not np.isfinite(found).any():
        return np.full(3, np.nan)
    return np.array([spearman(a, b), *np.nanquantile(found, [0.025, 0.975])])


def _ranks(values: Float64) -> Float64:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Float64 = (last - (counts - 1) / 2.0)[place]
    return ranks


def _pearson(a: Float64, b: Float64) -> float:
    a, b = a - a.mean(), b - b.mean()
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length > 0 else float("nan")
