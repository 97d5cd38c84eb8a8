import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

from fairaudit.privacy.accounting import composed_epsilon, epsilon
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
from fairaudit.privacy.individual import _classes, individual_epsilon

DELTA = 1e-6
EVENT = SampledGaussian(92, 1840, (NoisyRelease("gradient", 1.0), NoisyRelease("count", 10.0)))


def test_a_group_whose_noise_is_the_planned_one_has_the_runs_epsilon():
    own = individual_epsilon(np.ones((1840, 1)), EVENT, DELTA)
    assert own == pytest.approx(epsilon(EVENT, DELTA), rel=1e-3)


def test_a_group_with_more_noise_next_to_it_has_a_smaller_epsilon():
    values = [individual_epsilon(np.full(1840, m), EVENT, DELTA) for m in (1.0, 1.5, 3.0)]
    assert values[0] > values[1] > values[2] > 0


def test_the_side_queries_are_felt_by_every_group():
    """However large its noise, a record is still counted."""
    counted = SampledGaussian(92, 1840, (EVENT.releases[1],))
    assert individual_epsilon(np.full(1840, 1e6), EVENT, DELTA) == pytest.approx(
        epsilon(counted, DELTA), rel=1e-3
    )


@pytest.mark.parametrize("multipliers", [(1.0, 2.0), (1.0, 1.3)])
def test_steps_that_differ_come_near_to_their_exact_composition(multipliers):
    halves = [
        (SampledGaussian(92, 920, (NoisyRelease("gradient", m), NoisyRelease("count", 10.0))), 1)
        for m in multipliers
    ]
    exact = composed_epsilon(halves, DELTA)
    own = individual_epsilon(np.repeat(multipliers, 920), EVENT, DELTA)
    assert own == pytest.approx(exact, rel=1e-3)
    # The mean multiplier would not do.
    assert individual_epsilon(np.full(1840, np.mean(multipliers)), EVENT, DELTA) < 0.985 * exact


def test_very_small_noise_does_not_overflow():
    quiet = SampledGaussian(92, 10, (NoisyRelease("gradient", 0.05),))
    assert individual_epsilon(np.full(10, 0.05), quiet, DELTA) == pytest.approx(
        epsilon(quiet, DELTA), rel=1e-3
    )


def by_library(precision, event):
    """Every step's own Poisson-sampled Gaussian, composed by dp_accounting itself."""
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    for value, count in zip(*np.unique(precision, return_counts=True), strict=True):
        step = dp_accounting.PoissonSampledDpEvent(
            1 / event.steps_per_epoch, dp_accounting.GaussianDpEvent(value**-0.5)
        )
        accountant.compose(step, int(count))
    return accountant.get_epsilon(DELTA)


def some(levels, steps):
    """So many steps of some levels of noise, shuffled."""
    return np.random.default_rng(0).permutation(np.resize(levels, steps))


def spread(steps):
    """Noise that drifts, as a reweighting rule's does: no two steps alike."""
    return 0.85 + np.random.default_rng(1).lognormal(-0.5, 0.8, steps)


CASES = {
    "two levels": (92, some([0.8, 2.4], 1840)),
    "more levels than once": (38, some([0.5, 1.0, 2.0, 3.0], 114)),
    "few steps of much": (20, some([0.6, *[3.0] * 9], 40)),
    "few steps of little": (20, some([3.0, *[0.6] * 9], 40)),
    "no two alike": (38, spread(20)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_groups_epsilon_is_the_compositions_or_a_little_more(name):
    steps_per_epoch, multipliers = CASES[name]
    planned = NoisyRelease("gradient", float(multipliers.min()))
    event = SampledGaussian(
        steps_per_epoch, len(multipliers), (planned, NoisyRelease("count", 10.0))
    )
    exact = by_library(multipliers**-2.0 + 0.01, event)
    own = individual_epsilon(multipliers, event, DELTA)
    alike = len(np.unique(multipliers)) <= 12
    assert exact * (1 - 1e-3) <= own <= exact * (1.001 if alike else 1.06)
    assert own <= epsilon(event, DELTA) * 1.001


def test_of_several_repeats_the_bound_holds_for_each():
    """One repeat next to little noise, one next to much: their mean would hide the first."""
    event = SampledGaussian(38, 76, (NoisyRelease("gradient", 0.8),))
    both = np.stack([np.full(76, 3.0), some([0.8, 1.6], 76)], axis=1)
    alone = [individual_epsilon(both[:, r], event, DELTA) for r in range(2)]
    assert individual_epsilon(both, event, DELTA) == pytest.approx(max(alone), rel=1e-9)
    assert alone[0] < 0.5 * alone[1]


def test_classes_cover_every_step_once_and_never_claim_more_noise_than_there_was():
    for steps in (1, 2, 11, 12, 13, 300, 2_000):
        precision = np.sort(spread(steps) ** -2.0)
        found = _classes(precision)
        assert len(found) == min(steps, 12)
        charged = np.sort(np.repeat([c.largest for c in found], [c.steps for c in found]))
        assert len(charged) == steps
        assert (charged >= precision).all()
