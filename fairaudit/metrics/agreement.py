"""What goes together over groups: correlation and agreement of signs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

FEWEST_GROUPS = 3  # a correlation over two groups is +1 or -1 by construction


@dataclass(frozen=True, slots=True)
class GroupAssociation:
    """How a property and a cost go together over groups.

    Args:
        correlation: Mean over seeds of Pearson's correlation over groups; NaN with two groups.
        agreement: Fraction of seeds at which the group with more of the property has the higher
            cost, over all pairs of groups; NaN where none can be compared.
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
    """The association of a property with a cost, both [S, K].

    A seed with a value missing is left out.
    """
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
