"""The gaps between groups in every cost, and the smallest that this audit would detect."""

from collections.abc import Iterable

from fairaudit.report.document import Cell, Quantity, Section, Table, bare, table
from fairaudit.report.measures import all_costs, cost_title, main_gap, named_gaps, scale_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN, versus
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Gap

_MOST_GAPS = 24
_HEAD = (
    "method",
    "of",
    "between",
    "#gap",
    "#smallest gap this audit would detect (80 % power)",
    "reading",
)


def section(report: Report) -> Section | None:
    """The section on gaps between groups: named pairs and the largest gap, measure by measure.

    None where no arm has a reference to compare with.
    """
    if not report.costs:
        return None
    shown: list[tuple[Comparison, Gap, str]] = []
    for measure in all_costs(report):
        title = cost_title(measure, report.data.label)
        for comparison in report.costs:
            gaps = named_gaps(comparison, measure)
            largest = main_gap(comparison, measure)
            if largest is not None:
                gaps.append(largest)
            shown += [(comparison, gap, title) for gap in gaps]
    return Section("gaps", "Gaps between groups", (gap_table(report, shown),))


def gap_table(report: Report, gaps: Iterable[tuple[Comparison, Gap, str]]) -> Table:
    """A table of gaps: method, measure, groups, signed gap, smallest detectable gap, reading.

    Args:
        report: Holds the names of groups.
        gaps: Each with the comparison that it is of, and the title of its measure with its unit.
    """
    rows = [_row(report, comparison, gap, title) for comparison, gap, title in gaps]
    return table(_HEAD, rows, most=_MOST_GAPS)


def _row(report: Report, comparison: Comparison, gap: Gap, title: str) -> tuple[Cell, ...]:
    """The cells of one gap, in the order of ``_HEAD``."""
    scale = scale_of(gap.metric)
    reading: str = gap.reading or UNKNOWN
    if not gap.named:  # a pair that was named is in the order in which it was named
        gap = gap.larger_first
    size = Quantity(gap.signed, scale)
    if reading == "cannot tell":
        reading = f"{reading}: {plain(gap.signed.reason or gap.reason, 200)}"
        # Without its interval, which would say more than the words beside it.
        size = bare(gap.signed.value, scale)
    names = [report.name_of(comparison.grouping, name) for name in (gap.a, gap.b) if name]
    return (
        versus(comparison),
        title,
        " less ".join(names) or f"{plain(comparison.grouping)}: no pair",
        size,
        bare(gap.minimum_detectable, scale),
        reading,
    )
