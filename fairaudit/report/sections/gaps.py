"""The gaps between groups in every cost, and the smallest that this audit would detect."""

from fairaudit.report.document import Cell, Quantity, Section, bare, table
from fairaudit.report.measures import all_costs, cost_title, main_gap, named_gaps, scale_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import versus
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Gap

_MOST_GAPS = 24


def section(report: Report) -> Section | None:
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
    head = (
        "method",
        "of",
        "between",
        "#gap",
        "#smallest gap this audit would detect (80 % power)",
        "reading",
    )
    return Section("gaps", "Gaps between groups", (table(head, rows, most=_MOST_GAPS),))


def _row(report: Report, comparison: Comparison, gap: Gap) -> tuple[Cell, ...]:
    """A row of the table of gaps: method, measure, groups, gap, what is detectable, reading."""
    scale = scale_of(gap.metric)
    reading: str = gap.reading
    if not gap.named:
        gap = gap.larger_first
    size = Quantity(gap.signed, scale)
    if reading == "cannot tell":
        reading = f"{reading}: {plain(gap.signed.reason or gap.reason, 200)}"
        # Without its interval, which would say more than the words beside it.
        size = bare(gap.signed.value, scale)
    names = [report.name_of(comparison.grouping, name) for name in (gap.a, gap.b) if name]
    return (
        versus(comparison),
        cost_title(gap.metric, report.data.label),
        " less ".join(names) or f"{plain(comparison.grouping)}: no pair",
        size,
        bare(gap.minimum_detectable, scale),
        reading,
    )
