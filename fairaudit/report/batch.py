"""Several reports in one table: a row for every group, gap and method of every file."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from fairaudit.privacy.events import shown_up
from fairaudit.report.document import Badge, Cell, Column, Table
from fairaudit.report.group_rows import group_tables
from fairaudit.report.group_table import GroupTable, MeasureColumn, TableRow
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.table_words import cell_runs, column_title, row_title
from fairaudit.report.types.verdicts import verdicts


def batch_table(reports: Mapping[str, Report]) -> Table:
    """The numbers of the tables by group of several reports.

    Args:
        reports: What a file is called -> its report, in the order in which they are shown.

    Returns:
        Columns: report, method, epsilon, verdict, group, test rows, then each measure that any of
        the reports has; a measure that a report lacks is a dash there.
    """
    columns: dict[str, MeasureColumn] = {}
    for report in reports.values():
        for table in group_tables(report):
            for column in table.columns:
                columns.setdefault(column.metric, column)  # under the title of the first report
    heads = [Column("report"), Column("method"), Column("ε", True), Column("verdict")]
    heads += [Column("group"), Column("test rows", True)]
    heads += [Column(column_title(column), True) for column in columns.values()]
    rows: list[tuple[Cell, ...]] = []
    for name, report in reports.items():
        outcomes = verdicts(report.gates)
        for table in group_tables(report):
            outcome = outcomes.get(table.arm)
            verdict: Cell = UNKNOWN if outcome is None else (Badge(outcome, outcome.upper()),)
            for row in table.rows:
                count = UNKNOWN if row.n_test is None else f"{row.n_test:,}"
                place: list[Cell] = [plain(name, 80), plain(table.arm), _epsilon(report, table.arm)]
                place += [verdict, _group(table, row), count]
                rows.append((*place, *_cells(table, row, columns)))
    return Table(tuple(heads), tuple(rows))


def batch_rows(reports: Mapping[str, Report]) -> Iterator[dict[str, JsonValue]]:
    """The numbers of :func:`batch_table` as JSON-ready rows: a row for each number.

    A row has the number's interval and reading, too, and why it is not known or cannot be judged.

    Args:
        reports: As of :func:`batch_table`.
    """
    for name, report in reports.items():
        outcomes = verdicts(report.gates)
        for table in group_tables(report):
            for row in table.rows:
                for column, cell in zip(table.columns, row.cells, strict=True):
                    yield {
                        "report": name,
                        "data": report.data.name,
                        "data_sha256": report.data.sha256,
                        "arm": table.arm,
                        "reference": table.reference,
                        "epsilon": _headline(report, table.arm),
                        "verdict": outcomes.get(table.arm),
                        "grouping": table.grouping,
                        "kind": row.kind,
                        "groups": list(row.groups or cell.between),
                        "n_test": row.n_test,
                        "metric": column.metric,
                        "value": cell.number.value,
                        "low": cell.number.low,
                        "high": cell.number.high,
                        "reading": cell.reading,
                        "reason": cell.reason or row.note,
                    }


def _cells(
    table: GroupTable, row: TableRow, columns: Mapping[str, MeasureColumn]
) -> Iterator[Cell]:
    """A row's numbers under the columns of all reports; a dash where the table has no such column.

    ``columns``: Metric -> its column, of all reports together.
    """
    for metric, column in columns.items():
        cell = table.cell(row, metric)
        yield UNKNOWN if cell is None else cell_runs(column, cell)


def _group(table: GroupTable, row: TableRow) -> str:
    """The grouping with the group, ``sex = F``; of a gap or of all rows ``sex: all rows``."""
    if row.kind == "group":
        # ``group_text`` is given no grouping, so it adds none: every group has its grouping here.
        return f"{plain(table.grouping)} = {group_text('', row.groups[0])}"
    return f"{plain(table.grouping)}: {row_title(row)}"


def _headline(report: Report, arm: str) -> float | None:
    """The epsilon of an arm's guarantee, of one training; None where none is proved."""
    facts = report.privacy[arm].epsilon
    return None if facts is None else facts.headline


def _epsilon(report: Report, arm: str) -> str:
    """An arm's epsilon as text, rounded up; a dash where none is proved."""
    epsilon = _headline(report, arm)
    return UNKNOWN if epsilon is None else shown_up(epsilon)
