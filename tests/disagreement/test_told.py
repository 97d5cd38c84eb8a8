"""What a report says of who is decided by chance: only what the arm's tests detect."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from audits import reported
from jobs import run_here
from people import RECIPE, applicants

import fairaudit
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.report.load import load_report
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.sections.order import document

ROWS, SEEDS = 2_000, 8
pytestmark = pytest.mark.usefixtures("quick_accountant")


@pytest.fixture(scope="module")
def audit_and_result(tmp_path_factory):
    """An audit on a given split, and a result to make others of."""
    folder = tmp_path_factory.mktemp("told")
    frame = applicants(ROWS)
    frame["side"] = np.where(np.arange(ROWS) % 2 == 0, "test", "train")
    frame.to_csv(folder / "people.csv", index=False)
    options = {**RECIPE, "method": ["dpsgd"], "seeds": SEEDS, "diagnostics": "off"}
    options |= {"data": folder / "people.csv", "split_column": "side", "out": folder / "out"}
    audit = prepare(resolve_config({**options, "format": ["json"]}))
    return audit, run_here(audit.plan, audit.plan.jobs[0])


def with_chances(audit_and_result, private, reference):
    """A report in which a person's answer is turned at each training with the group's chance.

    Args:
        private, reference: Chances of F and of M under both models.
    """
    audit, result = audit_and_result
    rows = result.arrays["test_rows"]
    groups = audit.dataset.groupings[0].groups[rows]
    labels = audit.dataset.labels[rows]
    rng, results = np.random.default_rng(5), {}
    for job in audit.plan.jobs:
        chance = np.array(private if job.arm == "dpsgd" else reference)[groups]
        answers = np.where(rng.random(len(rows)) < chance, 1 - labels, labels)
        said = np.where(np.eye(2)[answers] > 0, 0.8, 0.2).astype(np.float32)[None]
        arrays = {**result.arrays, "probabilities": said}
        results[job.id] = replace(result, job_id=job.id, arrays=arrays)
    return load_report(reported(audit, results))


def sentences(report):
    return [f.text for f in report.findings if f.code.startswith("chance")]


def test_a_gap_is_said_with_each_groups_number(audit_and_result):
    report = with_chances(audit_and_result, private=(0.10, 0.02), reference=(0.02, 0.02))
    (sentence,) = sentences(report)
    (comparison,) = report.costs
    of = {group.group: group for group in comparison.by_group}
    shares = {name: 100 * of[name].value("disagreement") for name in "FM"}
    assert shares["F"] == pytest.approx(2 * 10 * 0.9, abs=2)
    assert sentence.startswith(f"Another training would decide {shares['F']:.1f} % [")
    before = 100 * of["F"].value("reference.disagreement")
    assert f"and {shares['M']:.1f} % [" in sentence
    assert f"without privacy {before:.1f} %" in sentence
    assert "F" in sentence.split(" and ")[0]
    assert sentence in to_markdown(report)


def test_what_privacy_adds_alike_names_no_group(audit_and_result):
    report = with_chances(audit_and_result, private=(0.08, 0.08), reference=(0.02, 0.02))
    (sentence,) = sentences(report)
    assert "of all people differently" in sentence
    assert " F " not in sentence


def test_where_nothing_differs_nothing_is_said(audit_and_result):
    report = with_chances(audit_and_result, private=(0.05, 0.05), reference=(0.05, 0.05))
    assert sentences(report) == []
    assert "## Decided by chance" in to_markdown(report)


def test_the_section_has_every_group_beside_the_model_without_privacy(audit_and_result):
    report = with_chances(audit_and_result, private=(0.10, 0.02), reference=(0.02, 0.02))
    text = to_markdown(report)
    section = text.split("## Decided by chance")[1].split("\n## ")[0]
    (comparison,) = report.costs
    for group in (*comparison.by_group, comparison.overall):
        share = group.estimates["disagreement"]
        added = group.estimates["disagreement_cost"]
        name = group.group or "all rows"
        line = next(line for line in section.splitlines() if f"| {name} |" in line)
        assert f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]" in line
        assert f"{100 * added.value:.1f} [" in line
    assert f"From {SEEDS} trainings of each method, the audit's own seeds" in section
    within = text.split("## Within each model")[1].split("\n## ")[0]
    assert "decided by chance" in within
    assert 'aria-label="Share of each group that another training would decide' in to_html(report)


def test_a_gap_that_gates_may_not_read_has_the_reason_and_no_interval(audit_and_result):
    """As in the section on gaps; what privacy adds is not tested, so no word stands beside it."""
    report = with_chances(audit_and_result, private=(0.10, 0.02), reference=(0.02, 0.02))
    lines = gap_lines(report)
    assert [line.split(" | ")[-1] for line in lines] == ["detected |", "– |"]
    assert all("] | " in line for line in lines)
    gaps = []
    for gap in report.costs[0].gaps:
        is_shown = gap.metric.startswith("disagreement")
        unread = {"gated": False, "reason": "too few people", "reading": "cannot tell"}
        gaps.append(gap.model_copy(update=unread) if is_shown else gap)
    compared = report.costs[0].model_copy(update={"gaps": tuple(gaps)})
    others = [one for one in report.comparisons if one is not report.costs[0]]
    lines = gap_lines(report.model_copy(update={"comparisons": (*others, compared)}))
    assert len(lines) == 2
    for line in lines:
        assert line.endswith("| cannot tell: too few people |")
        assert "[" not in line


def gap_lines(report):
    section = to_markdown(report).split("## Decided by chance")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if " less " in line]


def test_a_report_that_could_not_measure_it_says_how(tmp_path):
    frame = applicants(400)
    frame.to_csv(tmp_path / "people.csv", index=False)
    options = {**RECIPE, "method": ["dpsgd"], "diagnostics": "off", "workers": 1}
    report = fairaudit.run_audit(tmp_path / "people.csv", out=tmp_path / "out", **options)
    section = next(s for s in document(report).sections if s.id == "disagreement")
    assert "--again 5" in section.blocks[0].words
    within = to_markdown(report).split("## Within each model")[1].split("\n## ")[0]
    assert "decided by chance" not in within


def test_given_predictions_without_a_baseline_have_one_column(tmp_path):
    rng = np.random.default_rng(1)
    rows = 400
    sex, truth = np.repeat(["F", "M"], rows // 2), rng.integers(0, 2, rows)
    parts = []
    for seed in range(5):
        said = np.where(rng.random(rows) < np.where(sex == "F", 0.2, 0.01), 1 - truth, truth)
        parts.append(pd.DataFrame({"seed": seed, "sex": sex, "truth": truth, "said": said}))
    report = fairaudit.score_predictions(
        pd.concat(parts), label="truth", predictions="said", group="sex", out=tmp_path
    )
    section = to_markdown(report).split("## Decided by chance")[1].split("\n## ")[0]
    assert "without privacy" not in section
    assert "From given predictions of 5 trainings" in section
