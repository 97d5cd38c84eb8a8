"""The document: a section is written by every renderer, and no text in it is read as markup by any."""

import ast
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from handmade import findings, metadata
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from several import several

import fairaudit
from fairaudit.analysis.build import build_report
from fairaudit.cli.lines import result_lines
from fairaudit.report.document import (
    Badge,
    Bullets,
    Callout,
    Code,
    Details,
    Document,
    Heading,
    Link,
    Listing,
    Quantity,
    Rank,
    Section,
    Strong,
    Text,
    complete,
    table,
)
from fairaudit.report.render.html import to_html, write_blocks
from fairaudit.report.render.markdown import to_markdown, to_text
from fairaudit.report.render.model_card import to_model_card
from fairaudit.report.render.terminal import to_lines
from fairaudit.report.sections import order
from fairaudit.report.written import POINTS
from fairaudit.results.estimates import Interval

NUMBER = Quantity(Interval(value=0.0412, low=0.01, high=0.07), POINTS)


@pytest.fixture(scope="module")
def report():
    return build_report(findings(), metadata())


def added(rank, brief=None):
    """A section as a new file would make it."""
    blocks = (Text("What is new."), table(("group", "#size"), [("F", NUMBER), ("M", 1234)]))
    return lambda report: Section("added", "An added section", rank, blocks, brief)


@pytest.mark.parametrize("rank", Rank)
def test_a_section_that_is_added_to_the_order_stands_in_every_rendering(report, monkeypatch, rank):
    monkeypatch.setattr(order, "ORDER", (*order.ORDER[:4], added(rank), *order.ORDER[4:]))
    text = to_markdown(report)
    assert (
        "\n## An added section\n\nWhat is new.\n\n| group | size |\n|---|---:|\n| F | 4.1 [1.0, 7.0] |"
        in text
    )
    assert text.index("## Cost by group") < text.index("## An added section") < text.index("## Gaps between")
    page = to_html(report)
    assert '<h2 id="added-title">An added section</h2>' in page
    assert '<li><a href="#added">An added section</a>' in page
    assert '<tr><td>M</td><td class="number">1,234</td></tr>' in page
    shown = "\n".join(result_lines(report))
    assert ("What is new." in shown) == (rank is Rank.MAIN)
    assert ("4.1 [1.0, 7.0]" in shown) == (rank is Rank.MAIN)


def test_a_brief_is_what_a_terminal_shows_of_a_section_of_any_rank(report, monkeypatch):
    monkeypatch.setattr(order, "ORDER", (*order.ORDER, added(Rank.DETAIL, (Text("In short."),))))
    shown = "\n".join(result_lines(report))
    assert " In short." in shown.splitlines()
    assert "What is new." not in shown
    assert "In short." not in to_markdown(report) + to_html(report)


def test_a_section_with_nothing_to_say_is_nowhere(report, monkeypatch):
    before = to_markdown(report), to_model_card(report), list(result_lines(report))
    monkeypatch.setattr(order, "ORDER", (*order.ORDER, lambda report: None))
    assert (to_markdown(report), to_model_card(report), list(result_lines(report))) == before


def id_of(section):
    """The name of its file, or its own where a file holds several of one topic."""
    return file_of(section) if section.__name__ == "section" else section.__name__


def file_of(section):
    return section.__module__.rpartition(".")[2]


def test_sections_are_known_by_an_id_of_their_own_that_names_where_they_are_made():
    found = {
        s.id for r in (several(), build_report(findings(), metadata())) for s in order.document(r).sections
    }
    ids = [id_of(section) for section in order.ORDER]
    assert len(set(ids)) == len(ids)
    assert found <= set(ids)
    made = [part for section in order.ORDER if (part := section(several())) is not None]
    assert [part.id for part in made] == [id_of(s) for s in order.ORDER if s(several()) is not None]
    files = {file_of(section) for section in order.ORDER}
    beside = {path.stem for path in Path(order.__file__).parent.glob("*.py")} - {"__init__", "order"}
    assert files == beside  # a file that nobody lists would never be read


def test_no_other_file_knows_a_section_by_its_heading(report):
    titles = {
        s.title: s.id for r in (report, several()) for s in order.document(r).sections if " " in s.title
    }
    assert len(titles) > 10
    for path in Path(fairaudit.__file__).parent.rglob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
        named = {titles[text] for text in texts if text in titles}
        own = {id_of(section) for section in order.ORDER if file_of(section) == path.stem}
        assert named <= {*own, *({"costs"} if path.stem == "charts_costs" else ())}, path


def test_a_link_leads_to_the_sections_that_are_there():
    here = Section("here", "Right *here*", Rank.DETAIL, (Text("x"),))
    links = Bullets((("see ", Link(("gone", "here"), "none")), ("see ", Link(("gone",), "none"))))
    whole = complete("T", [here, Section("links", "Links", Rank.MAIN, (Details("more", (links,)),))])
    assert "- see Right \\*here\\*\n- see none" in to_text(whole)
    assert " - see Right *here*" in list(to_lines(whole))
    html = write_blocks(whole.sections[1].blocks)
    assert 'see <a href="#here">Right *here*</a>' in html
    assert "see none" in html


# --- no text is markup -------------------------------------------------------------------------------

NASTY = st.text(
    alphabet=st.sampled_from("[]()<>|_*`~#&;:!,.-+=\\/\"' 12alw\n\r\t\u202e\u2028\x1b\x00{}%é"), max_size=24
)


def holding(text):
    """Every block and mark, all with the same text."""
    words = (text, " ", Strong(text), " ", Code(text), " ", Badge("fail", text), text)
    blocks = (
        Text(text), Text(words), Heading(text), Bullets((text, words)), Callout("warning", text, words),
        Listing(text), table((text, f"#{text}"), [(text, words), (words, 3)]),
        Details(text, (Text(words), table((text,), [(words,)]))),
    )  # fmt: skip
    return Document(text, (Section("one", text, Rank.MAIN, blocks), Section("two", "", Rank.MAIN, blocks)))


def structure(markdown):
    """Tokens of the Markdown and of its lines, without what is written in them."""
    found = []
    for token in MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown):
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


def test_a_mark_that_is_not_escaped_would_be_noticed():
    assert structure("*a*") != structure("word")
    assert Tags("<p><b>").found != Tags("<p>").found


def test_a_text_of_nothing_breaks_no_block():
    for text in ("", " ", "\t"):
        to_text(holding(text))
        assert write_blocks(holding(text).sections[0].blocks)
        assert list(to_lines(holding(text)))


def test_all_of_a_document_is_frozen(report):
    section = order.document(report).sections[0]
    with pytest.raises(AttributeError):
        section.title = "another"
    assert replace(section, title="another").id == section.id
