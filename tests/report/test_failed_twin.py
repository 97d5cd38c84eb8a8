"""A training without noise that failed at one seed: the cost is not split, and the report says why.

A twin is a private training once more, without its noise; twins split a cost into its parts.
"""

import json

import pytest
from audits import audited
from people import RECIPE, people

from fairaudit.cli.lines import result_lines, warning_lines
from fairaudit.report.document import Table
from fairaudit.report.remedies import advice_for
from fairaudit.report.render.terminal import lines_of
from fairaudit.report.sections.order import document
from fairaudit.report.write import rendered

WHY = "dpsgd without its noise has no result at seed 1, so its cost is not split: diverged at step"
# So much noise that the cost is large enough for advice.
OPTIONS = {**RECIPE, "twins": "always", "epochs": 2, "noise_multiplier": 20.0}


@pytest.fixture(scope="module")
def of_methods(tmp_path_factory):
    """(methods, options) -> the report in which the twin of dpsgd failed at the last of two seeds.

    Every training is made once.
    """
    kept = {}
    data = people(300, slopes={"F": 2.0})

    def report(*methods, **options):
        folder = tmp_path_factory.mktemp("failed")
        path = folder / "people.csv"
        data.to_csv(path, index=False)
        chosen = {**OPTIONS, "data": path, "method": list(methods), **options}
        made = audited(folder, kept=kept, **chosen)
        failed = {job.id for job in made.plan.twins if (job.arm, job.seed) == ("dpsgd", 1)}
        return audited(folder, kept=kept, fails=lambda job: job.id in failed, **chosen).report

    return report


@pytest.mark.parametrize("methods", [("dpsgd",), ("dpsgd", "global")])
def test_a_report_with_a_failed_twin_is_written_in_every_format_and_says_why(of_methods, methods):
    report = of_methods(*methods)
    stored = json.loads(rendered(report, "json"))
    (overall,) = (c["overall"] for c in stored["comparisons"] if c["arm"] == "dpsgd")
    of_noise = overall["estimates"]["privacy_cost.noise"]
    assert of_noise["value"] is None
    assert of_noise["reason"] == "the noise-free twin has no result at seed 1"
    for name in ("md", "html"):
        assert WHY in rendered(report, name)
    assert any(WHY in line for line in warning_lines(report, verbose=False))
    assert list(result_lines(report))
    for one in document(report).sections:
        assert list(lines_of(one.blocks))


def test_a_method_whose_twin_failed_has_no_row_of_parts_and_the_others_keep_theirs(of_methods):
    def rows(report):
        """The rows of parts of every method, as texts."""
        parts = [one for one in document(report).sections if one.id == "parts"]
        tables = [block for one in parts for block in one.blocks if isinstance(block, Table)]
        return [tuple(map(str, row)) for one in tables for row in one.rows]

    assert rows(of_methods("dpsgd")) == []
    alone = rows(of_methods("global"))
    assert alone
    assert rows(of_methods("dpsgd", "global")) == alone


def test_without_parts_the_advice_is_that_of_an_audit_that_splits_nothing(of_methods):
    # A bound so far above the rule's that it is advised against without a split, too.
    bound = {"max_grad_norm": 20.0}
    failed, unsplit = of_methods("dpsgd", **bound), of_methods("dpsgd", twins="off", **bound)
    given = {arm.key: advice_for(unsplit, arm) for arm in unsplit.arms}
    assert given["dpsgd"] is not None
    assert {arm.key: advice_for(failed, arm) for arm in failed.arms} == given
