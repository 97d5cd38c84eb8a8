"""The curve over epsilon, as a chart and a table."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.cost_charts import sweep_chart
from fairaudit.report.document import Block, Cell, Quantity, Section, Table, Text, figures, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import POINTS, UNKNOWN
from fairaudit.report.safe_names import plain
from fairaudit.report.types.measured import Sweep

_MOST_ROWS = 16
_MOST_EPSILONS = 6


def section(report: Report) -> Section | None:
    """Cost by group and gap at each epsilon; None where no method ran at two of them."""
    if not report.sweep:
        return None
    deltas: dict[float, None] = {}  # in the order in which they are met
    for sweep in report.sweep:
        for point in sweep.points:
            delta = report.privacy[point.arm].delta
            if delta is not None:
                deltas[delta] = None
    at = "".join(f", δ = {delta:g}" for delta in deltas)
    intro = (
        f"Privacy cost in points of accuracy, with 95 % intervals; a smaller ε means more "
        f"privacy{at}."
    )
    blocks: tuple[Block, ...] = (Text(intro), *figures(sweep_chart(report)), *_tables(report))
    return Section("sweep", "Privacy cost over epsilon", blocks)


def _tables(report: Report) -> Iterator[Table]:
    """The tables: one for all sweeps over the same epsilons, which are its columns.

    Its rows are the gaps of all of these sweeps, then the costs of their groups. Of many epsilons
    the first six, which are the smallest, are shown.
    """
    sweeps_of: dict[tuple[float, ...], list[Sweep]] = {}  # by their target epsilons
    for sweep in report.sweep:
        targets = tuple(point.target_epsilon for point in sweep.points)
        sweeps_of.setdefault(targets, []).append(sweep)
    for targets, sweeps in sweeps_of.items():
        rows = [_gap_row(sweep) for sweep in sweeps]
        for sweep in sweeps:
            rows += _cost_rows(sweep)
        titles = [f"#ε ≤ {target:g}" for target in targets[:_MOST_EPSILONS]]
        yield table(("method", "group", *titles), rows, most=_MOST_ROWS)


def _gap_row(sweep: Sweep) -> tuple[Cell, ...]:
    """The cells of a sweep's gaps: method, ``gap by`` the grouping, the gap at each epsilon."""
    gaps = [Quantity(point.gap, POINTS, UNKNOWN) for point in sweep.points[:_MOST_EPSILONS]]
    return (_method(sweep), f"gap by {plain(sweep.grouping)}", *gaps)


def _cost_rows(sweep: Sweep) -> Iterator[tuple[Cell, ...]]:
    """The cells of each group of a sweep: method, group, the group's cost at each epsilon.

    All points of a sweep have the same groups.
    """
    points = sweep.points[:_MOST_EPSILONS]
    for group in points[0].cost:
        costs = [Quantity(point.cost.get(group), POINTS, UNKNOWN) for point in points]
        yield (_method(sweep), f"{plain(sweep.grouping)} = {plain(group)}", *costs)


def _method(sweep: Sweep) -> str:
    """The method of a sweep, with its reference where that is not ``sgd``."""
    method = plain(sweep.method)
    if sweep.reference != REFERENCE:
        method += f" against {plain(sweep.reference)}"
    return method
