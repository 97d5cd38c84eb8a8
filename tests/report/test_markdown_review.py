from dataclasses import replace

import pytest
from handmade import dataset, findings, metadata

from fairaudit.analysis.build import build_report
from fairaudit.report.render.markdown import to_markdown
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


def test_rows_of_unknown_group_are_counted_and_have_no_ratio():
    names = ("F", "M", "(missing)")
    found = findings()
    report = build_report(replace(found, dataset=dataset(names, missing=2)), metadata())
    assert "- No group in sex: 10 rows; kept, never in a gap" in to_markdown(report)


def test_without_a_favourable_class_there_are_no_rates():
    found = findings()
    report = build_report(
        replace(found, dataset=replace(found.dataset, positive=None, favourable=None)), metadata()
    )
    text = section(to_markdown(report), report, "within")
    assert "set --favourable" in text
