"""A report explains its terms, and repeats the reader's own note."""

import re
from dataclasses import replace

import pytest
from handmade import built, findings
from hostile import hostile_report
from reports import report_of
from several import several

from fairaudit.cli.lines import result_lines
from fairaudit.metrics.registry import METRICS
from fairaudit.report.frames import AuditReport
from fairaudit.report.render.html import to_html
from fairaudit.report.render.html_words import Explained
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.words import TERMS, explanation, terms


def explained(page):
    return re.findall(r'<abbr title="[^"]+">([^<]*)</abbr>', page)


@pytest.mark.parametrize("make", [built, several, hostile_report])
def test_each_term_is_explained_once_where_it_first_stands(make):
    page = to_html(make())
    marked = explained(page)
    assert len({term.casefold() for term in marked}) == len(marked)
    text = re.sub(r"<(style|script|svg).*?</\1>", "", page, flags=re.S)
    text = re.sub(r"<h2[^>]*>.*?</h2>|<nav.*?</nav>|<pre>.*?</pre>", "", text, flags=re.S)
    body = text[text.index("<main") :]
    for term in ("privacy cost", "excess risk", "nats", "epsilon", "detected", "impact ratio"):
        first = re.search(rf"(?<![\w-]){term}(?![\w-])", re.sub("<[^>]*>", "\0", body))
        before = re.sub("<[^>]*>", "\0", body)[: first.start()]
        assert term in [name.casefold() for name in marked], term
        assert before.endswith("\0"), f"{term} is not marked where it first stands"


def test_the_title_of_a_metric_that_is_added_is_explained_by_the_registrys_words(monkeypatch):
    assert "accuracy" not in terms()  # its words are its title
    words = "negative predictive value"
    for meaning, said in (
        ("Of the rows that are predicted as the other class, the share that is of it.", None),
        ("", "Negative predictive value."),
    ):
        said = said or meaning
        npv = replace(METRICS["tpr"], name="npv", words=words, header="NPV", meaning=meaning)
        monkeypatch.setitem(METRICS, "npv", npv)
        assert explanation("npv") == said
        assert Explained(terms())("NPV") == f'<abbr title="{said}">NPV</abbr>'
        assert f"\n- **NPV**: {said}" in to_markdown(built())


def test_the_longer_term_is_explained_and_names_that_hold_one_are_not():
    text = Explained({"risk": "short", "excess risk": "long", "PLD": "capitals"})
    assert text("an excess risk & more") == ('an <abbr title="long">excess risk</abbr> &amp; more')
    assert text("excess risk") == 'excess <abbr title="short">risk</abbr>'
    assert text("pld, risky, risk_b, risk-free") == "pld, risky, risk_b, risk-free"
    assert text("PLD") == '<abbr title="capitals">PLD</abbr>'


def test_no_line_breaks_within_the_name_of_an_option():
    text = Explained({"clipping": "short"})
    assert text("(--again 5) of clipping; a--b, -- & --max-grad-norm") == (
        '(<span class="whole">--again</span> 5) of <abbr title="short">clipping</abbr>; a--b, -- '
        '&amp; <span class="whole">--max-grad-norm</span>'
    )


def test_no_line_breaks_within_a_number_with_an_exponent():
    text = Explained({"delta": "short"})
    assert text("3.00 (delta 1e-05, 2.5e-12); -4 to 5, e-07, 1e+20") == (
        '3.00 (<abbr title="short">delta</abbr> <span class="whole">1e-05</span>, '
        '<span class="whole">2.5e-12</span>); -4 to 5, e-07, 1e+20'
    )


def test_the_text_for_people_has_them_in_a_section_of_its_own():
    text = to_markdown(built()).partition("\n## Words\n")[2]
    methods = {arm.method for arm in built().arms}
    assert text.count("\n- **") == len(terms()) + len(methods)
    assert all(f"\n- **{term}**: " in text.replace("\\", "") for term in TERMS)
    assert "\n- **sgd**: plain SGD" in text
    assert explanation("Excess Risk") == TERMS["excess risk"]
    assert explanation("excess") is None


def test_a_note_is_printed_as_text_and_changes_no_number():
    words = "for <b>ticket 12</b>, owner: Ada"
    noted, plain = report_of(note=words), report_of()
    assert "Note: for &lt;b&gt;ticket 12&lt;/b&gt;, owner: Ada" in to_html(noted)
    assert r"Note: for &lt;b>ticket 12&lt;/b>, owner: Ada" in to_markdown(noted)
    assert any("ticket 12" in line for line in result_lines(noted))
    assert "Note:" not in to_markdown(plain)
    assert noted.comparisons == plain.comparisons
    assert "--note" in noted.reproduce


def test_a_page_says_when_of_what_and_by_which_command_it_was_made():
    report = built(findings())
    for text in (to_html(report), to_markdown(report)):
        foot = text[text.rindex("Made ") :]
        assert report.created_utc in foot
        assert report.data.sha256 in foot
        assert "fairaudit run; fairaudit 0.1.0" in foot
        assert "2 January 2026" in text


def test_a_notebook_shows_the_first_screen_and_nothing_else():
    report = built()
    shown, page = AuditReport.of(report)._repr_html_(), to_html(report)
    table = re.search(r'<table class="groups">.*?</table>', shown, flags=re.S)[0]
    of_page = re.search(r'<table class="groups">.*?</table>', page, flags=re.S)[0]
    strip = re.compile(r"</?abbr[^>]*>")
    assert strip.sub("", table) == strip.sub("", of_page)
    assert "<script" not in shown
    assert "What was audited" not in shown
