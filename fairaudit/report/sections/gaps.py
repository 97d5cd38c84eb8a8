"""Gaps between groups in what private training costs them."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.report.arm_names import versus
from fairaudit.report.document import (
    Block,
    Cell,
    Code,
    Quantity,
    Rank,
    Section,
    Text,
    Words,
    bare,
    bullets,
    table,
)
from fairaudit.report.main_gap import main_gap, named_gaps, reading
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, UNKNOWN, written
from fairaudit.results.estimates import Comparison, Gap

_HEAD = (
    *("method", "between", "#gap in cost (points)", "#minimum detectable (points)"),
    *("#SD, seeds (points)", "#SD, shared test rows (points)"),
    "reading",
)


def section(report: Report) -> Section | None:
    """The pairs that were named and the largest gap of every comparison; None where there is no cost."""
    if not report.costs:
        return None
    rows = [
        _row(comparison, gap)
        for comparison in report.costs
        for gap in (*named_gaps(comparison), main_gap(comparison))
        if gap is not None
    ]
    blocks: list[Block] = [
        Text(
            "The minimum detectable gap is what this audit would find four times out of five; a smaller gap "
            "may exist unseen. The interval adds up two standard deviations (SD): of what differs between "
            "seeds (training, and test rows where each seed has its own), and of test rows that seeds share."
        ),
        table(_HEAD, rows),
    ]
    told = list(_named_risks(report))
    if told:
        named = ("Pairs named before training (", Code("--compare"), "), each with its own 95 % interval:")
        blocks += [Text(named), *bullets(told)]
    return Section("gaps", "Gaps between groups", Rank.MAIN, tuple(blocks), brief=())


def _named_risks(report: Report) -> Iterator[Words]:
    """What the pairs that were asked for lose in loss, beside what they lose in accuracy."""
    for comparison in report.costs:
        for gap in comparison.gaps:
            if gap.named and gap.metric == "excess_risk":
                yield (
                    f"{versus(comparison)}, {plain(gap.a)} against {plain(gap.b)}: gap in excess risk "
                    f"{written(gap.absolute)} nats, {plain(reading(gap), 80) or 'undefined'}."
                )


def _row(comparison: Comparison, gap: Gap) -> tuple[Cell, ...]:
    said = (plain(reading(gap), 80) or UNKNOWN) + _needed(gap)
    between = ", ".join(plain(name) for name in (gap.a, gap.b) if name)
    return (
        versus(comparison),
        f"{plain(comparison.grouping)}: {between or 'no pair'}",
        Quantity(gap.size, POINTS),
        *(
            bare(value, POINTS)
            for value in (gap.minimum_detectable, gap.signed.training_sd, gap.signed.records_sd)
        ),
        said if gap.gated else f"{said}; never gated: {plain(gap.reason, 60)}",
    )


def _needed(gap: Gap) -> str:
    wanted = []
    if gap.rows_needed is not None:
        wanted.append(f"{numbered(gap.rows_needed, 'test row')} per group")
    if gap.seeds_needed is not None:
        wanted.append(numbered(gap.seeds_needed, "seed"))
    return f"; a gap of this size needs {' or '.join(wanted)}" if wanted else ""
