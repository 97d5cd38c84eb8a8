"""The attacker's trade-off against closed forms, likelihood ratios summed by hand.

And broken twins.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from fairaudit.privacy.accounting import PrivacyCurve
from fairaudit.privacy.events import Gaussian, NoisyRelease, SampledGaussian
from fairaudit.privacy.selection import Selection, SelectionEvent
from fairaudit.privacy.tradeoff import FALSE_POSITIVE_RATES, attack_rates, rate_of_curve


def sampled(steps_per_epoch, steps, sigma):
    return SampledGaussian(steps_per_epoch, steps, (NoisyRelease("gradient", sigma),))


def rates(event):
    return list(attack_rates(event))


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0, 8.0])
def test_the_curve_of_a_gaussian_gives_its_closed_form(mu):
    exact = [norm.cdf(norm.ppf(at) + mu) for at in FALSE_POSITIVE_RATES]
    assert rates(Gaussian("sum", 2.0 / mu, 4)) == pytest.approx(exact, abs=1e-12)
    whole = sampled(1, 4, 2.0 / mu)  # every record in every step: the same mechanism by its curve
    assert rates(whole) == pytest.approx(exact, abs=1e-4)
    assert all(a >= b - 1e-9 for a, b in zip(rates(whole), exact, strict=True))


def most_powerful(p, q, at):
    """Neyman and Pearson by hand.

    Outcomes in the order of their likelihood ratio, the last one in part.
    """
    order = np.argsort(-(np.log(p) - np.log(q)))
    p, q = p[order], q[order]
    taken = np.cumsum(q)
    k = int(np.searchsorted(taken, at))
    before = taken[k - 1] if k else 0.0
    return float(p[:k].sum() + p[k] * (at - before) / q[k])


def one_step(rate, sigma, points=400_001):
    """Outcomes of a sampled Gaussian step with a record (p) and without (q), on a grid."""
    x = np.linspace(-12 * sigma, 12 * sigma + 1, points)
    q = norm.pdf(x / sigma)
    p = (1 - rate) * q + rate * norm.pdf((x - 1) / sigma)
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize(("steps_per_epoch", "sigma"), [(2, 0.5), (10, 0.6), (50, 1.0)])
def test_one_sampled_step_is_the_most_powerful_test_summed_by_hand(steps_per_epoch, sigma):
    p, q = one_step(1 / steps_per_epoch, sigma)
    by_hand = [most_powerful(p, q, at) for at in FALSE_POSITIVE_RATES]
    assert rates(sampled(steps_per_epoch, 1, sigma)) == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize(
    ("steps_per_epoch", "steps", "sigma"),
    [pytest.param(92, 184, 0.8, marks=pytest.mark.slow), (20, 40, 0.9)],
)
def test_a_training_agrees_with_the_loss_distribution_of_dp_accounting(
    steps_per_epoch, steps, sigma
):
    from dp_accounting.pld import privacy_loss_distribution

    step = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=1 / steps_per_epoch, value_discretization_interval=1e-4
    )
    whole = step.self_compose(steps)
    epsilons = np.linspace(0, 4, 81)
    deltas = np.array(whole.get_delta_for_epsilon(epsilons))
    theirs = [float((deltas + np.exp(epsilons) * at).min()) for at in FALSE_POSITIVE_RATES]
    assert rates(sampled(steps_per_epoch, steps, sigma)) == pytest.approx(theirs, abs=1e-4)


def search(sigma, score):
    training = sampled(20, 400, sigma)
    return SelectionEvent(Selection(20.0, 0.0), (training,), Gaussian("score", score))


def theirs_of_search(mechanism):
    """By the library's own accountant of a repeated selection, over a grid of epsilons."""
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant().compose(
        dp_accounting.dp_event.RepeatAndSelectDpEvent(mechanism, 20.0, 0.0)
    )
    epsilons = np.linspace(0, 12, 241)
    deltas = np.array([accountant.get_delta(e) for e in epsilons])
    return [
        min(
            (deltas + np.exp(epsilons) * at).min(),
            (1 - np.exp(-epsilons) * (1 - deltas - at)).min(),
            1.0,
        )
        for at in FALSE_POSITIVE_RATES
    ]


def test_a_search_leaves_what_the_library_says_of_the_record_that_it_protects_less():
    import dp_accounting

    step = dp_accounting.PoissonSampledDpEvent(1 / 20, dp_accounting.GaussianDpEvent(2.0))
    of_fit_record = theirs_of_search(dp_accounting.SelfComposedDpEvent(step, 400))
    of_validation_record = theirs_of_search(dp_accounting.GaussianDpEvent(0.8))
    assert of_validation_record[0] > of_fit_record[0]
    assert rates(search(2.0, 50.0)) == pytest.approx(of_fit_record, rel=5e-3)
    assert rates(search(2.0, 0.8)) == pytest.approx(of_validation_record, rel=5e-3)
    assert rates(search(0.0, 50.0)) == rates(search(2.0, 0.0)) == [1.0, 1.0]


def test_a_point_of_a_curve_alone_proves_what_it_says():
    epsilon, delta, at = 1.0, 1e-5, 0.01
    curve = PrivacyCurve(lambda e: delta if e >= epsilon else 1.0, 0.0, 10.0)
    assert rate_of_curve(curve, at) == pytest.approx(delta + math.exp(epsilon) * at, rel=1e-2)
    for place in (-9.7, 0.3, 6.1):  # nobody accused falsely: the least delta, wherever it lies
        valley = PrivacyCurve(lambda e, place=place: 0.1 + abs(e - place), -10.0, 10.0)
        assert rate_of_curve(valley, 0.0) == pytest.approx(0.1, abs=1e-3)
    half = PrivacyCurve(lambda e: 0.0 if e >= 0.1 else 1.0, 0.0, 10.0)
    assert rate_of_curve(half, 0.9) == pytest.approx(1 - math.exp(-0.1) * 0.1, abs=1e-3)
