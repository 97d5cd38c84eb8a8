import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from documents import charts
from handmade import built
from hostile import hostile_report

from fairaudit.report.render.html import to_html

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


@pytest.fixture(scope="module")
def hostile():
    report = hostile_report()
    return report, to_html(report)


def test_one_file_under_two_megabytes_that_loads_nothing(handmade, page):
    _, text = handmade
    assert len(text.encode()) < LIMIT
    assert all(link.startswith("#") for link in page.links)
    assert not page.all("link")


def test_the_policy_names_both_scripts_by_digest_and_allows_no_connection(handmade, page):
    _, text = handmade
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy
    bodies = re.findall(r"<script>(.*?)</script>", text, flags=re.S)
    assert len(bodies) == 2
    digests = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests


def test_contents_lead_to_every_section(page):
    anchors = {a["id"] for _, a in page.tags if "id" in a}
    assert {link.removeprefix("#") for link in page.links} <= anchors
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_every_panel_of_a_chart_has_its_place(handmade):
    report, text = handmade
    for chart in charts(report):
        figure = text[text.index(f'<figure id="{chart.name}"') :].partition("</figure>")[0]
        assert figure.count('<div class="chart"') == len(chart.panels)


def test_language_headings_and_table_heads_are_declared(page):
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert all(head.get("scope") == "col" for head in page.all("th"))
    assert all("aria-label" in figure for figure in page.all("figure"))


def test_the_specifications_survive_the_page(hostile):
    report, text = hostile
    block = re.search(
        r'<script type="application/json" id="specs">(.*?)</script>', text, flags=re.S
    )[1]
    assert "<" not in block
    specs = json.loads(block)
    assert set(specs) == {f"{c.name}-{i}" for c in charts(report) for i in range(len(c.panels))}
    assert "<script>" in json.dumps(specs)  # the names are there, as text
