"""What private training costs each group, and the gaps between groups.

What a report is read for.
"""

from fairaudit.report.cost_charts import cost_chart
from fairaudit.report.document import Block, Cell, Quantity, Section, Text, bare, figures, table
from fairaudit.report.main_gap import (
    all_costs,
    cost_title,
    main_gap,
    named_gaps,
    reading,
    scale_of,
    shown_costs,
)
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN, attack_sentence, change_text, versus
from fairaudit.report.phrases import direction
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Gap

_MOST_GAPS = 24


def section(report: Report) -> Section | None:
    """The section on what each group pays; None where no arm has a reference to compare with."""
    if not report.costs:
        return None
    shown = shown_costs(report)
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.costs:
        for group in (*comparison.by_group, comparison.overall):
            costs: list[Cell] = [Quantity(group.estimates.get(m), scale_of(m)) for m in shown]
            if not group.estimates:
                costs[0] = plain(group.reason)
            rows.append(
                (
                    versus(comparison),
                    report.name_of(comparison.grouping, group.group) or "all rows",
                    group.n_test,
                    change_text(group, "accuracy"),
                    *costs,
                    plain(comparison.note_on(group), 60),
                )
            )
    titles = [f"#{cost_title(measure, report.data.label)}" for measure in shown]
    by_group = table(("method", "group", "#test rows", "#accuracy", *titles, "note"), rows)
    brief: list[Block] = [Text(f"Cost by group ({report.test_rows}; 95 % intervals)"), by_group]
    if words := attack_sentence(report.privacy):
        brief.append(Text(plain(words, 1000)))
    blocks: tuple[Block, ...] = (
        *figures(cost_chart(report)),
        Text(f"On {report.test_rows}; 95 % intervals."),
        by_group,
    )
    return Section("costs", "Cost by group", blocks, tuple(brief))


def gaps(report: Report) -> Section | None:
    """The section on gaps between groups: named pairs and the largest gap, measure by measure.

    None where no arm has a reference to compare with.
    """
    if not report.costs:
        return None
    rows = []
    for measure in all_costs(report):
        for comparison in report.costs:
            shown = named_gaps(comparison, measure)
            largest = main_gap(comparison, measure)
            if largest is not None:
                shown.append(largest)
            rows += [_row(report, comparison, gap) for gap in shown]
    head = ("method", "of", "between", "#gap", "#found 4 times in 5 from", "reading")
    return Section("gaps", "Gaps between groups", (table(head, rows, most=_MOST_GAPS),))


def _row(report: Report, comparison: Comparison, gap: Gap) -> tuple[Cell, ...]:
    """A row of the table of gaps: method, measure, groups, size, what is detectable, reading."""
    scale = scale_of(gap.metric)
    verdict = plain(reading(gap, direction(comparison, gap)), 80) or UNKNOWN
    size = Quantity(gap.size, scale)
    if not gap.gated:
        # Without its interval, which would say more than the words "cannot tell" beside it.
        verdict += f"; never gated: {plain(gap.reason, 60)}"
        if gap.size.value is not None:
            size = bare(gap.size.value, scale)
    names = [report.name_of(comparison.grouping, name) for name in (gap.a, gap.b) if name]
    return (
        versus(comparison),
        cost_title(gap.metric, report.data.label),
        ", ".join(names) or f"{plain(comparison.grouping)}: no pair",
        size,
        bare(gap.minimum_detectable, scale),
        verdict,
    )
