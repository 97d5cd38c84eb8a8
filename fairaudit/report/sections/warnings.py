"""Warnings and notices, those of one kind together."""

from fairaudit.report.document import Rank, Section, Text, bullets
from fairaudit.report.main_gap import CONTROL_NOT_RUN
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain

_MOST = 12


def section(report: Report) -> Section | None:
    """All but the control's, which has a section of its own."""
    others = [w for w in report.warnings if w.code != CONTROL_NOT_RUN]
    told: dict[tuple[str, str], list[str]] = {}
    for warning in others[:_MOST]:
        fix = f" ({plain(warning.fix, 200)})" if warning.fix else ""
        told.setdefault((warning.level, warning.code), []).append(f"{plain(warning.message, 600)}{fix}")
    items = [f"{level} {plain(code)}: {' – '.join(messages)}" for (level, code), messages in told.items()]
    if len(others) > _MOST:
        items.append(f"{len(others) - _MOST} more are in report.json.")
    return Section("warnings", "Warnings", Rank.DETAIL, bullets(items) or (Text("None."),))
