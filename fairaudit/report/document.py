"""A report as a document.

Sections of blocks that hold values, from which every rendering is written.

Nothing here is markup: text is plain, and marks are types. A renderer escapes what it writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fairaudit.report.group_table import GroupTable
from fairaudit.report.numbers import OWN_UNIT, UNKNOWN, Scale, count, written
from fairaudit.report.panels import Chart
from fairaudit.results.estimates import DIGITS, Interval

Kind: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Strong:
    """Words that stand out."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Something to type, or a name out of a program."""

    text: str


@dataclass(frozen=True, slots=True)
class Badge:
    """An outcome in a word, in the colour of its kind where there are colours."""

    kind: Kind
    text: str


Inline: TypeAlias = str | Strong | Code | Badge
Words: TypeAlias = str | tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its interval and how it is written; ``unknown`` stands for an undefined one."""

    number: Interval | None
    scale: Scale = OWN_UNIT
    unknown: str = ""

    def __str__(self) -> str:
        return written(self.number, self.scale, unknown=self.unknown)


Cell: TypeAlias = Words | Quantity | int | float | None


def bare(value: float | None, scale: Scale = OWN_UNIT) -> Quantity:
    """A cell with a number that has no interval; it is written as a dash where it is None."""
    number = Interval(value=value, low=None, high=None)
    # Not spoken: on a spoken scale ``(no interval)`` would stand behind it.
    return Quantity(number, scale._replace(is_spoken=False), UNKNOWN)


def words_of(cell: Cell) -> Words:
    """A cell in words: a count with commas, other numbers at six digits, a dash for None."""
    match cell:
        case None:
            return UNKNOWN
        case int():
            return count(cell)
        case float():
            return f"{cell:.{DIGITS}g}"
        case Quantity():
            return str(cell)
        case _:
            return cell


def runs_of(cell: Cell) -> tuple[Inline, ...]:
    """A cell as a sequence of plain text and marks, which a renderer writes one after another."""
    words = words_of(cell)
    if isinstance(words, str):
        return (words,)
    return words


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    words: Words


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section."""

    words: Words


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Text to be copied as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        title: A noun with its unit.
        is_number: Numbers stand to the right.
    """

    title: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below the titles of their columns.

    Args:
        columns: Title of each column, and whether it holds numbers.
        rows: Of each row a cell for each column.
        most: Rows that are read at once: a page folds a table that has more. None for any number.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    most: int | None = None


@dataclass(frozen=True, slots=True)
class ByGroup:
    """A table of groups, which a page draws as well: each number as a mark on its column's axis.

    Args:
        table: The numbers.
        axes: (low, high) of each column's axis, in the column's own unit; tables by one grouping
            have the same axes, so that they can be compared.
    """

    table: GroupTable
    axes: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts one after another.

    Args:
        charts: What they show.
        is_drawn_by_table: Whether a table of the page draws the same numbers, so that they are
            drawn for files and notebooks alone.
    """

    charts: tuple[Chart, ...]
    is_drawn_by_table: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a page shows when its reader opens them, and that a terminal leaves out.

    Args:
        title: What they hold.
        blocks: The blocks.
    """

    title: Words
    blocks: "tuple[Block, ...]"


Block: TypeAlias = Text | Heading | Bullets | Listing | Table | ByGroup | Figures | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document.

    Args:
        id: What links and tests know it by: letters, digits and dashes.
        title: Its heading; "" for what opens the document.
        blocks: What it says.
        brief: What a terminal shows of it; () for nothing.
    """

    id: str
    title: str
    blocks: tuple[Block, ...]
    brief: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A report to be read.

    Args:
        title: What it is about.
        about: The lines below the title: what was audited, when and by what.
        sections: In order.
        foot: The line at the end: how the report was made.
    """

    title: str
    sections: tuple[Section, ...]
    about: tuple[Words, ...] = ()
    foot: Words = ""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts of the document, in reading order."""
        charts: list[Chart] = []
        for section in self.sections:
            charts += charts_of(section.blocks)
        return tuple(charts)


def charts_of(blocks: Sequence[Block]) -> Iterator[Chart]:
    """The charts in some blocks, those within folded blocks among them."""
    for block in blocks:
        match block:
            case Figures():
                yield from block.charts
            case Folded():
                yield from charts_of(block.blocks)


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, most: int | None = None) -> Table:
    """A table of the document, from column titles and rows.

    Args:
        head: Column titles; a title that starts with ``#`` marks a column of numbers. A last
            column with the title ``note`` is left out where no row has a note.
        rows: Cells, as many as titles.
        most: Rows that are read at once; None for any number.
    """
    if head[-1] == "note" and not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    columns = tuple(Column(title.removeprefix("#"), title.startswith("#")) for title in head)
    return Table(columns, tuple(map(tuple, rows)), most)


def figures(*charts: Chart | None) -> tuple[Figures, ...]:
    """One block with the charts that are not None; () where all of them are."""
    present = tuple(filter(None, charts))
    if present:
        return (Figures(present),)
    return ()


def bullets(items: Sequence[Words]) -> tuple[Bullets, ...]:
    """One block with the items as a list; () where there are none."""
    if items:
        return (Bullets(tuple(items)),)
    return ()
