"""Document -> Markdown for reviewers: under 240 lines, no timing, every text escaped."""

import re
from collections.abc import Iterator, Sequence
from html import escape

from fairaudit.report.document import (
    Badge,
    Block,
    Bullets,
    Callout,
    Cell,
    Code,
    Details,
    Document,
    Figures,
    Heading,
    Inline,
    Link,
    Listing,
    Strong,
    Table,
    Text,
    words_of,
)
from fairaudit.report.model import Report
from fairaudit.report.names import plain, visible
from fairaudit.report.render.fitting import fitted
from fairaudit.report.sections.order import document

MOST_LINES = 240
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


def to_markdown(report: Report, *, pictures: tuple[str, str] | None = None) -> str:
    """The report as text for people; what it shortens is whole in the JSON.

    Args:
        report: What was found.
        pictures: Folder of the charts as files, seen from the text, and their ending; None for no charts.
    """
    whole = document(report)
    return to_text(fitted(whole, MOST_LINES - 1, has_pictures=pictures is not None), pictures=pictures)


def to_text(whole: Document, *, pictures: tuple[str, str] | None = None) -> str:
    """All of a document as Markdown."""
    lines = [f"# {literal(whole.title)}"]
    for section in whole.sections:
        lines += ["", f"## {literal(section.title)}"] if section.title else []
        lines += lines_of(section.blocks, pictures=pictures)
    return "\n".join(lines) + "\n"


def lines_of(blocks: Sequence[Block], *, pictures: tuple[str, str] | None = None) -> Iterator[str]:
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


def inline(words: Cell, *, is_start: bool = True) -> str:
    """Words, or a cell in words, in one line."""
    found = words_of(words)
    runs: tuple[Inline, ...] = (found,) if isinstance(found, str) else found
    return "".join(_run(run, is_start=is_start and not i) for i, run in enumerate(runs)).strip()


def _run(run: Inline, *, is_start: bool) -> str:
    match run:
        case str():
            return literal(run.lstrip() if is_start else run, is_start=is_start)
        case Strong():
            text = literal(run.text.strip(), is_start=False)
            return f"**{text}**" if text else ""
        case Badge():
            return literal(run.text, is_start=is_start)
        case Link():
            return "; ".join(literal(title, is_start=False) for _, title in run.found) or literal(run.nothing)
        case Code():
            fence, text = _fence(run.text, "`"), visible(run.text)
            pad = " " if "`" in text else ""
            return f"{fence}{pad}{text}{pad}{fence}" if text.strip() else ""


def _lines(block: Block, pictures: tuple[str, str] | None) -> Iterator[str]:
    match block:
        case Text():
            yield inline(block.words)
        case Heading():
            yield f"### {literal(block.text)}"
        case Callout():
            yield f"{_run(Strong(block.title), is_start=True)} {inline(block.words, is_start=False)}"
        case Bullets():
            yield from (f"- {inline(item)}" for item in block.items)
        case Listing():
            fence = _fence(block.text, "```")
            yield from (fence, visible(block.text), fence)
        case Table():
            yield from _table(block)
        case Figures():
            if pictures is not None:
                folder, kind = pictures
                shown = ((plain(c.alt, _ALT_LIMIT), f"{folder}/{c.name}.{kind}") for c in block.charts)
                yield " ".join(f"![{literal(alt, is_start=False)}]({path})" for alt, path in shown)
        case Details():
            yield "<details>"
            yield f"<summary>{escape(visible(block.summary))}</summary>"  # no Markdown is read here
            yield from lines_of(block.blocks, pictures=pictures)
            yield ""
            yield "</details>"


def _table(block: Table) -> Iterator[str]:
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
