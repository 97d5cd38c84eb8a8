"""What `--diagnostics full` read of steps, as a reader meets it."""

import pytest
from changed import replace
from checkpoint_readings import checkpointed
from documents import charts
from handmade import arm, comparison
from reports import report_of

from fairaudit.analysis.build_causes import decomposition
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown

TITLE = "Why: what a step does to each group"


@pytest.fixture(scope="module")
def report():
    made, data, results, compared = checkpointed()
    found = decomposition(made, data, results, compared)
    plain = report_of(
        comparison("global-adapt"), arms=(arm("sgd", reference=None), arm("global-adapt"))
    )
    return replace(plain, diagnostics=replace(plain.diagnostics, decomposition=found))


def lines(report):
    text = to_markdown(report)
    start = text.index(f"## {TITLE}")
    return text[start : text.index("\n## ", start + 1)].splitlines()


def cells(report, *starts):
    """The cells of the table rows that begin with these."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines(report)]
    return [row for row in rows if row[: len(starts)] == list(starts)]


def test_terms_of_both_splits_stand_by_group(report):
    parts, statistics, *_ = cells(report, "global-adapt", "F")
    # In thousandths of a nat, means over the scales 1, 1.1 and 1.2.
    assert [cell.split()[0] for cell in parts[3:]] == ["1.1e+03", "-1.1e+03", "1.65e+03", "-550"]
    assert "2.93" in statistics  # clipping bias: the mean of 2, 2 and 4 times 1.1


def test_rank_correlations_stand_by_group_with_intervals(report):
    text = "\n".join(lines(report))
    assert "input norm, gradient norm | input norm, Hessian trace" in text
    rows = cells(report, "global-adapt", "all rows")
    assert rows == [["global-adapt", "all rows", "0.60 [0.50, 0.80]", "0.60 [0.50, 0.80]"]]


def test_bounds_stand_in_each_form_beside_the_truth_with_what_is_not_met(report):
    (star,) = cells(report, "global-adapt", "Prop. 3\\*")
    assert star[2:6] == ["F minus M", "550", "550", "1.48e+03"]
    (printed,) = cells(report, "global-adapt", "Thm 3 as printed")
    assert printed[4] == "–"
    said = "assumption not met at 33 % of steps: the step is longer than 1 / largest eigenvalue"
    assert sum(said in line for line in lines(report)) == 1


def test_eigenvalues_bias_noise_and_bounds_are_drawn_over_training(report):
    drawn = {chart.name: chart for chart in charts(report)}
    readings = [panel.title for panel in drawn["causes-2"].panels]
    for words in ("largest eigenvalue", "clipping bias", "noise", "direction", "magnitude"):
        assert any(words in title for title in readings)
    (lengths,) = drawn["batches-2"].panels
    assert [line.points[-1] for line in lengths.lines] == [(1839, 3.0), (1839, 1.0)]
    (bound, *_) = drawn["bounds-2"].panels
    assert [line.series for line in bound.lines] == ["bound", "bound with eigenvalues", "truth"]
    assert bound.lines[0].points[0] == (0, pytest.approx(550))
    assert "Over training: eigenvalues, clipping bias, noise, bounds" in to_html(report)


def test_a_report_without_them_has_no_section(report):
    bare = replace(report, diagnostics=replace(report.diagnostics, decomposition=None))
    assert TITLE not in to_markdown(bare)
