"""What a report holds in words: the control's answer, warnings, limitations, how to repeat it."""

from fairaudit.report.document import Listing, Section, Text, bullets
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
    label = ""
    if control.status == "run":
        label = "Control: "
    brief: tuple[Text, ...] = ()
    if control.status != "not needed":
        brief = (Text(label + plain(control.message, 2000)),)
    whole = (Text(plain(control.message, 4000)),)
    return Section("control", "Control: DP-SGD with matched clipping", whole, brief)


def warnings(report: Report) -> Section | None:
    """All but the control's, which has a warnings of its own."""
    others = [w for w in report.warnings if w.code != CONTROL_NOT_RUN]
    told: dict[tuple[str, str], list[str]] = {}
    for warning in others[:_MOST]:
        fix = ""
        if warning.fix:
            fix = f" ({plain(warning.fix, 200)})"
        told.setdefault((warning.level, warning.code), []).append(
            f"{plain(warning.message, 600)}{fix}"
        )
    items = [
        f"{level} {plain(code)}: {' – '.join(messages)}" for (level, code), messages in told.items()
    ]
    if len(others) > _MOST:
        items.append(f"{len(others) - _MOST} more are in report.json.")
    return Section("warnings", "Warnings", bullets(items) or (Text("None."),))


def limitations(report: Report) -> Section | None:
    """Every limitation that applies."""
    items, command = [], train_command(report)
    for limitation in report.limitations:
        told = plain(limitation.text, 800)
        if limitation.code == "fixed_seeds" and command:
            told += f" Beside report.json: {plain(command, 1000)}"
        items.append(told)
    return Section("limitations", "Limitations", bullets(items))


def reproduce(report: Report) -> Section | None:
    """With the versions that decide its numbers."""
    versions = f"numerics {plain(report.numerics_version)}, report schema {report.schema_version}"
    blocks = (
        Listing(plain(report.reproduce, 3000)),
        Text(f"fairaudit {plain(report.tool.version)}, {versions}."),
    )
    return Section("reproduce", "Reproduce", blocks)
