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
# What Markdown would read as markup, and an interval as ``[1.2, 4.6]``, which is no link and the
# only match that stays as it is. All other text is not matched, so that it is readable in a
# terminal, too.
_INTERVAL = r"\[-?[\d.,]+, -?[\d.,]+\](?![(\[:])"
_MARKUP = re.compile(
    rf"{_INTERVAL}"
    r"|[\\`*\[\]|~#<]"
    r"|:(?=//)|(?<=[wW]{3})\."  # GitHub makes links of addresses
    r"|&(?=#?\w+;)"  # an entity, as &amp;
    r"|(?<![^\W_])_|_(?![^\W_])"  # inside a word an underscore is itself
)
# A pipe without a backslash before it: in code, for all other text was escaped already.
_PIPE = re.compile(r"(?<!\\)\|")
# At the start of a line also a quotation, a list, a rule below a heading and a number of a list.
_MARKUP_AT_START = re.compile(
    rf"^(?:[>:]|[-+=](?=[-= ]*$|\s)|\d{{1,9}}[.)](?=\s|$))|{_MARKUP.pattern}"
)


def to_markdown(report: Report, *, pictures: Pictures | None = None) -> str:
    """The report as text for people.

    Args:
        report: What was found.
        pictures: Where the charts lie as files; None for no charts.
    """
    return to_text(document(report), pictures=pictures)


def to_text(whole: doc.Document, *, pictures: Pictures | None = None) -> str:
    """A document as Markdown; ``pictures``: as of :func:`to_markdown`."""
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
    """The lines of some blocks, an empty one before each; ``pictures``: of :func:`to_markdown`."""
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
    markup = _MARKUP_AT_START if is_start else _MARKUP
    return markup.sub(_escaped, visible(text))


def _escaped(match: re.Match[str]) -> str:
    """What stands for a match of ``_MARKUP``: its last character escaped; an interval as it is.

    The last one is enough: of ``1.`` at the start of a line the full stop.
    """
    text = match[0]
    if text[0] == "[" and len(text) > 1:
        return text  # an interval
    return text[:-1] + _ENTITIES.get(text[-1], "\\" + text[-1])


def inline(words: doc.Cell, *, is_start: bool = True) -> str:
    """Words, or a cell in words, as one line of Markdown; ``is_start``: it begins a line."""
    text = ""
    for run in doc.runs_of(words):
        text += _run(run, is_start=is_start and not text)  # only what is written first
    return text.strip()


def _run(run: doc.Inline, *, is_start: bool) -> str:
    """One run of inline text as Markdown, escaped; ``is_start``: it begins a line."""
    match run:
        case str():
            # Four blanks at the start of a line would make it code.
            return literal(run.lstrip() if is_start else run, is_start=is_start)
        case doc.Strong():
            text = literal(run.text.strip(), is_start=False)  # beside a blank ** is no mark
            return f"**{text}**" if text else ""
        case doc.Badge():
            return literal(run.text, is_start=is_start)
        case doc.Code():
            text = visible(run.text)
            if not text.strip():
                return ""
            fence = _fence(text, "`")
            blank = " " if "`" in text else ""  # between the fence and backticks of the text
            return f"{fence}{blank}{text}{blank}{fence}"


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
    """The lines of a table: titles, alignment (numbers to the right), then all of its rows."""
    titles, alignments = [], []
    for column in block.columns:
        titles.append(literal(column.title, is_start=False))
        alignments.append("---:" if column.is_number else "---")
    yield f"| {' | '.join(titles)} |"
    yield f"|{'|'.join(alignments)}|"
    for row in block.rows:
        cells = [_PIPE.sub(r"\\|", inline(cell, is_start=False)) for cell in row]
        yield f"| {' | '.join(cells)} |"


def _fence(text: str, shortest: str) -> str:
    """Backticks that can enclose the text as code: ``shortest``, or more if it holds those."""
    fence = shortest
    while fence in text:
        fence += "`"
    return fence
