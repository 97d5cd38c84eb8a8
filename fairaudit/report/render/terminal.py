"""Document -> console lines: of every section what a terminal has room for."""

from collections.abc import Iterator, Sequence

from fairaudit.report.document import (
    Block,
    Bullets,
    Callout,
    Cell,
    Details,
    Document,
    Figures,
    Heading,
    Inline,
    Link,
    Listing,
    Rank,
    Section,
    Table,
    Text,
    words_of,
)
from fairaudit.report.names import visible
from fairaudit.report.render.rows import Row, aligned


def to_lines(whole: Document) -> Iterator[str]:
    """What a terminal shows of a document: each section's brief, or all of one of the first rank."""
    for section in whole.sections:
        yield from lines_of(_shown(section))


def lines_of(blocks: Sequence[Block]) -> Iterator[str]:
    """Blocks as lines, one blank before each; charts have no place here."""
    for block in blocks:
        match block:
            case Text():
                yield f" {spoken(block.words)}"
            case Heading() | Listing():
                yield f" {visible(block.text)}"
            case Callout():
                yield f" {visible(block.title)} {spoken(block.words)}"
            case Bullets():
                yield from (f" - {spoken(item)}" for item in block.items)
            case Table():
                yield from _table(block)
            case Details():
                yield f" {visible(block.summary)}"
                yield from lines_of(block.blocks)
            case Figures():
                pass


def spoken(cell: Cell) -> str:
    """Words, or a cell in words, without their marks."""
    found = words_of(cell)
    runs: tuple[Inline, ...] = (found,) if isinstance(found, str) else found
    return visible("".join(_said(run) for run in runs))


def _said(run: Inline) -> str:
    if isinstance(run, str):
        return run
    if isinstance(run, Link):
        return "; ".join(title for _, title in run.found) or run.nothing
    return run.text


def _shown(section: Section) -> tuple[Block, ...]:
    if section.brief is not None:
        return section.brief
    heading = (Heading(section.title),) if section.title else ()
    return (*heading, *section.blocks) if section.rank is Rank.MAIN else ()


def _table(block: Table) -> Iterator[str]:
    has_note = block.columns[-1].title == ""
    titles = [visible(column.title) for column in block.columns]
    rows = [titles, *([spoken(cell) for cell in row] for row in block.rows)]
    left = frozenset(i for i, column in enumerate(block.columns) if not column.is_number)
    yield from aligned([Row(tuple(r[:-1]), r[-1]) if has_note else Row(tuple(r)) for r in rows], left=left)
    if block.note:
        yield f" {block.note}"
