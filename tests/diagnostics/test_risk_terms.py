"""Against brute force in float64, every batch enumerated.

1e-5 relative, what the guard on norms leaves.
"""

import dataclasses

import pytest
import torch
from forms import FORM
from steps import RECORDS, a_step, all_batches, loss_of
from torch.testing import assert_close

from fairaudit.diagnostics.risk_terms import clip_term, noise_term, risk_terms

DPSGD, GLOBAL, ADAPT = (FORM[key] for key in ("dpsgd", "global", "global-adapt"))
Q = 0.5
EXPECTED = Q * RECORDS


def enumerated(step, signs=None):
    chosen = all_batches()
    batches = step.batches(chosen, chosen if signs is None else signs, expected=EXPECTED)
    return batches, step.means()


def by_hand(step):
    """The four terms by their definitions, one batch and one group at a time; [K + 1] each."""
    eta, chosen = step.eta, all_batches()
    names = "r_magnitude", "r_direction", "r_magnitude_star", "r_direction_star"
    rows = {name: [] for name in names}
    for batch in chosen:
        g, c = batch @ step.g / EXPECTED, batch @ step.clipped / EXPECTED
        rho = float(c.norm() / g.norm()) if g.norm() > 0 else 1.0
        parts = {name: [] for name in rows}
        for group, h in zip(step.means().group, step.hessians, strict=True):
            gg, cc = float(g @ h @ g), float(c @ h @ c)
            on_g, on_c = float(group @ g), float(group @ c)
            half = eta**2 / 2
            parts["r_magnitude"].append(eta * (1 - rho) * on_g + half * (rho**2 - 1) * gg)
            parts["r_direction"].append(eta * (rho * on_g - on_c) + half * (cc - rho**2 * gg))
            turned = float(c @ h @ c) / rho**2  # of M g, which is c at g's length
            parts["r_magnitude_star"].append(
                eta * (1 / rho - 1) * on_c + half * (1 - 1 / rho**2) * cc
            )
            parts["r_direction_star"].append(eta * (on_g - on_c / rho) + half * (turned - gg))
        for name, values in parts.items():
            rows[name].append(values)
    return {
        name: torch.tensor(values, dtype=torch.float64).mean(0) for name, values in rows.items()
    }


@pytest.mark.parametrize("name", ["logistic", "mlp-tanh"])
def test_every_term_is_the_mean_over_all_batches(name):
    step = a_step(DPSGD, name=name, max_grad_norm=0.5)
    batches, means = enumerated(step)
    found = risk_terms(batches, means, step.forms(batches, means), step.sampling())
    for term, expected in by_hand(step).items():
        assert_close(found[term], expected, rtol=1e-9, atol=1e-14)
    assert (found["r_direction"].abs() > 1e-7).all()  # there is something to compare
    both = [found[f"r_direction{star}"] + found[f"r_magnitude{star}"] for star in ("", "_star")]
    assert_close(both[0], both[1], rtol=1e-6, atol=1e-14)
    mixed = found["r_magnitude"] + found["r_direction_star"]
    assert not torch.allclose(mixed, both[0], rtol=1e-2)


@pytest.mark.parametrize("typical", [0.2, 0.6, 0.9])
def test_taking_off_what_is_known_moves_no_mean_and_shrinks_the_spread(typical):
    step = a_step(DPSGD, max_grad_norm=0.5)
    batches, means = enumerated(step)
    forms = step.forms(batches, means)
    plain = risk_terms(batches, means, forms, step.sampling())
    known = risk_terms(dataclasses.replace(batches, typical=typical), means, forms, step.sampling())
    for term, expected in by_hand(step).items():
        assert_close(known[term], expected, rtol=1e-9, atol=1e-14)
        assert not torch.equal(known[f"{term}_se"], plain[f"{term}_se"])
    near = dataclasses.replace(batches, typical=batches.typical_shrinkage())
    found = risk_terms(near, means, forms, step.sampling())
    assert (found["r_magnitude_se"] < 0.6 * plain["r_magnitude_se"]).all()


def of_batches(*step):
    """Clipping's cost over the batches."""
    terms = risk_terms(*step)
    return terms["r_magnitude"] + terms["r_direction"]


def all_signs():
    """All signs on all batches."""
    return (all_batches().unsqueeze(1) * (2 * all_batches() - 1).unsqueeze(0)).flatten(0, 1)


def test_the_closed_form_of_clipping_is_the_mean_over_all_batches_and_signs():
    step = a_step(DPSGD, max_grad_norm=0.5)
    batches, means = enumerated(step, all_signs())
    forms = step.forms(batches, means)
    found, error = clip_term(means, forms, step.sampling())
    sampled = of_batches(batches, means, forms, step.sampling())
    assert_close(found, sampled, rtol=1e-9, atol=1e-14)
    without = dataclasses.replace(forms, clipped_probes=forms.probes)
    assert not torch.allclose(clip_term(means, without, step.sampling())[0], sampled, rtol=1e-9)
    assert (error > 0).all()


