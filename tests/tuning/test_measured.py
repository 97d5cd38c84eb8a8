"""From candidates to a report: a seed's figure is the expectation over what its search keeps."""

import json
from pathlib import Path

import numpy as np
import pytest
from jobs import run_here
from means import seed_scores
from typer.testing import CliRunner

from fairaudit.analysis.measure import measure
from fairaudit.cli.app import app
from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.run_directory import JOBS
from fairaudit.metrics.within_model import LabelOutcome, record_correct, record_loss
from fairaudit.planning.plan import make_plan
from fairaudit.results.jobs import read_result

LOANS = Path(__file__).resolve().parents[2] / "sample_data" / "loans.parquet"
N = 4
OPTIONS = {
    "data": LOANS,
    "group": ("sex",),
    "seeds": 2,
    "epochs": 2,
    "method": ("dpsgd",),
    "tune": N,
    "noise_multiplier": 1.0,
    "batch_size": 512,
    "twins": "always",
}


@pytest.fixture(scope="module")
def measured():
    config = AuditConfig(**OPTIONS)
    dataset = load_dataset(config)
    plan = make_plan(config, dataset)
    results = {job.id: run_here(plan, job) for job in plan.every_job}
    return plan, dataset, results, measure(plan, dataset, results)


def by_hand(plan, dataset, results, arm, of=""):
    """Accuracy and loss of each group, [seeds, 2, groups].

    Each candidate's own, times its chance.
    """
    found = []
    twins = {(job.arm, job.seed): results[job.id].arrays for job in plan.twins}
    for job in (job for job in plan.jobs if job.arm == arm):
        arrays = results[job.id].arrays
        predicted = twins[arm, job.seed] if of else arrays
        labels, groups = (
            v[arrays["test_rows"]] for v in (dataset.labels, dataset.groupings[0].groups)
        )
        correct, loss = np.zeros(2), np.zeros(2)
        for weight, p in zip(arrays["weights"], predicted[f"{of}probabilities"], strict=True):
            for k in (0, 1):
                rows = groups == k
                correct[k] += weight * record_correct(p[None], labels)[0, rows].mean()
                loss[k] += weight * record_loss(p[None], labels)[0, rows].mean()
        found.append([correct, loss])
    return np.array(found)


def test_a_cost_is_the_difference_of_both_arms_expectations(measured):
    plan, dataset, results, comparisons = measured
    models = (("dpsgd", ""), ("sgd", ""), ("dpsgd", "step."), ("dpsgd", "without_noise."))
    private, reference, step, twin = (
        by_hand(plan, dataset, results, arm, of) for arm, of in models
    )
    found = next(c for c in comparisons if c.arm == "dpsgd")
    for k, group in enumerate(found.by_group):
        values = {name: group.estimates[name].value for name in group.estimates}
        assert values["accuracy"] == pytest.approx(private[:, 0, k].mean())
        assert values["reference.accuracy"] == pytest.approx(reference[:, 0, k].mean())
        assert values["privacy_cost"] == pytest.approx((reference - private)[:, 0, k].mean())
        assert values["excess_risk"] == pytest.approx((private - reference)[:, 1, k].mean())
        assert values["privacy_cost.step"] == pytest.approx((reference - step)[:, 0, k].mean())
        assert values["privacy_cost.clipping"] == pytest.approx((step - twin)[:, 0, k].mean())
        assert values["privacy_cost.noise"] == pytest.approx((twin - private)[:, 0, k].mean())


def test_training_figures_are_weighted_too(measured):
    plan, _, results, comparisons = measured
    found = next(c for c in comparisons if c.arm == "dpsgd")
    own = [results[job.id].arrays for job in plan.jobs if job.arm == "dpsgd"]
    expected = np.mean([a["weights"] @ a["train_correct.0"] for a in own], axis=0)
    got = [group.estimates["train.accuracy"].value for group in found.by_group]
    assert got == pytest.approx(expected.tolist())


def test_a_weight_of_one_is_that_candidate_alone_and_equal_weights_are_the_mean():
    draw = np.random.default_rng(0)
    p = draw.dirichlet([1, 1], (3, 50)).astype(np.float32)
    labels, groups = draw.integers(0, 2, 50), draw.integers(0, 2, 50)
    outcome = LabelOutcome(2, 1)
    alone = seed_scores(p[1:2], labels, groups, 2, outcome)
    chosen = seed_scores(p, labels, groups, 2, outcome, weights=np.array([0.0, 1.0, 0.0]))
    mean = seed_scores(p, labels, groups, 2, outcome)
    alike = seed_scores(p, labels, groups, 2, outcome, weights=np.full(3, 1 / 3))
    for name in outcome.metrics:
        for a, b in ((alone, chosen), (mean, alike)):
            for one, other in zip(a[name], b[name], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.slow
def test_a_search_is_taken_up_again_and_is_judged_by_its_epsilon(tmp_path):
    words = ["run", "--data", str(LOANS), "--group", "sex", "--seeds", "2", "--epochs", "1"]
    words += ["--method", "dpsgd", "--tune", "2", "--batch-size", "512", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, [*words, "--fail-on", "epsilon > 3"])
    assert first.exit_code == 0, first.output
    arms = json.loads((tmp_path / "report.json").read_text())["arms"]
    epsilon = next(arm["privacy"]["epsilon"] for arm in arms if arm["key"] == "dpsgd")
    assert epsilon["pld"] is None
    assert 2.97 <= epsilon["rdp"] <= 3.0
    stored = sorted((tmp_path / JOBS).glob("*.safetensors"))
    kept = [read_result(tmp_path / JOBS, path.stem) for path in stored]
    searches = [result.facts["tuning"]["candidates"] for result in kept if "tuning" in result.facts]
    assert [len(candidates) for candidates in searches] == [2] * 4  # of two arms at two seeds
    assert len(kept) == 4 + 4  # the others: default settings
    stored[0].unlink()
    before = {path: path.stat().st_mtime_ns for path in stored[1:]}
    again = CliRunner().invoke(app, [*words, "--fail-on", "epsilon > 2"])
    assert again.exit_code == 1, again.output
    assert {path: path.stat().st_mtime_ns for path in stored[1:]} == before
    assert read_result(tmp_path / JOBS, stored[0].stem).arrays.keys() == kept[0].arrays.keys()
