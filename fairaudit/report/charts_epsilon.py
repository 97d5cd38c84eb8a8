"""Gap and largest cost against epsilon, a line for each method, on one scale: of a sweep, and of a choice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairaudit.report.panels import MOST_SERIES, Lines, Point, labels
from fairaudit.results.estimates import Interval

_PERCENT = 100.0
COSTS_DRAWN = {"privacy_cost_gap": "Gap between groups", "privacy_cost": "Largest cost of a group"}


class AtEpsilon(NamedTuple):
    """One arm: its method, target epsilon, gap and the cost of the group that pays most, as fractions."""

    method: str
    epsilon: float
    gap: Interval
    cost: Interval


def epsilon_panels(arms: Sequence[AtEpsilon], limits: Mapping[str, float] | None = None) -> tuple[Lines, ...]:
    """Both drawings over one range of points.

    Args:
        arms: In any order; of more methods than there are colours, the first.
        limits: Metric of a rule, ``privacy_cost_gap`` or ``privacy_cost`` -> its limit.
    """
    limits = {} if limits is None else limits
    names = labels(list(dict.fromkeys(arm.method for arm in arms))[:MOST_SERIES])
    arms = [arm for arm in arms if arm.method in names]
    between = _range([number for arm in arms for number in (arm.gap, arm.cost)], list(limits.values()))
    panels = []
    for metric, title in COSTS_DRAWN.items():
        numbers = [arm.gap if metric == "privacy_cost_gap" else arm.cost for arm in arms]
        points = tuple(
            Point(arm.epsilon, names[arm.method], number.scaled(_PERCENT))
            for arm, number in zip(arms, numbers, strict=True)
            if number.value is not None
        )
        limit = limits.get(metric)
        told = title if limit is None else f"{title}: limit {_PERCENT * limit:g}"
        origin = 0.0 if limit is None else _PERCENT * limit
        panels.append(Lines(told, "epsilon", "points", points, between, is_log=True, origin=origin))
    return tuple(panel for panel in panels if panel.points)


def _range(numbers: Sequence[Interval], limits: Sequence[float]) -> tuple[float, float]:
    """What holds every number with its interval, every limit, and zero."""
    known = [x for number in numbers for x in (number.value, number.low, number.high) if x is not None]
    ends = [0.0, *(_PERCENT * x for x in (*known, *limits))]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    return min(ends) - room, max(ends) + room
