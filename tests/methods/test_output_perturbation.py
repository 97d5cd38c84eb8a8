import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from forms import make_pool, make_task, streamed, whole_forms

from fairaudit.engine import pool as engine_pool
from fairaudit.engine.pool import TrainingPool
from fairaudit.methods import minimiser as output_perturbation
from fairaudit.methods.minimiser import sensitivity
from fairaudit.models.convex import (
    TOLERANCE,
    BoundedInputs,
    LogisticProblems,
    losses,
    minimise,
    scores,
)
from fairaudit.papers import perturbation
from fairaudit.papers.perturbation import agreement, group_losses
from fairaudit.privacy.accounting import calibrate_gaussian

FORM = next(form for form in whole_forms() if form.key == "output-perturbation")
NORMALISED = next(form for form in whole_forms() if form.variant == "group-normalise")


@pytest.mark.parametrize(
    ("norm", "intercept", "n", "printed"), [(1, 0, 36_178, 1.944e-4), (6, 0, 36_178, 6 * 1.944e-4)]
)
def test_the_noise_of_adult_equals_the_checked_value(norm, intercept, n, printed):
    delta = sensitivity(feature_norm=norm, intercept=intercept, penalty=1.0, n_public=n, classes=2)
    assert delta * calibrate_gaussian(1, 1e-5, 0.5) == pytest.approx(printed, rel=5e-4)


def test_an_intercept_and_more_classes_enter_the_sensitivity():
    def of(**given):
        return sensitivity(
            **{
                "feature_norm": 1,
                "intercept": 0,
                "penalty": 1,
                "n_public": 100,
                "classes": 2,
                **given,
            }
        )

    assert of(intercept=1) == pytest.approx(math.sqrt(2) * of(), rel=1e-6)
    assert of(classes=3) == pytest.approx(math.sqrt(2) * of(), rel=1e-6)
    assert of() == 1 / 100 + 2 * TOLERANCE


@pytest.mark.parametrize("norm", [0.3, 1.0, 20.0])
def test_inputs_are_clipped_before_the_constant_is_appended(norm):
    x = (
        torch.randn(500, 5, generator=torch.Generator().manual_seed(0))
        * torch.logspace(-4, 6, 500)[:, None]
    )
    inputs = BoundedInputs(norm, 2.0)(x, torch.zeros(500, dtype=torch.int64))
    assert (inputs[:, -1] == 2.0).all()
    assert (inputs[:, :-1].norm(dim=1) <= norm).all()
    assert (inputs.norm(dim=1) <= math.hypot(norm, 2.0)).all()
    short = x.norm(dim=1) < 0.99 * norm
    torch.testing.assert_close(inputs[short, :-1], x[short].double(), rtol=1e-10, atol=0)


