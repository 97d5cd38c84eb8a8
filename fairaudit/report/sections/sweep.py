"""The curve over epsilon, as a chart and a table."""

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.cost_charts import sweep_chart
from fairaudit.report.document import Block, Cell, Quantity, Section, Text, figures, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import POINTS, UNKNOWN
from fairaudit.report.safe_names import plain

_MOST_ROWS = 16
_MOST_EPSILONS = 6


def section(report: Report) -> Section | None:
    """Cost by group and gap at each epsilon; None where no method ran at two of them."""
    if not report.sweep:
        return None
    # One table for all sweeps over the same epsilons, which are its columns: gaps, then costs.
    deltas: dict[float, None] = {}
    gaps: dict[tuple[float, ...], list[tuple[Cell, ...]]] = {}
    costs: dict[tuple[float, ...], list[tuple[Cell, ...]]] = {}
    for sweep in report.sweep:
        targets = tuple(point.target_epsilon for point in sweep.points)
        points = sweep.points[:_MOST_EPSILONS]
        method, grouping = plain(sweep.method), plain(sweep.grouping)
        if sweep.reference != REFERENCE:
            method += f" against {plain(sweep.reference)}"
        sizes = [Quantity(point.gap, POINTS, UNKNOWN) for point in points]
        gaps.setdefault(targets, []).append((method, f"gap by {grouping}", *sizes))
        for group in points[0].cost:
            paid = [Quantity(point.cost.get(group), POINTS, UNKNOWN) for point in points]
            name = f"{grouping} = {plain(group)}"
            costs.setdefault(targets, []).append((method, name, *paid))
        for point in sweep.points:
            delta = report.privacy[point.arm].delta
            if delta is not None:
                deltas[delta] = None
    at = "".join(f", δ = {delta:g}" for delta in deltas)
    intro = (
        f"Privacy cost in points of accuracy, with 95 % intervals; a smaller ε means more "
        f"privacy{at}."
    )
    blocks: list[Block] = [Text(intro), *figures(sweep_chart(report))]
    for targets, of_gaps in gaps.items():
        titles = [f"#ε ≤ {target:g}" for target in targets[:_MOST_EPSILONS]]
        blocks.append(
            table(("method", "group", *titles), of_gaps + costs[targets], most=_MOST_ROWS)
        )
    return Section("sweep", "Privacy cost over epsilon", tuple(blocks))
