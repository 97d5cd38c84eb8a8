"""The Markdown report's first section: the answer."""

from collections.abc import Iterator

from fairaudit.privacy.events import shown_up
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.summary import MethodSummary

MOST_IN_FULL = 3  # methods that are told in full; of more, one sentence each


def summary_section(report: Report) -> Iterator[str]:
    """One paragraph for each method that could be shipped; nothing in a report of an earlier version."""
    methods = report.summary.methods if report.summary is not None else ()
    if not methods:
        return
    yield "## Summary"
    yield ""
    for method in methods:
        yield f"- **{markdown(title_of(method, report), 300)}**: {markdown(method.headline, 1000)}"
        for line in method.lines if len(methods) <= MOST_IN_FULL else ():
            if line.topic != "who pays":  # the headline says so
                yield f"  - {line.topic.capitalize()}: {markdown(line.text, 1000)}"


def title_of(method: MethodSummary, report: Report) -> str:
    """Which method, at which epsilon, and by which grouping where there are several."""
    several = len(report.data.groupings) > 1
    epsilon = "" if method.epsilon is None else f", epsilon {shown_up(method.epsilon)}"
    return f"{method.arm}{epsilon}{f', by {method.grouping}' if several else ''}"
