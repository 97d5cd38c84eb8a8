import math

import pytest
import torch
from forms import FORM, make_pool, make_task

from fairaudit.diagnostics import perturbation
from fairaudit.diagnostics.perturbation import agreement
from fairaudit.methods.minimiser import sensitivity
from fairaudit.models.convex import BoundedInputs
from fairaudit.privacy.accounting import calibrate_gaussian

OWN = FORM["output-perturbation"]
NORMALISED = FORM["output-perturbation:group-normalise"]


@pytest.mark.parametrize(
    ("norm", "intercept", "n", "printed"), [(1, 0, 36_178, 1.944e-4), (6, 0, 36_178, 6 * 1.944e-4)]
)
def test_the_noise_of_adult_equals_the_checked_value(norm, intercept, n, printed):
    delta = sensitivity(feature_norm=norm, intercept=intercept, penalty=1.0, n_public=n, classes=2)
    assert delta * calibrate_gaussian(1, 1e-5, 0.5) == pytest.approx(printed, rel=5e-4)


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
        OWN,
        pool,
        repeats=draws,
        noise_multiplier=2.0,
        feature_norm=norm,
        intercept=intercept,
        penalty=penalty,
        n_public=50,
    )
    found = OWN.make().fit(task, [])
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


def test_an_absent_group_has_no_reading():
    pool = make_pool(100, groups=3)
    pool.groups[pool.groups == 1] = 0
    task = make_task(OWN, pool, noise_draws=20)
    found = perturbation.read(OWN.make(), task, OWN.make().fit(task, []))
    assert found["excess_risk_drawn"].isnan().tolist() == [False, True, False]
    assert not found["trace_agreement"].isnan().any()


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
    batch = pool.everything()
    x = inputs(batch.inputs, batch.group)[:, :-1]
    for group in range(2):
        own = x[batch.group == group]
        torch.testing.assert_close(
            own.mean(0), torch.zeros(7, dtype=torch.float64), atol=1e-10, rtol=0
        )
        assert own.square().sum(1).mean().item() == pytest.approx(7)
