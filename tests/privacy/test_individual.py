import numpy as np
import pytest

from fairaudit.privacy.accounting import composed_epsilon, epsilon
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
from fairaudit.privacy.individual import individual_epsilon

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
    assert own == pytest.approx(exact, rel=0.03)
    # The mean multiplier would not do.
    assert individual_epsilon(np.full(1840, np.mean(multipliers)), EVENT, DELTA) < 0.985 * exact


def test_very_small_noise_does_not_overflow():
    quiet = SampledGaussian(92, 10, (NoisyRelease("gradient", 0.05),))
    assert individual_epsilon(np.full(10, 0.05), quiet, DELTA) == pytest.approx(
        epsilon(quiet, DELTA), rel=1e-3
    )
