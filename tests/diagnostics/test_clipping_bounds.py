"""Bounds against the truth over all batches, on convex models in float64: none may exceed it."""

import numpy as np
import pytest
import torch
from forms import FORM
from steps import RECORDS, a_step, all_batches, small_pool

from fairaudit.diagnostics.clipping_bounds import Spectra, lower_bounds
from fairaudit.diagnostics.risk_terms import Batches, Forms, Means, Sampling, risk_terms

DPSGD = FORM["dpsgd"]
TRUTHS = {
    "bound_direction": "r_direction",
    "bound_direction_star": "r_direction_star",
    "bound_clip": "clip",
}
CURVED = {f"{name}_curved": truth for name, truth in TRUTHS.items()}


def terms_of(*step):
    terms = risk_terms(*step)
    return {**terms, "clip": terms["r_direction"] + terms["r_magnitude"]}


def spectra_of(hessians):
    values = torch.linalg.eigvalsh(hessians)
    return Spectra(values[:, -1], values[:, 0])


def slack_of(seed, *, eta=0.05, bound=0.4):
    """Truth minus bound of one random step, over all batches, [2, 2] each."""
    step = a_step(DPSGD, name="logistic", eta=eta, max_grad_norm=bound, pool=small_pool(seed=seed))
    spectra = spectra_of(step.hessians[:-1])
    assert bool(spectra.is_short_step(step.eta)) == (eta < 1)
    assert spectra.smallest.min() > -1e-12
    assert bool(spectra.is_convex())
    chosen = all_batches()
    batches, means = step.batches(chosen, chosen, expected=RECORDS / 2), step.means()
    terms = terms_of(batches, means, step.forms(batches, means), step.sampling())
    bounds = lower_bounds(batches, means, step.sampling(), spectra, bound)
    slack = {}
    for name, truth in {**TRUTHS, **CURVED}.items():
        of_group = terms[truth][:-1]
        slack[name] = of_group.unsqueeze(1) - of_group.unsqueeze(0) - bounds[name]
    return slack


def test_no_bound_exceeds_the_truth_where_its_assumptions_hold():
    slacks = [slack_of(seed) for seed in range(30)]
    for name in (*TRUTHS, *CURVED):
        assert torch.stack([slack[name] for slack in slacks]).min() >= -1e-12
    for name in TRUTHS:  # short steps: the eigenvalues give the closer bound
        assert all((slack[f"{name}_curved"] <= slack[name]).all() for slack in slacks)


def test_the_form_with_eigenvalues_holds_for_steps_of_any_length():
    slacks = [slack_of(seed, eta=20.0) for seed in range(30)]
    least = {name: min(float(slack[name].min()) for slack in slacks) for name in (*TRUTHS, *CURVED)}
    assert all(least[name] >= -1e-9 for name in CURVED)
    assert least["bound_direction"] < -1e-3
    assert least["bound_clip"] < -1e-3


def random_case(rng):
    """Batches, means and Hessians of two groups of two parameters: clipping turns by any angle."""
    a, b = (rng.standard_normal(2) * 10 ** rng.uniform(-2, 1) for _ in range(2))
    plain = rng.standard_normal(2) * 10 ** rng.uniform(-1, 1.5)
    turn, largest = rng.uniform(0, 2 * np.pi), 10 ** rng.uniform(-1, 1)
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ plain
    axes = rng.standard_normal((2, 2))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    plain, clipped, a, b = (torch.from_numpy(v).unsqueeze(0) for v in (plain, turned, a, b))
    nothing = torch.zeros_like(plain)
    batches = Batches(plain, clipped, nothing, nothing)
    means = Means(torch.cat([a, b, a]), plain[0], clipped[0])
    hessians = largest * torch.einsum("ki,kj->kij", *[torch.from_numpy(axes)] * 2)
    return batches, means, hessians, Sampling(1 / largest, 0.5, 10, 10, 0.0)


def violations(count):
    """How often a bound above zero goes with a group that does not pay more."""
    rng = np.random.default_rng(0)
    printed = corrected = 0
    for _ in range(count):
        batches, means, hessians, sampling = random_case(rng)
        eta = sampling.learning_rate
        squares = [
            torch.einsum("p,kpq,q->k", v[0], hessians, v[0])
            for v in (batches.clipped, batches.plain)
        ]
        linear = means.group[:2] @ (batches.plain - batches.clipped)[0]
        truth = eta * linear + eta**2 / 2 * (squares[0] - squares[1])
        difference = float(truth[0] - truth[1])
        bounds = lower_bounds(batches, means, sampling, spectra_of(hessians), 1.0)
        printed += float(bounds["bound_direction_star_printed"][0, 1]) > 0 >= difference
        corrected += difference < float(bounds["bound_direction_star"][0, 1]) - 1e-9
    return printed, corrected


def test_prop_3_star_is_violated_as_printed_and_never_as_corrected():
    printed, corrected = violations(500)
    assert printed >= 3
    assert corrected == 0


@pytest.mark.slow
def test_prop_3_star_is_violated_as_printed_in_some_350_of_20_000_cases():
    printed, corrected = violations(20_000)
    assert 280 < printed < 430
    assert corrected == 0


def test_flags_say_which_assumption_is_not_met():
    spectra = Spectra(torch.tensor([2.0, 4.0]).double(), torch.tensor([0.0, -0.003]).double())
    assert bool(spectra.is_short_step(0.25))
    assert not bool(spectra.is_short_step(0.26))
    assert bool(spectra.is_convex())  # -0.003 is rounding beside 4
    assert not bool(Spectra(spectra.largest, torch.tensor([-0.003, 0.0]).double()).is_convex())
    for unknown in ([0.0, torch.nan], [-0.003, torch.nan]):
        assert Spectra(spectra.largest, torch.tensor(unknown).double()).is_convex().isnan()
    series = Spectra.unknown(2).series(0.1)
    assert all(value.isnan().all() for value in series.values())
    assert series["is_convex"].shape == (1,)


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
    hessians = torch.stack([torch.diag(row) for row in curved[:2]])
    bounds = lower_bounds(batches, means, sampling, spectra_of(hessians), 3.0)
    for name, truth in TRUTHS.items():
        if name == "bound_direction_star":  # here the turned gradient has another length
            continue
        torch.testing.assert_close(bounds[name][0, 1], terms[truth][0] - terms[truth][1])
