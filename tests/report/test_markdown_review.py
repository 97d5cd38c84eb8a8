from dataclasses import replace

from handmade import dataset, findings, metadata

from fairaudit.analysis.build import build_report
from fairaudit.report.render.markdown import to_markdown


def test_rows_of_unknown_group_are_counted_and_have_no_ratio():
    names = ("F", "M", "(missing)")
    found = findings()
    report = build_report(replace(found, dataset=dataset(names, missing=2)), metadata())
    assert "- No group in sex: 10 rows; kept, never in a gap" in to_markdown(report)
