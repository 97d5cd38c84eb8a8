"""The answer: who pays, how much, how sure, whether it is acceptable, and what to do next."""

from fairaudit.methods.catalog import REFERENCE
from fairaudit.privacy.events import shown_up
from fairaudit.report.charts_costs import gap_chart
from fairaudit.report.document import (
    Badge,
    Block,
    Inline,
    Section,
    Strong,
    Text,
    bullets,
    figures,
)
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.summary import MethodSummary

_MOST_IN_FULL = 3  # methods of which every sentence is shown


def section(report: Report) -> Section | None:
    """What each method that could be shipped costs whom; None where there is none.

    Of many methods the headline and what to do next alone.
    """
    if report.summary is None or not report.summary.methods:
        return None
    told: list[Block] = []
    for method in report.summary.methods:
        headline = plain(method.headline, 1000)
        end: tuple[Inline, ...] = ()
        if method.verdict is not None:
            headline = headline.removesuffix(f": {method.verdict.upper()}.") + ": "
            end = (Badge(method.verdict, method.verdict.upper()),)
        told.append(Text((Strong(title_of(method, report)), f": {headline}", *end)))
        items = []
        for line in method.lines:
            is_read = line.topic == "next" or len(report.summary.methods) <= _MOST_IN_FULL
            if is_read and line.topic != "who pays":  # the headline says so
                items.append(f"{line.topic.capitalize()}: {plain(line.text, 1000)}")
        told += bullets(items)
    brief = (Text("Summary"), *told)
    return Section("summary", "Summary", (*told, *figures(gap_chart(report))), brief)


def title_of(method: MethodSummary, report: Report) -> str:
    """Which method, epsilon, grouping of several, and reference of its own."""
    title = method.arm
    claim = report.privacy[method.arm].claim
    if claim is not None and claim.epsilon is None:
        title += ", no epsilon claimed"
    elif claim is not None:
        title += f", claimed epsilon {shown_up(claim.epsilon or 0.0)}"
    elif method.epsilon is not None:
        title += f", epsilon {shown_up(method.epsilon)}"
    if len(report.data.groupings) > 1:
        title += f", by {method.grouping}"
    if method.reference != REFERENCE:
        title += f", against {method.reference}"
    return plain(title, 300)
