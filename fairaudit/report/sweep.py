"""One method at several epsilons: how the cost of each group, and the gap, move with privacy."""

from collections.abc import Iterator, Sequence

from fairaudit.report.main_gap import COST, main_gap
from fairaudit.results.estimates import NOTHING, Comparison, Estimate, Interval
from fairaudit.results.numbers import EpsilonFigure, Figure, Part


class SweepPoint(Part):
    """One arm of a sweep: its target, the epsilon it reached, each group's cost in accuracy, and its gap."""

    arm: str
    target_epsilon: Figure
    epsilon: EpsilonFigure | None
    cost: dict[str, Interval]
    gap: Interval | None


class Sweep(Part):
    """One method (and variant) at two epsilons or more, by rising epsilon, cut by one grouping."""

    method: str
    reference: str
    grouping: str
    points: tuple[SweepPoint, ...]


class SweepArm(Part):
    """What a sweep must know of an arm: the method with its variant, target and epsilon."""

    method: str
    target_epsilon: Figure
    epsilon: EpsilonFigure | None


def sweeps(comparisons: Sequence[Comparison], arms: dict[str, SweepArm]) -> tuple[Sweep, ...]:
    """The curves over epsilon of every method that ran at several.

    Args:
        comparisons: Of arms with their references.
        arms: Those that were calibrated to an epsilon.
    """
    return tuple(_sweeps(comparisons, arms))


def _sweeps(comparisons: Sequence[Comparison], arms: dict[str, SweepArm]) -> Iterator[Sweep]:
    families: dict[tuple[str, str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.arm in arms and comparison.reference:
            place = arms[comparison.arm].method, comparison.reference, comparison.grouping
            families.setdefault(place, []).append(comparison)
    for (method, reference, grouping), family in families.items():
        points = sorted((_point(c, arms[c.arm]) for c in family), key=lambda point: point.target_epsilon)
        if len({point.target_epsilon for point in points}) > 1:
            yield Sweep(method=method, reference=reference, grouping=grouping, points=tuple(points))


def _point(comparison: Comparison, arm: SweepArm) -> SweepPoint:
    gap = main_gap(comparison)
    return SweepPoint(
        arm=comparison.arm,
        target_epsilon=arm.target_epsilon,
        epsilon=arm.epsilon,
        cost={group.group: _value(group.estimates.get(COST)) for group in comparison.by_group},
        gap=None if gap is None else _value(gap.absolute),
    )


def _value(estimate: Estimate | None) -> Interval:
    """The number and its interval alone: the rest stands in the comparison."""
    if estimate is None:
        return NOTHING
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high)