def test_claiming_the_norm_of_the_features_alone_is_caught():
    """docs/methods.md 4.2: an appended 1 makes L = R too little.

    One record against 2,000 moves further.
    """
    x = torch.zeros(2001, 3, dtype=torch.float64)
    x[:-1, 0], x[-1, 1], x[:, 2] = 1.0, 1.0, 1.0  # two features of norm R = 1, then the constant
    targets = torch.nn.functional.one_hot(torch.tensor([0] * 2000 + [1])).double().unsqueeze(0)
    n0, penalty = torch.tensor([2001.0], dtype=torch.float64), 4 / 2001
    own, less = (
        minimise(LogisticProblems(x[:count], targets[:, :count], penalty, n0))
        for count in (2001, 2000)
    )
    moved = float((own - less).norm())
    alone, together = (
        sensitivity(
            feature_norm=1.0, intercept=intercept, penalty=penalty, n_public=2001, classes=2
        )
        for intercept in (0.0, 1.0)
    )
    assert alone < moved <= together


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("norm", "intercept", "penalty"), [(1.0, 1.0, 0.3), (2.0, 0.0, 0.05)])
def test_released_noise_has_the_std_of_the_formula_in_every_direction(
    classes, norm, intercept, penalty
):
    """Worked out here: sigma L / (n0 lambda), with L of docs/methods.md 4.1.

    Around the point where the gradient of the mean over n0, the public number, is zero.
    """
    draws, pool = 4000, make_pool(classes=classes)
    task = make_task(
        FORM,
        pool,
        repeats=draws,
        noise_multiplier=2.0,
        feature_norm=norm,
        intercept=intercept,
        penalty=penalty,
        n_public=50,
    )
    found = FORM.make().fit(task, [])
    batch = pool.gather(torch.arange(60), None)
    x = batch.inputs.double()
    x = x * (norm / x.norm(dim=1, keepdim=True)).clamp(max=1.0)
    x = torch.cat([x, x.new_full((60, 1), intercept)], 1)[:, : 7 + (intercept > 0)]
    point = found.kept["minimiser"][0].clone().requires_grad_()
    outputs = x @ point.T
    if classes == 2:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    loss = -(outputs.log_softmax(1) * batch.targets).sum() / 50
    (gradient,) = torch.autograd.grad(loss + penalty / 2 * point.square().sum(), point)
    assert float(gradient.norm()) < 1e-6
    longest = math.sqrt(norm**2 + intercept**2) * (1.0 if classes == 2 else math.sqrt(2.0))
    scaled = (found.parameters - found.kept["minimiser"].flatten()) / (
        2.0 * longest / (50 * penalty)
    )
    assert abs(float(scaled.mean())) < 5.5 / math.sqrt(scaled.numel())
    variance = scaled.square().mean(0)
    assert ((variance - 1).abs() < 5.5 * math.sqrt(2 / draws)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_theorem_1_predicts_the_excess_risk_of_the_models_that_are_released(classes):
    """Mean loss of released models, group by group, against half std^2 Tr(H_a)."""
    pool = make_pool(400, classes=classes, groups=3)
    task = make_task(FORM, pool, repeats=4000, noise_multiplier=0.5, noise_draws=4000, penalty=0.05)
    found = FORM.make().fit(task, [])
    read = perturbation.read(FORM.make(), task, found)
    batch = pool.gather(torch.arange(400), None)
    x = BoundedInputs(1.0, 1.0)(batch.inputs, batch.group)
    points = torch.cat([found.kept["minimiser"], found.network.weights])
    outputs = torch.einsum("nd,rhd->rnh", x, points)
    if classes == 2:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], -1)
    loss = -outputs.log_softmax(-1)[:, torch.arange(400), batch.targets.argmax(-1)]
    for group in range(3):
        own = loss[:, batch.group == group].mean(1)
        excess = own[1:] - own[0]
        error = float(excess.std()) / math.sqrt(len(excess))
        predicted = float(read["excess_risk_predicted"][group])
        assert abs(float(excess.mean()) - predicted) < 5 * error + 0.03 * predicted


@pytest.mark.parametrize("classes", [2, 3])
def test_theorem_1_predicts_what_the_readings_own_draws_show(classes):
    pool = make_pool(400, classes=classes, groups=3)
    task = make_task(FORM, pool, noise_multiplier=0.5, noise_draws=4000, penalty=0.05)
    found = perturbation.read(FORM.make(), task, FORM.make().fit(task, []))
    assert found["hessian_trace"].shape == (3,)
    gap = (found["excess_risk_drawn"] - found["excess_risk_predicted"]).abs()
    assert (gap < 5 * found["excess_risk_drawn_se"] + 0.03 * found["excess_risk_predicted"]).all()
    assert 0 <= found["trace_agreement"].item() <= 1


def test_an_absent_group_has_no_reading():
    pool = make_pool(100, groups=3)
    pool.groups[pool.groups == 1] = 0
    task = make_task(FORM, pool, noise_draws=20)
    found = perturbation.read(FORM.make(), task, FORM.make().fit(task, []))
    assert found["excess_risk_drawn"].isnan().tolist() == [False, True, False]
    assert not found["trace_agreement"].isnan().any()


