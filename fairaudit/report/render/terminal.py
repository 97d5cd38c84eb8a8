"""Document -> console lines: of every section what a terminal has room for."""

from collections.abc import Collection, Iterator, Sequence

from fairaudit.report import document as doc
from fairaudit.report.safe_names import visible


def to_lines(whole: doc.Document) -> Iterator[str]:
    """What a terminal shows of a document: each section's brief."""
    for section in whole.sections:
        yield from lines_of(section.brief)


def lines_of(blocks: Sequence[doc.Block]) -> Iterator[str]:
    """Blocks as lines; charts have no place here."""
    for block in blocks:
        match block:
            case doc.Text():
                yield f" {cell_text(block.words)}"
            case doc.Heading() | doc.Listing():
                yield f" {visible(block.text)}"
            case doc.Bullets():
                for item in block.items:
                    yield f" - {cell_text(item)}"
            case doc.Table():
                rows = [[cell_text(column.title) for column in block.columns]]
                rows += [list(map(cell_text, row)) for row in block.rows]
                left = {place for place, column in enumerate(block.columns) if not column.is_number}
                yield from aligned(rows, left=left)
            case doc.Figures():
                pass


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

    ``left`` holds the places of columns that are left-aligned; the others are right-aligned.
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            padding = " " * (widths[place] - cell_len(cell))
            cells.append(cell + padding if place in left else padding + cell)
        yield f" {'  '.join(cells)}".rstrip()
