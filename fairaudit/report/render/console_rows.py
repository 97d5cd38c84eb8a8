"""Tables as console lines."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


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
