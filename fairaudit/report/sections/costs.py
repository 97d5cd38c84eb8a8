"""What private training costs each group, and the gaps between groups: what a report is read for."""

from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.methods.catalog import REFERENCE
from fairaudit.metrics.registry import METRICS, costs
from fairaudit.report.charts_costs import accuracy_chart, cost_chart, risk_chart
from fairaudit.report.document import (
    Block,
    Cell,
    Code,
    Quantity,
    Rank,
    Section,
    Strong,
    Table,
    Text,
    bare,
    bullets,
    figures,
    table,
)
from fairaudit.report.main_gap import COST, main_gap, named_gaps, reading, scale_of
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.summary import is_table
from fairaudit.report.written import (
    POINTS,
    UNKNOWN,
    attack_sentence,
    before_and_after,
    listed,
    versus,
    written,
)
from fairaudit.results.estimates import Comparison, Gap, GroupMeasure

_MOST_GROUPS = 12  # of a grouping in a terminal
_HEAD = (
    *("method", "between", "#gap in cost (points)", "#minimum detectable (points)"),
    *("#SD, seeds (points)", "#SD, shared test rows (points)"),
    "reading",
)


def section(report: Report) -> Section | None:
    """Cost by group; None where nothing could be compared."""
    if not report.costs:
        return None
    beside = [cost for cost in costs() if cost != COST]
    rows = [
        (
            versus(comparison),
            f"{plain(comparison.grouping)} = {plain(group.group)}" if group.group else "all",
            *_numbers(group, missing=plain(group.reason)),
            *(Quantity(group.estimates.get(cost), scale_of(cost)) for cost in beside),
            plain(comparison.note_on(group), 60),
        )
        for comparison in report.costs
        for group in comparison.by_group
    ]
    before, after = before_and_after(is_trained=report.training is not None)
    paid = (f"#{METRICS[cost].title} ({METRICS[cost].counted})" for cost in (COST, *beside))
    head = ("method", "group", "#test rows", f"#{before} accuracy", f"#{after} accuracy", *paid, "note")
    blocks: tuple[Block, ...] = (
        Text(
            f"Accuracy on {report.test_rows}; the cost is accuracy lost, the excess risk is loss gained. "
            "Intervals are 95 %, over seeds and test rows."
        ),
        *bullets(
            [
                (Strong(f"{plain(listed(arms), 300)}: cost of this configuration"), f": {why}.")
                for why, arms in report.configurations.items()
            ]
        ),
        *figures(cost_chart(report), accuracy_chart(report), risk_chart(report)),
        table(head, rows),
    )
    return Section("costs", "Cost by group", Rank.MAIN, blocks, brief=tuple(_brief(report)))


def _brief(report: Report) -> Iterator[Block]:
    """What a terminal shows: a table for each method, or only what the summary's table of many lacks."""
    if is_table(report):
        for comparison in report.costs:
            for pair in named_gaps(comparison):
                between = f"{versus(comparison)}, {plain(pair.a, 24)} and {plain(pair.b, 24)}"
                size = written(pair.absolute, POINTS)
                yield Text(f"Gap of {between}: {size} points, {plain(reading(pair), 80) or 'undefined'}")
    else:
        yield Text("Cost by group (accuracy; 95 % interval over seeds and test rows)")
        made = [_by_arm(comparison, report) for comparison in report.costs]
        rows = [row for one in made for row in (tuple(column.title for column in one.columns), *one.rows)]
        yield Table(made[0].columns, tuple(rows[1:]))
        yield Text(f"n: {report.test_rows}")
    if words := attack_sentence(report.privacy):
        yield Text(plain(words, 1000))
    for why, arms in report.configurations.items():
        yield Text(f"{plain(listed(arms), 300)}: cost of this configuration: {why}")


def _by_arm(comparison: Comparison, report: Report) -> Table:
    """One arm's cost by group and its gaps."""
    reference = "non-private" if comparison.reference == REFERENCE else plain(comparison.reference)
    title = "group" if comparison.grouping == report.data.groupings[0].name else plain(comparison.grouping)
    rows: list[tuple[Cell, ...]] = [
        (plain(group.group, 24), *_numbers(group, missing=UNKNOWN), plain(comparison.note_on(group), 60))
        for group in comparison.by_group[:_MOST_GROUPS]
    ]
    gap, named = main_gap(comparison), named_gaps(comparison)
    for pair in named:
        told = f"gap {plain(pair.a, 12)}, {plain(pair.b, 12)}"
        rows.append((told, "", "", "", Quantity(pair.absolute, POINTS), plain(reading(pair), 60)))
    if gap is not None:
        told = "largest gap" if named else "gap"
        rows.append((told, "", "", "", Quantity(gap.size, POINTS), plain(reading(gap), 60)))
    return table((title, "#n", f"#{reference}", f"#{plain(comparison.arm)}", "#cost (points)", ""), rows)


def _numbers(group: GroupMeasure, *, missing: str) -> tuple[Cell, ...]:
    """Test rows, accuracy before and after, and the cost, or what stands for one that was not measured."""
    found = [group.value(metric) for metric in ("reference.accuracy", "accuracy")]
    cost = Quantity(group.estimates.get(COST), POINTS) if group.estimates else missing
    return group.n_test, *map(bare, found), cost


def gaps(report: Report) -> Section | None:
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
    told = [  # what the pairs that were asked for pay in other costs, beside what they lose in accuracy
        f"{versus(comparison)}, {plain(gap.a)} against {plain(gap.b)}: gap in {METRICS[gap.metric].title} "
        f"{written(gap.absolute, scale_of(gap.metric))} {METRICS[gap.metric].counted}, "
        f"{plain(reading(gap), 80) or 'undefined'}."
        for comparison in report.costs
        for gap in comparison.gaps
        if gap.named and gap.metric in costs() and gap.metric != COST
    ]
    if told:
        named = ("Pairs named before training (", Code("--compare"), "), each with its own 95 % interval:")
        blocks += [Text(named), *bullets(told)]
    return Section("gaps", "Gaps between groups", Rank.MAIN, tuple(blocks), brief=())


def _row(comparison: Comparison, gap: Gap) -> tuple[Cell, ...]:
    said, wanted = plain(reading(gap), 80) or UNKNOWN, []
    if gap.rows_needed is not None:
        wanted.append(f"{numbered(gap.rows_needed, 'test row')} per group")
    if gap.seeds_needed is not None:
        wanted.append(numbered(gap.seeds_needed, "seed"))
    said += f"; a gap of this size needs {' or '.join(wanted)}" if wanted else ""
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
