"""Bounds against the truth over all batches, on convex models in float64: none may exceed it."""

import torch
from forms import FORM
from steps import RECORDS, a_step, all_batches, small_pool

from fairaudit.diagnostics.clipping_bounds import lower_bounds
from fairaudit.diagnostics.risk_terms import Batches, Forms, Means, Sampling, risk_terms

DPSGD = FORM["dpsgd"]
TRUTHS = {"bound_direction": "r_direction", "bound_clip": "clip"}


def terms_of(*step):
    terms = risk_terms(*step)
    return {**terms, "clip": terms["r_direction"] + terms["r_magnitude"]}


def slack_of(seed, *, eta=0.05, bound=0.4):
    """Truth minus bound of one random step, over all batches, [2, 2] each."""
    step = a_step(DPSGD, name="logistic", eta=eta, max_grad_norm=bound, pool=small_pool(seed=seed))
    eigenvalues = torch.linalg.eigvalsh(step.hessians[:-1])
    assert step.eta * eigenvalues.max() <= 1
    assert eigenvalues.min() > -1e-12
    chosen = all_batches()
    batches, means = step.batches(chosen, chosen, expected=RECORDS / 2), step.means()
    terms = terms_of(batches, means, step.forms(batches, means), step.sampling())
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
    terms = terms_of(batches, means, forms, sampling)
    bounds = lower_bounds(batches, means, sampling)
    for name, truth in TRUTHS.items():
        torch.testing.assert_close(bounds[name][0, 1], terms[truth][0] - terms[truth][1])
