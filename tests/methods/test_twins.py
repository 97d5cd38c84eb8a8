"""The twins of an arm: the same training without noise, and its steps alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from forms import each, forms, make_pool, make_task
from jobs import run_here, seed_here
from numpy.testing import assert_allclose
from places import LOANS

from fairaudit.analysis.measure import measure
from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset
from fairaudit.engine.rules import FlatClip
from fairaudit.engine.sampling import poisson_positions
from fairaudit.errors import DivergedError
from fairaudit.execution.model_setup import start_model
from fairaudit.methods.catalog import catalog
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.steps_alone import StepsAlone
from fairaudit.metrics.registry import costs
from fairaudit.planning.plan import make_plan
from fairaudit.privacy.streams import numpy_stream

NOISY = [form for form in forms() if form.spec.without_noise(form.settings()) is not None]


def trained(seeds=1, **given):
    """A plan and all of its results, those of twins included."""
    fields = {
        "data": LOANS,
        "group": ("sex",),
        "seeds": seeds,
        "epochs": 2,
        "noise_multiplier": 1.0,
        "diagnostics": "off",
        "twins": "always",
    }
    config = AuditConfig(**{**fields, **given})
    dataset = load_dataset(config)
    plan = make_plan(config, dataset)
    found = {}
    for job in plan.every_job:
        found[job.id] = run_here(plan, job, found.get(job.source_id))
    return plan, dataset, found


def results(seeds=1, **given):
    """The results of the first seed: of arms, and of twins."""
    plan, _, found = trained(seeds, **given)
    arms = {job.arm: found[job.id] for job in plan.jobs}
    return plan, arms, {job.arm: found[job.id] for job in plan.twins}


def test_every_method_that_adds_noise_to_steps_has_a_twin_and_no_other():
    assert {form.spec.name for form in NOISY} == {
        *("dpsgd", "dpsgd-matched", "global", "global-adapt", "dpsgd-f", "reweight", "fairlens")
    }
    whole = [spec for spec in catalog().values() if spec.gaussian]
    assert whole
    assert all(spec.without_noise({"noise_multiplier": 1.0}) is None for spec in whole)


@each(NOISY)
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
    _, found, twins = results(method=("dpsgd", "ablation"), **given)
    twin = twins["dpsgd"].arrays["without_noise.probabilities"]
    assert_allclose(twin, found["clipped"].arrays["probabilities"], atol=1e-6)
    assert abs(twin - found["sgd"].arrays["probabilities"]).max() > 0.01
    _, found, twins = results(method=("dpsgd",), **{**given, "max_grad_norm": 1e4})
    twin = twins["dpsgd"].arrays["without_noise.probabilities"]
    assert_allclose(twin, found["sgd"].arrays["probabilities"], atol=1e-5)
    assert abs(found["dpsgd"].arrays["probabilities"] - twin).max() > 0.01


def test_an_arm_and_its_job_are_the_same_whether_twins_are_trained_before_later_or_never():
    plans = {}
    for twins in ("auto", "always", "off"):
        plans[twins], arms, found = results(method=("global-adapt",), twins=twins)
        assert set(found) == ({"global-adapt"} if twins == "always" else set())
        for name in arms["global-adapt"].arrays:
            assert not name.startswith(("without_noise.", "step."))
    assert plans["auto"].jobs == plans["always"].jobs == plans["off"].jobs
    assert plans["auto"].twins == ()
    assert plans["auto"].splitting(["global-adapt"]).twins == plans["always"].twins
    (job,) = plans["always"].twins
    assert job.id not in {job.id for job in plans["always"].jobs}


def test_an_arm_without_noise_is_its_own_twin():
    plan, _, twins = results(method=("dpsgd", "ablation"), noise_multiplier=0.0)
    assert not any(arm.has_twins for arm in plan.arms)
    assert not twins


# --- the steps alone, a second time

RATE, BOUND, START, SHRINKS = 0.1, 1.5, 2.5, 0.1


def clipped_scale(norms, threshold):
    return np.minimum(1.0, BOUND / norms), 1.0


def dropped_scale(norms, threshold):
    return np.where(norms <= START, BOUND / START, 0.0), BOUND / START


def adapted_scale(norms, threshold):
    return BOUND / np.maximum(norms, threshold), BOUND / threshold


SCALES = {"dpsgd": clipped_scale, "global": dropped_scale, "global-adapt": adapted_scale}


def by_hand(plan, scale, optimizer, rate):
    """Probabilities of the test rows without noise and of the steps alone, in plain loops."""
    prepared = seed_here(plan, 0)
    x = prepared.encoded.train.astype(float)
    y = prepared.dataset.labels[prepared.encoded.split.train]
    steps = plan.training.steps_per_epoch
    expected, threshold, factors = plan.training.n_public / steps, START, []
    predicted = {}
    for twin in ("without_noise", "step"):
        linear = start_model(plan.config, prepared.pool, 0)[-1].double()
        moves = getattr(torch.optim, optimizer)(linear.parameters(), lr=rate)
        stream = numpy_stream(0, "sampling", "shared")
        for epoch in range(plan.training.epochs):
            drawn, cuts = poisson_positions(stream, len(x), steps)
            for number in range(steps):
                rows = drawn[cuts[number] : cuts[number + 1]]
                with torch.no_grad():
                    error = linear(torch.from_numpy(x[rows])).softmax(-1).numpy()
                error[np.arange(len(rows)), y[rows]] -= 1
                norms = np.sqrt((error**2).sum(1) * (1 + (x[rows] ** 2).sum(1)))
                if twin == "without_noise":
                    weights, factor = scale(norms, threshold)
                    factors.append(factor)
                    share = (norms > threshold).sum() / expected
                    threshold = max(BOUND, threshold * np.exp(share - SHRINKS))
                else:
                    weights = factors[epoch * steps + number]
                error = error * np.reshape(weights, (-1, 1)) / expected
                linear.weight.grad = torch.from_numpy(error.T @ x[rows])
                linear.bias.grad = torch.from_numpy(error.sum(0))
                moves.step()
        with torch.no_grad():
            tested = torch.from_numpy(prepared.encoded.test.astype(float))
            predicted[twin] = linear(tested).softmax(-1).numpy()
    return predicted


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("method", SCALES)
def test_both_twins_are_those_of_a_plain_loop(method, optimizer):
    settings = {"learning_rate": RATE, "max_grad_norm": BOUND}
    if method != "dpsgd":
        settings["threshold"] = START
    given = {"settings": {method: settings}, "optimizer": optimizer.lower(), "learning_rate": 0.5}
    plan, arms, twins = results(method=(method,), **given)
    assert plan.arm(method).settings["learning_rate"] == RATE
    assert plan.arm("sgd").settings["learning_rate"] == 0.5
    arrays = twins[method].arrays
    expected = by_hand(plan, SCALES[method], optimizer, RATE)
    for twin, probabilities in expected.items():
        assert_allclose(arrays[f"{twin}.probabilities"][0], probabilities, atol=2e-4)
    models = [arms["sgd"].arrays["probabilities"], *expected.values()]
    for before, after in pairwise(models):
        assert abs(before - after).max() > 0.01
    assert twins[method].facts["step"] == "trained"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": ("global",), "learning_rate": 0.1}, "reference"),  # its rate makes up for C/Z
        ({"method": ("global",), "learning_rate": 0.1, "optimizer": "adam"}, "trained"),
        ({"method": ("dpsgd",), "learning_rate": 0.1, "repeats": 2}, "trained"),  # other batches
        ({"method": ("dpsgd",), "settings": {"dpsgd": {"learning_rate": 0.01}}}, "trained"),
    ],
)
def test_steps_that_are_the_references_are_not_taken_again(given, told):
    plan, dataset, found = trained(threshold=4.0, max_grad_norm=2.0, **given)
    (twins,) = (found[job.id] for job in plan.twins)
    assert twins.facts["step"] == told
    assert ("step.probabilities" in twins.arrays) == (told == "trained")
    (compared,) = (c for c in measure(plan, dataset, found) if c.reference)
    (step,) = compared.overall.estimates["excess_risk.step"].by_seed
    assert (step == 0.0) == (told == "reference")


class UnitClip(FlatClip):
    """Every gradient as long as the bound, so no step is too short to clip."""

    def scale(self, released, norms, group):
        return released.unsqueeze(-1) / norms


def test_where_step_and_clipping_are_one_there_are_two_parts(monkeypatch):
    monkeypatch.setattr(DpSgd, "rule", lambda self, task: UnitClip(task.settings["max_grad_norm"]))
    plan, dataset, found = trained(method=("dpsgd",), settings={"dpsgd": {"learning_rate": 0.1}})
    assert [found[job.id].facts["step"] for job in plan.twins] == ["none"]
    (compared,) = (c for c in measure(plan, dataset, found) if c.reference)
    parts = {name for name in compared.overall.estimates if name.startswith("excess_risk.")}
    assert parts >= {"excess_risk.step_and_clipping", "excess_risk.noise"}
    assert not parts & {"excess_risk.step", "excess_risk.clipping"}


@pytest.mark.slow
def test_parts_sum_to_every_cost_at_every_seed_for_every_method():
    """Of groups and all rows, by both groupings, in every cost, at two seeds and two epsilons."""
    names = tuple(dict.fromkeys(form.spec.name for form in NOISY))
    given = {"noise_multiplier": None, "epsilon": (1.0, 8.0), "delta": 1e-5}
    plan, dataset, found = trained(
        2, method=names, group=("sex", "race"), variant=("as-published",), **given
    )
    split = set()
    for compared in measure(plan, dataset, found):
        if not compared.reference:
            continue
        for measured in (*compared.by_group, compared.overall):
            for cost in costs():
                total, asked = np.zeros(2), np.zeros(2)
                for part in ("step", "clipping", "noise"):
                    if f"{cost}.{part}" in measured.estimates:
                        of_seeds = measured.estimates[f"{cost}.{part}"].by_seed
                        total += of_seeds
                        asked += 0.0 if part == "clipping" else np.array(of_seeds)
                        split.add((compared.arm, part))
                whole = measured.estimates[cost].by_seed
                assert total.tolist() == pytest.approx(whole, abs=1e-9), compared.arm
                both = measured.estimates[f"{cost}.step_and_noise"].by_seed
                assert asked.tolist() == pytest.approx(both, abs=1e-9), compared.arm
    arms = [arm for arm in plan.arms if arm.reference]
    assert len(arms) > 2 * len(names)
    assert split == {(arm.key, part) for arm in arms for part in ("step", "clipping", "noise")}


def diverging(monkeypatch, does):
    whole = GradientMethod.fit

    def fit(self, task, observers):
        if does(self, task):
            raise DivergedError("too long a step")
        return whole(self, task, observers)

    monkeypatch.setattr(GradientMethod, "fit", fit)


def test_a_training_without_noise_that_diverges_is_an_error_of_its_own_job(monkeypatch):
    diverging(monkeypatch, lambda self, task: task.settings.get("noise_multiplier") == 0)
    with pytest.raises(DivergedError):
        results(method=("dpsgd",))
    assert results(method=("dpsgd",), twins="off")[1]


def test_steps_alone_that_diverge_leave_step_and_clipping_as_one_part(monkeypatch):
    diverging(monkeypatch, lambda self, task: isinstance(self, StepsAlone))
    _, _, twins = results(method=("dpsgd",), settings={"dpsgd": {"learning_rate": 0.01}})
    assert twins["dpsgd"].facts["step"] == "none"
    assert "without_noise.probabilities" in twins["dpsgd"].arrays
