"""What goes together: correlations of records, plain and of ranks; over groups also agreement of signs."""

from collections.abc import Iterable
from dataclasses import dataclass

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
        """Ranks in samples where value i stands ``weights[i]`` times, [n, ...]; ties at their mean rank."""
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
    """Spearman's correlation of two samples [n], ties at their mean rank; NaN where one is constant."""
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
    """A value and the 95 % percentile interval of its bootstrap draws, [3]; NaN where no draw is defined."""
    found = np.array([*draws])
    if not np.isfinite(found).any():
        return np.full(3, np.nan)
    return np.array([value, *np.nanquantile(found, LIMITS)])


FEWEST_GROUPS = 3  # a correlation over two groups is +1 or -1 by construction


@dataclass(frozen=True, slots=True)
class GroupAssociation:
    """How a property and a cost go together over groups.

    Args:
        correlation: Mean over seeds of Pearson's correlation over groups; NaN with two groups.
        agreement: Fraction of seeds at which the group with more of the property has the higher cost, over
            all pairs of groups; NaN where none can be compared.
        compared: Pairs of groups, over all seeds, that differ in both.
        n_groups: K.
        n_seeds: S, those with a finite value.
    """

    correlation: float
    agreement: float
    compared: int
    n_groups: int
    n_seeds: int


def associate(prop: Float64, cost: Float64) -> GroupAssociation:
    """The association of a property with a cost, both [S, K]; a seed with a value missing is left out."""
    usable = np.isfinite(prop).all(1) & np.isfinite(cost).all(1)
    prop, cost = prop[usable], cost[usable]
    seeds, groups = prop.shape
    upper = np.triu_indices(groups, 1)
    signs = [
        np.sign(a[upper[0]] - a[upper[1]]) * np.sign(b[upper[0]] - b[upper[1]])
        for a, b in zip(prop, cost, strict=True)
    ]
    found = np.concatenate(signs) if signs else np.empty(0)
    compared = int((found != 0).sum())
    agreement = float((found > 0).sum()) / compared if compared else float("nan")
    return GroupAssociation(_mean_correlation(prop, cost), agreement, compared, groups, seeds)


def _mean_correlation(prop: Float64, cost: Float64) -> float:
    if prop.shape[1] < FEWEST_GROUPS or not len(prop):
        return float("nan")
    a, b = prop - prop.mean(1, keepdims=True), cost - cost.mean(1, keepdims=True)
    lengths = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    if not (lengths > 0).all():
        return float("nan")
    return float(np.mean((a * b).sum(1) / lengths))
