"""Metrics of models by group: of those that are compared with no other, and before and after privacy."""

from collections.abc import Iterator, Sequence

from fairaudit.metrics.registry import METRICS, within_model
from fairaudit.report.document import Block, Cell, Quantity, Rank, Section, Text, table
from fairaudit.report.main_gap import main_gap, metric_text, reading, scale_of
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import UNKNOWN, before_and_after, number, versus
from fairaudit.results.estimates import Comparison

_MOST_ROWS, _MOST_GROUPS = 20, 12


def section(report: Report) -> Section | None:
    """Metrics by group with intervals, then the largest gap of each; None where models are compared."""
    if report.costs or not report.comparisons:
        return None
    bounded = [name for name, spec in METRICS.items() if not spec.no_interval]
    groups = [group for comparison in report.comparisons for group in comparison.by_group]
    metrics = [m for m in bounded if any(group.value(m) is not None for group in groups)]
    rows = [
        (
            plain(comparison.arm),
            f"{plain(comparison.grouping)} = {plain(group.group)}",
            group.n_test,
            *(Quantity(group.estimates.get(metric)) for metric in metrics),
            plain(comparison.note_on(group), 60),
        )
        for comparison in report.comparisons
        for group in comparison.by_group
    ]
    head = ("method", "group", "#test rows", *(f"#{METRICS[m].title}" for m in metrics), "note")
    gaps = [row for comparison in report.comparisons for row in _gaps(comparison, metrics)]
    blocks = (
        Text(
            "On test rows, with intervals. A dash is undefined, not zero. There is no model to compare with, "
            "so there is no cost of privacy."
        ),
        table(head, rows, most=_MOST_ROWS),
        table(
            ("method", "grouping", "metric", "largest gap between", "#gap", "reading"), gaps, most=_MOST_ROWS
        ),
    )
    return Section("metrics", "Metrics by group", Rank.SECOND, blocks, brief=tuple(_brief(report)))


def _brief(report: Report) -> Iterator[Block]:
    brief = [name for name, spec in METRICS.items() if spec.is_in_summary]
    yield Text("Metrics by group (points of 100, with 95 % intervals)")
    for comparison in report.comparisons:
        rows: list[tuple[Cell, ...]] = [
            (
                plain(group.group, 24),
                group.n_test,
                *(Quantity(group.estimates.get(m), scale_of(m)) if group.estimates else None for m in brief),
                plain(comparison.note_on(group), 60),
            )
            for group in comparison.by_group[:_MOST_GROUPS]
        ]
        gaps = [(main_gap(comparison, m), scale_of(m)) for m in brief]
        cells = (Quantity(gap.absolute, scale) if gap else None for gap, scale in gaps)
        rows.append(("gap", "", *cells, ""))
        yield table((plain(comparison.grouping), "#n", *(f"#{METRICS[m].title}" for m in brief), ""), rows)


def _gaps(comparison: Comparison, metrics: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for metric in metrics:
        gap = main_gap(comparison, metric)
        if gap is not None:
            yield (
                plain(comparison.arm),
                plain(comparison.grouping),
                METRICS[metric].title,
                ", ".join(plain(name) for name in (gap.a, gap.b) if name) or UNKNOWN,
                Quantity(gap.absolute),
                plain(reading(gap), 80) or UNKNOWN,
            )


def within(report: Report) -> Section | None:
    """None where there is no pair of models."""
    if not report.costs:
        return None
    shown = [spec.name for spec in within_model() if not spec.has_own_section]
    metrics = [m for m in shown if any(m in g.estimates for c in report.costs for g in c.by_group)]
    rows = [
        (
            *(versus(c), plain(g.group)),
            *(f"{number(g.value(f'reference.{m}'))} → {number(g.value(m))}" for m in metrics),
        )
        for c in report.costs
        for g in c.by_group
        if g.estimates
    ]
    classes = [each.name for each in report.data.label.classes]
    changes = [
        (
            plain(gap.arm),
            plain(metric_text(gap.metric, classes)),
            f"{plain(gap.a)}, {plain(gap.b)}",
            Quantity(gap.change),
        )
        for gap in report.changed or ()
    ]
    before, after = before_and_after(is_trained=report.training is not None)
    blocks: list[Block] = [
        Text(f"{before.capitalize()} → {after}, on test rows. A dash is undefined, not zero."),
        table(("method", "group", *(f"#{METRICS[m].title}" for m in metrics)), rows, most=14),
    ]
    if changes:
        told = (
            "Gaps within the model that are detected to change with privacy (first group minus second; the "
            "intervals hold for all gaps that could stand here together):"
        )
        blocks += [Text(told), table(("method", "metric", "between", "#change of the gap"), changes, most=8)]
    elif report.changed is not None:
        blocks.append(Text("No gap within a model is detected to change with privacy."))
    return Section("within", "Within each model", Rank.DETAIL, tuple(blocks))