@pytest.mark.parametrize("classes", [2, 4])
def test_group_losses_in_chunks_equal_plain_means(classes, monkeypatch):
    monkeypatch.setattr(perturbation, "_ROWS_AT_ONCE", 7)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    theta = torch.randn(
        6, 1 if classes == 2 else classes, 3, generator=generator, dtype=torch.float64
    )
    labels = torch.randint(classes, (50,), generator=generator)
    targets = torch.nn.functional.one_hot(labels, classes).double()
    share = torch.full((50, 1), 1 / 50, dtype=torch.float64)
    plain = losses(scores(x, theta), targets).mean(1, keepdim=True)
    torch.testing.assert_close(group_losses(x, targets, theta, share), plain)


def test_agreement_is_the_share_of_pairs_in_one_order():
    a = torch.tensor([1.0, 2.0, 3.0, math.nan])
    assert agreement(a, torch.tensor([1.0, 2.0, 3.0, 4.0])).item() == 1
    assert agreement(a, torch.tensor([3.0, 2.0, 1.0, 4.0])).item() == 0
    assert agreement(a, torch.tensor([1.0, 3.0, 2.0, 4.0])).item() == pytest.approx(2 / 3)
    assert agreement(a[:1], a[:1]).isnan().all()


def test_group_normalised_inputs_have_mean_0_and_deviation_1_in_every_group():
    pool = make_pool(200, groups=2)
    task = make_task(NORMALISED, pool, feature_norm=1e9)
    inputs = NORMALISED.make().inputs(task)
    (batch,) = pool.pieces()
    x = inputs(batch.inputs, batch.group)[:, :-1]
    for group in range(2):
        own = x[batch.group == group]
        torch.testing.assert_close(
            own.mean(0), torch.zeros(7, dtype=torch.float64), atol=1e-10, rtol=0
        )
        assert own.square().sum(1).mean().item() == pytest.approx(7)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("form", [FORM, NORMALISED], ids=["default", "group-normalise"])
def test_records_that_come_in_pieces_have_the_same_minimiser_and_readings(
    form, classes, monkeypatch
):
    monkeypatch.setattr(engine_pool, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(output_perturbation, "STARTERS", 50)
    pool = make_pool(200, classes=classes, groups=3, spoilt=math.inf)
    pool.groups[pool.groups == 1] = 0
    made, rows = streamed(pool)
    rows.asked = 0
    task = make_task(form, pool, repeats=3, noise_draws=20, penalty=0.05)
    (whole, read), (pieces, read_in_pieces) = (
        (found := form.make().fit(each, []), perturbation.read(form.make(), each, found))
        for each in (task, replace(task, pool=made))
    )
    assert rows.asked == 50  # never more in memory
    torch.testing.assert_close(
        pieces.parameters, whole.parameters, rtol=0, atol=2 * TOLERANCE / 0.05
    )
    torch.testing.assert_close(read_in_pieces, read, rtol=1e-7, atol=1e-9, equal_nan=True)


def test_group_normalisation_moves_by_more_than_the_claimed_sensitivity():
    """The published form is caught: one record moves the inputs of its whole group."""
    x = torch.zeros(30, 2)
    x[:, 0] = torch.linspace(-1e-3, 1e-3, 30)
    x[0] = 1e3
    labels = (torch.arange(30) % 2).long()
    labels[1:] = (x[1:, 0] > 0).long()
    pool = TrainingPool(x, labels, torch.zeros(30).long(), n_classes=2, n_groups=1)
    less = TrainingPool(x[1:], labels[1:], torch.zeros(29).long(), n_classes=2, n_groups=1)
    task = make_task(NORMALISED, pool, noise_multiplier=0.0, penalty=0.1, n_public=30)
    other = replace(task, pool=less, records=np.arange(29))
    moved = (
        NORMALISED.make().fit(task, []).parameters - NORMALISED.make().fit(other, []).parameters
    ).norm()
    assert moved > 3 * sensitivity(
        feature_norm=1.0, intercept=1.0, penalty=0.1, n_public=30, classes=2
    )
