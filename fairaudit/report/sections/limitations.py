"""What the figures do not say."""

from fairaudit.report.document import Rank, Section, bullets
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """Every limitation that applies."""
    told = bullets([plain(limitation.text, 800) for limitation in report.limitations])
    return Section("limitations", "Limitations", Rank.DETAIL, told)
