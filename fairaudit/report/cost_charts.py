"""Charts of what privacy costs: by group, and over epsilon."""

from collections.abc import Iterator, Sequence

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.document import Cell, Chart, data_table
from fairaudit.report.main_gap import COST
from fairaudit.report.model import Report
from fairaudit.report.panels import (
    LABEL_LIMIT,
    MOST_SERIES,
    Bar,
    Intervals,
    Lines,
    Point,
    labels,
)
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import NOTHING, Comparison, GroupMeasure, Interval, interval_of

MOST_ROWS = 40
OWN = "(own)"  # after an arm: beside the reference of its own, not beside sgd
PERCENT = 100.0
_ENDS = ("low", "high")
_KEY = ("method", "reference", "grouping", "group")
# cost -> title of its axis, factor, width of the axis at least
_AXES = {
    COST: ("accuracy lost in private training (points)", PERCENT, 2.0),
    "excess_risk": ("loss added by private training (nats)", 1.0, 0.02),
}


def every_group(comparisons: Sequence[Comparison]) -> Iterator[tuple[Comparison, GroupMeasure]]:
    """Every group of every comparison."""
    for comparison in comparisons:
        for group in comparison.by_group:
            yield comparison, group


def cost_chart(report: Report) -> Chart | None:
    """What each group loses, in accuracy and in loss; None where nothing could be compared."""
    panels: list[Intervals] = []
    for grouping in dict.fromkeys(comparison.grouping for comparison in report.costs):
        compared = [c for c in report.costs if c.grouping == grouping]
        panels += filter(None, (_panel(compared, metric) for metric in _AXES))
    if not panels:
        return None
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        numbers: list[Cell] = []
        for metric in _AXES:
            numbers += cells(group.estimates.get(metric))
        key = comparison.arm, comparison.reference, comparison.grouping, group.group
        rows.append((*key, group.n_test, *numbers, group.reason))
    reading = (
        "Right of the dotted line the group loses, left of it the group gains. Whiskers are 95 % "
        "intervals over seeds and test rows."
    )
    if any(OWN in _name(comparison) for comparison in report.costs):
        reading += f" {OWN}: beside the method's own reference."
    head = (*_KEY, "test rows", "privacy cost", *_ENDS, "excess risk", *_ENDS, "note")
    return Chart(
        name="privacy-cost",
        title="Cost by group",
        reading=reading,
        alt="Accuracy that each group loses, and loss that it gains, with 95 % intervals.",
        panels=tuple(panels),
        table=data_table(head, rows),
    )


def _panel(compared: Sequence[Comparison], metric: str) -> Intervals | None:
    """A row for each group, in it a mark for each method; what has no room is counted."""
    axis, factor, least = _AXES[metric]
    groups = labels([group.group for _, group in every_group(compared)])
    methods = list(dict.fromkeys(map(_name, compared)))
    rows, series = list(groups)[:MOST_ROWS], methods[:MOST_SERIES]
    bars = []
    for comparison, group in every_group(compared):
        estimate = group.estimates.get(metric)
        is_drawn = group.group in rows and _name(comparison) in series
        if is_drawn and estimate is not None and estimate.value is not None:
            name = plain(_name(comparison), 100)
            bars.append(
                Bar(
                    groups[group.group],
                    name,
                    estimate.scaled(factor),
                )
            )
    title = plain(compared[0].grouping, LABEL_LIMIT)
    n_missing = len(groups) * len(methods) - len(rows) * len(series)
    if n_missing:
        title += f" ({n_missing} more in the table)"
    if not bars:
        return None
    return Intervals(title, axis, tuple(bars), least=least)


def _name(comparison: Comparison) -> str:
    """The arm; marked where it stands beside a reference of its own."""
    if comparison.reference == REFERENCE:
        return comparison.arm
    return f"{comparison.arm} {OWN}"


def sweep_chart(report: Report) -> Chart | None:
    """The gap, and the largest cost of a group, over epsilon; None without a sweep."""
    first = report.data.groupings[0].name
    compared = {(c.arm, c.reference): c for c in report.costs if c.grouping == first}
    sweeps = [sweep for sweep in report.sweep if sweep.grouping == first]
    gaps: list[Point] = []
    largest: list[Point] = []
    ends = [0.0]
    rows: list[tuple[Cell, ...]] = []
    for sweep in sweeps:
        method = sweep.method
        if sweep.reference != REFERENCE:
            method += f" {OWN}"
        for point in sweep.points:
            cost = _largest_cost(compared[point.arm, sweep.reference])
            for points, number in ((gaps, point.gap or NOTHING), (largest, cost)):
                scaled = number.scaled(PERCENT)
                if scaled.value is not None:
                    points.append(Point(point.target_epsilon, method, scaled))
                    ends += [scaled.value, *(scaled.ends or ())]
            numbers = (*cells(point.gap, PERCENT), *cells(cost, PERCENT))
            rows.append(
                (
                    point.target_epsilon,
                    point.arm,
                    sweep.reference,
                    *numbers,
                )
            )
    shown = labels(list(dict.fromkeys(point.series for point in gaps))[:MOST_SERIES])
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    between = min(ends) - room, max(ends) + room
    panels = []
    for title, points in (("Gap between groups", gaps), ("Largest cost of a group", largest)):
        drawn = []
        for at in points:
            if at.series in shown:
                drawn.append(
                    Point(
                        at.x,
                        shown[at.series],
                        at.number,
                    )
                )
        if drawn:
            panels.append(Lines(title, "epsilon", "points", tuple(drawn), between))
    if not panels:
        return None
    head = ("epsilon", "method", "reference", "gap (points)", *_ENDS, "largest cost", *_ENDS)
    return Chart(
        name="epsilon-sweep",
        title="Cost and gap over epsilon",
        reading="Smaller epsilon means more privacy. Both drawings have one scale; whiskers are "
        "95 % intervals.",
        alt="The gap between groups, and the largest cost of a group, at each epsilon.",
        panels=tuple(panels),
        table=data_table(head, rows),
    )


def cells(number: Interval | None, factor: float = 1.0) -> tuple[Cell, Cell, Cell]:
    """Value and interval for a table."""
    scaled = interval_of(number).scaled(factor)
    return scaled.value, scaled.low, scaled.high


def _largest_cost(comparison: Comparison) -> Interval:
    """The cost of the group that pays most."""
    largest = NOTHING
    for group in comparison.by_group:
        cost = group.estimates.get(COST)
        if cost is None or cost.value is None or comparison.note_on(group):
            continue
        if largest.value is None or cost.value > largest.value:
            largest = cost
    return largest
