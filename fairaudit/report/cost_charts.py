"""Charts of what privacy costs: by group, and over epsilon."""

from collections.abc import Iterator, Sequence
from functools import partial

from fairaudit.errors import numbered
from fairaudit.methods.catalog import REFERENCE
from fairaudit.metrics.quantiles import with_joint_interval
from fairaudit.metrics.registry import NOISE, STEP, costs_of_constant, spec_of
from fairaudit.report.measures import COST, cost_title, scale_of, shown_costs
from fairaudit.report.model import Report
from fairaudit.report.numbers import POINTS, versus
from fairaudit.report.panels import MOST_SERIES, Bar, Chart, Panel, labels
from fairaudit.report.parts import PartNames, names_of_parts, split_cost
from fairaudit.report.safe_names import GROUP_LIMIT, group_text, plain
from fairaudit.results.estimates import NOTHING, Comparison, GroupMeasure, Interval, interval_of

MOST_ROWS = 40  # groups of one grouping
OWN = "(own)"  # after an arm in a legend: compared with a reference of its own, not with sgd
_METHOD_LIMIT = 60  # characters of a name in a legend


def every_group(comparisons: Sequence[Comparison]) -> Iterator[tuple[Comparison, GroupMeasure]]:
    """Every group of every comparison, beside the comparison that holds it."""
    for comparison in comparisons:
        for group in comparison.by_group:
            yield comparison, group


def cost_chart(report: Report) -> Chart | None:
    """What each group loses in every measure; None where nothing could be compared.

    A panel for each grouping and measure; in it a row for each group, a series for each method.
    """
    methods = labels([_series_name(c.arm, c.reference) for c in report.costs], _METHOD_LIMIT)
    series = tuple(methods.values())[:MOST_SERIES]
    panels = []
    n_left_out = 0
    shown = shown_costs(report)
    for grouping in report.data.groupings:
        compared = [c for c in report.costs if c.grouping == grouping.name]
        groups = list(dict.fromkeys(group.group for _, group in every_group(compared)))
        rows = labels(groups[:MOST_ROWS], text_of=partial(group_text, grouping.name))
        of_grouping = f"{plain(grouping.name)}: " if len(report.data.groupings) > 1 else ""
        for metric in shown:
            bars = []
            for comparison, group in every_group(compared):
                row = rows.get(group.group)
                method = methods[_series_name(comparison.arm, comparison.reference)]
                number = interval_of(group.estimates.get(metric)).scaled(scale_of(metric).factor)
                if number.value is None:
                    continue
                if row is None or method not in series:
                    n_left_out += 1
                    continue
                bars.append(Bar(row, method, number))
            title = of_grouping + cost_title(metric, report.data.label)
            if bars:
                panels.append(Panel(title, spec_of(metric).counted, tuple(bars)))
    if not panels:
        return None
    reading = (
        "Right of the dotted line the group loses; left of it it gains, or its rate rises. "
        "Whiskers are 95 % intervals over seeds and test rows; all axes in points are alike."
    )
    if any(OWN in method for method in series):
        reading += f" {OWN}: beside the method's own reference."
    if n_left_out:
        reading += f" {numbered(n_left_out, 'more number is', 'more numbers are')} in the table."
    return Chart(
        name="privacy-cost",
        title="Privacy cost by group",
        reading=reading,
        alt="What each group loses with privacy, with 95 % intervals.",
        series=series,
        panels=tuple(panels),
    )


def parts_chart(report: Report) -> Chart | None:
    """What step, clipping and noise add to each group's cost; None where no cost was split.

    A panel for each method, grouping and cost; in it a row for each group, a series for each part.
    """
    names = names_of_parts(report)
    if names is None:
        return None
    panels = []
    for comparison in report.costs:
        for metric in costs_of_constant():
            bars = _part_bars(comparison, metric, names)
            if bars:
                where = versus(comparison)
                if len(report.data.groupings) > 1:
                    where += f", by {plain(comparison.grouping)}"
                title = f"{where}: {spec_of(metric).title} ({spec_of(metric).counted})"
                panels.append(Panel(title, spec_of(metric).counted, tuple(bars)))
    if not panels:
        return None
    return Chart(
        name="cost-parts",
        title="Where the cost comes from",
        reading="What each part adds to the cost of a group, with 95 % intervals.",
        alt=f"What each part adds to each group's cost: {', '.join(names.listed)}.",
        series=names.listed,
        panels=tuple(panels),
    )


