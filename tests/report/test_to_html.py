import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from documents import charts
from handmade import built
from reports import swept

from fairaudit.report.document import Document, Figures, Section
from fairaudit.report.panels import Bar, Chart, Panel
from fairaudit.report.render.html import page as page_of
from fairaudit.report.render.html import to_html
from fairaudit.results.estimates import Interval

LIMIT = 2_000_000  # bytes


class Page(HTMLParser):
    """Tags, the text of each, and every attribute that could load something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.stack, self.text, self.links = [], [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.links += [v for k, v in attributes if k in ("src", "href", "srcset", "action", "data")]
        if tag not in ("meta", "link", "img", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data):
        if self.stack:
            self.text.setdefault(self.stack[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def handmade():
    report = built()
    return report, to_html(report)


@pytest.fixture(scope="module")
def page(handmade):
    return Page(handmade[1])


def test_one_file_under_two_megabytes_that_loads_nothing(handmade, page):
    _, text = handmade
    assert len(text.encode()) < LIMIT
    assert all(link.startswith("#") for link in page.links)
    assert not page.all("link")


def test_the_policy_names_the_script_by_digest_and_allows_no_connection(handmade, page):
    _, text = handmade
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy
    bodies = re.findall(r"<script>(.*?)</script>", text, flags=re.S)
    assert len(bodies) == 1
    digests = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests


def test_contents_lead_to_every_section(page):
    anchors = {a["id"] for _, a in page.tags if "id" in a}
    assert {link.removeprefix("#") for link in page.links} <= anchors
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_table_by_group_draws_the_costs_and_no_chart_does(handmade):
    report, text = handmade
    drawn = [chart.name for chart in charts(report) if chart.name != "privacy-cost"]
    assert text.count("<figure") == len(drawn) < len(charts(report))
    assert all(f'<figure id="{name}"' in text for name in drawn)
    cells = re.findall(r"<td[^>]*>.*?</td>", text, flags=re.S)
    marks = [cell for cell in cells if "<svg" in cell]
    (compared,) = report.costs
    assert len(marks) == 2 * (len(compared.by_group) + 2) - 1  # the loss has no gap here


def test_every_panel_of_a_chart_is_drawn_with_its_names_as_text():
    report = swept()
    text = to_html(report)
    (chart,) = [chart for chart in charts(report) if chart.name == "epsilon-sweep"]
    figure = text[text.index(f'<figure id="{chart.name}"') :].partition("</figure>")[0]
    assert figure.count('role="img"') == len(chart.panels) > 1
    assert figure.count("epsilon 8</text>") == len(chart.panels)
    assert "#0072B2" not in figure, "colours are those of the style sheet, light or dark"


def test_language_headings_and_table_heads_are_declared(page):
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert {head.get("scope") for head in page.all("th")} == {"col", "row"}
    assert all("aria-label" in figure for figure in page.all("figure"))


def test_names_from_a_file_are_text_in_a_drawing_and_its_legend():
    names = ("<script>x", "</svg><b>y")
    bars = tuple(
        Bar(name, arm, Interval(value=1.0, low=0.5, high=1.5)) for name in names for arm in names
    )
    chart = Chart("named", "of groups", "reading", "alt", names, (Panel("cost", "points", bars),))
    whole = Document("title", (Section("all", "All", (Figures((chart,)),)),))
    text = page_of(whole)
    drawing = re.search(r"<svg.*?</svg>", text[text.index('<figure id="named"') :], flags=re.S)[0]
    assert "&lt;script&gt;x" in drawing
    assert "&lt;/svg&gt;" in drawing
    assert text.count("<script") == 1
    assert "<b>" not in text
