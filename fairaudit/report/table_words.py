"""How the table by group is said: titles of its rows, and the words beside its numbers."""

from fairaudit.report.document import Cell, Column, Inline, Strong, Table
from fairaudit.report.group_table import GroupTable, MeasureColumn, TableCell, TableRow
from fairaudit.report.measures import scale_of
from fairaudit.report.numbers import UNKNOWN, interval_alone, number, value_alone
from fairaudit.report.safe_names import group_text, plain

_OUTCOMES = {"pass": "PASS", "fail": "FAIL", "inconclusive": "undecided"}


def row_title(row: TableRow) -> str:
    """The name of a group, ``gap, F less M``, ``largest gap`` or ``all rows``."""
    # Without the grouping, even of a group ``0``: the head of the table's first column names it.
    names = [group_text("", group) for group in row.groups]
    match row.kind:
        case "gap" if names:
            return f"gap, {names[0]} less {names[1]}"
        case "gap":
            return "largest gap"
        case "all":
            return "all rows"
    return names[0]


def table_title(table: GroupTable) -> str:
    """The method and the grouping, as the caption that a screen reader reads."""
    return f"{plain(table.arm)} by {plain(table.grouping)}"


def column_title(column: MeasureColumn) -> str:
    """The head of a column in one line, with its unit: ``privacy cost (points of ..)``."""
    return f"{plain(column.title)} ({plain(column.counted, 80)})"


def cell_value(column: MeasureColumn, cell: TableCell) -> str:
    """The number; a dash where it is undefined, never 0."""
    return value_alone(cell.number, scale_of(column.metric))


def cell_interval(column: MeasureColumn, cell: TableCell) -> str:
    """The number's interval as ``[low, high]``; "" where there is none."""
    if cell.number.ends is None:
        return ""
    return interval_alone(cell.number, scale_of(column.metric))


def cell_number(column: MeasureColumn, cell: TableCell) -> str:
    """The number with its interval."""
    return f"{cell_value(column, cell)} {cell_interval(column, cell)}".strip()


def limit_text(column: MeasureColumn, cell: TableCell) -> str:
    """What a rule says of the number, ``limit 2: FAIL``; "" where no rule limits it."""
    if cell.bound is None:
        return ""
    scale = scale_of(column.metric)
    limit = number(scale.factor * cell.bound.limit, decimals=3)
    short_limit = limit.rstrip("0").rstrip(".")  # 2.000 as 2
    return f"limit {short_limit}: {_OUTCOMES[cell.bound.outcome]}"


def between_words(cell: TableCell) -> list[str]:
    """The groups of a largest gap, as ``["A", "less B"]``; [] of any other number."""
    names = [group_text("", group) for group in cell.between]
    return [*names[:1], *(f"less {name}" for name in names[1:])]


def row_words(row: TableRow) -> tuple[str, ...]:
    """What stands below a row's title: its test rows, and the share that is predicted rightly.

    The share is that without privacy, then that with it; of a model by itself there is one.
    """
    words = []
    if row.n_test is not None:
        words.append(f"{row.n_test:,} test rows")
    before, after = row.accuracy
    if before is not None and after is not None:
        words.append(f"{percent(before)} → {percent(after)} % right")
    elif after is not None:
        words.append(f"{percent(after)} % right")
    return tuple(words)


def percent(share: float | None) -> str:
    """A share in per cent, without the sign; a dash where it is not known."""
    return UNKNOWN if share is None else number(100 * share, decimals=1)


def as_table(table: GroupTable) -> Table:
    """The table for a text that draws no marks: each cell is its number with the words about it.

    Columns are the group, its test rows, the share that is right, every measure, and a note where
    any row has one.
    """
    rows: list[tuple[Cell, ...]] = []
    for row in table.rows:
        before, after = row.accuracy
        right = ""
        if after is not None:
            right = percent(after) if before is None else f"{percent(before)} → {percent(after)}"
        count = "" if row.kind == "gap" else row.n_test
        cells = [
            cell_runs(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)
        ]
        rows.append((row_title(row), count, right, *cells, plain(row.note, 200)))
    columns = [Column(plain(table.grouping)), Column("test rows", True), Column("right (%)", True)]
    columns += [Column(column_title(column), True) for column in table.columns]
    if any(row.note for row in table.rows):
        return Table((*columns, Column("note")), tuple(rows))
    return Table(tuple(columns), tuple(row[:-1] for row in rows))  # without the empty notes


def cell_runs(column: MeasureColumn, cell: TableCell) -> tuple[Inline, ...]:
    """A number with its interval, then the words about it, strong where it is detected."""
    remark = cell_remark(column, cell)
    if not remark:
        return (cell_number(column, cell),)
    words: Inline = Strong(remark) if cell.reading == "detected" else remark
    return (cell_number(column, cell), " ", words)


def cell_words(column: MeasureColumn, cell: TableCell) -> list[str]:
    """What is said of a number: whether it is detected, and what a rule says."""
    return [word for word in (cell.reading, limit_text(column, cell)) if word]


def cell_remark(column: MeasureColumn, cell: TableCell) -> str:
    """The words about a number in one line: of a largest gap its groups, then what is said.

    As ``A less B, detected, limit 2: FAIL``; "" where there are none.
    """
    parts = (" ".join(between_words(cell)), *cell_words(column, cell))
    return ", ".join(part for part in parts if part)


def reasons(table: GroupTable) -> list[str]:
    """Lines on why numbers of the table are not known: each reason once, behind its cells.

    As ``F: privacy cost; M: privacy cost: fewer than 5 seeds``. The reason of a whole row is its
    note, which the table shows itself.
    """
    cells_of: dict[str, list[str]] = {}  # reason -> the cells, each by row and column
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell.reason and cell.reason != row.note:
                name = f"{row_title(row)}: {plain(column.title)}"
                cells_of.setdefault(cell.reason, []).append(name)
    return [f"{'; '.join(names)}: {plain(reason, 200)}" for reason, names in cells_of.items()]
