"""The Markdown report of models that are compared with no other: what each group meets under them."""

from collections.abc import Iterator

from fairaudit.report.gaps import main_gap, reading
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.tables import Row, count, table
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison

ALONE = "Metrics by group"
_METRICS = ("accuracy", "selection_rate", "impact_ratio", "tpr", "fpr", "precision", "auc", "loss")
_MOST_ROWS = 20


def alone_section(report: Report) -> Iterator[str]:
    """Metrics by group with intervals, then the largest gap of each; nothing where there are none."""
    if not report.comparisons:
        return
    metrics = [m for m in _METRICS if any(_has(comparison, m) for comparison in report.comparisons)]
    rows: list[Row] = [
        (
            markdown(comparison.arm),
            f"{markdown(comparison.grouping)} = {markdown(group.group)}",
            count(group.n_test),
            *(written(group.estimates.get(metric)) for metric in metrics),
            markdown(comparison.note_on(group), 60),
        )
        for comparison in report.comparisons
        for group in comparison.by_group
    ]
    yield f"## {ALONE}"
    yield ""
    yield (
        "On test rows, with intervals. A dash is undefined, not zero. There is no model to compare with, so "
        "there is no cost of privacy."
    )
    yield ""
    head = ("arm", "group", "#test rows", *(f"#{m.replace('_', ' ')}" for m in metrics), "note")
    yield from table(head, rows, most=_MOST_ROWS)
    yield ""
    yield from table(
        ("arm", "grouping", "metric", "largest gap between", "#gap", "reading"),
        [row for comparison in report.comparisons for row in _gaps(comparison, metrics)],
        most=_MOST_ROWS,
    )


def _has(comparison: Comparison, metric: str) -> bool:
    held = [group.estimates.get(metric) for group in comparison.by_group]
    return any(estimate is not None and estimate.value is not None for estimate in held)


def _gaps(comparison: Comparison, metrics: list[str]) -> Iterator[Row]:
    for metric in metrics:
        gap = main_gap(comparison, metric)
        if gap is not None:
            yield (
                markdown(comparison.arm),
                markdown(comparison.grouping),
                metric.replace("_", " "),
                ", ".join(markdown(name) for name in (gap.a, gap.b) if name) or "–",
                written(gap.absolute),
                markdown(reading(gap), 80) or "–",
            )
