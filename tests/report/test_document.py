"""The document: a section is written by every renderer.

And no text in it is read as markup by any.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from handmade import findings, metadata
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from several import several

from fairaudit.analysis.build import build_report
from fairaudit.cli.lines import result_lines
from fairaudit.report.document import (
    Badge,
    Bullets,
    Code,
    Document,
    Heading,
    Listing,
    Quantity,
    Section,
    Strong,
    Text,
    table,
)
from fairaudit.report.numbers import POINTS
from fairaudit.report.render.html import to_html, write_blocks
from fairaudit.report.render.markdown import to_markdown, to_text
from fairaudit.report.render.terminal import to_lines
from fairaudit.report.sections import order
from fairaudit.results.estimates import Interval

NUMBER = Quantity(Interval(value=0.0412, low=0.01, high=0.07), POINTS)


@pytest.fixture(scope="module")
def report():
    return build_report(findings(), metadata())


def added(brief=()):
    """A section as a new file would make it."""
    blocks = (Text("What is new."), table(("group", "#size"), [("F", NUMBER), ("M", 1234)]))
    return lambda report: Section("added", "An added section", blocks, brief)


def test_a_section_that_is_added_to_the_order_stands_in_every_rendering(report, monkeypatch):
    first, *others = order.ORDER.items()
    monkeypatch.setattr(order, "ORDER", dict([first, ("added", added()), *others]))
    text = to_markdown(report)
    assert (
        "\n## An added section\n\nWhat is new.\n\n| group | size |\n|---|---:|\n| F | 4.1 [1.0, "
        "7.0] |" in text
    )
    assert (
        text.index("## Summary")
        < text.index("## An added section")
        < text.index("## Cost by group")
    )
    page = to_html(report)
    assert '<h2 id="added-title">An added section</h2>' in page
    assert '<li><a href="#added">An added section</a>' in page
    assert '<tr><td>M</td><td class="number">1,234</td></tr>' in page
    assert "What is new." not in "\n".join(result_lines(report))


def test_a_brief_is_what_a_terminal_shows_of_a_section(report, monkeypatch):
    monkeypatch.setattr(order, "ORDER", {**order.ORDER, "added": added((Text("In short."),))})
    shown = "\n".join(result_lines(report))
    assert " In short." in shown.splitlines()
    assert "What is new." not in shown
    assert "In short." not in to_markdown(report) + to_html(report)


# --- no text is markup
# -------------------------------------------------------------------------------

NASTY = st.text(
    alphabet=st.sampled_from("[]()<>|_*`~#&;:!,.-+=\\/\"' 12alw\n\r\t\u202e\u2028\x1b\x00{}%é"),
    max_size=24,
)


def holding(text):
    """Every block and mark, all with the same text."""
    words = (text, " ", Strong(text), " ", Code(text), " ", Badge("fail", text), text)
    blocks = (
        Text(text),
        Text(words),
        Heading(text),
        Bullets((text, words)),
        Listing(text),
        table((text, f"#{text}"), [(text, words), (words, 3)]),
    )
    return Document(text, (Section("one", text, blocks, blocks),))


def structure(markdown):
    """Tokens of the Markdown and of its lines, without what is written in them."""
    found = []
    for token in (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)
    ):
        found.append((token.type, token.tag, token.info))
        if token.type == "html_block":
            found.append(tuple(re.findall(r"</?\w+>", token.content)))
        found += [(c.type, c.tag) for c in token.children or () if c.type != "text"]
    return found


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))

    def handle_comment(self, data):
        self.found.append("comment")


def is_shown(text):
    """Whether Markdown has something to put its marks around."""
    return bool(text.strip(" \t"))


@given(NASTY.filter(lambda text: text.strip() == text and is_shown(text)))
def test_no_text_is_read_as_markup(text):
    plain, nasty = (holding(each) for each in ("word", text))
    assert structure(to_text(nasty)) == structure(to_text(plain))
    html, clean = (write_blocks(each.sections[0].blocks) for each in (nasty, plain))
    assert Tags(html).found == Tags(clean).found
    lines = list(to_lines(nasty))
    assert len(lines) == len(list(to_lines(plain)))
    for shown in (to_text(nasty), html, "\n".join(lines)):
        assert all(c.isprintable() or c == "\n" for c in shown)


def test_the_page_on_regulations_names_sections_by_their_ids():
    page = Path(__file__).resolve().parents[2] / "docs" / "regulations.md"
    rows = [line.split(" | ")[-1] for line in page.read_text("utf-8").splitlines() if "| `" in line]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    # The last two are written where there is nothing to compare with, and where attacks were made.
    known = {section.id for section in order.document(several()).sections} | {"metrics", "leakage"}
    assert len(named) > 5
    assert named <= known
