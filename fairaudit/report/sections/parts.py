"""Costs and gaps in their parts: step, what else the method does, noise.

Trainings without noise, and with plain steps of the same length (twins), split a cost: the parts
sum to it.
"""

from collections.abc import Iterator

from fairaudit.metrics.registry import NOISE, STEP, beside_constant, spec_of
from fairaudit.report.cost_charts import parts_chart
from fairaudit.report.document import Block, Cell, Quantity, Section, Text, figures, table
from fairaudit.report.measures import detected_gap, main_gap, measure_text, scale_of
from fairaudit.report.model import Report
from fairaudit.report.parts import SplitCost, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import NOTHING, Comparison

_MOST_ROWS = 6
TOLD = (
    "Trained again without noise, and with plain steps of the same length; the parts sum to the "
    "cost. “Clipping” is everything but noise and step length."
)
WHERE_DETECTED = "Only methods of which a cost was detected were split (--twins always: all)."


def section(report: Report) -> Section | None:
    """The section that splits costs into step, clipping and noise; None where no cost was split."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.costs:
        rows += _rows(report, comparison)
    if not rows:
        return None
    intro = TOLD
    if report.config["twins"].value == "auto":
        intro = f"{TOLD} {WHERE_DETECTED}"
    head = ["method", "of", "cost (unit)", "#step", "#clipping", "#noise"]
    chart = figures(parts_chart(report))
    blocks: tuple[Block, ...] = (Text(intro), *chart, table(head, rows, most=_MOST_ROWS))
    return Section("parts", "Where the cost comes from: step, clipping or noise", blocks)


def _measures(report: Report, comparison: Comparison) -> list[str]:
    """The costs whose gap is shown in parts: of every group, then of those with a finding on a gap.

    The first are those of accuracy and loss, the others costs in rates.
    """
    of_all = list(beside_constant())
    named = []
    for finding in report.findings:
        place = finding.arm, finding.reference, finding.grouping
        is_here = place == (comparison.arm, comparison.reference, comparison.grouping)
        if is_here and finding.question == "pays" and finding.groups:
            named.append(finding.measure)
    return [*of_all, *(measure for measure in named if measure not in of_all)]


def _rows(report: Report, comparison: Comparison) -> Iterator[tuple[Cell, ...]]:
    """Parts (step, clipping, noise) of each measure's largest gap, then of every group's costs."""
    arm, grouping = plain(comparison.arm), comparison.grouping
    for measure in _measures(report, comparison):
        gap = detected_gap(comparison, measure) or main_gap(comparison, measure)
        if gap is not None and gap.a and gap.b:
            split = split_gap(comparison, measure, gap)
            if split is not None:
                a, b = (report.name_of(grouping, name) for name in (split.a, split.b))
                yield (arm, f"gap: {a}, {b}", *_cells(report, split))
    for group in (*comparison.by_group, comparison.overall):
        name = report.name_of(grouping, group.group) or "all rows"
        for measure in beside_constant():
            split = split_cost(comparison, group, measure)
            if split is not None:
                yield (arm, name, *_cells(report, split))


def _cells(report: Report, split: SplitCost) -> tuple[Cell, ...]:
    """The cells of one cost or gap: what it is, with its unit; step, clipping and noise.

    Under clipping stands whichever part is neither step nor noise. Where it includes the step, or
    there are no steps, the cell of the step is undefined.
    """
    scale = scale_of(split.metric)
    numbers = {"step": NOTHING}
    for part in split.parts:
        place = part.name if part.name in (STEP, NOISE) else "clipping"
        numbers[place] = part.number
    names = ("step", "clipping", "noise")
    cells = [Quantity(numbers[name], scale) for name in names]
    words = measure_text(split.metric, report.data.label)
    return (f"{plain(words)} ({spec_of(split.metric).counted})", *cells)
