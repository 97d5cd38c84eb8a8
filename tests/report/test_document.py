"""The document: a section is written by every renderer."""

import re

from places import ROOT
from several import several

from fairaudit.cli.lines import result_lines
from fairaudit.report.document import Quantity, Section, Text, table
from fairaudit.report.numbers import POINTS
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.sections import order
from fairaudit.results.estimates import Interval

NUMBER = Quantity(Interval(value=0.0412, low=0.01, high=0.07), POINTS)


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
        < text.index("## Gaps between groups")
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


def test_the_page_on_regulations_names_sections_by_their_ids():
    page = ROOT / "docs" / "regulations.md"
    rows = [line.split(" | ")[-1] for line in page.read_text("utf-8").splitlines() if "| `" in line]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    # The last two are written where there is nothing to compare with, and where attacks were made.
    known = {section.id for section in order.document(several()).sections} | {"metrics", "leakage"}
    assert len(named) > 5
    assert named <= known
