"""A search's epsilon against dp_accounting called directly, the paper's formula by hand.

And exact toys.
"""

import math
import re

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from numpy.testing import assert_allclose
from scipy import stats

from fairaudit.errors import PrivacyError
from fairaudit.privacy.accounting import calibrate, calibrate_gaussian, epsilon
from fairaudit.privacy.events import Gaussian, NoisyRelease, SampledGaussian
from fairaudit.privacy.selection import (
    ORDERS,
    Selection,
    SelectionEvent,
    base_epsilon,
    renyi_divergences,
    score_noise,
)


def training(steps_per_epoch, steps, sigma):
    return SampledGaussian(steps_per_epoch, steps, (NoisyRelease("gradient", sigma),))


def by_library(steps_per_epoch, steps, sigma, mean, shape, delta):
    """Epsilon of the best of K runs, by nothing but the library."""
    step = dp_accounting.PoissonSampledDpEvent(
        1 / steps_per_epoch, dp_accounting.GaussianDpEvent(sigma)
    )
    run = dp_accounting.SelfComposedDpEvent(step, steps)
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, shape))
    return accountant.get_epsilon(delta)


# steps per epoch, steps, sigma, mean, shape, delta
SETTINGS = [
    (97, 1940, 1.29, 30, 0, 1e-6),
    (77, 1540, 2.5, 20, 1, 1e-6),
    (77, 385, 0.8, 10, 0.5, 1e-5),
    (20, 2000, 4.0, 5, 2, 1e-5),
    (1, 20, 12.0, 20, 0, 1e-6),
    (636, 19080, 0.8, 2, 0, 1e-6),
]


@pytest.mark.parametrize(("steps_per_epoch", "steps", "sigma", "mean", "shape", "delta"), SETTINGS)
def test_epsilon_of_a_search_is_that_of_the_library(
    steps_per_epoch, steps, sigma, mean, shape, delta
):
    found = Selection(mean, shape).epsilon([training(steps_per_epoch, steps, sigma)], delta)
    assert found == pytest.approx(
        by_library(steps_per_epoch, steps, sigma, mean, shape, delta), rel=1e-6
    )
    assert found > epsilon(training(steps_per_epoch, steps, sigma), delta, "rdp")


@pytest.mark.parametrize("mean", [1.5, 4.0, 20.0])
def test_tries_are_the_textbook_distributions(mean):
    logarithmic, geometric, other = Selection(mean, 0.0), Selection(mean, 1.0), Selection(mean, 0.5)
    k = np.arange(1, 4000)
    assert_allclose(
        logarithmic.tries(4000)[:-1],
        stats.logser.pmf(k, 1 - logarithmic.gamma),
        rtol=1e-8,
        atol=1e-15,
    )
    assert_allclose(geometric.tries(4000)[:-1], stats.geom.pmf(k, 1 / mean), rtol=1e-8, atol=1e-15)
    raw = stats.nbinom.pmf(k, 0.5, other.gamma) / (1 - stats.nbinom.pmf(0, 0.5, other.gamma))
    assert_allclose(other.tries(4000)[:-1], raw, rtol=1e-8, atol=1e-15)
    for selection in (logarithmic, geometric, other):
        chances = selection.tries(4000)
        assert chances.sum() == pytest.approx(1.0)
        assert (np.arange(1, 4001) * chances).sum() == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_chances_by_simulation(shape):
    """Draw K, cut it, draw as many of n without replacement, keep the best.

    As often as the weights say.
    """
    n, rounds = 7, 40_000
    selection, rng = Selection(n, shape), np.random.default_rng(3)
    tries = rng.geometric(1 / n, rounds) if shape else rng.logseries(1 - selection.gamma, rounds)
    kept = np.zeros(n)
    for k in np.minimum(tries, n):
        kept[rng.permutation(n)[:k].min()] += 1
    chances = selection.chances(n)
    assert chances.sum() == pytest.approx(1.0)
    assert_allclose(kept / rounds, chances, atol=5 * np.sqrt(0.25 / rounds))
    always_the_best = np.eye(n)[0]  # what a search with K = n would keep
    assert np.abs(kept / rounds - always_the_best).max() > 0.2


def renyi_of_two(p, q):
    """The larger of both Renyi divergences of Bernoulli p and q at every order."""
    orders = np.asarray(ORDERS)
    both = []
    for a, b in ((p, q), (q, p)):
        terms = np.array(
            [
                orders * math.log(a) + (1 - orders) * math.log(b),
                orders * math.log1p(-a) + (1 - orders) * math.log1p(-b),
            ]
        )
        both.append(np.logaddexp(*terms) / (orders - 1))
    return np.maximum(*both)


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_charge_covers_an_exact_search_and_not_one_of_fixed_length(shape):
    """A run scores high with probability p, or q without the record.

    The best of K is high unless none is.
    """
    p, q, n = 0.1, 0.25, 20
    selection = Selection(n, shape)
    charged = selection.divergences(renyi_of_two(p, q))
    tries = selection.tries(20_000)

    def none_is_high(chance):
        return float((tries * (1 - chance) ** np.arange(1, 20_001)).sum())

    random = renyi_of_two(1 - none_is_high(p), 1 - none_is_high(q))
    fixed = renyi_of_two(1 - (1 - p) ** n, 1 - (1 - q) ** n)
    assert (random <= charged + 1e-9).all()
    assert (fixed > charged).any()  # the broken form: always n tries, charged as K


