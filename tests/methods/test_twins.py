"""The noise-free twin of an arm: the same training, and nothing of it is noise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from forms import forms, key_of, make_pool, make_task
from jobs import run_here

from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import TrainingError
from fairaudit.methods.catalog import catalog
from fairaudit.planning.plan import make_plan

LOANS = Path(__file__).resolve().parents[2] / "sample_data" / "loans.parquet"
NOISY = [form for form in forms() if form.spec.without_noise(form.settings()) is not None]


def results(seeds=1, **given):
    fields = {
        "data": LOANS,
        "group": ("sex",),
        "seeds": seeds,
        "epochs": 2,
        "noise_multiplier": 1.0,
        "diagnostics": "off",
    }
    config = AuditConfig(**{**fields, **given})
    plan = make_plan(config, load_dataset(config))
    found = {}
    for job in plan.jobs:
        found[job.id] = run_here(plan, job, found.get(job.source_id))
    return plan, {job.arm: found[job.id] for job in plan.jobs}


def test_every_method_that_adds_noise_to_steps_has_a_twin_and_no_other():
    assert {form.spec.name for form in NOISY} == {
        *("dpsgd", "dpsgd-matched", "global", "global-adapt", "dpsgd-f", "reweight", "fairlens")
    }
    whole = [spec for spec in catalog().values() if spec.gaussian]
    assert whole
    assert all(spec.without_noise({"noise_multiplier": 1.0}) is None for spec in whole)


@pytest.mark.parametrize("form", NOISY, ids=key_of)
def test_no_stream_of_noise_moves_a_twin_and_nothing_is_claimed_for_it(form):
    """Another key names other streams.

    The arm is another one then, its twin is the same to the bit.
    """
    parameters = {}
    for twin in (False, True):
        for key in ("one", "another"):
            task = make_task(form, make_pool(), arm=key, repeats=2, sampling=["shared", "second"])
            if twin:
                task = replace(task, settings=form.spec.without_noise(task.settings))
            trained = form.make().fit(task, [])
            parameters[twin, key] = trained.parameters
            if twin:
                assert trained.event is None
    assert (parameters[True, "one"] == parameters[True, "another"]).all()
    assert (parameters[False, "one"] != parameters[False, "another"]).any()
    assert (parameters[True, "one"] != parameters[False, "one"]).any()


def test_the_twin_of_dpsgd_is_the_ablations_arm_that_only_clips():
    """Two pieces of code, one training.

    And with a bound that nothing reaches it is the reference.
    """
    given = {"learning_rate": 0.05, "max_grad_norm": 0.3}
    _, found = results(method=("dpsgd", "ablation"), **given)
    twin = found["dpsgd"].arrays["twin.probabilities"]
    np.testing.assert_allclose(twin, found["clipped"].arrays["probabilities"], atol=1e-6)
    assert abs(twin - found["sgd"].arrays["probabilities"]).max() > 0.01
    _, found = results(method=("dpsgd",), **{**given, "max_grad_norm": 1e4})
    np.testing.assert_allclose(
        found["dpsgd"].arrays["twin.probabilities"], found["sgd"].arrays["probabilities"], atol=1e-5
    )
    assert abs(found["dpsgd"].arrays["probabilities"] - twin).max() > 0.01


def test_an_arm_is_the_same_with_and_without_its_twin():
    (first, with_twins), (second, without) = (
        results(method=("global-adapt",), twins=twins) for twins in (True, False)
    )
    assert first.arm("global-adapt").has_twin
    assert not second.arm("global-adapt").has_twin
    assert with_twins["global-adapt"].job_id != without["global-adapt"].job_id
    assert with_twins["sgd"].job_id == without["sgd"].job_id
    for name, values in without["global-adapt"].arrays.items():
        np.testing.assert_array_equal(with_twins["global-adapt"].arrays[name], values)
    extra = set(with_twins["global-adapt"].arrays) - set(without["global-adapt"].arrays)
    assert extra
    assert all(name.startswith("twin.") for name in extra)


def test_an_arm_without_noise_is_its_own_twin():
    plan, found = results(method=("dpsgd", "ablation"), noise_multiplier=0.0)
    assert not any(arm.has_twin for arm in plan.arms)
    assert not any(name.startswith("twin") for result in found.values() for name in result.arrays)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TrainingError("the twin diverged"), "the twin diverged"),
        (
            RuntimeError("[enforce fail] not enough memory: you tried"),
            "dpsgd ran out of memory at seed 0",
        ),
    ],
)
def test_a_twin_that_fails_leaves_the_arm_and_says_so(monkeypatch, error, told):
    from fairaudit.methods.dpsgd import DpSgd

    whole = DpSgd.fit

    def fit(self, task, observers):
        if task.settings["noise_multiplier"] == 0:
            raise error
        return whole(self, task, observers)

    monkeypatch.setattr(DpSgd, "fit", fit)
    _, found = results(method=("dpsgd",))
    assert found["dpsgd"].facts["twin_failed"] == told
    assert "probabilities" in found["dpsgd"].arrays
    assert not any(name.startswith("twin.") for name in found["dpsgd"].arrays)
