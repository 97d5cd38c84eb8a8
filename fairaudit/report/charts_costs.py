"""Charts of what privacy costs: by group, before and after, and over epsilon."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.document import Cell, Chart, Table, data_table
from fairaudit.report.main_gap import main_gap
from fairaudit.report.model import Report
from fairaudit.report.panels import (
    MOST_SERIES,
    Bar,
    Intervals,
    Lines,
    Panel,
    PanelChange,
    PanelChanges,
    Point,
    labels,
)
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import NOTHING, Comparison, GroupMeasure, Interval

MOST_ROWS = 40
OWN = "(own)"  # after an arm: beside the reference of its own, not beside sgd
PERCENT = 100.0
# Width of an axis at least: points of accuracy lost, points of accuracy, nats.
_LEAST_COST, _LEAST_ACCURACY, _LEAST_RISK = 2.0, 10.0, 0.02

_KEY = ("method", "reference", "grouping", "group")
_ENDS = ("low", "high")
COSTS_DRAWN = {"privacy_cost_gap": "Gap between groups", "privacy_cost": "Largest cost of a group"}


@dataclass(frozen=True, slots=True)
class Placed:
    """A group of a comparison with its place in a drawing."""

    comparison: Comparison
    group: GroupMeasure
    row: str
    series: str


class AtEpsilon(NamedTuple):
    """One arm: its method, target epsilon, gap and the cost of the group that pays most, as fractions."""

    method: str
    epsilon: float
    gap: Interval
    cost: Interval


def gap_chart(report: Report) -> Chart | None:
    """The largest gap of every method of the summary on one axis; None for a single one without a limit."""
    methods = () if report.summary is None else report.summary.methods
    known = [m for m in methods if m.accuracy.size.value is not None]
    if not known or (len(known) == 1 and known[0].accuracy.limit is None):
        return None
    known.sort(key=lambda m: -(m.accuracy.size.value or 0.0))
    names = labels([m.arm for m in known])
    title = "largest gap between groups (points of accuracy lost)"
    panels = []
    for grouping in dict.fromkeys(m.grouping for m in methods):
        own = [m for m in known if m.grouping == grouping]
        bars = tuple(Bar(names[m.arm], "gap", m.accuracy.size.scaled(PERCENT)) for m in own)
        limits = sorted({PERCENT * m.accuracy.limit for m in own if m.accuracy.limit is not None})
        if bars:
            name = labels([grouping])[grouping]
            panels.append(Intervals(name, title, bars, limits=tuple(limits), least=_LEAST_COST))
    has_limit = any(panel.limits for panel in panels)
    return Chart(
        name="gaps",
        title="Largest gap of each method",
        reading="How much more accuracy the group that loses most loses than the one that loses least. "
        "Whiskers are the 95 % intervals that hold for all pairs of groups together."
        + (" The marked line is the limit that a rule sets." if has_limit else ""),
        alt="The largest gap in cost between groups of each method, with 95 % intervals.",
        panels=tuple(panels),
        table=data_table(
            ("method", "grouping", "between", "gap (points)", *_ENDS, "limit (points)"),
            tuple(
                (
                    *(m.arm, m.grouping, f"{m.accuracy.a}, {m.accuracy.b}"),
                    *_cells(m.accuracy.size, PERCENT),
                    None if m.accuracy.limit is None else PERCENT * m.accuracy.limit,
                )
                for m in known
            ),
        ),
    )


def cost_chart(report: Report) -> Chart | None:
    """Accuracy that each group loses in private training."""
    panels = _interval_panels(
        report, "privacy_cost", "accuracy lost in private training (points)", PERCENT, _LEAST_COST
    )
    if not panels:
        return None
    return Chart(
        name="privacy-cost",
        title="Cost by group",
        reading="Right of the dotted line the group loses accuracy, left of it the group gains. "
        "Whiskers are 95 % intervals over seeds and test rows." + _own_text(report),
        alt="Points of accuracy that each group loses. " + _costs_text(report),
        panels=panels,
        table=_estimate_table(report, "privacy_cost"),
    )


def risk_chart(report: Report) -> Chart | None:
    """Loss that each group gains with privacy."""
    panels = _interval_panels(report, "excess_risk", "excess risk (nats)", 1.0, _LEAST_RISK)
    if not panels:
        return None
    return Chart(
        name="excess-risk",
        title="Excess risk by group",
        reading="How much larger the group's mean test loss is with privacy. It moves before accuracy does."
        + _own_text(report),
        alt="Loss that each group gains with privacy, in nats, with 95 % intervals.",
        panels=panels,
        table=_estimate_table(report, "excess_risk"),
    )


def accuracy_chart(report: Report) -> Chart | None:
    """Accuracy of each group without and with privacy."""
    panels = tuple(
        PanelChanges(
            title=title,
            x_title="accuracy on test rows (%)",
            changes=tuple(
                PanelChange(p.row, p.series, PERCENT * before, PERCENT * after)
                for p in placed
                if (before := p.group.value("reference.accuracy")) is not None
                and (after := p.group.value("accuracy")) is not None
            ),
            least=_LEAST_ACCURACY,
        )
        for title, placed in by_grouping(report.costs)
    )
    panels = tuple(panel for panel in panels if panel.changes)
    if not panels:
        return None
    return Chart(
        name="accuracy",
        title="Accuracy without and with privacy",
        reading="The hollow mark is the model without privacy, the filled one the private model."
        + _own_text(report),
        alt="Accuracy of each group without privacy and with it.",
        panels=panels,
        table=data_table(
            (*_KEY, "without privacy", "low", "high", "with privacy", "low", "high"),
            tuple(
                (*_key(c, g), *cells(g, "reference.accuracy"), *cells(g, "accuracy"))
                for c in report.costs
                for g in c.by_group
            ),
        ),
    )


def sweep_chart(report: Report) -> Chart | None:
    """Cost of each group, and the gap, over epsilon; None where no method ran at two of them."""
    families = _families(report)
    shared = epsilon_panels([_at(name, *one) for name, family in families.items() for one in family])
    panels = *shared, *(panel for family in families.items() for panel in _sweep_panels(report, *family))
    if not panels:
        return None
    rows = [
        (epsilon, *_key(c, g), *cells(g, "privacy_cost", PERCENT))
        for family in families.values()
        for epsilon, c in family
        for g in c.by_group
    ]
    rows += [
        (epsilon, c.arm, c.reference, c.grouping, f"gap {gap.a}, {gap.b}", *_cells(gap.absolute, PERCENT))
        for family in families.values()
        for epsilon, c in family
        if (gap := main_gap(c)) is not None
    ]
    return Chart(
        name="epsilon-sweep",
        title="Cost and gap over epsilon",
        reading="Smaller epsilon means more privacy. Whiskers are 95 % intervals. The first two drawings "
        "have one scale and a line for each method; the others show each group's cost." + _own_text(report),
        alt="Points of accuracy that each group loses, and the gap between groups, at each epsilon.",
        panels=panels,
        table=data_table(("epsilon", *_KEY, "cost (points)", *_ENDS), tuple(rows)),
    )


def by_grouping(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, tuple[Placed, ...]]]:
    """The groups of every grouping, placed: a row for each arm while colours can tell groups apart."""
    for grouping in dict.fromkeys(c.grouping for c in comparisons):
        chosen = [c for c in comparisons if c.grouping == grouping]
        names = _names(chosen)
        arms = labels(names)
        groups = labels([g.group for c in chosen for g in c.by_group])
        named = list(zip(names, chosen, strict=True))
        if len(groups) <= MOST_SERIES:
            placed = [Placed(c, g, arms[name], groups[g.group]) for name, c in named for g in c.by_group]
        else:
            shown = named[:MOST_SERIES]
            placed = [Placed(c, g, groups[g.group], arms[name]) for name, c in shown for g in c.by_group]
        rows = set(list(dict.fromkeys(p.row for p in placed))[:MOST_ROWS])
        kept = tuple(p for p in placed if p.row in rows)
        left = len(chosen) * len(groups) - len(kept)
        title = labels([grouping])[grouping]
        yield (f"{title} ({left} more in the table)" if left > 0 else title), kept


def _names(comparisons: Sequence[Comparison]) -> list[str]:
    """A name for every comparison of one grouping; an arm that is compared twice has two."""
    times = Counter(c.arm for c in comparisons)
    return [c.arm if times[c.arm] == 1 or c.reference == REFERENCE else f"{c.arm} {OWN}" for c in comparisons]


def cells(group: GroupMeasure, metric: str, factor: float = 1.0) -> tuple[Cell, Cell, Cell]:
    """Value and interval for a table."""
    return _cells(group.estimates.get(metric), factor)


def bar(place: Placed, metric: str, factor: float) -> Bar | None:
    """The group's estimate as a dot with its whisker."""
    estimate = place.group.estimates.get(metric)
    if estimate is None or estimate.value is None:
        return None
    return Bar(place.row, place.series, estimate.scaled(factor))


