"""The Markdown report of models that are compared with no other: what each group meets under them."""

from collections.abc import Iterator

from fairaudit.metrics.registry import METRICS
from fairaudit.report.gaps import main_gap, reading
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.tables import Row, count, table
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison

ALONE = "Metrics by group"
_MOST_ROWS = 20


def alone_section(report: Report) -> Iterator[str]:
    """Metrics by group with intervals, then the largest gap of each; nothing where there are none."""
    if not report.comparisons:
        return
    bounded = [name for name, spec in METRICS.items() if not spec.no_interval]
    metrics = [m for m in bounded if any(_has(comparison, m) for comparison in report.comparisons)]
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
    head = ("arm", "group", "#test rows", *(f"#{METRICS[m].title}" for m in metrics), "note")
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
                METRICS[metric].title,
                ", ".join(markdown(name) for name in (gap.a, gap.b) if name) or "–",
                written(gap.absolute),
                markdown(reading(gap), 80) or "–",
            )
