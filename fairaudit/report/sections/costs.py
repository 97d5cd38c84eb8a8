"""What private training costs each group, and the gaps between groups.

What a report is read for.
"""

from fairaudit.metrics.registry import METRICS, costs
from fairaudit.report.cost_charts import cost_chart, every_group
from fairaudit.report.document import (
    Block,
    Cell,
    Quantity,
    Section,
    Table,
    Text,
    bare,
    figures,
    table,
)
from fairaudit.report.main_gap import COST, main_gap, named_gaps, reading, scale_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import (
    POINTS,
    UNKNOWN,
    attack_sentence,
    before_and_after,
    versus,
)
from fairaudit.report.safe_names import plain
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
    told = f"Cost by group ({report.test_rows}; 95 % intervals)"
    by_group = _by_group(report)
    brief: list[Block] = [Text(told), by_group]
    if words := attack_sentence(report.privacy):
        brief.append(Text(plain(words, 1000)))
    blocks: tuple[Block, ...] = (
        Text(f"On {report.test_rows}, with 95 % intervals."),
        *figures(cost_chart(report)),
        by_group,
    )
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
    for comparison in report.costs:
        rows += [_row(comparison, gap) for gap in named_gaps(comparison)]
        largest = main_gap(comparison)
        if largest is not None:
            rows.append(_row(comparison, largest))
    told = Text("A gap of the minimum detectable size is found four times out of five.")
    return Section("gaps", "Gaps between groups", (told, table(_GAPS_HEAD, rows)))


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
