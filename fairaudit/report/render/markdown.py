"""Document -> Markdown for reviewers: under 240 lines, no timing, every text escaped."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from typing import TypeAlias

from fairaudit.report import document as doc
from fairaudit.report.document import Block, Document, Figures, Rank, Section, Table, Text
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain, visible
from fairaudit.report.sections.order import document

MOST_LINES = 240
Pictures: TypeAlias = tuple[str, str]  # their folder, seen from the text, and their ending
_ALT_LIMIT = 300  # letters of what a picture shows
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
# What Markdown would read; the rest stays as it is, so that the text is readable in a terminal, too.
_INTERVAL = r"\[-?[\d.,]+, -?[\d.,]+\](?![(\[:])"  # is no link; the only match that is kept
_MEANT = re.compile(
    rf"{_INTERVAL}"
    r"|[\\`*\[\]|~#<]"
    r"|:(?=//)|(?<=[wW]{3})\."  # GitHub makes links of addresses
    r"|&(?=#?\w+;)"
    r"|(?<![^\W_])_|_(?![^\W_])"  # inside a word an underscore is itself
)
_PIPE = re.compile(r"(?<!\\)\|")  # what code holds; all other text has none that is not escaped
_MEANT_AT_START = re.compile(rf"^(?:[>:]|[-+=](?=[-= ]*$|\s)|\d{{1,9}}[.)](?=\s|$))|{_MEANT.pattern}")
_LEAST = 12  # rows that tables of second rank keep while those below have any
_NOTE = 2  # lines of the note below a table


def to_markdown(report: Report, *, pictures: Pictures | None = None) -> str:
    """The report as text for people; what it shortens is whole in the JSON.

    Args:
        report: What was found.
        pictures: Where the charts lie as files; None for no charts.
    """
    return to_text(document(report), most=MOST_LINES - 1, pictures=pictures)


def to_text(whole: doc.Document, *, most: int | None = None, pictures: Pictures | None = None) -> str:
    """A document as Markdown, its tables cut until it has ``most`` lines at most."""
    if most is not None:
        whole = fitted(whole, most - 1, lambda section: len(_section(section, pictures)))
    parts = [line for section in whole.sections for line in _section(section, pictures)]
    return "\n".join([f"# {literal(whole.title)}", *parts]) + "\n"


def _section(section: doc.Section, pictures: Pictures | None) -> list[str]:
    title = ["", f"## {literal(section.title)}"] if section.title else []
    return [*title, *lines_of(section.blocks, pictures=pictures)]


def lines_of(blocks: Sequence[doc.Block], *, pictures: Pictures | None = None) -> Iterator[str]:
    """The lines of some blocks, an empty one before each."""
    for block in blocks:
        written = list(_lines(block, pictures))
        if written:
            yield ""
            yield from written


def literal(text: str, *, is_start: bool = True) -> str:
    """Text that Markdown reads as itself.

    Args:
        text: Of one line.
        is_start: Whether it may start a line: more is read there than within one.
    """
    return (_MEANT_AT_START if is_start else _MEANT).sub(_escaped, visible(text))


def inline(words: doc.Cell, *, is_start: bool = True) -> str:
    """Words, or a cell in words, in one line."""
    found = doc.words_of(words)
    runs: tuple[doc.Inline, ...] = (found,) if isinstance(found, str) else found
    return "".join(_run(run, is_start=is_start and not i) for i, run in enumerate(runs)).strip()


def _run(run: doc.Inline, *, is_start: bool) -> str:
    match run:
        case str():
            return literal(run.lstrip() if is_start else run, is_start=is_start)
        case doc.Strong():
            text = literal(run.text.strip(), is_start=False)
            return f"**{text}**" if text else ""
        case doc.Badge():
            return literal(run.text, is_start=is_start)
        case doc.Link():
            return "; ".join(literal(title, is_start=False) for _, title in run.found) or literal(run.nothing)
        case doc.Code():
            fence, text = _fence(run.text, "`"), visible(run.text)
            pad = " " if "`" in text else ""
            return f"{fence}{pad}{text}{pad}{fence}" if text.strip() else ""


def _lines(block: doc.Block, pictures: Pictures | None) -> Iterator[str]:
    match block:
        case doc.Text():
            yield inline(block.words)
        case doc.Heading():
            yield f"### {literal(block.text)}"
        case doc.Callout():
            yield f"{_run(doc.Strong(block.title), is_start=True)} {inline(block.words, is_start=False)}"
        case doc.Bullets():
            yield from (f"- {inline(item)}" for item in block.items)
        case doc.Listing():
            fence = _fence(block.text, "```")
            yield from (fence, visible(block.text), fence)
        case doc.Table():
            yield from _table(block)
        case doc.Figures():
            if pictures is not None:
                folder, kind = pictures
                shown = ((plain(c.alt, _ALT_LIMIT), f"{folder}/{c.name}.{kind}") for c in block.charts)
                yield " ".join(f"![{literal(alt, is_start=False)}]({path})" for alt, path in shown)
        case doc.Details():
            yield "<details>"
            yield f"<summary>{escape(visible(block.summary))}</summary>"  # no Markdown is read here
            yield from lines_of(block.blocks, pictures=pictures)
            yield ""
            yield "</details>"


def _table(block: doc.Table) -> Iterator[str]:
    yield _row([literal(column.title, is_start=False) for column in block.columns])
    yield "|" + "|".join("---:" if column.is_number else "---" for column in block.columns) + "|"
    for row in block.rows:
        yield _row([_PIPE.sub(r"\\|", inline(cell, is_start=False)) for cell in row])
    if block.note:
        yield ""
        yield block.note


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _fence(text: str, shortest: str) -> str:
    """A fence that the text does not hold."""
    fence = shortest
    while fence in text:
        fence += "`"
    return fence


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == "[" and len(text) > 1:
        return text  # an interval
    return text[:-1] + _ENTITIES.get(text[-1], "\\" + text[-1])


def fitted(whole: Document, most: int, height: Callable[[Section], int]) -> Document:
    """The document with as many table rows as leave at most ``most`` lines beside the main tables.

    Tables of the first rank are whole. Those of the last ranks lose their rows first, down to a word on how
    many there are, then those of second rank.

    Args:
        whole: The document.
        most: Lines to keep, rows of the main tables not counted.
        height: Lines that a section takes.
    """

    @cache
    def cut(number: int, cap: int) -> tuple[Section, int]:
        section = whole.sections[number]
        if section.rank is Rank.MAIN:
            return section, height(section) - sum(len(table.rows) for table in _tables(section.blocks))
        section = _cut(section, cap)
        return section, height(section)

    found = [(section, 0) for section in whole.sections]
    for caps in _caps(max((len(t.rows) for s in whole.sections for t in _tables(s.blocks)), default=0)):
        found = [cut(n, caps[s.rank is not Rank.SECOND]) for n, s in enumerate(whole.sections)]
        if sum(lines for _, lines in found) <= most:
            break
    return replace(whole, sections=tuple(section for section, _ in found))


def _caps(longest: int) -> Iterator[tuple[int, int]]:
    """Most rows of a table of second rank, and of one of a lower rank, from all to none."""
    yield longest, longest
    yield from ((max(cap, _LEAST), cap) for cap in range(longest, 0, -1))
    yield from ((cap, 0) for cap in range(longest, -1, -1))


def _tables(blocks: Sequence[Block]) -> Iterator[Table]:
    return (block for block in blocks if isinstance(block, Table))


def _cut(section: Section, cap: int) -> Section:
    """The section with tables of ``cap`` rows, or with a word on them where that is 0."""
    kept: list[Block] = []
    for block in section.blocks:
        if isinstance(block, Table) and block.most is not None:
            block = block.cut(block.most)
        over = len(block.rows) - cap if isinstance(block, Table) else 0
        if not isinstance(block, Table) or over <= 0 or (over <= _NOTE and not block.left_out):
            kept.append(block)  # a note would be as long as the rows
        elif cap:
            kept.append(block.cut(cap))
        else:
            _leave_out(kept, block.cut(0).note, section.blocks)
    return replace(section, blocks=tuple(kept))


def _leave_out(kept: list[Block], note: str, whole: Sequence[Block]) -> None:
    """Put a note in a table's place: at the end of the paragraph that introduces it, if there is one."""
    at = max((i for i, block in enumerate(kept) if not isinstance(block, Figures)), default=None)
    above = None if at is None else kept[at]
    if at is None or not isinstance(above, Text) or not any(above is block for block in whole):
        kept.append(Text(note))  # also below another note
        return
    words = (above.words,) if isinstance(above.words, str) else above.words
    kept[at] = Text((*words, f" {note}"))
