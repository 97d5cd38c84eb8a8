"""Costs and gaps in their parts: what is there without noise, and what the noise adds."""

from fairaudit.metrics.registry import METRICS, beside_constant
from fairaudit.report.document import Cell, Quantity, Section, Text, table
from fairaudit.report.main_gap import main_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.parts import Split, split_cost, split_gap
from fairaudit.report.safe_names import plain


def section(report: Report) -> Section | None:
    """None where no comparison is split."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.costs:
        arm, gap = plain(comparison.arm), main_gap(comparison)
        if gap is not None and gap.a and gap.b:
            splits = [split_gap(comparison, metric, gap) for metric in beside_constant()]
            if None not in splits:
                rows.append((arm, f"gap: {plain(gap.a)}, {plain(gap.b)}", *_cells(splits)))
        for group in (*comparison.by_group, comparison.overall):
            splits = [split_cost(comparison, group, metric) for metric in beside_constant()]
            if None not in splits:
                rows.append((arm, plain(group.group) or "all rows", *_cells(splits)))
    if not rows:
        return None
    head = ["method", "of"]
    for cost in beside_constant():
        title, unit = METRICS[cost].title, METRICS[cost].counted
        head += [f"#{title} without noise ({unit})", f"#{title} from noise ({unit})"]
    told = "Repeated without noise; the two parts sum to the cost."
    blocks = Text(told), table(head, rows, most=16)
    return Section("parts", "Clipping or noise", blocks)


def _cells(splits: list[Split | None]) -> list[Quantity]:
    """Two numbers for each cost."""
    cells = []
    for split in splits:
        if split is not None:
            scale = scale_of(split.metric)
            cells += [Quantity(split.still, scale), Quantity(split.noise, scale)]
    return cells
