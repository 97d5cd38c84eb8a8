"""A report on given predictions as console lines."""

from collections.abc import Iterator

from fairaudit.cli.lines import report_line, result_lines, spoken_outcomes, warning_lines
from fairaudit.cli.rows import Row, aligned
from fairaudit.config.options import AuditConfig
from fairaudit.errors import numbered
from fairaudit.metrics.registry import METRICS
from fairaudit.report.gaps import main_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.names import plain
from fairaudit.report.tables import count
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison

_MOST_GROUPS = 12


def score_lines(report: Report, config: AuditConfig) -> Iterator[str]:
    """What was scored, the costs or else the metrics by group, warnings, and where the report lies."""
    data = report.data
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    yield f"fairaudit {report.tool.version} · {plain(data.name)} {rows}"
    label = data.label
    outcomes = spoken_outcomes(label.positive, label.favourable, label.favourable_origin)
    yield f"  label   {plain(label.column)}   ({outcomes})"
    models = ", ".join(f"{plain(arm.key)} {arm.seeds_planned}" for arm in report.arms)
    yield f"  models  {models}; nothing is trained, and no privacy is stated"
    if report.costs:
        yield from result_lines(report)
    else:
        yield " Metrics by group (points of 100, with 95 % intervals)"
        for comparison in report.comparisons:
            yield from aligned(list(_rows(comparison)), left=frozenset({0}))
    yield from warning_lines(report, verbose=False)
    yield report_line(config.out, config.format)


def _rows(comparison: Comparison) -> Iterator[Row]:
    metrics = [name for name, spec in METRICS.items() if spec.is_in_summary]
    yield Row((plain(comparison.grouping), "n", *(METRICS[metric].title for metric in metrics)))
    for group in comparison.by_group[:_MOST_GROUPS]:
        cells = (
            written(group.estimates.get(metric), scale_of(metric)) if group.estimates else "–"
            for metric in metrics
        )
        yield Row((plain(group.group, 24), count(group.n_test), *cells), plain(comparison.note_on(group), 60))
    gaps = [(main_gap(comparison, metric), scale_of(metric)) for metric in metrics]
    yield Row(("gap", "", *("–" if gap is None else written(gap.absolute, scale) for gap, scale in gaps)))
