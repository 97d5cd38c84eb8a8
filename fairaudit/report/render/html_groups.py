"""The table by group as HTML that is its own chart: each number as a mark on its column's axis.

A page and a notebook show the same. Marks are small drawings beside numbers that say the same, so
they are hidden from who listens.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import TypeAlias

from markupsafe import Markup, escape

from fairaudit.report.document import ByGroup
from fairaudit.report.group_table import GroupTable, MeasureColumn, TableCell, TableRow
from fairaudit.report.safe_names import plain, visible
from fairaudit.report.table_words import (
    cell_interval,
    cell_remark,
    cell_value,
    column_title,
    row_title,
    row_words,
    table_title,
)
from fairaudit.results.estimates import Interval

_WIDTH, _HEIGHT, _EDGE = 104, 14, 6  # pixels of a mark's drawing, and its margin at both ends
_REASON = 120  # letters of why a number is not known, in a cell


Text: TypeAlias = Callable[[str], Markup]


def plain_text(words: str) -> Markup:
    """One line of text as HTML."""
    return escape(visible(words))


def style() -> str:
    """The style sheet of these tables, for a page and for a notebook."""
    return (files("fairaudit.report.render") / "templates" / "groups.css").read_text("utf-8")


def group_table(block: ByGroup, text: Text = plain_text) -> Markup:
    """The table as HTML; of many groups the worst and the best, and all of them to be unfolded.

    Args:
        block: The table.
        text: Writes one line of text as HTML, as one that explains terms does.
    """
    if not block.table.is_long:
        return _table(block, block.table, text)
    return Markup("{}\n<details>\n<summary>All {} groups of {}</summary>\n{}\n</details>").format(
        _table(block, block.table.brief, text),
        len(block.table.groups),
        plain(block.table.grouping),
        _table(block, block.table, text),
    )


def _table(block: ByGroup, table: GroupTable, text: Text) -> Markup:
    """One table as HTML: head, groups, gaps and all rows.

    Args:
        block: Has the axes of the columns, and the whole table.
        table: The whole table, or its brief form.
        text: As of :func:`group_table`.
    """
    head = Markup('<th scope="col">{}</th>').format(plain(table.grouping))
    for column in table.columns:
        head += Markup('<th scope="col">{}<span class="unit">{}</span></th>').format(
            text(column.title), text(column.counted)
        )
    title = table_title(table)
    if block.table is not table:
        title += ", the worst groups and the best"
    lines = [
        Markup('<table class="groups">\n<caption class="unseen">{}</caption>').format(title),
        Markup("<thead><tr>{}</tr></thead>\n<tbody>").format(head),
    ]
    lines += [_row(block, row, text) for row in table.groups]
    if table.others:
        others = Markup('<tr class="others"><th scope="row" colspan="{}">{} other groups</th></tr>')
        lines.append(others.format(len(table.columns) + 1, table.others))
    lines += [_row(block, row, text) for row in table.rows if row.kind != "group"]
    lines.append(Markup("</tbody>\n</table>"))
    return Markup("\n").join(lines)


def _row(block: ByGroup, row: TableRow, text: Text) -> Markup:
    """A row: its title with test rows, accuracies and note, then its cells."""
    title = escape(row_title(row))
    notes = [row.note] if row.note else []
    for words in (*row_words(row), *notes):
        title += Markup(' <span class="beside">{}</span>').format(text(words))
    cells = Markup('<th scope="row">{}</th>').format(title)
    for place, (column, cell) in enumerate(zip(block.table.columns, row.cells, strict=True)):
        cells += _cell(row, column, cell, block.axes[place], text)
    kind = "thin" if row.is_thin else row.kind
    return Markup('<tr class="{}">{}</tr>').format(kind, cells)


def _cell(
    row: TableRow, column: MeasureColumn, cell: TableCell, axis: tuple[float, float], text: Text
) -> Markup:
    """A number with its interval, its mark, and the words that are said of it.

    ``axis``: The ends of the column's axis.
    """
    content = Markup('<span class="value">{}</span>').format(cell_value(column, cell))
    if interval := cell_interval(column, cell):
        content += Markup(' <span class="interval">{}</span>').format(interval)
    mark = Markup("")
    if cell.number.value is not None:
        mark = _mark(cell, axis)
    remarks = [cell_remark(column, cell)]
    if cell.reason and not row.note:  # a row's note is the reason of all of its cells
        remarks.append(plain(cell.reason, _REASON))
    words = ", ".join(remark for remark in remarks if remark)
    if mark or words:
        content += Markup('<span class="mark">{} <span class="word">{}</span></span>').format(
            mark, text(words)
        )
    kind = Markup(' class="found"') if cell.reading == "detected" else ""
    # The title is for narrow screens, where a cell stands without the head of its column.
    return Markup('<td{} data-title="{}">{}</td>').format(kind, column_title(column), content)


def _mark(cell: TableCell, axis: tuple[float, float]) -> Markup:
    """The number as a dot and its interval as a line on the column's axis.

    Zero is a dotted line. A rule's limit is a line, at either side of zero where the number is a
    signed gap, whose size it limits.
    """
    middle = _HEIGHT / 2
    parts = _upright("zero", 0.0, axis)
    if cell.bound is not None:
        limits = {cell.bound.limit}
        # Gaps have a reading. A largest gap, which names its groups, is a size: nowhere below 0.
        if cell.reading and not cell.between:
            limits.add(-cell.bound.limit)
        for limit in sorted(limits):
            if axis[0] <= limit <= axis[1]:
                parts += _upright("limit", limit, axis)
    parts += _whisker(cell.number, axis, middle)
    return Markup(
        '<svg width="{0}" height="{1}" viewBox="0 0 {0} {1}" aria-hidden="true">{2}</svg>'
    ).format(_WIDTH, _HEIGHT, parts)


def _upright(kind: str, value: float, axis: tuple[float, float]) -> Markup:
    """An upright line at a value of the axis; ``kind`` is its class in the style sheet."""
    return Markup('<line class="{0}" x1="{1}" x2="{1}" y1="0" y2="{2}"/>').format(
        kind, _place(value, axis), _HEIGHT
    )


def _whisker(number: Interval, axis: tuple[float, float], middle: float) -> Markup:
    """A number's dot, and the line of its interval where there is one.

    Args:
        number: Has a value.
        axis: (low, high) of the column's axis.
        middle: Pixels from the top at which dot and line are drawn.
    """
    drawn = Markup("")
    if number.ends is not None:
        low, high = (_place(end, axis) for end in number.ends)
        drawn += Markup('<line class="whisker" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(
            low, high, middle
        )
    return drawn + Markup('<circle cx="{}" cy="{}" r="4"/>').format(
        _place(number.value or 0.0, axis), middle
    )


def _place(value: float, axis: tuple[float, float]) -> str:
    """Where a number lies on an axis, in pixels from the left; one beyond its ends at the end."""
    low, high = axis
    share = (value - low) / (high - low) if high > low else 0.5  # an axis of one point
    within = min(1.0, max(0.0, share))
    return f"{_EDGE + (_WIDTH - 2 * _EDGE) * within:.1f}"
