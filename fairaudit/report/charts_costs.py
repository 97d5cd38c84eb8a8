"""Charts of what privacy costs: by group, before and after, and over epsilon."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.document import Cell, Chart, data_table
from fairaudit.report.model import Report
from fairaudit.report.panels import (
    LABEL_LIMIT,
    MOST_SERIES,
    Bar,
    Intervals,
    Lines,
    Panel,
    Point,
    alone,
    labels,
)
from fairaudit.report.safe_names import plain
from fairaudit.report.written import versus
from fairaudit.results.estimates import (
    NOTHING,
    Comparison,
    GroupMeasure,
    Interval,
    interval_of,
)

MOST_ROWS = 40
OWN = "(own)"  # after an arm: beside the reference of its own, not beside sgd
PERCENT = 100.0
_MOST_PANELS = 8
WITH, WITHOUT, CEILING = "with privacy", "without privacy", "no attack above"
# Width of an axis at least: points of accuracy lost, points of accuracy, nats.
_LEAST_COST, _LEAST_ACCURACY, _LEAST_RISK = 2.0, 10.0, 0.02

_KEY = ("method", "reference", "grouping", "group")
_ENDS = ("low", "high")
COSTS_DRAWN = {"privacy_cost_gap": "Gap between groups", "privacy_cost": "Largest cost of a group"}


class AtEpsilon(NamedTuple):
    """One arm: its method, target epsilon, gap and the cost of the group that pays most.

    As fractions.
    """

    method: str
    epsilon: float
    gap: Interval
    cost: Interval


def every_group(comparisons: Sequence[Comparison]) -> Iterator[tuple[Comparison, GroupMeasure]]:
    """Every group of every comparison."""
    for comparison in comparisons:
        for group in comparison.by_group:
            yield comparison, group


def gap_chart(report: Report) -> Chart | None:
    """The largest gap of every method of the summary on one axis.

    None for a single one without a limit.
    """
    if report.summary is None:
        return None
    methods = [m for m in report.summary.methods if m.accuracy.size.value is not None]
    if not methods or (len(methods) == 1 and methods[0].accuracy.limit is None):
        return None
    methods.sort(key=lambda m: -(m.accuracy.size.value or 0.0))
    names = labels([m.arm for m in methods])
    titles = labels([m.grouping for m in report.summary.methods])
    rows: list[tuple[Cell, ...]] = []
    panels = []
    for grouping, title in titles.items():
        bars = []
        limits = set()
        for m in methods:
            if m.grouping != grouping:
                continue
            gap, limit = m.accuracy, None
            if gap.limit is not None:
                limit = PERCENT * gap.limit
                limits.add(limit)
            bars.append(Bar(names[m.arm], "gap", gap.size.scaled(PERCENT)))
            rows.append((m.arm, grouping, f"{gap.a}, {gap.b}", *cells(gap.size, PERCENT), limit))
        if bars:
            panel = Intervals(
                title,
                "largest gap between groups (points of accuracy lost)",
                tuple(bars),
                limits=tuple(sorted(limits)),
                least=_LEAST_COST,
            )
            panels.append(panel)
    head = ("method", "grouping", "between", "gap (points)", *_ENDS, "limit (points)")
    return Chart(
        name="gaps",
        title="Largest gap of each method",
        reading="How much more accuracy the group that loses most loses than the one that loses "
        "least, with 95 % intervals that hold for all pairs of groups together. A marked line is "
        "the limit that a rule sets.",
        alt="The largest gap in cost between groups of each method, with 95 % intervals.",
        panels=tuple(panels),
        table=data_table(head, rows),
    )


def cost_charts(report: Report) -> tuple[Chart | None, ...]:
    """What each group loses, its accuracy without and with privacy, and the loss that it gains."""
    cost = _metric_chart(
        report,
        "privacy_cost",
        "accuracy lost in private training (points)",
        PERCENT,
        _LEAST_COST,
        name="privacy-cost",
        title="Cost by group",
        reading="Right of the dotted line the group loses accuracy, left of it the group gains. "
        "Whiskers are 95 % intervals over seeds and test rows.",
        alt="Points of accuracy that each group loses.",
    )
    risk = _metric_chart(
        report,
        "excess_risk",
        "excess risk (nats)",
        1.0,
        _LEAST_RISK,
        name="excess-risk",
        title="Excess risk by group",
        reading="How much larger the group's mean test loss is with privacy.",
        alt="Loss that each group gains with privacy, in nats, with 95 % intervals.",
    )
    return cost, _accuracy_chart(report), risk


def _metric_chart(
    report: Report,
    metric: str,
    axis: str,
    factor: float,
    least: float,
    *,
    name: str,
    title: str,
    reading: str,
    alt: str,
) -> Chart | None:
    panels = panels_by_grouping(report.costs, metric, axis, factor, least=least)
    if not panels:
        return None
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        numbers = cells(group.estimates.get(metric))
        rows.append((*_key(comparison, group), group.n_test, *numbers, group.reason))
    head = (*_KEY, "test rows", metric.replace("_", " "), *_ENDS, "note")
    return Chart(name, title, reading + _own_text(report), alt, panels, data_table(head, rows))


def _accuracy_chart(report: Report) -> Chart | None:
    axis = "accuracy on test rows (%)"
    panels = before_and_after_panels(report.costs[:_MOST_PANELS], "accuracy", axis, _LEAST_ACCURACY)
    if not panels:
        return None
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        before = cells(group.estimates.get("reference.accuracy"))
        after = cells(group.estimates.get("accuracy"))
        rows.append((*_key(comparison, group), *before, *after))
    return Chart(
        name="accuracy",
        title="Accuracy without and with privacy",
        reading="One drawing for each method; whiskers are 95 % intervals.",
        alt="Accuracy of each group without privacy and with it.",
        panels=panels,
        table=data_table((*_KEY, WITHOUT, *_ENDS, WITH, *_ENDS), rows),
    )


def before_and_after_panels(
    comparisons: Sequence[Comparison],
    metric: str,
    axis: str,
    least: float,
    *,
    origin: float | None = None,
    ceilings: Mapping[str, float] | None = None,
) -> tuple[Intervals, ...]:
    """Each group's share without and with privacy, in per cent, a drawing for each comparison.

    Args:
        comparisons: To be drawn.
        metric: A fraction.
        axis: Its title.
        least: Width of the axis at least.
        origin: Of the dotted line, in per cent.
        ceilings: Arm -> the most that its metric can be.
    """
    panels = []
    for comparison in comparisons:
        names = labels([group.group for group in comparison.by_group])
        most = (ceilings or {}).get(comparison.arm)
        bars = []
        for group in comparison.by_group[:MOST_ROWS]:
            for series, name in ((WITHOUT, f"reference.{metric}"), (WITH, metric)):
                estimate = group.estimates.get(name)
                if estimate is not None and estimate.value is not None:
                    bars.append(Bar(names[group.group], series, estimate.scaled(PERCENT)))
            if most is not None and group.estimates:
                bars.append(Bar(names[group.group], CEILING, alone(PERCENT * most)))
        if bars:
            title = plain(f"{versus(comparison)}, by {comparison.grouping}", 2 * LABEL_LIMIT)
            panels.append(Intervals(title, axis, tuple(bars), origin, least=least))
    return tuple(panels)


def sweep_chart(report: Report) -> Chart | None:
    """Cost of each group, and the gap, over epsilon; None where no method ran at two of them."""
    first = report.data.groupings[0].name
    compared = {(c.arm, c.reference): c for c in report.costs if c.grouping == first}
    sweeps = [sweep for sweep in report.sweep if sweep.grouping == first]
    methods = [sweep.method for sweep in sweeps]
    arms: list[AtEpsilon] = []
    by_group: list[Panel] = []
    rows: list[tuple[Cell, ...]] = []
    for sweep in sweeps:
        method = sweep.method
        if methods.count(method) > 1 and sweep.reference != REFERENCE:
            method += f" {OWN}"
        names = labels(list(sweep.points[0].cost)[:MOST_SERIES])
        points = []
        for point in sweep.points:
            epsilon, key = point.target_epsilon, (point.arm, sweep.reference, first)
            gap = point.gap or NOTHING
            arms.append(
                AtEpsilon(method, epsilon, gap, _largest_cost(compared[point.arm, sweep.reference]))
            )
            for group, cost in point.cost.items():
                rows.append((epsilon, *key, group, *cells(cost, PERCENT)))
                if cost.value is not None and group in names:
                    points.append(Point(epsilon, names[group], cost.scaled(PERCENT)))
            rows.append((epsilon, *key, "largest gap", *cells(gap, PERCENT)))
        title = f"{labels([method])[method]}: cost"
        drawn = Lines(
            title, "epsilon", "points", tuple(points), is_log=True, origin=0.0, least=_LEAST_COST
        )
        if points:
            by_group.append(drawn)
    panels = (*epsilon_panels(arms), *by_group)
    if not panels:
        return None
    return Chart(
        name="epsilon-sweep",
        title="Cost and gap over epsilon",
        reading="Smaller epsilon means more privacy. Whiskers are 95 % intervals. The first two "
        "drawings have one scale and a line for each method; the others show each group's cost."
        + _own_text(report),
        alt="Points of accuracy that each group loses, and the gap between groups, at each "
        "epsilon.",
        panels=panels,
        table=data_table(("epsilon", *_KEY, "cost (points)", *_ENDS), rows),
    )


def panels_by_grouping(
    comparisons: Sequence[Comparison],
    metric: str,
    axis: str,
    factor: float = 1.0,
    *,
    least: float = 0.0,
    origin: float | None = 0.0,
) -> tuple[Intervals, ...]:
    """A metric of the groups of every grouping.

    A row for each arm while colours can tell groups apart, else a row for each group.
    """
    panels = []
    for grouping in dict.fromkeys(c.grouping for c in comparisons):
        chosen = [c for c in comparisons if c.grouping == grouping]
        times = Counter(c.arm for c in chosen)
        groups = labels([group.group for _, group in every_group(chosen)])
        has_row_by_arm = len(groups) <= MOST_SERIES
        bars = []
        rows: set[str] = set()
        left = 0
        for place, comparison in enumerate(chosen):
            name = comparison.arm
            if times[name] > 1 and comparison.reference != REFERENCE:
                name += f" {OWN}"
            for group in comparison.by_group:
                row, series = plain(name, 100), groups[group.group]
                if not has_row_by_arm:
                    row, series = series, row
                is_beyond = place >= MOST_SERIES and not has_row_by_arm
                if is_beyond or (row not in rows and len(rows) == MOST_ROWS):
                    left += 1
                    continue
                rows.add(row)
                estimate = group.estimates.get(metric)
                if estimate is not None and estimate.value is not None:
                    bars.append(Bar(row, series, estimate.scaled(factor)))
        title = plain(grouping, LABEL_LIMIT)
        if left:
            title += f" ({left} more in the table)"
        if bars:
            panels.append(Intervals(title, axis, tuple(bars), origin, least=least))
    return tuple(panels)


def cells(number: Interval | None, factor: float = 1.0) -> tuple[Cell, Cell, Cell]:
    """Value and interval for a table."""
    scaled = interval_of(number).scaled(factor)
    return scaled.value, scaled.low, scaled.high


def _largest_cost(comparison: Comparison) -> Interval:
    """The cost of the group that pays most."""
    largest = NOTHING
    for group in comparison.by_group:
        cost = group.estimates.get("privacy_cost")
        if cost is None or cost.value is None or comparison.note_on(group):
            continue
        if largest.value is None or cost.value > largest.value:
            largest = cost
    return largest


def _key(comparison: Comparison, group: GroupMeasure) -> tuple[str, str, str, str]:
    return comparison.arm, comparison.reference, comparison.grouping, group.group


def _own_text(report: Report) -> str:
    """What a reader must know where arms are compared with references of their own."""
    times = Counter((c.arm, c.grouping) for c in report.costs)
    names = labels(sorted({c.reference for c in report.costs if c.reference != REFERENCE}))
    if max(times.values(), default=0) < 2 or not names:
        return ""
    return f" {OWN}: beside the method's own reference ({', '.join(names.values())})."


def epsilon_panels(
    arms: Sequence[AtEpsilon], limits: Mapping[str, float] | None = None
) -> tuple[Lines, ...]:
    """Both drawings over one range of points.

    Args:
        arms: In any order; of more methods than there are colours, the first.
        limits: Metric of a rule, ``privacy_cost_gap`` or ``privacy_cost`` -> its limit.
    """
    limits = limits or {}
    names = labels(list(dict.fromkeys(arm.method for arm in arms))[:MOST_SERIES])
    points: dict[str, list[Point]] = {metric: [] for metric in COSTS_DRAWN}
    # What holds every number with its interval, every limit, and zero.
    ends = [0.0, *(PERCENT * limit for limit in limits.values())]
    for arm in arms:
        if arm.method not in names:
            continue
        for metric, number in (("privacy_cost_gap", arm.gap), ("privacy_cost", arm.cost)):
            scaled = number.scaled(PERCENT)
            if scaled.value is not None:
                points[metric].append(Point(arm.epsilon, names[arm.method], scaled))
                ends += [scaled.value, *(scaled.ends or ())]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    between = min(ends) - room, max(ends) + room
    panels = []
    for metric, drawn in points.items():
        title, origin = COSTS_DRAWN[metric], 0.0
        if metric in limits:
            origin = PERCENT * limits[metric]
            title += f": limit {origin:g}"
        if drawn:
            panels.append(
                Lines(title, "epsilon", "points", tuple(drawn), between, is_log=True, origin=origin)
            )
    return tuple(panels)