def _interval_panels(
    report: Report, metric: str, x_title: str, factor: float, least: float
) -> tuple[Panel, ...]:
    panels = []
    for title, placed in by_grouping(report.costs):
        bars = [bar(p, metric, factor) for p in placed]
        panels.append(Intervals(title, x_title, tuple(b for b in bars if b is not None), least=least))
    return tuple(panel for panel in panels if panel.bars)


def _families(report: Report) -> Mapping[str, list[tuple[float, Comparison]]]:
    """Method and variant -> its arms of the first grouping by epsilon, where there are several.

    A method that is compared with a reference of its own, too, is two families.
    """
    methods = {arm.key: f"{arm.method}:{arm.variant}" if arm.variant else arm.method for arm in report.arms}
    found: dict[str, list[tuple[float, Comparison]]] = {}
    first = [c for c in report.costs if c.grouping == report.data.groupings[0].name]
    for comparison, name in zip(first, _names(first), strict=True):
        facts = report.privacy.get(comparison.arm)
        if facts is not None and facts.target_epsilon is not None:
            family = found.setdefault(name.replace(comparison.arm, methods[comparison.arm], 1), [])
            family.append((facts.target_epsilon, comparison))
    several = {name: sorted(family, key=lambda pair: pair[0]) for name, family in found.items()}
    return {name: family for name, family in several.items() if len({e for e, _ in family}) > 1}


