"""The curve over epsilon, as a chart and a table."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.charts_costs import sweep_chart
from fairaudit.report.document import Block, Quantity, Rank, Section, Text, figures, table
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.sweep import Sweep
from fairaudit.report.written import POINTS, UNKNOWN
from fairaudit.results.estimates import Interval

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
    for targets in dict.fromkeys(_targets(sweep) for sweep in report.sweep):
        alike = [sweep for sweep in report.sweep if _targets(sweep) == targets]
        rows = [row for sweep in alike for row in _rows(sweep)]
        if len(rows) > _MOST_ROWS:
            rows = [row for sweep in alike for row in list(_rows(sweep))[-1:]]
            blocks.append(Text("Gaps alone; the cost of each group is in report.json."))
        head = ("method", "group", *(f"#ε ≤ {target:g}" for target in targets[:_MOST_EPSILONS]))
        blocks.append(table(head, rows, most=_MOST_ROWS))
    return Section("sweep", "Cost over epsilon", Rank.MAIN, tuple(blocks), brief=())


def _targets(sweep: Sweep) -> tuple[float, ...]:
    return tuple(point.target_epsilon for point in sweep.points)


def _rows(sweep: Sweep) -> Iterator[tuple[str | Quantity, ...]]:
    """A row for each group, then the gap's."""
    points = sweep.points[:_MOST_EPSILONS]
    own = "" if sweep.reference == REFERENCE else f" against {plain(sweep.reference)}"
    method = f"{plain(sweep.method)}{own}"
    for group in points[0].cost:
        cells = (_cost(point.cost.get(group)) for point in points)
        yield method, f"{plain(sweep.grouping)} = {plain(group)}", *cells
    yield method, f"gap by {plain(sweep.grouping)}", *(_cost(point.gap) for point in points)


def _cost(value: Interval | None) -> Quantity:
    return Quantity(value, POINTS, UNKNOWN)
