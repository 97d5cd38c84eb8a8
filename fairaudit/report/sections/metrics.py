"""Metrics of each model by group: where no model has a reference, and before and after privacy."""

from fairaudit.metrics.registry import METRICS, within_model
from fairaudit.report.cost_charts import every_group
from fairaudit.report.document import (
    Block,
    Cell,
    Code,
    Inline,
    Quantity,
    Section,
    Strong,
    Table,
    Text,
    table,
)
from fairaudit.report.measures import main_gap, metric_text
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN, change_text, versus
from fairaudit.report.safe_names import plain

_MOST_ROWS = 20
RATIO, BEFORE = "impact_ratio", "reference.impact_ratio"


def section(report: Report) -> Section | None:
    """The section on metrics by group, with intervals, and the largest gap of each.

    None where models are compared with a reference, and other sections tell of costs.
    """
    if report.costs or not report.comparisons:
        return None
    metrics = []
    for name, spec in METRICS.items():
        is_known = any(
            group.value(name) is not None for _, group in every_group(report.comparisons)
        )
        if is_known and not spec.no_interval:  # the section shows numbers with intervals alone
            metrics.append(name)
    blocks = (
        Text(
            "On test rows, with intervals. There is no model to compare with, so no cost of "
            "privacy."
        ),
        _by_group(report, metrics),
        _largest_gaps(report, metrics),
    )
    return Section("metrics", "Metrics by group", blocks)


def _by_group(report: Report, metrics: list[str]) -> Table:
    """The table of metrics: a row per method and group, a column per metric."""
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.comparisons):
        values = [Quantity(group.estimates.get(metric)) for metric in metrics]
        name = report.name_of(comparison.grouping, group.group)
        note = plain(comparison.note_on(group), 60)
        rows.append((plain(comparison.arm), name, group.n_test, *values, note))
    titles = [f"#{METRICS[metric].title}" for metric in metrics]
    return table(("method", "group", "#test rows", *titles, "note"), rows, most=_MOST_ROWS)


def _largest_gaps(report: Report, metrics: list[str]) -> Table:
    """The table of largest gaps: a row per method, grouping and metric."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.comparisons:
        for metric in metrics:
            gap = main_gap(comparison, metric)
            if gap is not None:
                gap = gap.larger_first
                rows.append(
                    (
                        plain(comparison.arm),
                        plain(comparison.grouping),
                        METRICS[metric].title,
                        # The largest gap of a single group names no groups.
                        " less ".join(plain(name) for name in (gap.a, gap.b) if name) or UNKNOWN,
                        Quantity(gap.signed),
                        # Words on who does worse, if that is detected.
                        plain(gap.direction or gap.reading, 80) or UNKNOWN,
                    )
                )
    head = ("method", "grouping", "metric", "largest gap, of", "#gap", "reading")
    return table(head, rows, most=_MOST_ROWS)


def within(report: Report) -> Section | None:
    """The section on metrics of arms and their references; None where nothing is compared.

    Metrics without and with privacy, impact ratios, and gaps within a model that privacy changes.
    """
    if not report.costs:
        return None
    blocks: list[Block] = [Text(("Without privacy → with it, on test rows. ", *_selected(report)))]
    blocks += _before_and_after(report)
    blocks += _impact_ratios(report)
    blocks += _changed_gaps(report)
    return Section("within", "Within each model", tuple(blocks))


def _before_and_after(report: Report) -> list[Block]:
    """The table of each group's metrics under the reference, then under the arm; [] of none.

    Accuracy and loss are left out, which the summary tells. So are rates of single classes, as
    ``tpr[2]``, which are no metric of the registry by that name: their gaps stand elsewhere.
    """
    known: set[str] = set()
    for _, group in every_group(report.costs):
        known |= {name for name, number in group.estimates.items() if number.value is not None}
    metrics = []
    for spec in within_model():
        if spec.name in known and spec.name not in ("accuracy", "loss"):
            metrics.append(spec.name)
    if not metrics:
        return []
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        if group.estimates:  # a suppressed group has none
            name = report.name_of(comparison.grouping, group.group)
            rows.append((versus(comparison), name, *(change_text(group, m) for m in metrics)))
    titles = [f"#{METRICS[name].title}" for name in metrics]
    return [table(("method", "group", *titles), rows, most=14)]


def _changed_gaps(report: Report) -> list[Block]:
    """The table of the gaps within a model that privacy is detected to change; [] of none."""
    if not report.changed:
        return []
    classes = [label_class.name for label_class in report.data.label.classes]
    rows: list[tuple[Cell, ...]] = []
    for gap in report.changed:
        metric = plain(metric_text(gap.metric, classes))
        names = [report.name_of(gap.grouping, name) for name in (gap.a, gap.b)]
        rows.append((plain(gap.arm), metric, " less ".join(names), Quantity(gap.change)))
    return [
        Text("Gaps within a model that privacy is detected to change:"),
        table(("method", "metric", "between", "#change of the gap"), rows, most=8),
    ]


def _impact_ratios(report: Report) -> list[Block]:
    """The table of impact ratios with their intervals, before and after; [] where unknown."""
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        before, after = (group.estimates.get(name) for name in (BEFORE, RATIO))
        # Exact and equal: a group that is the most selected one in both models has 1 by definition.
        if after is None or after.value is None or (after.is_exact and before == after):
            continue
        name = report.name_of(comparison.grouping, group.group)
        rows.append((versus(comparison), name, Quantity(before), Quantity(after)))
    if not rows:
        return []
    head = ("method", "group", "#impact ratio without privacy", "#with privacy")
    return [table(head, rows, most=14)]


def _selected(report: Report) -> tuple[Inline, ...]:
    """The words on selection rates: which class counts as selected, and whether that is a guess."""
    label = report.data.label
    if label.favourable is None:
        return ("No selection rates: set --favourable.",)
    selected = (
        f"Selected: {plain(label.column)} = {plain(label.favourable)}; ratios are to the most "
    )
    if not label.is_assumed:
        return (f"{selected}selected group.",)
    return (
        f"{selected}selected group. ",
        Strong("Nobody said that this is the outcome that people want; it is assumed."),
        " Gates on ratios are inconclusive until ",
        Code("--favourable VALUE"),
        " says which it is.",
    )