@pytest.mark.parametrize("eta", [0.02, 0.01])
def test_the_terms_are_what_a_step_does_to_the_loss_up_to_third_order(eta):
    step = a_step(DPSGD, max_grad_norm=0.5, eta=eta)
    batches, means = enumerated(step)
    forms = step.forms(batches, means)
    clip = of_batches(batches, means, forms, step.sampling())
    theta = step.reader.checkpoint.parameters[0]
    change = torch.stack(
        [
            loss_of(step, theta - eta * c) - loss_of(step, theta - eta * g)
            for g, c in zip(batches.plain, batches.clipped, strict=True)
        ]
    ).mean(0)
    size = float(batches.plain.norm(dim=1).max()) * eta
    assert ((change - clip).abs() < 2 * size**3).all()
    assert (clip.abs() > 100 * size**3).any()


def test_noise_has_a_plus_and_the_scale_of_the_averaged_gradient():
    step, nu = a_step(DPSGD, eta=0.1), 1e-3
    theta = step.reader.checkpoint.parameters[0]
    # +- nu sqrt(P) e_j has the covariance nu^2 I, so the mean over all of them is the expectation.
    basis = torch.eye(len(theta), dtype=torch.float64) * nu * len(theta) ** 0.5
    moved = [loss_of(step, theta - step.eta * s * psi) for psi in basis for s in (1.0, -1.0)]
    risen = torch.stack(moved).mean(0) - loss_of(step, theta)
    traces = step.hessians.diagonal(dim1=1, dim2=2).sum(1)
    found = noise_term(traces, step.sampling(noise_std=nu))
    assert_close(found, risen, rtol=1e-4, atol=1e-14)


def emptying():
    """A step that drops the longer gradients and keeps the others."""
    middle = float(a_step(GLOBAL).g.norm(dim=1).median())
    return a_step(GLOBAL, threshold=middle, max_grad_norm=0.5)


def test_a_batch_that_clipping_empties_leaves_all_terms():
    step = emptying()
    empty_after = (step.clipped.norm(dim=1) == 0).double()
    assert 0 < empty_after.sum() < RECORDS
    batches, means = enumerated(step)
    forms = step.forms(batches, means)
    found = risk_terms(batches, means, forms, step.sampling())
    chosen = all_batches()
    emptied = (chosen.sum(1) > 0) & ((chosen @ (1 - empty_after)) == 0)
    assert emptied.any()
    kept = torch.nonzero(~emptied).squeeze(1)
    few = step.batches(chosen[kept], chosen[kept], expected=EXPECTED)
    # Nothing is taken off where a batch is dropped: the mean of the others is not known.
    typical = dataclasses.replace(batches, typical=0.5)
    again = risk_terms(typical, means, forms, step.sampling())
    assert all(torch.equal(again[name].nan_to_num(), found[name].nan_to_num()) for name in found)
    rest = risk_terms(few, means, step.forms(few, means), step.sampling())
    for name in ("r_magnitude", "r_direction"):
        assert_close(found[name], rest[name])
        assert found[name].isfinite().all()


def test_without_a_single_usable_batch_the_terms_are_unknown_and_not_zero():
    step = emptying()
    one = (
        torch.nn.functional.one_hot(step.clipped.norm(dim=1).argmin(), RECORDS)
        .double()
        .unsqueeze(0)
    )
    assert (one @ step.clipped == 0).all()
    batches, means = step.batches(one, one, expected=EXPECTED), step.means()
    found = risk_terms(batches, means, step.forms(batches, means), step.sampling())
    assert found["r_direction"].isnan().all()
    assert found["r_clip"].isfinite().all()


def test_the_effective_magnitude_is_that_of_flat_clipping_at_the_threshold_with_the_same_step():
    """Scaling by C / max(norm, Z) with eta is clipping at Z with eta C / Z.

    Direction does not change.
    """
    threshold, bound, eta = 1.2, 0.3, 0.4
    scaled = a_step(ADAPT, threshold=threshold, max_grad_norm=bound, eta=eta)
    flat = a_step(DPSGD, max_grad_norm=threshold, eta=eta * bound / threshold)
    found = []
    for step in (scaled, flat):
        batches, means = enumerated(step)
        batches = dataclasses.replace(batches, unclipped=step.reader.unclipped(0))
        found.append(risk_terms(batches, means, step.forms(batches, means), step.sampling()))
    for name in ("r_direction", "r_magnitude_effective"):
        assert_close(found[0][name], found[1][name], rtol=1e-5, atol=1e-12)
    assert_close(found[1]["r_magnitude_effective"], found[1]["r_magnitude"])
    assert not torch.allclose(found[0]["r_magnitude"], found[1]["r_magnitude"], rtol=0.1)