def _part_bars(comparison: Comparison, metric: str, names: PartNames) -> list[Bar]:
    """The parts of a cost of every group and of all rows; [] where it was not split."""
    # All rows, which are the group "", come first: a group of the same name has a number after it.
    names_of_rows = [group.group for group in (comparison.overall, *comparison.by_group)]
    rows = labels(
        names_of_rows,
        GROUP_LIMIT,
        text_of=lambda name: group_text(comparison.grouping, name) or "all rows",
    )
    bars = []
    for group in (*comparison.by_group, comparison.overall):
        split = split_cost(comparison, group, metric)
        for part in split.parts if split is not None else ():
            # What is neither step nor noise is one series, whatever each method calls it.
            series = part.name if part.name in (STEP, NOISE) else names.other
            if part.number.value is not None:
                number = part.number.scaled(scale_of(metric).factor)
                bars.append(Bar(rows[group.group], series, number))
    return bars


def sweep_chart(report: Report) -> Chart | None:
    """The gap, and the largest cost of a group, at each epsilon, by the first grouping.

    A panel for each of the two; in it a row for each epsilon, a series for each method. None where
    no method ran at several epsilons.
    """
    first = report.data.groupings[0].name
    compared = {(c.arm, c.reference): c for c in report.costs if c.grouping == first}
    sweeps = [sweep for sweep in report.sweep if sweep.grouping == first]
    methods = labels([_series_name(s.method, s.reference) for s in sweeps], _METHOD_LIMIT)
    series = tuple(methods.values())[:MOST_SERIES]
    points = []  # (point, its method in the legend, key of the reference)
    for sweep in sweeps:
        method = methods[_series_name(sweep.method, sweep.reference)]
        points += [(point, method, sweep.reference) for point in sweep.points if method in series]
    # Rows stand in the order in which they are first met: by rising epsilon over all methods.
    points.sort(key=lambda entry: entry[0].target_epsilon)
    bars_of: dict[str, list[Bar]] = {
        "gap of privacy cost": [],
        "largest privacy cost of a group": [],
    }
    for point, method, reference in points:
        cost = _largest_cost(compared[point.arm, reference])
        # The gap and the cost, in the order of the panels in ``bars_of``.
        for bars, number in zip(bars_of.values(), (interval_of(point.gap), cost), strict=True):
            if number.value is not None:
                row = f"epsilon {point.target_epsilon:g}"
                bars.append(Bar(row, method, number.scaled(POINTS.factor)))
    panels = [
        Panel(f"{title} (points)", "points", tuple(bars)) for title, bars in bars_of.items() if bars
    ]
    if not panels:
        return None
    return Chart(
        name="epsilon-sweep",
        title="Privacy cost and gap over epsilon",
        reading="Smaller epsilon means more privacy. Both axes are alike; whiskers are 95 % "
        "intervals.",
        alt="The gap between groups, and the largest cost of a group, at each epsilon.",
        series=series,
        panels=tuple(panels),
    )


def _series_name(arm: str, reference: str) -> str:
    """What a legend calls an arm: its key, with ``(own)`` where its reference is not ``sgd``."""
    if reference == REFERENCE:
        return arm
    return f"{arm} {OWN}"


def _largest_cost(comparison: Comparison) -> Interval:
    """The accuracy lost by the group that loses most, of groups that are large enough for gates.

    Its interval holds for all of these groups together, since it was chosen among them. Its value
    is None where there is none.
    """
    costs = []
    for group in comparison.by_group:
        cost = group.estimates.get(COST)
        if cost is not None and cost.value is not None and not comparison.note_on(group):
            costs.append(cost)
    if not costs:
        return NOTHING
    largest = max(costs, key=lambda cost: cost.value or 0.0)
    return interval_of(with_joint_interval(largest, len(costs)))
