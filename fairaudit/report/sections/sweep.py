"""The curve over epsilon, as a chart and a table."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.charts_costs import sweep_chart
from fairaudit.report.document import Block, Quantity, Rank, Section, Text, figures, table
from fairaudit.report.measured import Sweep
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, UNKNOWN

_MOST_ROWS = 16
_MOST_EPSILONS = 6


def section(report: Report) -> Section | None:
    """Cost by group and gap at each epsilon; None where no method ran at two of them."""
    if not report.sweep:
        return None
    deltas = (report.privacy[point.arm].delta for sweep in report.sweep for point in sweep.points)
    at = "".join(f", δ = {delta:g}" for delta in dict.fromkeys(deltas) if delta is not None)
    told = f"Points of accuracy lost, with 95 % intervals; a smaller ε means more privacy{at}."
    blocks: list[Block] = [Text(told), *figures(sweep_chart(report))]
    together: dict[tuple[float, ...], list[Sweep]] = {}
    for sweep in report.sweep:
        together.setdefault(tuple(point.target_epsilon for point in sweep.points), []).append(sweep)
    for targets, alike in together.items():
        rows = [row for sweep in alike for row in _rows(sweep)]
        if len(rows) > _MOST_ROWS:
            rows = [row for sweep in alike for row in list(_rows(sweep))[-1:]]
            blocks.append(Text("Gaps alone; the cost of each group is in report.json."))
        head = ("method", "group", *(f"#ε ≤ {target:g}" for target in targets[:_MOST_EPSILONS]))
        blocks.append(table(head, rows, most=_MOST_ROWS))
    return Section("sweep", "Cost over epsilon", Rank.MAIN, tuple(blocks), brief=())


def _rows(sweep: Sweep) -> Iterator[tuple[str | Quantity, ...]]:
    """A row for each group, then the gap's."""
    points = sweep.points[:_MOST_EPSILONS]
    own = "" if sweep.reference == REFERENCE else f" against {plain(sweep.reference)}"
    method = f"{plain(sweep.method)}{own}"
    for group in points[0].cost:
        costs = (Quantity(point.cost.get(group), POINTS, UNKNOWN) for point in points)
        yield method, f"{plain(sweep.grouping)} = {plain(group)}", *costs
    gaps = (Quantity(point.gap, POINTS, UNKNOWN) for point in points)
    yield method, f"gap by {plain(sweep.grouping)}", *gaps
