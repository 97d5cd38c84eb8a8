"""What the figures do not say."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.report.document import Rank, Section, bullets
from fairaudit.report.model import Report
from fairaudit.report.reproduce import train_command
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """Every limitation that applies."""
    return Section("limitations", "Limitations", Rank.DETAIL, bullets(list(_told(report))))


def _told(report: Report) -> Iterator[str]:
    command = train_command(report)
    for limitation in report.limitations:
        told = plain(limitation.text, 800)
        if limitation.code == "fixed_seeds" and command:
            told += f" Beside report.json: {plain(command, 1000)}"
            if report.data.fitted:
                quantities = numbered(len(report.data.fitted), "quantity is", "quantities are")
                told += f" (it stops as long as {quantities} fitted on training rows: declare columns)"
        yield told
