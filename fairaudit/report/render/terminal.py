"""Document -> console lines: of every section what a terminal has room for."""

from collections.abc import Iterator, Sequence

from fairaudit.report import document as doc
from fairaudit.report.render.console_rows import Row, TableLine, aligned, cell_len
from fairaudit.report.safe_names import visible


def to_lines(whole: doc.Document, width: int | None = None) -> Iterator[str]:
    """What a terminal shows of a document: each section's brief, or all of one of the first rank.

    Args:
        whole: The document.
        width: Columns that there are; None for any number.
    """
    for section in whole.sections:
        yield from lines_of(_shown(section), width)


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
    return visible("".join(_said(run) for run in runs))


def _said(run: doc.Inline) -> str:
    if isinstance(run, str):
        return run
    if isinstance(run, doc.Link):
        return "; ".join(title for _, title in run.found) or run.nothing
    return run.text


def _shown(section: doc.Section) -> tuple[doc.Block, ...]:
    if section.brief is not None:
        return section.brief
    heading = (doc.Heading(section.title),) if section.title else ()
    return (*heading, *section.blocks) if section.rank is doc.Rank.MAIN else ()


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
