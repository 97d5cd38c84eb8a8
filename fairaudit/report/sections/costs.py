"""What private training costs each group, and the gaps between groups.

What a report is read for.
"""

from fairaudit.metrics.registry import METRICS, costs
from fairaudit.report.charts_costs import cost_charts, every_group
from fairaudit.report.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Quantity,
    Section,
    Strong,
    Table,
    Text,
    Words,
    bare,
    bullets,
    figures,
    table,
)
from fairaudit.report.main_gap import COST, main_gap, named_gaps, reading, scale_of
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import (
    POINTS,
    UNKNOWN,
    attack_sentence,
    before_and_after,
    listed,
    versus,
    written,
)
from fairaudit.results.estimates import Comparison, Gap

_GAPS_HEAD = (
    "method",
    "between",
    "#gap in cost (points)",
    "#minimum detectable (points)",
    "#SD, seeds (points)",
    "#SD, shared test rows (points)",
    "reading",
)


def section(report: Report) -> Section | None:
    """Cost by group; None where nothing could be compared."""
    if not report.costs:
        return None
    settings: list[Words] = []
    for why, arms in report.configurations.items():
        subject = Strong(f"{plain(listed(arms), 300)}: cost of this configuration")
        settings.append((subject, f": {why}."))
    by_group = _by_group(report)
    blocks: tuple[Block, ...] = (
        Text(f"On {report.test_rows}, with 95 % intervals."),
        *bullets(settings),
        *figures(*cost_charts(report)),
        by_group,
    )
    brief: list[Block] = [Text(f"Cost by group ({report.test_rows}; 95 % intervals)"), by_group]
    for comparison in report.costs:
        for pair in named_gaps(comparison):
            between = f"{versus(comparison)}, {plain(pair.a, 24)} and {plain(pair.b, 24)}"
            size = written(pair.absolute, POINTS)
            brief.append(Text(f"Gap of {between}: {size} points, {_read(pair)}"))
    if words := attack_sentence(report.privacy):
        brief.append(Text(plain(words, 1000)))
    brief += bullets(settings)
    return Section("costs", "Cost by group", blocks, tuple(brief))


def _by_group(report: Report) -> Table:
    beside = [cost for cost in costs() if cost != COST]
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(report.costs):
        paid: Cell = plain(group.reason)
        if group.estimates:
            paid = Quantity(group.estimates.get(COST), POINTS)
        others = [Quantity(group.estimates.get(cost), scale_of(cost)) for cost in beside]
        rows.append(
            (
                versus(comparison),
                report.name_of(comparison.grouping, group.group) or "all",
                group.n_test,
                bare(group.value("reference.accuracy")),
                bare(group.value("accuracy")),
                paid,
                *others,
                plain(comparison.note_on(group), 60),
            )
        )
    before, after = before_and_after(is_trained=report.training is not None)
    head = ("method", "group", "#test rows", f"#{before} accuracy", f"#{after} accuracy")
    titles = [f"#{METRICS[cost].title} ({METRICS[cost].counted})" for cost in (COST, *beside)]
    return table((*head, *titles, "note"), rows)


def gaps(report: Report) -> Section | None:
    """The pairs that were named and the largest gap of every comparison.

    None where there is no cost.
    """
    if not report.costs:
        return None
    rows = []
    other_costs = []  # of the pairs that were asked for, beside what they lose in accuracy
    for comparison in report.costs:
        rows += [_row(comparison, gap) for gap in named_gaps(comparison)]
        largest = main_gap(comparison)
        if largest is not None:
            rows.append(_row(comparison, largest))
        for gap in comparison.gaps:
            if gap.named and gap.metric in costs() and gap.metric != COST:
                size = written(gap.absolute, scale_of(gap.metric))
                other_costs.append(
                    f"{versus(comparison)}, {plain(gap.a)} against {plain(gap.b)}: gap in "
                    f"{METRICS[gap.metric].title} {size} {METRICS[gap.metric].counted}, "
                    f"{_read(gap)}."
                )
    blocks: list[Block] = [
        Text("A gap of the minimum detectable size is found four times out of five."),
        table(_GAPS_HEAD, rows),
    ]
    if other_costs:
        named = "Pairs named before training (", Code("--compare"), "), with their own intervals:"
        blocks += [Text(named), Bullets(tuple(other_costs))]
    return Section("gaps", "Gaps between groups", tuple(blocks))


def _row(comparison: Comparison, gap: Gap) -> tuple[Cell, ...]:
    said = plain(reading(gap), 80) or UNKNOWN
    if not gap.gated:
        said += f"; never gated: {plain(gap.reason, 60)}"
    between = ", ".join(plain(name) for name in (gap.a, gap.b) if name)
    return (
        versus(comparison),
        f"{plain(comparison.grouping)}: {between or 'no pair'}",
        Quantity(gap.size, POINTS),
        bare(gap.minimum_detectable, POINTS),
        bare(gap.signed.training_sd, POINTS),
        bare(gap.signed.records_sd, POINTS),
        said,
    )


def _read(gap: Gap) -> str:
    return plain(reading(gap), 80) or "undefined"
