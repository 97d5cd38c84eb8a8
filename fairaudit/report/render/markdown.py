"""Document -> Markdown for reviewers: every text escaped, every table whole."""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from fairaudit.report import document as doc
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain, visible
from fairaudit.report.sections.order import document
from fairaudit.report.table_words import as_table, reasons

Pictures: TypeAlias = tuple[str, str]  # folder of the charts' files, seen from the text; ending
_ALT_LIMIT = 300  # letters of what a picture shows
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
# What Markdown would read; the rest stays as it is, so that the text is readable in a terminal,
# too.
_INTERVAL = r"\[-?[\d.,]+, -?[\d.,]+\](?![(\[:])"  # is no link; the only match that is kept
_MEANT = re.compile(
    rf"{_INTERVAL}"
    r"|[\\`*\[\]|~#<]"
    r"|:(?=//)|(?<=[wW]{3})\."  # GitHub makes links of addresses
    r"|&(?=#?\w+;)"
    r"|(?<![^\W_])_|_(?![^\W_])"  # inside a word an underscore is itself
)
_PIPE = re.compile(r"(?<!\\)\|")  # what code holds; all other text has none that is not escaped
_MEANT_AT_START = re.compile(
    rf"^(?:[>:]|[-+=](?=[-= ]*$|\s)|\d{{1,9}}[.)](?=\s|$))|{_MEANT.pattern}"
)


def to_markdown(report: Report, *, pictures: Pictures | None = None) -> str:
    """The report as text for people.

    Args:
        report: What was found.
        pictures: Where the charts lie as files; None for no charts.
    """
    return to_text(document(report), pictures=pictures)


def to_text(whole: doc.Document, *, pictures: Pictures | None = None) -> str:
    """A document as Markdown."""
    lines = [f"# {literal(whole.title)}"]
    for about in whole.about:
        lines += ["", inline(about)]
    for section in whole.sections:
        lines += ["", f"## {literal(section.title)}"]
        lines += lines_of(section.blocks, pictures=pictures)
    if whole.foot:
        lines += ["", "---", "", inline(whole.foot)]
    return "\n".join(lines) + "\n"


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
    meant = _MEANT
    if is_start:
        meant = _MEANT_AT_START
    return meant.sub(_escaped, visible(text))


def _escaped(match: re.Match[str]) -> str:
    """What stands for a match of ``_MEANT``: its last character escaped; an interval as it is."""
    text = match[0]
    if text[0] == "[" and len(text) > 1:
        return text  # an interval
    return text[:-1] + _ENTITIES.get(text[-1], "\\" + text[-1])


def inline(words: doc.Cell, *, is_start: bool = True) -> str:
    """Words, or a cell in words, as one line of Markdown; ``is_start``: it begins a line."""
    text = ""
    for run in doc.runs_of(words):
        text += _run(run, is_start=is_start and not text)
    return text.strip()


def _run(run: doc.Inline, *, is_start: bool) -> str:
    """One run of inline text as Markdown, escaped; ``is_start``: it begins a line."""
    match run:
        case str():
            return literal(run.lstrip() if is_start else run, is_start=is_start)
        case doc.Strong():
            text = literal(run.text.strip(), is_start=False)
            if text:
                return f"**{text}**"
            return ""
        case doc.Badge():
            return literal(run.text, is_start=is_start)
        case doc.Code():
            text = visible(run.text)
            if not text.strip():
                return ""
            fence = _fence(text, "`")
            pad = ""
            if "`" in text:
                pad = " "
            return f"{fence}{pad}{text}{pad}{fence}"


def _lines(block: doc.Block, pictures: Pictures | None) -> Iterator[str]:
    """The lines of one block; charts are links to ``pictures``, and left out where that is None."""
    match block:
        case doc.Text():
            yield inline(block.words)
        case doc.Heading():
            yield f"### {inline(block.words, is_start=False)}"
        case doc.Bullets():
            for item in block.items:
                yield f"- {inline(item)}"
        case doc.Listing():
            fence = _fence(block.text, "```")
            yield from (fence, visible(block.text), fence)
        case doc.Table():
            yield from _table(block)
        case doc.ByGroup():
            yield from _table(as_table(block.table))
            for reason in reasons(block.table):
                yield from ("", inline(reason))
        case doc.Folded():
            within = list(lines_of(block.blocks, pictures=pictures))
            if within:
                yield f"#### {inline(block.title, is_start=False)}"
                yield from within
        case doc.Figures():
            if pictures is not None:
                folder, kind = pictures
                shown = []
                for chart in block.charts:
                    alt = literal(plain(chart.alt, _ALT_LIMIT), is_start=False)
                    shown.append(f"![{alt}]({folder}/{chart.name}.{kind})")
                yield " ".join(shown)


def _table(block: doc.Table) -> Iterator[str]:
    """The lines of a table, all of its rows."""
    titles, rules = [], []
    for column in block.columns:
        titles.append(literal(column.title, is_start=False))
        rules.append("---:" if column.is_number else "---")
    yield f"| {' | '.join(titles)} |"
    yield f"|{'|'.join(rules)}|"
    for row in block.rows:
        cells = [_PIPE.sub(r"\\|", inline(cell, is_start=False)) for cell in row]
        yield f"| {' | '.join(cells)} |"


def _fence(text: str, shortest: str) -> str:
    """Backticks that can enclose the text as code: ``shortest``, or more if it holds those."""
    fence = shortest
    while fence in text:
        fence += "`"
    return fence
