"""The Markdown report's curve over epsilon, as a table."""

from collections.abc import Iterator

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.sweep import Sweep
from fairaudit.report.tables import UNKNOWN, Row, table
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Interval

SWEEP = "Cost over epsilon"
_MOST_ROWS = 16
_MOST_EPSILONS = 6


def sweep_section(report: Report) -> Iterator[str]:
    """Cost by group and gap at each epsilon; nothing where no method ran at two of them."""
    if not report.sweep:
        return
    yield f"## {SWEEP}"
    yield ""
    deltas = (report.privacy[point.arm].delta for sweep in report.sweep for point in sweep.points)
    at = "".join(f", δ = {delta:g}" for delta in dict.fromkeys(deltas) if delta is not None)
    yield f"Points of accuracy lost, with 95 % intervals; a smaller ε means more privacy{at}."
    for targets in dict.fromkeys(_targets(sweep) for sweep in report.sweep):
        alike = [sweep for sweep in report.sweep if _targets(sweep) == targets]
        rows = [row for sweep in alike for row in _rows(sweep)]
        yield ""
        if len(rows) > _MOST_ROWS:
            rows = [row for sweep in alike for row in list(_rows(sweep))[-1:]]
            yield "Gaps alone; the cost of each group is in report.json."
            yield ""
        head = ("method", "group", *(f"#ε ≤ {target:g}" for target in targets[:_MOST_EPSILONS]))
        yield from table(head, rows, most=_MOST_ROWS)


def _targets(sweep: Sweep) -> tuple[float, ...]:
    return tuple(point.target_epsilon for point in sweep.points)


def _rows(sweep: Sweep) -> Iterator[Row]:
    """A row for each group, then the gap's."""
    points = sweep.points[:_MOST_EPSILONS]
    own = "" if sweep.reference == REFERENCE else f" against {markdown(sweep.reference)}"
    method = f"{markdown(sweep.method)}{own}"
    for group in points[0].cost:
        cells = (_cost(point.cost.get(group)) for point in points)
        yield method, f"{markdown(sweep.grouping)} = {markdown(group)}", *cells
    yield (
        method,
        f"gap by {markdown(sweep.grouping)}",
        *(_cost(point.gap) for point in points),
    )


def _cost(value: Interval | None) -> str:
    return written(value, POINTS, unknown=UNKNOWN)
