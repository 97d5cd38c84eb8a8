"""What the document of a report holds, for tests that look at it."""

from fairaudit.report.sections.order import document


def charts(report):
    return document(report).charts