def _at(name: str, epsilon: float, comparison: Comparison) -> AtEpsilon:
    """An arm of a sweep as a choice draws it: its gap, and the cost of the group that pays most."""
    gap = main_gap(comparison)
    costs = [
        cost
        for group in comparison.by_group
        if not comparison.note_on(group)
        and (cost := group.estimates.get("privacy_cost")) is not None
        and cost.value is not None
    ]
    most = max(costs, key=lambda cost: cost.value or 0.0, default=NOTHING)
    return AtEpsilon(name, epsilon, NOTHING if gap is None else gap.absolute, most)


def _sweep_panels(report: Report, name: str, family: list[tuple[float, Comparison]]) -> Iterator[Panel]:
    groups = labels([g.group for _, c in family for g in c.by_group][:MOST_SERIES])
    costs = [
        Point(epsilon, groups[g.group], cost.scaled(PERCENT))
        for epsilon, c in family
        for g in c.by_group
        if g.group in groups
        and (cost := g.estimates.get("privacy_cost")) is not None
        and cost.value is not None
    ]
    title = labels([name])[name]
    if costs:
        yield Lines(
            f"{title}: cost", "epsilon", "points", tuple(costs), is_log=True, origin=0.0, least=_LEAST_COST
        )


def _estimate_table(report: Report, metric: str) -> Table:
    head = (*_KEY, "test rows", metric.replace("_", " "), *_ENDS, "note")
    rows = tuple(
        (*_key(c, g), g.n_test, *cells(g, metric), g.reason) for c in report.costs for g in c.by_group
    )
    return data_table(head, rows)


def _key(comparison: Comparison, group: GroupMeasure) -> tuple[str, str, str, str]:
    return comparison.arm, comparison.reference, comparison.grouping, group.group


def _cells(estimate: Interval | None, factor: float = 1.0) -> tuple[Cell, Cell, Cell]:
    number = NOTHING if estimate is None else estimate.scaled(factor)
    return number.value, number.low, number.high


def _costs_text(report: Report) -> str:
    """The largest gap in words."""
    first = [c for c in report.costs if c.grouping == report.data.groupings[0].name]
    gaps = [(c, gap) for c in first if (gap := main_gap(c)) is not None and gap.absolute.value]
    if not gaps:
        return "No gap between groups was measured."
    comparison, gap = max(gaps, key=lambda pair: pair[1].absolute.value or 0.0)
    names = labels([gap.a, gap.b, comparison.arm])
    between = f"{names[gap.a]} and {names[gap.b]}" if gap.kind == "pair" else "groups"
    size = written(gap.absolute, POINTS)
    return f"Largest gap: {size} points between {between} under {names[comparison.arm]}."


def _own_text(report: Report) -> str:
    """What a reader must know where arms are compared with references of their own."""
    times = Counter((c.arm, c.grouping) for c in report.costs)
    names = labels(sorted({c.reference for c in report.costs if c.reference != REFERENCE}))
    if max(times.values(), default=0) < 2 or not names:
        return ""
    return f" {OWN}: beside the method's own reference ({', '.join(names.values())})."


def epsilon_panels(arms: Sequence[AtEpsilon], limits: Mapping[str, float] | None = None) -> tuple[Lines, ...]:
    """Both drawings over one range of points.

    Args:
        arms: In any order; of more methods than there are colours, the first.
        limits: Metric of a rule, ``privacy_cost_gap`` or ``privacy_cost`` -> its limit.
    """
    limits = {} if limits is None else limits
    names = labels(list(dict.fromkeys(arm.method for arm in arms))[:MOST_SERIES])
    arms = [arm for arm in arms if arm.method in names]
    # What holds every number with its interval, every limit, and zero.
    numbers = [number for arm in arms for number in (arm.gap, arm.cost)]
    known = [x for number in numbers for x in (number.value, number.low, number.high) if x is not None]
    ends = [0.0, *(PERCENT * x for x in (*known, *limits.values()))]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    between = min(ends) - room, max(ends) + room
    panels = []
    for metric, title in COSTS_DRAWN.items():
        numbers = [arm.gap if metric == "privacy_cost_gap" else arm.cost for arm in arms]
        points = tuple(
            Point(arm.epsilon, names[arm.method], number.scaled(PERCENT))
            for arm, number in zip(arms, numbers, strict=True)
            if number.value is not None
        )
        limit = limits.get(metric)
        told = title if limit is None else f"{title}: limit {PERCENT * limit:g}"
        origin = 0.0 if limit is None else PERCENT * limit
        panels.append(Lines(told, "epsilon", "points", points, between, is_log=True, origin=origin))
    return tuple(panel for panel in panels if panel.points)
