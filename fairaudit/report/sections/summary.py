"""The answer: who pays, how much, how sure, whether it is acceptable, and what to do next."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.privacy.events import shown_up
from fairaudit.report.document import (
    Badge,
    Block,
    Cell,
    Inline,
    Quantity,
    Rank,
    Section,
    Strong,
    Text,
    bullets,
    table,
)
from fairaudit.report.gaps import COST, scale_of
from fairaudit.report.model import Report
from fairaudit.report.names import plain
from fairaudit.report.summary import MethodSummary
from fairaudit.report.written import UNKNOWN

_MOST_IN_FULL = 3  # methods that are told in full; more of them stand in a table
_MOST_NAMED = 3  # groups in a cell


def section(report: Report) -> Section | None:
    """One paragraph for each method that could be shipped; None in a report of an earlier version."""
    methods = report.summary.methods if report.summary is not None else ()
    if not methods:
        return None
    blocks = _table(methods, report) if len(methods) > _MOST_IN_FULL else _in_full(methods, report)
    return Section("summary", "Summary", Rank.MAIN, tuple(blocks))


def title_of(method: MethodSummary, report: Report) -> str:
    """Which method, at which epsilon, by which grouping of several, against which reference of its own."""
    several = len(report.data.groupings) > 1
    epsilon = "" if method.epsilon is None else f", epsilon {shown_up(method.epsilon)}"
    by = f", by {method.grouping}" if several else ""
    own = "" if method.reference == REFERENCE else f", against {method.reference}"
    return plain(f"{method.arm}{epsilon}{by}{own}", 300)


def _in_full(methods: tuple[MethodSummary, ...], report: Report) -> Iterator[Block]:
    for method in methods:
        headline = plain(method.headline, 1000)
        end: tuple[Inline, ...] = ()
        if method.verdict is not None:
            headline = headline.removesuffix(f": {method.verdict.upper()}.") + ": "
            end = (Badge(method.verdict, method.verdict.upper()),)
        yield Text((Strong(title_of(method, report)), f": {headline}", *end))
        yield from bullets(
            [
                f"{line.topic.capitalize()}: {plain(line.text, 1000)}"
                for line in method.lines
                if line.topic != "who pays"  # the headline says so
            ]
        )


def _table(methods: tuple[MethodSummary, ...], report: Report) -> Iterator[Block]:
    """One row each, the largest cost of a group first."""
    costs = {id(m): m.accuracy.groups[0].value if m.accuracy.groups else None for m in methods}
    ordered = sorted(methods, key=lambda m: -(costs[id(m)] or 0.0))
    rows: list[tuple[Cell, ...]] = [
        (
            title_of(method, report),
            _who(method),
            Quantity(method.accuracy.groups[0], scale_of(COST)) if method.accuracy.groups else None,
            Quantity(method.accuracy.size, scale_of(COST)),
            None if method.excess_risk is None else Quantity(method.excess_risk.size),
            UNKNOWN if method.verdict is None else (Badge(method.verdict, method.verdict.upper()),),
        )
        for method in ordered
    ]
    head = (
        "method",
        "pays more",
        "#largest cost (points)",
        "#gap (points)",
        "#gap in loss (nats)",
        "verdict",
    )
    yield table(head, rows)
    yield Text(
        'Intervals are 95 %. A dash under "pays more": no difference between groups is detected, in accuracy '
        "or in loss, among all that is compared."
    )


def _who(method: MethodSummary) -> str:
    """Who is shown to pay more: in accuracy, else in loss; the largest cost first."""
    for found in filter(None, (method.accuracy, method.excess_risk)):
        named = [plain(each.group, 40) for each in found.groups if each.group in found.payers]
        if named:
            more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
            where = "" if found is method.accuracy else " (in loss)"
            return ", ".join(named[:_MOST_NAMED]) + more + where
    return UNKNOWN
