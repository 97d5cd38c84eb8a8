"""The control's answer: does a method do more than clip less?"""

from fairaudit.report.document import Rank, Section, Text
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """What the control found, or why it was not run; None where nothing was trained."""
    control = report.control
    if report.training is None:
        return None
    label = "Control: " if control.status == "run" else ""
    brief = (Text(label + plain(control.message, 2000)),) if control.status != "not needed" else ()
    whole = (Text(plain(control.message, 4000)),)
    return Section("control", "Control: DP-SGD with matched clipping", Rank.DETAIL, whole, brief)
