import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from documents import charts
from handmade import SEEDS, arm, dataset, findings, metadata, plan, resolved, results
from hostile import hostile_report

from fairaudit.analysis.build import AuditResults, build_report
from fairaudit.data.dataset import Grouping
from fairaudit.metrics.compare import compare, measure_reference
from fairaudit.metrics.within_model import Predictions
from fairaudit.report.document import data_table
from fairaudit.report.render.html import inline, to_html
from fairaudit.report.to_json import to_json

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
    report = build_report(findings(), metadata())
    return report, to_html(report)


@pytest.fixture(scope="module")
def ten_by_ten():
    """Two private arms and a reference, ten groups, ten classes, no favourable one."""
    rng, n = np.random.default_rng(0), 2000
    labels, names = rng.integers(0, 10, n), tuple(f"group {k}" for k in range(10))
    grouping = Grouping("sex", np.arange(n) % 10, names)

    def predictions():
        train = np.full((1, 10), 0.8), np.full((1, 10), 0.4), np.full(10, 100)
        return [
            Predictions(
                seed, np.arange(n), rng.dirichlet(np.ones(10), (1, n)).astype(np.float32), *train
            )
            for seed in range(SEEDS)
        ]

    shared = (predictions(), labels, grouping, None, 10, True)
    arms = ("dpsgd", "global-adapt")
    comparisons = (
        measure_reference("sgd", *shared),
        *(compare(name, "sgd", predictions(), *shared) for name in arms),
    )
    settled = resolved()
    made = plan(settled.config, (arm("sgd", reference=None), *(arm(name) for name in arms)))
    data = replace(dataset(names), classes=tuple("0123456789"), positive=None)
    return build_report(
        AuditResults(settled, made, data, results(made), {}, comparisons), metadata()
    )


@pytest.fixture(scope="module")
def hostile():
    report = hostile_report()
    return report, to_html(report)


def test_one_file_under_two_megabytes_that_loads_nothing(handmade):
    _, text = handmade
    assert len(text.encode()) < LIMIT
    page = Page(text)
    assert all(link.startswith("#") for link in page.links)
    assert not page.all("link")


def test_ten_groups_and_ten_classes_make_no_report_that_is_too_large_to_send(ten_by_ten):
    assert len(to_html(ten_by_ten).encode()) < LIMIT
    assert (
        len(to_json(ten_by_ten).encode()) < 2 * LIMIT
    )  # six times as much with every class's every pair


def test_the_policy_names_both_scripts_by_digest_and_allows_no_connection(handmade):
    _, text = handmade
    page = Page(text)
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy
    bodies = re.findall(r"<script>(.*?)</script>", text, flags=re.S)
    assert len(bodies) == 2
    digests = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
    assert re.findall(r"'sha256-([^']+)'", policy) == digests


def test_contents_lead_to_every_section_and_chart(handmade):
    report, text = handmade
    page = Page(text)
    anchors = {a["id"] for _, a in page.tags if "id" in a}
    assert {link.removeprefix("#") for link in page.links} <= anchors
    assert {f"#{chart.name}" for chart in charts(report)} <= set(page.links)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_every_chart_has_its_numbers_below(handmade):
    report, text = handmade
    for chart in charts(report):
        figure = text[text.index(f'<figure id="{chart.name}"') :].partition("</figure>")[0]
        assert figure.count('<div class="chart"') == len(chart.panels)
        assert figure.count("<tr>") == len(chart.table.rows) + 1


def test_language_headings_and_table_heads_are_declared(handmade):
    _, text = handmade
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert all(head.get("scope") == "col" for head in page.all("th"))
    assert all("aria-labelledby" in figure for figure in page.all("figure"))


def test_two_renderings_are_the_same_bytes_and_tell_no_time(handmade):
    _, text = handmade
    later = metadata(created_utc="2027-01-01T00:00:00+00:00", seconds={"training": 98765.4})
    assert to_html(build_report(findings(), later)) == text
    assert "2026-01-02" not in text


def test_hostile_names_open_no_tag_and_end_no_script(hostile):
    _, text = hostile
    page = Page(text)
    assert len(page.all("script")) == 3
    for tag in ("img", "iframe", "object", "embed", "form", "base"):
        assert not page.all(tag)
    assert not [k for _, a in page.tags for k in a if k.startswith("on")]
    assert "\u202e" not in text
    assert "x" * 100 not in text
    assert not [link for link in page.links if not link.startswith("#")]


def test_the_specifications_survive_the_page(hostile):
    report, text = hostile
    block = re.search(
        r'<script type="application/json" id="specs">(.*?)</script>', text, flags=re.S
    )[1]
    assert "<" not in block
    specs = json.loads(block)
    assert set(specs) == {f"{c.name}-{i}" for c in charts(report) for i in range(len(c.panels))}
    assert "<script>" in json.dumps(specs)  # the names are there, as text


def test_a_cell_is_six_digits_a_dash_or_one_line():
    long = data_table(("a",), [("x" * 5000,)]).rows[0][0]
    assert inline(None) == "–"
    assert inline(0.123456789) == "0.123457"
    assert inline(1234567) == "1,234,567"
    assert inline("a\nb") == "aU+000Ab"
    assert inline("<b>") == "&lt;b&gt;"
    assert len(long) == 80
