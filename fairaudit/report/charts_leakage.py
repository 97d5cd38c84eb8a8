"""How well an attack finds members of each group, with privacy and without, below what is possible."""

import math
from collections.abc import Iterator

from fairaudit.report.document import Chart, data_table
from fairaudit.report.leakage import Leakage
from fairaudit.report.model import Report
from fairaudit.report.panels import Bar, Intervals, alone, labels
from fairaudit.results.estimates import Comparison, GroupMeasure

_PERCENT = 100.0
_WITH, _WITHOUT, _CEILING = "with privacy", "without privacy", "no attack above"
_MOST_GROUPS = 40
_LEAST = 5.0  # width of the axis, in per cent
_ENDS = ("low", "high")


def told_rate(value: float) -> str:
    """A ceiling in per cent, rounded up."""
    return f"{math.ceil(1000 * value - 1e-9) / 10:g} %"


def leakage_chart(report: Report) -> Chart | None:
    """Members found by group where 1 % of outsiders are accused, or 5 % where a group is too small."""
    found = report.leakage
    compared = [c for c in found.comparisons if c.reference] if found else []
    if found is None or not compared:
        return None
    at_one = all(_is_known(c, "leakage_tpr_at_1") for c in compared)
    metric, rate = ("leakage_tpr_at_1", 0.01) if at_one else ("leakage_tpr", 0.05)
    panels = tuple(panel for c in compared if (panel := _panel(c, found, metric, rate)).bars)
    if not panels:
        return None
    shown = f"{_PERCENT * rate:g} %"
    return Chart(
        name="leakage",
        title=f"Members found where {shown} of outsiders are accused",
        reading=f"The dotted line is {shown}: what guessing finds. Whiskers are 95 % intervals over rows and "
        "models. No attack on a model with this epsilon can go beyond the ceiling; others may go further "
        "than this one.",
        alt=f"Share of each group's training rows that an attack finds at {shown} false accusations, with "
        "and without privacy, and the most that is possible.",
        panels=panels,
        table=data_table(
            ("method", "grouping", "group", _WITH, *_ENDS, _WITHOUT, *_ENDS, "ceiling"),
            tuple(
                (c.arm, c.grouping, group.group, *_numbers(group, metric), _most(found, c.arm, rate))
                for c in compared
                for group in c.by_group
            ),
        ),
    )


def _is_known(comparison: Comparison, metric: str) -> bool:
    """Whether every group that is large enough for any interval has one of it."""
    return all(
        group.estimates[metric].ends is not None
        for group in comparison.by_group
        if group.gated and metric in group.estimates
    )


def _panel(comparison: Comparison, found: Leakage, metric: str, rate: float) -> Intervals:
    names = labels([group.group for group in comparison.by_group])
    title = labels([f"{comparison.arm}, by {comparison.grouping}"])
    return Intervals(
        next(iter(title.values())),
        "members found (%)",
        tuple(_bars(comparison, names, found, metric, rate)),
        origin=_PERCENT * rate,
        least=_LEAST,
    )


def _bars(
    comparison: Comparison, names: dict[str, str], found: Leakage, metric: str, rate: float
) -> Iterator[Bar]:
    most = _most(found, comparison.arm, rate)
    for group in comparison.by_group[:_MOST_GROUPS]:
        for series, name in ((_WITH, metric), (_WITHOUT, f"reference.{metric}")):
            estimate = group.estimates.get(name)
            if estimate is not None and estimate.value is not None:
                yield Bar(names[group.group], series, estimate.scaled(_PERCENT))
        if most is not None and group.estimates:
            yield Bar(names[group.group], _CEILING, alone(_PERCENT * most))


def _most(found: Leakage, key: str, rate: float) -> float | None:
    arm = found.arm(key)
    return arm.at_most(rate) if arm else None


def _numbers(group: GroupMeasure, metric: str) -> Iterator[float | None]:
    for name in (metric, f"reference.{metric}"):
        estimate = group.estimates.get(name)
        yield from (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
