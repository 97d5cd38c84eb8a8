"""Metrics of models by group.

Of those that are compared with no other, and before and after privacy.
"""

from fairaudit.metrics.registry import METRICS, within_model
from fairaudit.report.cost_charts import every_group
from fairaudit.report.document import Block, Cell, Quantity, Section, Table, Text, table
from fairaudit.report.main_gap import main_gap, metric_text, reading
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN, before_and_after, number, versus
from fairaudit.report.safe_names import plain

_MOST_ROWS = 20


def section(report: Report) -> Section | None:
    """Metrics by group with intervals, then the largest gap of each.

    None where models are compared.
    """
    if report.costs or not report.comparisons:
        return None
    metrics = []
    for name, spec in METRICS.items():
        known = any(group.value(name) is not None for _, group in every_group(report.comparisons))
        if known and not spec.no_interval:
            metrics.append(name)
    blocks = (
        Text(
            "On test rows, with intervals. There is no model to compare with, so no cost of "
            "privacy."
        ),
        _by_group(report, metrics),
        _largest_gaps(report, metrics),
    )
    shown = [name for name, spec in METRICS.items() if spec.is_in_summary]
    brief = (
        Text("Metrics by group (with 95 % intervals)"),
        _by_group(report, shown),
        _largest_gaps(report, shown),
    )
    return Section("metrics", "Metrics by group", blocks, brief)


def _by_group(report: Report, metrics: list[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.comparisons):
        values = [Quantity(group.estimates.get(metric)) for metric in metrics]
        name = f"{plain(comparison.grouping)} = {plain(group.group)}"
        note = plain(comparison.note_on(group), 60)
        rows.append((plain(comparison.arm), name, group.n_test, *values, note))
    titles = [f"#{METRICS[metric].title}" for metric in metrics]
    return table(("method", "group", "#test rows", *titles, "note"), rows, most=_MOST_ROWS)


def _largest_gaps(report: Report, metrics: list[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.comparisons:
        for metric in metrics:
            gap = main_gap(comparison, metric)
            if gap is not None:
                rows.append(
                    (
                        plain(comparison.arm),
                        plain(comparison.grouping),
                        METRICS[metric].title,
                        ", ".join(plain(name) for name in (gap.a, gap.b) if name) or UNKNOWN,
                        Quantity(gap.absolute),
                        plain(reading(gap), 80) or UNKNOWN,
                    )
                )
    head = ("method", "grouping", "metric", "largest gap between", "#gap", "reading")
    return table(head, rows, most=_MOST_ROWS)


def within(report: Report) -> Section | None:
    """None where there is no pair of models."""
    if not report.costs:
        return None
    measured = {name for _, group in every_group(report.costs) for name in group.estimates}
    shown = [spec.name for spec in within_model() if not spec.has_own_section]
    metrics = [name for name in shown if name in measured and name not in ("accuracy", "loss")]
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        if group.estimates:
            changes = []
            for name in metrics:
                before, after = group.value(f"reference.{name}"), group.value(name)
                changes.append(f"{number(before)} → {number(after)}")
            rows.append((versus(comparison), plain(group.group), *changes))
    titles = [f"#{METRICS[name].title}" for name in metrics]
    before_title, after_title = before_and_after(is_trained=report.training is not None)
    blocks: list[Block] = [
        Text(f"{before_title.capitalize()} → {after_title}, on test rows."),
        table(("method", "group", *titles), rows, most=14),
    ]
    if not report.changed:
        blocks.append(Text("No gap is detected to change with privacy."))
        return Section("within", "Within each model", tuple(blocks))
    classes = [each.name for each in report.data.label.classes]
    changed: list[tuple[Cell, ...]] = []
    for gap in report.changed:
        metric = plain(metric_text(gap.metric, classes))
        between = f"{plain(gap.a)}, {plain(gap.b)}"
        changed.append((plain(gap.arm), metric, between, Quantity(gap.change)))
    told = (
        "Gaps that are detected to change with privacy (first group minus second; intervals "
        "hold for all together):"
    )
    head = ("method", "metric", "between", "#change of the gap")
    blocks += [Text(told), table(head, changed, most=8)]
    return Section("within", "Within each model", tuple(blocks))
