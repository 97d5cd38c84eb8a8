"""A report as a document: sections of blocks that hold values, from which every rendering is written.

Nothing here is markup: text is plain, and marks are types. A renderer escapes what it writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, TypeAlias

from fairaudit.errors import numbered
from fairaudit.report.panels import Panel
from fairaudit.report.safe_names import plain
from fairaudit.report.written import OWN_UNIT, UNKNOWN, Scale, count, written
from fairaudit.results.estimates import DIGITS, Interval

Kind: TypeAlias = Literal["pass", "fail", "inconclusive", "warning", "note"]

_NAME_OF_DATA = 80  # characters of a name in the table below a chart


class Rank(IntEnum):
    """What a section is to its reader: tables of the first rank are whole, the last are cut first."""

    MAIN = 0
    SECOND = 1
    DETAIL = 2
    APPENDIX = 3


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


@dataclass(frozen=True, slots=True)
class Link:
    """Points to other sections by their titles.

    Args:
        sections: Ids of those that it would point to.
        nothing: What stands where the document has none of them.
        found: Id and title of those that the document has; filled in when it is complete.
    """

    sections: tuple[str, ...]
    nothing: str
    found: tuple[tuple[str, str], ...] = ()


Inline: TypeAlias = str | Strong | Code | Badge | Link
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
    """A number without an interval, a dash where it is undefined."""
    return Quantity(Interval(value=value, low=None, high=None), scale._replace(is_spoken=False), UNKNOWN)


def words_of(cell: Cell) -> Words:
    """A cell in words: a count with commas, any other bare number at six digits, a dash for nothing."""
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


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    words: Words


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Callout:
    """A line that must be seen: a verdict or a warning."""

    kind: Kind
    title: str
    words: Words


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
        spare: Which columns a terminal leaves out where the table is too wide, the largest first; 0: none.
    """

    title: str
    is_number: bool = False
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, of which a text shows the first; a last column without title is a note.

    Args:
        columns: Their titles.
        rows: All of them.
        most: Rows that are read at once: a text has no more, a page folds a table that has; None for any.
        left_out: How many more rows the JSON has.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    most: int | None = None
    left_out: int = 0

    def cut(self, most: int) -> "Table":
        """With as many rows at most."""
        over = max(len(self.rows) - most, 0)
        return replace(self, rows=self.rows[:most], left_out=self.left_out + over)

    @property
    def note(self) -> str:
        """What is said of rows that are left out; "" where none is."""
        if not self.left_out:
            return ""
        nouns = ("more row is", "more rows are") if self.rows else ("row is", "rows are")
        return f"{numbered(self.left_out, *nouns)} in report.json."


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of a report.

    Args:
        name: Of its file and its place in the page: letters, digits and dashes.
        title: What it shows.
        reading: How to read it.
        alt: What a reader who cannot see it should know.
        panels: Drawings side by side.
        table: Their numbers, every row, unrounded.
    """

    name: str
    title: str
    reading: str
    alt: str
    panels: tuple[Panel, ...]
    table: Table


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts one after another."""

    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that a reader opens; where nothing can be opened they stand below their summary."""

    summary: str
    blocks: tuple["Block", ...]


Block: TypeAlias = Text | Heading | Bullets | Callout | Listing | Table | Figures | Details


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document.

    Args:
        id: What links, the model card and tests know it by: letters, digits and dashes.
        title: Its heading; "" for what opens the document.
        rank: What it is to its reader.
        blocks: What it says.
        brief: What a terminal shows of it; None for all of it where it is of the first rank, else nothing.
    """

    id: str
    title: str
    rank: Rank
    blocks: tuple[Block, ...]
    brief: tuple[Block, ...] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A report to be read: its title and its sections in order."""

    title: str
    sections: tuple[Section, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in reading order."""
        found = (charts_of(section.blocks) for section in self.sections)
        return tuple(chart for charts in found for chart in charts)


def complete(title: str, sections: Sequence[Section]) -> Document:
    """The document of some sections, each link leading to those of its sections that are there."""
    titles = {section.id: section.title for section in sections}

    def led(words: Words) -> Words:
        if isinstance(words, str):
            return words
        return tuple(
            replace(run, found=tuple((name, titles[name]) for name in run.sections if name in titles))
            if isinstance(run, Link)
            else run
            for run in words
        )

    def linked(block: Block) -> Block:
        match block:
            case Text():
                return Text(led(block.words))
            case Bullets():
                return Bullets(tuple(led(item) for item in block.items))
            case Details():
                return replace(block, blocks=tuple(linked(inner) for inner in block.blocks))
            case _:
                return block

    return Document(title, tuple(replace(s, blocks=tuple(map(linked, s.blocks))) for s in sections))


def charts_of(blocks: Sequence[Block]) -> Iterator[Chart]:
    """The charts in some blocks."""
    for block in blocks:
        if isinstance(block, Figures):
            yield from block.charts
        elif isinstance(block, Details):
            yield from charts_of(block.blocks)


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, most: int | None = None) -> Table:
    """A table.

    Args:
        head: Column titles; a title that starts with ``#`` marks a column of numbers.
        rows: Cells, as many as titles.
        most: Rows that are read at once; None for any number.
    """
    columns = tuple(Column(title.removeprefix("#"), title.startswith("#")) for title in head)
    return Table(columns, tuple(tuple(row) for row in rows), most)


def data_table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """The numbers behind a chart, whose names may be of any length."""
    return table(head, [[plain(c, _NAME_OF_DATA) if isinstance(c, str) else c for c in row] for row in rows])


def figures(*charts: Chart | None) -> tuple[Figures, ...]:
    """The charts that there are as one block, or no block."""
    found = tuple(chart for chart in charts if chart is not None)
    return (Figures(found),) if found else ()


def bullets(items: Sequence[Words]) -> tuple[Bullets, ...]:
    """A list, or no block where there is nothing to list."""
    return (Bullets(tuple(items)),) if items else ()
