"""The command that gives this report again."""

from fairaudit.report.document import Listing, Rank, Section, Text
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """With the versions that decide its numbers."""
    versions = f"numerics {plain(report.numerics_version)}, report schema {report.schema_version}"
    blocks = (
        Listing(plain(report.reproduce, 3000)),
        Text(f"fairaudit {plain(report.tool.version)}, {versions}."),
    )
    return Section("reproduce", "Reproduce", Rank.DETAIL, blocks)
