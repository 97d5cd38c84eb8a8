"""What a report holds in words: the control's answer, warnings, limitations, how to repeat it."""

from fairaudit.errors import numbered
from fairaudit.report.document import Listing, Rank, Section, Text, bullets
from fairaudit.report.main_gap import CONTROL_NOT_RUN
from fairaudit.report.model import Report
from fairaudit.report.reproduce import train_command
from fairaudit.report.safe_names import plain

_MOST = 12


def control(report: Report) -> Section | None:
    """What the control found, or why it was not run; None where nothing was trained."""
    control = report.control
    if report.training is None:
        return None
    label = "Control: " if control.status == "run" else ""
    brief = (Text(label + plain(control.message, 2000)),) if control.status != "not needed" else ()
    whole = (Text(plain(control.message, 4000)),)
    return Section("control", "Control: DP-SGD with matched clipping", Rank.DETAIL, whole, brief)


def warnings(report: Report) -> Section | None:
    """All but the control's, which has a warnings of its own."""
    others = [w for w in report.warnings if w.code != CONTROL_NOT_RUN]
    told: dict[tuple[str, str], list[str]] = {}
    for warning in others[:_MOST]:
        fix = f" ({plain(warning.fix, 200)})" if warning.fix else ""
        told.setdefault((warning.level, warning.code), []).append(f"{plain(warning.message, 600)}{fix}")
    items = [f"{level} {plain(code)}: {' – '.join(messages)}" for (level, code), messages in told.items()]
    if len(others) > _MOST:
        items.append(f"{len(others) - _MOST} more are in report.json.")
    return Section("warnings", "Warnings", Rank.DETAIL, bullets(items) or (Text("None."),))


def limitations(report: Report) -> Section | None:
    """Every limitation that applies."""
    items, command = [], train_command(report)
    for limitation in report.limitations:
        told = plain(limitation.text, 800)
        if limitation.code == "fixed_seeds" and command:
            told += f" Beside report.json: {plain(command, 1000)}"
            if report.data.fitted:
                quantities = numbered(len(report.data.fitted), "quantity is", "quantities are")
                told += f" (it stops as long as {quantities} fitted on training rows: declare columns)"
        items.append(told)
    return Section("limitations", "Limitations", Rank.DETAIL, bullets(items))


def reproduce(report: Report) -> Section | None:
    """With the versions that decide its numbers."""
    versions = f"numerics {plain(report.numerics_version)}, report schema {report.schema_version}"
    blocks = (
        Listing(plain(report.reproduce, 3000)),
        Text(f"fairaudit {plain(report.tool.version)}, {versions}."),
    )
    return Section("reproduce", "Reproduce", Rank.DETAIL, blocks)
