import re
from dataclasses import replace

import pytest
import yaml
from documents import full_text
from handmade import comparison, dataset, findings, metadata, plan, resolved, results
from hostile import NAMES, hostile_report
from markdown_it import MarkdownIt

from fairaudit.analysis.build import AuditResults, build_report
from fairaudit.report.document import Rank
from fairaudit.report.render.markdown import MOST_LINES, to_markdown
from fairaudit.report.render.model_card import to_model_card
from fairaudit.report.sections.instruments import SUPPORTS
from fairaudit.report.sections.order import document


@pytest.fixture
def report():
    return build_report(findings(), metadata())


def titles(report):
    return {section.id: section.title for section in document(report).sections}


def section(text, report, name):
    """The Markdown of one section, known by its id."""
    title = titles(report)[name]
    return text[text.index(f"## {title}\n") :].partition("\n## ")[0]


def test_the_ratio_is_against_the_most_selected_group(report):
    text = section(to_markdown(report), report, "selection")
    rows = [line for line in text.splitlines() if line.startswith("| global-adapt")]
    assert rows == [
        "| global-adapt | sex | F | 382 | 0.300 | 0.600 |  |",
        "| global-adapt | sex | M | 382 | 0.500 | 1.000 | most selected |",
    ]


def test_rows_of_unknown_group_are_counted_and_have_no_ratio():
    names = ("F", "M", "(missing)")
    found = findings()
    report = build_report(replace(found, dataset=dataset(names, missing=2)), metadata())
    assert "- sex not known: 10 rows; shown, in no gap and no ratio" in to_markdown(report)


def test_without_a_favourable_class_there_are_no_rates():
    found = findings()
    report = build_report(
        replace(found, dataset=replace(found.dataset, positive=None, favourable=None)), metadata()
    )
    text = section(to_markdown(report), report, "selection")
    assert "--favourable" in text
    assert "|" not in text


def test_the_register_shows_epsilon_with_delta_and_only_where_it_is_proved(report):
    text = section(to_markdown(report), report, "register")
    (row,) = [line for line in text.splitlines() if line.startswith("| global-adapt")]
    assert row.startswith("| global-adapt | 3.14 | 1e-06 | Gaussian noise on gradient and count |")
    assert "| sgd" not in text


def test_the_instruments_name_sections_of_the_report_and_no_others(report):
    text = to_markdown(report)
    headings = set(re.findall(r"^## (.*)$", text, flags=re.M))
    known = titles(report)
    told = section(text, report, "instruments")
    for instrument, (_, sections) in SUPPORTS.items():
        (line,) = [line for line in told.splitlines() if line.startswith(f"- {instrument} (")]
        named = line.rpartition("): ")[2].split("; ")
        assert named == [known[name] for name in sections if name in known]
        assert named
        assert set(named) <= headings


def test_every_section_that_an_instrument_could_name_is_written_somewhere(report):
    named = {name for _, sections in SUPPORTS.values() for name in sections}
    # Written where there is nothing to compare with, and where it was asked for.
    assert named - set(titles(report)) == {"metrics", "leakage"}
    alone = report.comparisons[0].model_copy(update={"reference": ""})
    assert "metrics" in titles(report.model_copy(update={"comparisons": (alone,)}))


def test_no_word_of_approval_is_used(report):
    for text in (to_markdown(report), to_model_card(report)):
        assert not re.search(
            r"complian|conform|certif|satisf|\bfair\b", text.replace("fairaudit", "").lower()
        )


def busiest():
    """Many arms, groupings, groups, seeds, warnings: the longest report that an audit is likely to give."""
    names = tuple(f"group {i}" for i in range(12))
    settled = resolved(group=["a", "b", "c"], intersect=True)
    made = plan(settled.config)
    compared = tuple(comparison(costs=tuple(0.01 for _ in names), names=names) for _ in range(12))
    data = replace(
        dataset(names),
        dropped_columns={f"c{i}": "constant" for i in range(50)},
        missing={f"m{i}": dict.fromkeys(names, 3) for i in range(50)},
        dropped_rows={f"r{i}": {"group 1": 3} for i in range(50)},
    )
    return build_report(AuditResults(settled, made, data, results(made), {}, compared), metadata())


def test_the_longest_report_is_cut_to_length_and_says_so():
    report = busiest()
    assert len(full_text(report).splitlines()) >= MOST_LINES - 30
    for pictures in (None, ("figures", "svg")):
        text = to_markdown(report, pictures=pictures)
        main = [section.id for section in document(report).sections if section.rank is Rank.MAIN]
        rows = sum(section(text, report, name).count("\n| ") - 1 for name in main)
        assert rows >= 12 * 12 + 12  # whole, whatever else is cut
        assert len(text.splitlines()) < MOST_LINES + rows
        assert ("](figures/" in text) == (pictures is not None)
        assert "rows are in report.json" in text


def test_a_model_card_has_the_sections_of_the_paper_and_the_numbers_of_the_report(report):
    card = to_model_card(report)
    headings = re.findall(r"^## (.*)$", card, flags=re.M)
    assert headings == [
        *("Model details", "Intended use", "Factors", "Metrics", "Training data", "Evaluation data"),
        *("Quantitative analyses", "Privacy", "Caveats and recommendations"),
    ]
    assert "4.1 [2.7, 5.5]" in card
    assert "ε ≤ 3.14" in card
    assert "2026" not in card


def test_the_header_of_a_model_card_is_yaml_whatever_the_names():
    for report in (hostile_report(), hostile_report((*NAMES[:3], "---\n- x", "\u2028"))):
        _, header, _ = to_model_card(report).split("---\n", 2)
        assert yaml.safe_load(header)["tags"] == ["differential-privacy"]


def test_a_strict_parser_finds_no_markup_in_hostile_names():
    parser = MarkdownIt("commonmark").enable("table")  # raw HTML on, as on some sites
    for text in (to_markdown(hostile_report()), to_model_card(hostile_report()).split("---\n", 2)[2]):
        html = parser.render(text)
        assert not re.search(r"<(script|img|a|em|iframe)\b", html)
        assert "x" * 60 not in html.partition("<pre>")[0]
