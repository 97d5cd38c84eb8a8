"""The answer: who pays, how much, how sure, whether it is acceptable, and what to do next."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.privacy.events import shown_up
from fairaudit.report.charts_costs import gap_chart
from fairaudit.report.document import (
    Badge,
    Block,
    Cell,
    Column,
    Inline,
    Quantity,
    Rank,
    Section,
    Strong,
    Table,
    Text,
    Words,
    bullets,
    figures,
)
from fairaudit.report.main_gap import COST, scale_of
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.summarize import DEGREES
from fairaudit.report.summary import GapSummary, MethodSummary
from fairaudit.report.written import UNKNOWN, written

_MOST_IN_FULL = 3  # methods that are told in full; more of them stand in a table
_MOST_NAMED = 2  # groups in a cell


def section(report: Report) -> Section | None:
    """One paragraph for each method that could be shipped; None in a report of an earlier version."""
    methods = report.summary.methods if report.summary is not None else ()
    if not methods:
        return None
    told = tuple(_table(methods, report) if is_table(report) else _in_full(methods, report))
    blocks = (*told, *figures(gap_chart(report)))
    return Section("summary", "Summary", Rank.MAIN, blocks)


def is_table(report: Report) -> bool:
    """Whether there are so many methods that a table tells of them."""
    return report.summary is not None and len(report.summary.methods) > _MOST_IN_FULL


def title_of(method: MethodSummary, report: Report, *, epsilon: bool = True) -> str:
    """Which method, at which epsilon, by which grouping of several, against which reference of its own."""
    several = len(report.data.groupings) > 1
    at = "" if method.epsilon is None or not epsilon else f", epsilon {shown_up(method.epsilon)}"
    claim = report.privacy[method.arm].claim
    if claim is not None and epsilon:
        at = (
            ", no epsilon claimed"
            if claim.epsilon is None
            else f", claimed epsilon {shown_up(claim.epsilon)}"
        )
    by = f", by {method.grouping}" if several else ""
    own = "" if method.reference == REFERENCE else f", against {method.reference}"
    return plain(f"{method.arm}{at}{by}{own}", 300)


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
    """One row each, the largest cost of a group first, and what to do next."""
    costs = {id(m): m.accuracy.groups[0].value if m.accuracy.groups else None for m in methods}
    ordered = sorted(methods, key=lambda m: -(costs[id(m)] or 0.0))
    held = {UNKNOWN if m.epsilon is None else shown_up(m.epsilon) for m in methods}
    is_judged = any(m.verdict for m in methods)
    columns = (
        Column("method"),
        *((Column("epsilon", is_number=True, spare=3),) if len(held) > 1 else ()),
        Column("paid by"),
        Column("largest cost", is_number=True),
        Column("largest gap", is_number=True),
        Column("gap in loss (nats)", is_number=True, spare=1),
        Column("of the gap, without noise", is_number=True, spare=2),
        Column("turned most by clipping (degrees)", spare=4),
        *((Column("verdict"),) if is_judged else ()),
    )
    rows = []
    for m in ordered:
        row: list[Cell] = [title_of(m, report, epsilon=False)]
        row += [UNKNOWN if m.epsilon is None else shown_up(m.epsilon)] if len(held) > 1 else []
        parts, turn = m.parts, m.misalignment
        still = turned = UNKNOWN
        if parts is not None and parts.of == "gap":
            unit = "points" if parts.metric == COST else "nats"
            still = f"{written(parts.still, scale_of(parts.metric))} {unit}"
        if turn is not None and turn.most:  # the group that clipping is shown to turn the step from most
            turned = f"{plain(turn.most, 24)} {written(turn.groups[turn.most], DEGREES)}"
        row += [
            _paid_by(m),
            Quantity(m.accuracy.groups[0], scale_of(COST)) if m.accuracy.groups else None,
            Quantity(m.accuracy.size, scale_of(COST)),
            None if m.excess_risk is None else Quantity(m.excess_risk.size),
            *(still, turned),
        ]
        row += [(Badge(m.verdict, m.verdict.upper()),) if m.verdict else UNKNOWN] if is_judged else []
        rows.append(tuple(row))
    at = f" Every method: epsilon {next(iter(held))}." if len(held) == 1 and UNKNOWN not in held else ""
    yield Text(
        f"Costs and gaps in points of accuracy, with 95 % intervals; the largest cost of a group first.{at}"
    )
    yield Table(columns, tuple(rows))
    yield Text('A dash under "paid by": no difference between groups is detected.')
    yield from bullets(_next(ordered, report))


def _paid_by(method: MethodSummary) -> str:
    """Groups that are shown to pay more, in accuracy or else in loss."""
    risk = method.excess_risk
    found: GapSummary = method.accuracy if method.accuracy.worst_off or risk is None else risk
    named = [plain(name, 24) for name in found.worst_off]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    where = "" if found is method.accuracy else " (in loss)"
    return f"{', '.join(named[:_MOST_NAMED])}{more}{where}" if named else UNKNOWN


def _next(methods: list[MethodSummary], report: Report) -> list[Words]:
    """What to do, methods of the same advice together."""
    together: dict[str, list[MethodSummary]] = {}
    for method in methods:
        together.setdefault(method.line("next"), []).append(method)
    names = {id(m): title_of(m, report, epsilon=False) for m in methods}
    whose = {
        advice: "all methods" if len(together) == 1 else "; ".join(names[id(m)] for m in alike)
        for advice, alike in together.items()
    }
    return [
        f"Next ({plain(whose[advice], 400)}): {plain(advice, 1000)}"
        for advice, alike in together.items()
        # Of a single method where something is found that asks for an answer of its own.
        if advice and (len(alike) > 1 or alike[0].verdict == "fail" or alike[0].is_detected)
    ]
