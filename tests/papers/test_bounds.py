"""Bounds against the truth over all batches, on convex models in float64: none may exceed it."""

import pytest
import torch
from forms import DEFAULTS
from steps import RECORDS, a_step, all_batches, small_pool

from fairaudit.diagnostics.risk_terms import (
    Batches,
    Forms,
    Means,
    Sampling,
    Spectrum,
    risk_terms,
)
from fairaudit.papers.bounds import lower_bounds, sufficient_condition

DPSGD = next(form for form in DEFAULTS if form.key == "dpsgd")
TRUTHS = {
    "bound_direction": "r_direction",
    "bound_direction_star": "r_direction_star",
    "bound_clip": "r_clip_batches",
}


def spectrum_of(step):
    values = torch.linalg.eigvalsh(step.hessians[:-1])
    return Spectrum(values[:, -1], values[:, 0])


def case(seed, *, eta, bound=0.4, name="logistic"):
    """Bounds and truths of one random step, over all batches."""
    step = a_step(DPSGD, name=name, eta=eta, max_grad_norm=bound, pool=small_pool(seed=seed))
    chosen = all_batches()
    batches, means = step.batches(chosen, chosen, expected=RECORDS / 2), step.means()
    terms = risk_terms(batches, means, step.forms(batches, means), step.sampling())
    bounds = lower_bounds(batches, means, spectrum_of(step), step.sampling(), 0.4)
    truths = {name: terms[truth][:-1] for name, truth in TRUTHS.items()}
    return step, bounds, {name: v.unsqueeze(1) - v.unsqueeze(0) for name, v in truths.items()}


def test_no_bound_exceeds_the_truth_where_its_assumptions_hold():
    slack = {name: [] for bound in TRUTHS for name in (bound, f"{bound}_convex")}
    for seed in range(60):
        step, bounds, truths = case(seed, eta=0.05)
        assert spectrum_of(step).is_small_step(step.eta) == 1
        assert spectrum_of(step).is_convex() == 1
        for name, values in slack.items():
            values.append(truths[name.removesuffix("_convex")] - bounds[name])
    for values in slack.values():
        assert torch.stack(values).min() >= -1e-12
    for bound in TRUTHS:  # not so loose that anything would pass
        assert torch.stack(slack[f"{bound}_convex"])[:, 0, 1].abs().min() < 1e-2


def test_the_convex_form_holds_for_steps_of_any_size():
    large = 0
    for seed in range(40):
        step, bounds, truths = case(seed, eta=30.0)
        large += int(spectrum_of(step).is_small_step(step.eta) == 0)
        for bound, truth in truths.items():
            assert (truth - bounds[f"{bound}_convex"] >= -1e-9 * truth.abs().max()).all()
    assert large > 20


def tightest(eta=0.1):
    """The case of equality.

    A curves along the plain gradient alone, b along the clipped one alone.
    """
    plain, clipped = (torch.tensor([row], dtype=torch.float64) for row in ([3.0, 0.0], [0.0, 2.0]))
    nothing = torch.zeros_like(plain)
    batches = Batches(plain, clipped, nothing, nothing)
    group = torch.tensor([[1.0, -2.0], [0.5, 1.0], [0.0, 0.0]], dtype=torch.float64)
    means = Means(group, plain[0], clipped[0])
    curved = (
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64) / eta
    )  # diagonals of H_a
    forms = Forms(
        *(v.square() @ curved.T for v in (plain, clipped, nothing, nothing, plain[0], clipped[0]))
    )
    sampling = Sampling(eta, 0.5, 10, 10, 0.0)
    terms = risk_terms(batches, means, forms, sampling)
    largest = torch.full((2,), 1 / eta, dtype=torch.float64)
    bounds = lower_bounds(batches, means, Spectrum(largest, largest * 0), sampling, 1.0)
    truths = {name: terms[truth][0] - terms[truth][1] for name, truth in TRUTHS.items()}
    return {name: bounds[name][0, 1] for name in TRUTHS}, truths


@pytest.mark.parametrize("bound", TRUTHS)
def test_every_bound_is_reached(bound):
    bounds, truths = tightest()
    torch.testing.assert_close(bounds[bound], truths[bound])


def test_flags_say_when_an_assumption_fails_and_when_it_is_unknown():
    fine = Spectrum(torch.tensor([2.0, 4.0]), torch.tensor([0.0, -1e-6]))
    assert fine.is_small_step(0.25) == 1
    assert fine.is_small_step(0.26) == 0
    assert fine.is_convex() == 1
    assert Spectrum(torch.tensor([2.0, 4.0]), torch.tensor([-0.1, 0.0])).is_convex() == 0
    unknown = Spectrum(torch.tensor([2.0, torch.nan]), torch.tensor([0.0, torch.nan]))
    assert unknown.is_small_step(0.1).isnan()
    assert unknown.is_convex().isnan()


def test_the_sufficient_condition_fires_for_long_gradients_of_a_large_group_alone():
    shares = torch.tensor([0.9, 0.1])
    assert sufficient_condition(torch.tensor([10.0, 0.1]), shares, 1.0).tolist() == [[0, 1], [0, 0]]
    assert sufficient_condition(torch.tensor([1.0, 1.0]), shares, 1.0).sum() == 0
    assert sufficient_condition(torch.tensor([10.0, 0.1]), shares, 2.1).sum() == 0


def test_the_printed_bound_on_clipping_takes_the_square_of_the_mean_gradient():
    step, bounds, _ = case(3, eta=0.05)
    means = step.means()
    squares = (means.plain.square().sum() + 0.4**2) / 2
    against = means.group[:-1] @ (means.plain - means.clipped)
    expected = step.eta * (against[0] - against[1] - squares)
    torch.testing.assert_close(bounds["bound_clip_printed"][0, 1], expected)
    assert (
        bounds["bound_clip_printed"][0, 1] > bounds["bound_clip"][0, 1]
    )  # the spread of batches is left out
