"""A report on given predictions as console lines."""

from collections.abc import Iterator

from fairaudit.cli.lines import outcomes_text, report_line, warning_lines
from fairaudit.config.options import AuditConfig
from fairaudit.errors import numbered
from fairaudit.report.model import Report
from fairaudit.report.render.terminal import to_lines
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.order import document


def score_lines(report: Report, config: AuditConfig) -> Iterator[str]:
    """What was scored, the costs or else the metrics by group, warnings, and where the report lies."""
    data = report.data
    rows = f"{data.rows:,} of {numbered(data.rows_read, 'row')}"
    yield f"fairaudit {report.tool.version} · {plain(data.name)} {rows}"
    label = data.label
    outcomes = outcomes_text(label.positive, label.favourable, label.favourable_origin)
    yield f"  label   {plain(label.column)}   ({outcomes})"
    models = ", ".join(f"{plain(arm.key)} {arm.seeds_planned}" for arm in report.arms)
    yield f"  models  {models}; nothing is trained, and no privacy is stated"
    yield from to_lines(document(report))
    yield from warning_lines(report, verbose=False)
    yield report_line(config.out, config.format)
