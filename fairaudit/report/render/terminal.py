"""Document -> console lines: of every section what a terminal has room for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairaudit.report import document as doc
from fairaudit.report.safe_names import visible


def to_lines(whole: doc.Document, width: int | None = None) -> Iterator[str]:
    """What a terminal shows of a document: each section's brief, or all of one of the first rank.

    Args:
        whole: The document.
        width: Columns that there are; None for any number.
    """
    for section in whole.sections:
        if section.brief is not None:
            yield from lines_of(section.brief, width)
        elif section.rank is doc.Rank.MAIN:
            yield from [f" {visible(section.title)}"] if section.title else []
            yield from lines_of(section.blocks, width)


def lines_of(blocks: Sequence[doc.Block], width: int | None = None) -> Iterator[str]:
    """Blocks as lines, one blank before each; charts have no place here."""
    for block in blocks:
        match block:
            case doc.Text():
                yield f" {cell_text(block.words)}"
            case doc.Heading() | doc.Listing():
                yield f" {visible(block.text)}"
            case doc.Callout():
                yield f" {visible(block.title)} {cell_text(block.words)}"
            case doc.Bullets():
                yield from (f" - {cell_text(item)}" for item in block.items)
            case doc.Table():
                yield from _table(block, width)
            case doc.Details():
                yield f" {visible(block.summary)}"
                yield from lines_of(block.blocks, width)
            case doc.Figures():
                pass


def cell_text(cell: doc.Cell) -> str:
    """Words, or a cell in words, without their marks."""
    found = doc.words_of(cell)
    runs: tuple[doc.Inline, ...] = (found,) if isinstance(found, str) else found
    said = []
    for run in runs:
        if isinstance(run, doc.Link):
            said.append("; ".join(title for _, title in run.found) or run.nothing)
        else:
            said.append(run if isinstance(run, str) else run.text)
    return visible("".join(said))


def _table(block: doc.Table, width: int | None) -> Iterator[str]:
    has_note = block.columns[-1].title == ""
    spare = sorted({column.spare for column in block.columns}, reverse=True)
    lines: list[TableLine] = []
    for most in spare:  # without those beyond, one by one until the table fits
        kept = [i for i, column in enumerate(block.columns) if column.spare <= most]
        titles = [visible(block.columns[i].title) for i in kept]
        rows = [titles, *([cell_text(row[i]) for i in kept] for row in block.rows)]
        left = frozenset(n for n, i in enumerate(kept) if not block.columns[i].is_number)
        noted = [Row(tuple(r[:-1]), r[-1]) if has_note else Row(tuple(r)) for r in rows]
        lines = list(aligned(noted, left=left))
        if width is None or max(map(cell_len, lines)) <= width:
            break
    yield from lines
    if block.note:
        yield f" {block.note}"


class TableLine(str):
    """A row of a table that knows its cells.

    Args:
        cells: Padded to the widths of their columns.
        note: What follows them.
    """

    cells: tuple[str, ...]
    note: str

    def __new__(cls, cells: Sequence[str], note: str) -> "TableLine":
        """The row as one line."""
        made = super().__new__(cls, (" " + "  ".join(cells) + (f"  {note}" if note else "")).rstrip())
        made.cells, made.note = tuple(cells), note
        return made


class Row(NamedTuple):
    """Cells of a console table and what follows them."""

    cells: tuple[str, ...]
    note: str = ""


def cell_len(text: str) -> int:
    """Columns that a text takes in a terminal."""
    from rich.cells import cell_len as columns_of  # only tables need it

    return columns_of(text)


def aligned(rows: Sequence[Row], *, left: frozenset[int]) -> Iterator[TableLine]:
    """Columns of equal width, two spaces apart; columns not in ``left`` are right-aligned."""
    widths = [max(cell_len(row.cells[i]) for row in rows) for i in range(len(rows[0].cells))]
    for row in rows:
        cells = [
            cell + " " * (width - cell_len(cell)) if i in left else " " * (width - cell_len(cell)) + cell
            for i, (cell, width) in enumerate(zip(row.cells, widths, strict=True))
        ]
        yield TableLine(cells, row.note)
