"""What private training costs each group: the table that a report is read for, and its charts."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.arm_names import before_and_after, listed, versus
from fairaudit.report.attack import attack_sentence
from fairaudit.report.charts_costs import accuracy_chart, cost_chart, risk_chart
from fairaudit.report.document import (
    Block,
    Cell,
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
from fairaudit.report.main_gap import COST, main_gap, named_gaps, reading
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.summary import is_table
from fairaudit.report.written import POINTS, UNKNOWN, written
from fairaudit.results.estimates import Comparison, GroupMeasure

_MOST_GROUPS = 12  # of a grouping in a terminal


def section(report: Report) -> Section | None:
    """Cost by group; None where nothing could be compared."""
    if not report.costs:
        return None
    rows = [
        (
            versus(comparison),
            f"{plain(comparison.grouping)} = {plain(group.group)}" if group.group else "all",
            *_numbers(group, missing=plain(group.reason)),
            Quantity(group.estimates.get("excess_risk")),
            plain(comparison.note_on(group), 60),
        )
        for comparison in report.costs
        for group in comparison.by_group
    ]
    before, after = before_and_after(is_trained=report.training is not None)
    head = ("method", "group", "#test rows", f"#{before} accuracy", f"#{after} accuracy",
            "#cost (points)", "#excess risk (nats)", "note")  # fmt: skip
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
        yield Table(made[0].columns, tuple(row for one in made for row in (_titles(one), *one.rows))[1:])
        yield Text(f"n: {report.test_rows}")
    if words := attack_sentence(report.privacy):
        yield Text(plain(words, 1000))
    for why, arms in report.configurations.items():
        yield Text(f"{plain(listed(arms), 300)}: cost of this configuration: {why}")


def _titles(one: Table) -> tuple[Cell, ...]:
    return tuple(column.title for column in one.columns)


def _by_arm(comparison: Comparison, report: Report) -> Table:
    """One arm's cost by group and its gaps."""
    reference = "non-private" if comparison.reference == REFERENCE else plain(comparison.reference)
    title = "group" if comparison.grouping == report.data.groupings[0].name else plain(comparison.grouping)
    rows: list[tuple[Cell, ...]] = [
        (
            plain(group.group, 24),
            *_numbers(group, missing=UNKNOWN),
            plain(comparison.note_on(group), 60),
        )
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
    found = [group.estimates.get(metric) for metric in ("reference.accuracy", "accuracy")]
    cost = Quantity(group.estimates.get(COST), POINTS) if group.estimates else missing
    return group.n_test, *(bare(None if each is None else each.value) for each in found), cost
