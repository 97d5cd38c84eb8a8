"""Costs and gaps in their parts: step, what else the method does, noise.

Trainings without noise, and with plain steps of the same length (twins), split a cost: the parts
sum to it.
"""

from collections.abc import Iterator

from fairaudit.metrics.registry import NOISE, STEP, costs_of_constant, spec_of
from fairaudit.report.cost_charts import parts_chart
from fairaudit.report.document import Block, Cell, Quantity, Section, Text, figures, table
from fairaudit.report.measures import detected_gap, main_gap, measure_text, scale_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN
from fairaudit.report.parts import PartNames, SplitCost, names_of_parts, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import NOTHING, Comparison

_MOST_ROWS = 6
# The intro of the section, by whether the length of the steps is a part of its own.
SUM = "Trained again without noise; the parts sum to the cost."
SUM_OF_STEPS = (
    "Trained again without noise, and with plain steps of the same length; the parts sum to the "
    "cost. “Clipping” is everything but noise and step length."
)
WHERE_DETECTED = "Only methods of which a cost was detected were split (--twins always: all)."


def section(report: Report) -> Section | None:
    """The section that splits costs into parts, as step, clipping and noise; None without any."""
    names = names_of_parts(report)
    if names is None:
        return None
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.costs:
        rows += _rows(report, comparison, names)
    intro = SUM_OF_STEPS if names.has_step else SUM
    if report.config["twins"].value == "auto":
        intro = f"{intro} {WHERE_DETECTED}"
    head = ["method", "of", "cost (unit)", *(f"#{name}" for name in names.listed)]
    chart = figures(parts_chart(report))
    blocks: tuple[Block, ...] = (Text(intro), *chart, table(head, rows, most=_MOST_ROWS))
    return Section("parts", f"Where the cost comes from: {names.title}", blocks)


def _measures(report: Report, comparison: Comparison) -> list[str]:
    """The costs whose gap is shown in parts: those of accuracy and loss, then some costs in rates.

    The costs in rates are those in which, as a finding of this comparison says, two groups differ.
    """
    always = list(costs_of_constant())
    in_findings = []
    for finding in report.findings:
        place = finding.arm, finding.reference, finding.grouping
        is_here = place == (comparison.arm, comparison.reference, comparison.grouping)
        # A finding without groups is about all rows, and has no gap.
        if is_here and finding.question == "pays" and finding.groups:
            in_findings.append(finding.measure)
    return [*always, *(measure for measure in in_findings if measure not in always)]


def _rows(report: Report, comparison: Comparison, names: PartNames) -> Iterator[tuple[Cell, ...]]:
    """The rows of a comparison: parts of each measure's gap, then of every group's costs.

    The gap is the detected one that sentences explain, else the main gap.
    """
    arm, grouping = plain(comparison.arm), comparison.grouping
    for measure in _measures(report, comparison):
        gap = detected_gap(comparison, measure)
        if gap is None:
            gap = main_gap(comparison, measure)
        # The largest gap of a single group names no groups.
        if gap is not None and gap.a and gap.b:
            split = split_gap(comparison, measure, gap)
            if split is not None:
                a, b = (report.name_of(grouping, name) for name in (split.a, split.b))
                yield (arm, f"gap, {a} less {b}", *_cells(report, split, names))
    for group in (*comparison.by_group, comparison.overall):
        name = report.name_of(grouping, group.group) or "all rows"
        for measure in costs_of_constant():
            split = split_cost(comparison, group, measure)
            if split is not None:
                yield (arm, name, *_cells(report, split, names))


def _cells(report: Report, split: SplitCost, names: PartNames) -> tuple[Cell, ...]:
    """The cells of one cost or gap: what it is, with its unit; then its parts.

    The part that is neither step nor noise, of which a method has at most one, stands in one
    column whatever its name. Where this part includes the step (step and clipping), or the method
    takes no steps, the cell of the step is a dash.
    """
    scale = scale_of(split.metric)
    by_column = dict.fromkeys(names.listed, NOTHING)  # in the order of the columns
    for part in split.parts:
        column = part.name if part.name in (STEP, NOISE) else names.other
        by_column[column] = part.number
    cells = [Quantity(number, scale, UNKNOWN) for number in by_column.values()]
    words = measure_text(split.metric, report.data.label)
    return (f"{plain(words)} ({spec_of(split.metric).counted})", *cells)
