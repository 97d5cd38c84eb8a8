"""The HTML report in a real browser: what a reader sees, and what the page must not do."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import chromium
import pytest
from documents import charts
from handmade import findings, metadata
from hostile import NAMES, hostile_report

from fairaudit.analysis.build import build_report
from fairaudit.report.render.html import to_html

pytestmark = pytest.mark.browser
PICTURES = os.environ.get("REPORT_PICTURES")  # a folder: keeps what the browser showed, to be looked at


@pytest.fixture(scope="module")
def browser():
    with chromium.start() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "handmade": build_report(findings(), metadata()),
        "hostile": hostile_report(),
        "one seed": without_intervals(build_report(findings(), metadata())),
    }
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(to_html(report), encoding="utf-8")
    return {name: (folder / f"{name}.html", report) for name, report in reports.items()}


def without_intervals(report):
    """The same numbers as a single seed gives them."""
    unknown = {"low": None, "high": None}
    groups = [
        group.model_copy(
            update={"estimates": {k: e.model_copy(update=unknown) for k, e in group.estimates.items()}}
        )
        for group in report.comparisons[0].by_group
    ]
    compared = report.comparisons[0].model_copy(update={"by_group": tuple(groups)})
    return report.model_copy(update={"comparisons": (compared,)})


@pytest.mark.parametrize("name", ["handmade", "hostile", "one seed"])
def test_a_page_loads_in_silence_and_alone(browser, pages, name):
    path, _ = pages[name]
    browser.open(path)
    assert browser.logged == []
    assert browser.requested == [path.as_uri()]


@pytest.mark.parametrize("name", ["handmade", "hostile", "one seed"])
def test_every_chart_has_marks(browser, pages, name):
    path, report = pages[name]
    browser.open(path)
    drawn = charts(report)
    assert len(drawn) >= 5
    for chart in drawn:
        for number in range(len(chart.panels)):
            assert marks(browser, chart, number) > 0, chart.name
            size = browser.run(f"document.querySelector('#{chart.name}-{number} svg').clientWidth")
            assert size > 200, chart.name


def marks(browser, chart, number):
    """How many dots, bars and lines a drawing holds beside its frame, axes and legends."""
    frame = ".role-axis *, .role-legend *, .role-axis-grid *, .background, .foreground"
    return browser.run(
        f"[...document.querySelectorAll('#{chart.name}-{number} svg [class*=mark-] path')]"
        f".filter(mark => !mark.matches('{frame}')).length"
    )


def test_a_chart_that_is_empty_would_be_noticed(browser, pages, tmp_path):
    """The same page with the numbers taken out of its drawings, which leaves axes and legends."""
    path, report = pages["handmade"]
    text = path.read_text(encoding="utf-8")
    before, block, after = re.split(r'(?s)(?<=id="specs">)(.*?)(?=</script>)', text, maxsplit=1)
    (tmp_path / "empty.html").write_text(before + json.dumps(emptied(json.loads(block))) + after)
    browser.open(tmp_path / "empty.html")
    first = charts(report)[0]
    assert browser.run(f"document.querySelectorAll('#{first.name}-0 svg').length") == 1
    assert marks(browser, first, 0) == 0
    browser.open(path)
    assert marks(browser, first, 0) > 0


def emptied(spec):
    """A drawing without its numbers."""
    if isinstance(spec, list):
        return [emptied(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {k: [] if k == "values" and isinstance(v, list) else emptied(v) for k, v in spec.items()}


def test_names_from_the_file_stay_text(browser, pages):
    path, _ = pages["hostile"]
    browser.open(path)
    assert browser.run("window.harmed === undefined")
    assert browser.run("document.querySelectorAll('script').length") == 3
    assert browser.run("document.querySelectorAll('img, iframe, object').length") == 0
    led = (
        "[...document.querySelectorAll('main a')].every(a => document.querySelector(a.getAttribute('href')))"
    )
    assert browser.run(led)  # to sections of the page, and nowhere else
    text = browser.run("document.body.innerText")
    assert "<script>" in text
    assert "\u202e" not in browser.run("document.documentElement.outerHTML")
    assert "x" * 100 not in text
    assert not any(name in text for name in NAMES if "\n" in name)


def test_the_page_forbids_what_it_does_not_need(browser, pages):
    path, _ = pages["handmade"]
    browser.open(path)
    browser.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.harmed = 1';"
        "document.body.append(s); return 1; })()"
    )
    assert browser.run("window.harmed === undefined")
    blocked = browser.run("fetch('https://example.org/').then(() => 'reached', () => 'blocked')")
    assert blocked == "blocked"
    assert any("Content Security Policy" in line for line in browser.logged)


def test_tables_sort_by_number_and_back(browser, pages):
    path, _ = pages["handmade"]
    browser.open(path)
    column = "[...document.querySelectorAll('#privacy-cost tbody tr')].map(row => row.cells[5].textContent)"
    press = "document.querySelectorAll('#privacy-cost th button')[5].click(), 1"
    browser.run(press)
    rising = [float(cell) for cell in browser.run(column)]
    assert rising == sorted(rising)
    browser.run(press)
    falling = [float(cell) for cell in browser.run(column)]
    assert falling == rising[::-1] != rising
    assert (
        browser.run("document.querySelectorAll('#privacy-cost th')[5].getAttribute('aria-sort')")
        == "descending"
    )


def test_a_dash_comes_last_whichever_way_a_table_is_sorted(browser, pages):
    path, _ = pages["handmade"]
    browser.open(path)
    cells = browser.run(
        "(() => { const body = document.querySelector('#privacy-cost tbody');"
        "body.rows[0].cells[5].textContent = '–';"
        "const button = document.querySelectorAll('#privacy-cost th button')[5]; const ends = [];"
        "for (const turn of [1, 2]) {"
        "button.click(); ends.push(body.lastElementChild.cells[5].textContent); }"
        "return ends; })()"
    )
    assert cells == ["–", "–"]


def test_the_keyboard_reaches_contents_details_and_sorting(browser, pages):
    path, _ = pages["handmade"]
    browser.open(path)
    reached = []
    for _ in range(60):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.tagName"))
    assert {"A", "SUMMARY", "BUTTON"} <= set(reached)
    assert reached[0] == "A"
    browser.run("document.querySelector('#privacy-cost summary').focus(), 1")
    browser.press("Enter", "\r")
    assert browser.run("document.querySelector('#privacy-cost details').open")


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_page_scrolls_sideways(browser, pages, width):
    for path, _ in pages.values():
        browser.open(path, width=width)
        assert browser.run("document.documentElement.scrollWidth") <= width


def test_what_a_page_folds_is_opened_for_print_and_folded_again(browser, pages):
    path, _ = pages["handmade"]
    browser.open(path, media="print")
    browser.run("document.querySelector('#limitations').append(document.createElement('details')), 1")
    closed = "[...document.querySelectorAll('main details:not([open])')]"
    folded = f"{closed}.filter((one) => !one.closest('figure')).length"
    before = browser.run(folded)
    assert before >= 1
    browser.run("window.dispatchEvent(new Event('beforeprint')), 1")
    assert browser.run(folded) == 0
    browser.run("window.dispatchEvent(new Event('afterprint')), 1")
    assert browser.run(folded) == before


def test_the_charts_follow_the_theme(browser, pages):
    path, _ = pages["handmade"]
    inks = []
    for scheme in ("light", "dark"):
        browser.open(path, scheme=scheme)
        inks.append(browser.run("getComputedStyle(document.querySelector('.chart svg text')).fill"))
    assert inks[0] != inks[1]


def test_every_drawing_is_described(browser, pages):
    path, _ = pages["handmade"]
    browser.open(path)
    drawings = browser.run(
        "[...document.querySelectorAll('.chart')].map(box => box.getAttribute('aria-label') || '')"
    )
    assert drawings
    assert all(len(text) > 20 for text in drawings)
    assert browser.run("document.documentElement.lang") == "en"
    assert browser.run("document.querySelectorAll('figure[aria-labelledby] h3').length") == browser.run(
        "document.querySelectorAll('figure').length"
    )


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """HTML of audits as a user runs them: the sample, and real data where they are at hand."""

    def run(data, *options):
        out = tmp_path_factory.mktemp("audit")
        words = [sys.executable, "-m", "fairaudit", "run", "--data", str(data), "--out", str(out), "--quiet"]
        done = subprocess.run([*words, *options], capture_output=True, text=True, cwd=out, check=False)
        assert done.returncode == 0, done.stderr
        return out / "report.html"

    return run


def opens_whole(browser, path):
    browser.open(path)
    assert browser.logged == []
    assert browser.requested == [path.as_uri()]
    boxes = browser.run(
        "[...document.querySelectorAll('.chart')].map(b => b.querySelectorAll('svg path').length)"
    )
    assert len(boxes) >= 6
    assert all(count > 3 for count in boxes)
    assert path.stat().st_size < 2_000_000


@pytest.mark.slow
def test_the_sample_s_report_opens_whole(browser, audited):
    sample = Path(__file__).parents[2] / "sample_data" / "loans.parquet"
    opens_whole(browser, audited(sample, "--group", "sex", "--seeds", "2", "--epochs", "2"))


@pytest.mark.slow
def test_adult_s_report_opens_whole(browser, audited, shared_data):
    options = ("--preset", "esipova-adult", "--seeds", "2", "--epochs", "2", "--method", "global-adapt")
    opens_whole(browser, audited(shared_data("adult.parquet"), "--group", "sex", *options))


@pytest.mark.slow
def test_mnist_s_report_opens_whole(browser, audited, shared_data):
    options = ("--preset", "esipova-mnist", "--seeds", "1", "--epochs", "1", "--method", "dpsgd")
    opens_whole(browser, audited(shared_data("mnist.parquet"), *options))


@pytest.mark.skipif(PICTURES is None, reason="REPORT_PICTURES names no folder")
def test_pictures_for_people_to_look_at(browser, pages):
    folder = Path(PICTURES)
    for (name, (path, _)), scheme in itertools.product(pages.items(), ("light", "dark")):
        for width in (1280, 390):
            browser.open(path, width=width, scheme=scheme)
            picture = folder / f"{name}-{scheme}-{width}.png"
            browser.picture(picture)
            assert picture.stat().st_size > 10_000  # not a blank page
        browser.pdf(folder / f"{name}.pdf")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
