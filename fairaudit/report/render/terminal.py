"""Document -> console lines: of every section what a terminal has room for."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from fairaudit.report import document as doc
from fairaudit.report.group_table import GroupTable
from fairaudit.report.numbers import count
from fairaudit.report.safe_names import plain, visible
from fairaudit.report.table_words import (
    between_words,
    cell_interval,
    cell_value,
    cell_words,
    reasons,
    row_title,
)

WIDTH = 100  # columns, where nothing is known of a terminal
_NAME = 24  # letters of a group's name in a table


def to_lines(whole: doc.Document, width: int = WIDTH) -> Iterator[str]:
    """What a terminal shows of a document: what was audited, then each section's brief.

    Args:
        whole: The document.
        width: Columns that a table may take; measures beyond them stand below.
    """
    for about in whole.about:
        yield f" {cell_text(about)}"
    for section in whole.sections:
        yield from lines_of(section.brief, width)


def lines_of(blocks: Sequence[doc.Block], width: int = WIDTH) -> Iterator[str]:
    """Blocks as lines; charts and what a page folds have no place here."""
    for block in blocks:
        match block:
            case doc.Text():
                yield f" {cell_text(block.words)}"
            case doc.Heading():
                yield ""
                yield f" {cell_text(block.words)}"
            case doc.Listing():
                yield f" {visible(block.text)}"
            case doc.Bullets():
                for item in block.items:
                    yield f" - {cell_text(item)}"
            case doc.Table():
                yield from table_lines(block, width)
            case doc.ByGroup():
                yield from group_lines(block.table.brief, width)
            case doc.Figures() | doc.Folded():
                pass


def table_lines(table: doc.Table, width: int = WIDTH) -> Iterator[str]:
    """The lines of a table, none wider than ``width`` where that can be.

    Columns that have no room beside the others stand below these, behind the first column again.
    """
    rows = [[cell_text(column.title) for column in table.columns]]
    rows += [list(map(cell_text, row)) for row in table.rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    blocks = [[0]]  # indices of the columns that stand beside each other
    for place in range(1, len(widths)):
        taken = sum(widths[p] + 2 for p in (*blocks[-1], place))  # 2: blanks between columns
        # A block has one column beside the first at least, however wide.
        if taken > width and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(place)
    for places in blocks:
        left = {n for n, place in enumerate(places) if not table.columns[place].is_number}
        yield from aligned([[row[place] for place in places] for row in rows], left=left)


def group_lines(table: GroupTable, width: int = WIDTH) -> Iterator[str]:
    """A table by group: as many measures beside each other as there is room, the others below.

    Args:
        table: What it shows.
        width: Columns that a line may take.
    """
    places = range(len(table.columns))
    # All lines of a column are of one width; 2 blanks stand before it.
    taken = [cell_len(_column_lines(table, place, below=None)[0]) + 2 for place in places]
    room = width - cell_len(_row_titles(table, below={})[0])
    blocks: list[list[int]] = [[]]  # indices of the measures that stand beside each other
    for place in places:
        if blocks[-1] and sum(taken[p] for p in blocks[-1]) + taken[place] > room:
            blocks.append([])
        blocks[-1].append(place)
    for block in blocks:
        # Index of a row -> how many lines of words stand below its numbers.
        below = {n: max(len(_words(table, n, p)) for p in block) for n in range(len(table.rows))}
        columns = [_column_lines(table, place, below) for place in block]
        for parts in zip(_row_titles(table, below), *columns, strict=True):
            yield "  ".join(parts).rstrip()
    if table.others:
        yield f" {table.others} other groups are between the worst and the best of these."
    for row in table.rows:
        if row.note:
            yield f" {_short(row_title(row))}: {plain(row.note, 200)}"
    yield from (f" {reason}" for reason in reasons(table))


def _words(table: GroupTable, row: int, place: int) -> list[str]:
    """The lines of words below a number, by the indices of its row and its column."""
    cell = table.rows[row].cells[place]
    return [*between_words(cell), *cell_words(table.columns[place], cell)]


def _row_titles(table: GroupTable, below: Mapping[int, int]) -> list[str]:
    """The beginnings of all lines: heads, then each row's title and test rows, all of one width.

    ``below``: Index of a row -> how many lines of words stand below its numbers; beside these
    words the beginning is blank.
    """
    titles, counts = ["", plain(table.grouping, _NAME)], ["", "test rows"]
    for number, row in enumerate(table.rows):
        blank = [""] * below.get(number, 0)
        titles += [_short(row_title(row)), *blank]
        counts += ["" if row.kind == "gap" else count(row.n_test), *blank]
    pairs = zip(_filled(titles), _filled(counts, is_number=True), strict=True)
    return [f" {title}  {number}" for title, number in pairs]


def _column_lines(table: GroupTable, place: int, below: Mapping[int, int] | None) -> list[str]:
    """The lines of a measure: its two heads, then numbers with words below, all of one width.

    Args:
        table: Holds it.
        place: Index of its column.
        below: Index of a row -> how many lines of words stand below it in any column of the block,
            so that columns have equally many lines; None: as many as this column's words need.
    """
    column = table.columns[place]
    cells = [row.cells[place] for row in table.rows]
    values = _filled([cell_value(column, cell) for cell in cells], is_number=True)
    lines = [visible(column.title), visible(column.counted)]
    for row, (value, cell) in enumerate(zip(values, cells, strict=True)):
        words = _words(table, row, place)
        n_empty = 0 if below is None else below[row] - len(words)
        lines += [f"{value} {cell_interval(column, cell)}".rstrip(), *words, *[""] * n_empty]
    return _filled(lines)


def _short(name: str) -> str:
    """A name that leaves room for numbers."""
    return plain(name, _NAME)


def _filled(texts: Sequence[str], *, is_number: bool = False) -> list[str]:
    """The texts with blanks behind them, or before them if they are numbers, all of one width."""
    width = max(map(cell_len, texts), default=0)
    blanks = [" " * (width - cell_len(text)) for text in texts]
    if is_number:
        return [blank + text for text, blank in zip(texts, blanks, strict=True)]
    return [text + blank for text, blank in zip(texts, blanks, strict=True)]


def cell_text(cell: doc.Cell) -> str:
    """Words, or a cell in words, as one line of plain text without marks (bold, badges)."""
    text = ""
    for run in doc.runs_of(cell):
        text += run if isinstance(run, str) else run.text
    return visible(text)


def cell_len(text: str) -> int:
    """How many columns a text takes in a terminal: a wide character takes two."""
    from rich.cells import cell_len as columns_of  # only tables need it

    return columns_of(text)


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int]) -> Iterator[str]:
    """The lines of a table: each column as wide as its widest cell, two spaces apart.

    ``left``: Indices of the columns that are left-aligned; the others are right-aligned.
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            padding = " " * (widths[place] - cell_len(cell))
            cells.append(cell + padding if place in left else padding + cell)
        yield f" {'  '.join(cells)}".rstrip()
