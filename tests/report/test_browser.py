"""The page in a real browser: on a wide and a narrow screen, in light and dark, all of it open.

Reports made by hand, and of audits: two methods by two groupings with further trainings, every
method, images. It needs the extra ``browser`` and the system's Chromium, and is skipped where
either is lacking.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from handmade import built
from hostile import hostile_report
from several import several

import fairaudit
from fairaudit.gate.check import check, with_verdict
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.render.html import to_html

playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs the extra: pip install 'fairaudit-dp[browser]'"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="needs the extra: fairaudit-dp[browser]"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this system"),
]
PICTURES = os.environ.get("REPORT_PICTURES")  # a folder that keeps what was shown, to be looked at
WIDER = """() => [...document.querySelectorAll('body *')]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .filter(one => !one.closest('[data-scrolls], .scroll, svg, table'))
    .map(one => one.outerHTML.slice(0, 120))"""


def judged(report):
    """A report with rules that fail, pass or are open."""
    rules = parse_rules(["privacy_cost_gap > 1 point", "epsilon > 9"])
    return with_verdict(report, check(report, rules))


SAMPLE = Path(__file__).parents[2] / "sample_data"
LOANS = {"data": SAMPLE / "loans.parquet", "epochs": 2, "workers": 1}
TWO = {**LOANS, "group": ["sex", "race"], "method": ["dpsgd", "global-adapt"], "again": 3}
IMAGES = {"data": SAMPLE / "images", "group": "style", "epochs": 1, "again": 3, "workers": 1}


def ran(folder, options):
    return judged(fairaudit.run_audit(out=folder, twins="always", **options))


REPORTS = {
    "handmade": lambda folder: judged(built()),
    "several": lambda folder: judged(several()),
    "hostile": lambda folder: hostile_report(),
    "two": lambda folder: ran(folder, TWO),
    "all": lambda folder: ran(folder, {**LOANS, "group": "sex", "method": "all"}),
    "images": lambda folder: ran(folder, IMAGES),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Name of a report -> its page, which is made when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    def page(name):
        path = folder / f"{name}.html"
        if not path.exists():
            report = REPORTS[name](tmp_path_factory.mktemp(name))
            path.write_text(to_html(report), "utf-8")
        return path

    return page


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser, pages):
    """Opens a page: what it showed, logged and asked for."""
    contexts = []

    def show(name, width, scheme):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
        )
        contexts.append(context)
        page = context.new_page()
        logged, asked = [], []
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(pages(name).as_uri())
        page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / f"{name}-{width}-{scheme}.png", full_page=True)
        return page, logged, asked

    yield show
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", REPORTS)
def test_a_page_fits_is_silent_asks_for_nothing_and_is_accessible(opened, name, width, scheme):
    page, logged, asked = opened(name, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(WIDER) == []
    assert logged == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 1
    found = axe.Axe().run(page).response["violations"]
    told = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
    assert told == [], json.dumps(told, indent=1)


@pytest.mark.parametrize(("name", "most"), [("two", 400_000), ("all", 1_000_000)])
def test_a_page_stays_small(pages, name, most):
    """It is sent by mail and kept in tickets."""
    assert 50_000 < pages(name).stat().st_size < most


def test_the_first_screen_has_verdict_and_table(opened):
    """At 1280 x 800, without scrolling."""
    page, _, _ = opened("handmade", 1280, "light")
    text = page.evaluate(
        "[...document.querySelectorAll('body *')].filter(one => !one.children.length)"
        ".filter(one => one.getBoundingClientRect().bottom < 800)"
        ".map(one => one.textContent).join(' ')"
    )
    assert "FAIL" in text
    assert "2.9" in text
    rows = "[...document.querySelectorAll('tr')].map(one => one.getBoundingClientRect().bottom)"
    assert sum(bottom < 800 for bottom in page.evaluate(rows)) >= 5  # head, two groups, gap, all


def test_a_page_that_is_too_wide_or_not_accessible_would_be_noticed(opened):
    page, logged, _ = opened("handmade", 400, "light")
    page.evaluate(
        "() => { const made = document.createElement('div'); made.style.width = '900px';"
        "made.style.height = '5px'; document.querySelector('main').append(made);"
        "made.innerHTML = '<img src=\"data:,\"><h6>too deep</h6>'; console.error('told'); }"
    )
    assert page.evaluate(WIDER) != []
    assert "told" in logged
    assert {"image-alt", "heading-order"} <= {
        one["id"] for one in axe.Axe().run(page).response["violations"]
    }
