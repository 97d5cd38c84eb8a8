"""Bounds against the truth over all batches, on convex models in float64: none may exceed it."""

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
from fairaudit.papers.bounds import lower_bounds

DPSGD = next(form for form in DEFAULTS if form.key == "dpsgd")
TRUTHS = {
    "bound_direction": "r_direction",
    "bound_direction_star": "r_direction_star",
    "bound_clip": "r_clip_batches",
}


def spectrum_of(step):
    values = torch.linalg.eigvalsh(step.hessians[:-1])
    return Spectrum(values[:, -1], values[:, 0])


def slack_of(seed, *, eta=0.05, bound=0.4):
    """Truth minus bound of one random step, over all batches, [2, 2] each."""
    step = a_step(DPSGD, name="logistic", eta=eta, max_grad_norm=bound, pool=small_pool(seed=seed))
    assert spectrum_of(step).is_small_step(step.eta) == 1
    assert spectrum_of(step).is_convex() == 1
    chosen = all_batches()
    batches, means = step.batches(chosen, chosen, expected=RECORDS / 2), step.means()
    terms = risk_terms(batches, means, step.forms(batches, means), step.sampling())
    bounds = lower_bounds(batches, means, step.sampling())
    slack = {}
    for name, truth in TRUTHS.items():
        of_group = terms[truth][:-1]
        slack[name] = of_group.unsqueeze(1) - of_group.unsqueeze(0) - bounds[name]
    return slack


def test_no_bound_exceeds_the_truth_where_its_assumptions_hold():
    slacks = [slack_of(seed) for seed in range(30)]
    for name in TRUTHS:
        assert torch.stack([slack[name] for slack in slacks]).min() >= -1e-12


def test_every_bound_is_reached():
    """A curves along the plain gradient alone, b along the clipped one alone."""
    eta = 0.1
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
    bounds = lower_bounds(batches, means, sampling)
    for name, truth in TRUTHS.items():
        torch.testing.assert_close(bounds[name][0, 1], terms[truth][0] - terms[truth][1])


def test_flags_say_when_an_assumption_fails_and_when_it_is_unknown():
    fine = Spectrum(torch.tensor([2.0, 4.0]), torch.tensor([0.0, -1e-6]))
    assert fine.is_small_step(0.25) == 1
    assert fine.is_small_step(0.26) == 0
    assert fine.is_convex() == 1
    assert Spectrum(torch.tensor([2.0, 4.0]), torch.tensor([-0.1, 0.0])).is_convex() == 0
    unknown = Spectrum(torch.tensor([2.0, torch.nan]), torch.tensor([0.0, torch.nan]))
    assert unknown.is_small_step(0.1).isnan()
    assert unknown.is_convex().isnan()
