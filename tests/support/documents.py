"""What the document of a report holds, for tests that look at it."""

from fairaudit.report.render.markdown import to_text
from fairaudit.report.sections.order import document


def charts(report):
    return document(report).charts


def full_text(report):
    """The Markdown before it is cut to length."""
    return to_text(document(report))