def test_a_candidate_of_another_event_is_covered_order_by_order():
    """Few steps with much noise and many with little cross: neither one's charge covers both."""
    few, many = training(1, 1, 1.45), training(1000, 20_000, 0.62)
    selection = Selection(20, 0)
    a, b = renyi_divergences(few), renyi_divergences(many)
    assert (a > b * 1.01).any()
    assert (b > a * 1.01).any()
    both = selection.epsilon([few, many], 1e-6)
    assert both >= max(selection.epsilon([few], 1e-6), selection.epsilon([many], 1e-6))
    assert both == selection.epsilon([many, few], 1e-6)
    np.testing.assert_array_less(
        -1e-12, selection.divergences(np.maximum(a, b)) - selection.divergences(a)
    )


@pytest.mark.parametrize(
    ("target", "shape", "same"),
    [(1.0, 1.0, 0.4063), pytest.param(3.0, 0.0, 1.446, marks=pytest.mark.slow)],
)
def test_base_meets_the_target_with_candidates_of_every_length(target, shape, same):
    """And is the same in every version, as the noise that follows from it."""
    selection = Selection(20, shape)

    def events(base):
        return [training(77, s, calibrate(77, s, 1e-6, base)) for s in (385, 1540)]

    base = base_epsilon(selection, events, 1e-6, target)
    assert base == same
    assert 0.995 * target <= selection.epsilon(events(base), 1e-6) <= target
    assert base < 0.6 * target
    assert all(epsilon(event, 1e-6) <= base for event in events(base))


def test_a_base_is_found_above_those_that_no_noise_meets():
    """Whatever else a training releases may cost more than the first base that is tried."""
    selection, refused = Selection(20, 0), []

    def events(base, least):
        if base < least:
            refused.append(base)
            raise PrivacyError(f"epsilon {base:g} cannot be met: the counts alone cost more")
        return [Gaussian("sum", calibrate_gaussian(1, 1e-6, base))]

    free = base_epsilon(selection, lambda base: events(base, 0.0), 1e-6, 3.0)
    assert (free, refused) == (1.612, [])
    assert base_epsilon(
        selection, lambda base: events(base, 0.97 * free), 1e-6, 3.0
    ) == pytest.approx(free, rel=0.01)
    with pytest.raises(
        PrivacyError, match=r"epsilon 3 cannot be met by a search, which leaves less .* alone"
    ):
        base_epsilon(selection, lambda base: events(base, 1.1 * free), 1e-6, 3.0)
    assert refused


@pytest.mark.parametrize(("target", "same"), [(0.5, 15.9), (8.0, 1.038)])
def test_score_noise_meets_the_target(target, same):
    selection = Selection(20, 0)
    noise = score_noise(selection, 1e-6, target)
    assert noise == same
    assert 0.998 * target <= selection.epsilon([Gaussian("score", noise)], 1e-6) <= target
    assert selection.epsilon([Gaussian("score", 0.98 * noise)], 1e-6) > target


def test_a_record_is_charged_for_the_larger_of_both_places():
    selection, run = Selection(20, 0), training(77, 1540, 1.5)
    quiet, loud = Gaussian("score", 3.0), Gaussian("score", 0.5)
    fit, validation = SelectionEvent(selection, (run,), loud).epsilons(1e-6)
    assert validation > fit
    assert SelectionEvent(selection, (run,), loud).epsilon(1e-6) == validation
    assert SelectionEvent(selection, (run,), quiet).epsilon(1e-6) == pytest.approx(
        max(fit, selection.epsilon([quiet], 1e-6))
    )


def test_no_noise_costs_everything():
    selection = Selection(20, 0)
    assert selection.epsilon([Gaussian("score", 0.0)], 1e-6) == math.inf
    assert selection.epsilon([training(77, 1540, 1.5), training(77, 770, 0.0)], 1e-6) == math.inf


def test_a_target_below_what_any_search_costs_is_refused():
    with pytest.raises(PrivacyError, match="cannot be met by a search"):
        score_noise(Selection(20, 0), 1e-6, 1e-3)
    with pytest.raises(PrivacyError, match="cannot be met by a search"):
        base_epsilon(Selection(20, 0), lambda base: [Gaussian("x", 1.0 / base)], 1e-6, 0.01)


def test_what_a_search_needs_at_least_is_enough_for_its_scores():
    with pytest.raises(PrivacyError, match="search of 20 tries") as caught:
        score_noise(Selection(20, 1), 1e-6, 0.01)
    least = float(re.search(r"at least ([\d.]+) ", str(caught.value))[1])
    noise = score_noise(Selection(20, 1), 1e-6, least)
    assert 0.99 * least < Selection(20, 1).epsilon([Gaussian("score", noise)], 1e-6) <= least


@pytest.mark.parametrize(("mean", "shape"), [(1.0, 0.0), (20.0, -0.5)])
def test_no_such_distribution(mean, shape):
    with pytest.raises(ValueError, match="no distribution of tries"):
        Selection(mean, shape)
