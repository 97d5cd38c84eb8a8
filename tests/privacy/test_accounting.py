"""Epsilon against published and checked values, joint accounting.

And calibration that never overshoots.
"""

import json
import logging
import math
import re
import sys
from functools import partial

import numpy as np
import pytest
from processes import ended
from refusals import refused_in_one_line

from fairaudit.config.options import LARGEST_EPSILON
from fairaudit.errors import EXIT_PRIVACY, ConfigError, PrivacyError
from fairaudit.privacy.accounting import (
    LARGEST_SIGMA,
    MOST_STEPS,
    SMALLEST_DELTA,
    SMALLEST_SIGMA,
    TOLERANCE,
    calibrate,
    calibrate_gaussian,
    composed_epsilon,
    epsilon,
    joint,
    refuse_many_steps,
)
from fairaudit.privacy.events import Gaussian, NoisyRelease, SampledGaussian, event_to_json

RDP_TOLERANCE, PLD_TOLERANCE = 2e-3, 5e-3
ADULT, DUTCH, MNIST, CELEBA = (92, 1840), (189, 3780), (214, 12840), (636, 19080)


def event(steps_per_epoch, steps, sigma, *side):
    releases = [NoisyRelease("gradient", sigma), *(NoisyRelease("count", noise) for noise in side)]
    return SampledGaussian(steps_per_epoch, steps, tuple(releases))


# docs/methods.md 2.8: gradient release alone, RDP; those of delta 1e-6 by PLD too, below.
TABLE = [
    (*ADULT, 1.0, 1e-6, 3.4078),
    (142, 2840, 1.0, 1e-6, 2.6554),
    (*DUTCH, 1.0, 1e-6, 2.2686),
    (*MNIST, 0.8, 1e-6, 5.9027),
    (636, 38160, 0.8, 1e-6, 3.2126),
    (1131, 113_063, 5.0, 1e-5, 0.217),  # printed for q = 32/n
    (281, 28_125, 5.0, 1e-5, 0.459),
]

# docs/methods.md 2.8: sigma, sigma_c -> gradient alone, two separate sampled Gaussians, joint; each
# RDP, PLD.
JOINT_TABLE = [
    (ADULT, 1.0, 10.0, (3.4078, 3.1037), (3.4155, 3.1113), (3.4436, 3.1349)),
    (DUTCH, 1.0, 10.0, (2.2686, 2.0380), (2.2734, 2.0434), (2.2928, 2.0580)),
    (MNIST, 0.8, 10.0, (5.9027, 5.4216), (5.9095, 5.4284), (5.9511, 5.4648)),
    (MNIST, 0.8, 8.0, (5.9027, 5.4216), (5.9133, 5.4321), (5.9788, 5.4893)),
    (CELEBA, 0.8, 10.0, (2.4931, 2.0323), (2.4949, 2.0347), (2.5148, 2.0494)),
    (ADULT, 1.0, 1.0, (3.41, 3.10), (4.78, 4.42), (8.16, 7.28)),
]


@pytest.mark.parametrize(("rate", "steps", "sigma", "delta", "rdp"), TABLE)
def test_rdp_epsilon_equals_the_checked_table(rate, steps, sigma, delta, rdp):
    assert epsilon(event(rate, steps, sigma), delta, "rdp") == pytest.approx(rdp, abs=RDP_TOLERANCE)


EVERY_TIME = {(ADULT, 10.0)}  # a row takes about 2 s


@pytest.mark.parametrize(
    ("schedule", "sigma", "noise", "alone", "separate", "together"),
    [
        pytest.param(*row, marks=() if (row[0], row[2]) in EVERY_TIME else pytest.mark.slow)
        for row in JOINT_TABLE
    ],
)
def test_joint_pld_epsilon_equals_the_checked_table_and_exceeds_both_wrong_ways(
    schedule, sigma, noise, alone, separate, together
):
    slack = 5e-3 if noise == 1.0 else 0.0
    both, gradient = event(*schedule, sigma, noise), event(*schedule, sigma)
    assert epsilon(both, 1e-6, "rdp") == pytest.approx(together[0], abs=RDP_TOLERANCE + slack)
    assert epsilon(both, 1e-6) == pytest.approx(together[1], abs=PLD_TOLERANCE + slack)
    assert epsilon(gradient, 1e-6) == pytest.approx(alone[1], abs=PLD_TOLERANCE + slack)
    # As if the count had a Poisson sample of its own.
    apart = composed_epsilon([(gradient, 1), (event(*schedule, noise), 1)], 1e-6)
    assert apart == pytest.approx(separate[1], abs=PLD_TOLERANCE + slack)
    assert epsilon(both, 1e-6) > apart > epsilon(gradient, 1e-6)


@pytest.mark.parametrize(
    ("rate", "steps", "sigma", "interval"),
    [
        (10, 200, 4.0, 1e-4),  # about 1.4
        (100, 50, 3.0, 1e-4 / 8),  # about 0.08, and 0.12 by RDP: finer
        (50, 3, 0.3, 4e-4),  # about 14: coarser
        (10, 20, 0.3, 8e-4),
    ],
)
def test_cached_step_composition_equals_the_pld_accountant(rate, steps, sigma, interval):
    import dp_accounting
    from dp_accounting import pld

    step = dp_accounting.PoissonSampledDpEvent(1 / rate, dp_accounting.GaussianDpEvent(sigma))
    accountant = pld.PLDAccountant(value_discretization_interval=interval).compose(step, steps)
    expected = accountant.get_epsilon(1e-5)
    assert epsilon(event(rate, steps, sigma), 1e-5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sigma", [0.7, 3.0])
@pytest.mark.parametrize(("steps", "delta"), [(1, 1e-5), (30, 1e-6)])
def test_full_batches_equal_the_exact_gaussian_curve(sigma, steps, delta):
    import dp_accounting

    exact = dp_accounting.get_epsilon_gaussian(sigma / math.sqrt(steps), delta)
    seen = epsilon(event(1, steps, sigma), delta)
    assert exact <= seen * (1 + 1e-9)  # rounded up, never down
    assert seen == pytest.approx(exact, rel=1e-3)


def delta_of_one_step(rate, sigma, at):
    """Delta at an epsilon by summing both densities over a fine grid, the larger direction."""
    x = np.linspace(-30 * sigma, 1 + 30 * sigma, 2_000_001)
    absent, there = (np.exp(-((x - mean) ** 2) / (2 * sigma**2)) for mean in (0.0, 1.0))
    mixed = absent + (there - absent) / rate
    step = (x[1] - x[0]) / (sigma * math.sqrt(2 * math.pi))
    more = (np.maximum(mixed - math.exp(at) * absent, 0.0).sum()) * step
    less = (np.maximum(absent - math.exp(at) * mixed, 0.0).sum()) * step
    return max(more, less)


@pytest.mark.parametrize(
    ("rate", "sigma", "delta"),
    [
        (20, 3.0, 1e-8),
        (3, 0.4, 0.01),
        (30, 1.0, 1e-5),
        pytest.param(1000, 0.5, 1e-5, marks=pytest.mark.slow),
        pytest.param(100_000, 0.3, 1e-6, marks=pytest.mark.slow),
    ],
)
def test_a_single_step_costs_what_its_densities_say(rate, sigma, delta):
    found = epsilon(event(rate, 1, sigma), delta)
    assert 0.0 < found < epsilon(event(rate, 1, sigma), delta, "rdp")
    assert delta_of_one_step(rate, sigma, found) <= delta * (1 + 1e-6)
    assert delta_of_one_step(rate, sigma, found * (1 - 3e-3)) > delta


def whole(rate, steps, sigma, interval):
    """The library's own accountant, at an interval of one's own."""
    import dp_accounting
    from dp_accounting import pld

    step = dp_accounting.PoissonSampledDpEvent(1 / rate, dp_accounting.GaussianDpEvent(sigma))
    return pld.PLDAccountant(value_discretization_interval=interval).compose(step, steps)


@pytest.mark.parametrize(
    ("rate", "steps", "sigma"),
    [
        (300, 3, 0.6),
        (20, 1_001, 1.0),
        pytest.param(1000, 3, 0.6, marks=pytest.mark.slow),
        pytest.param(30, 300_000, 60.0, marks=pytest.mark.slow),
        pytest.param(500, 300_001, 2.0, marks=pytest.mark.slow),
        pytest.param(9, MOST_STEPS, 400.0, marks=pytest.mark.slow),
    ],
)
def test_few_and_many_steps_are_never_below_the_library_and_hardly_above(rate, steps, sigma):
    """The library's own accountant, which rounds up, too, as finely as memory allows."""
    found = epsilon(event(rate, steps, sigma), 1e-5)
    theirs = whole(rate, steps, sigma, max(found / 30_000, 1e-4)).get_epsilon(1e-5)
    assert theirs * (1 - 1e-3) <= found <= theirs * 1.02


@pytest.mark.parametrize("sigma", [300.0, pytest.param(3000.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("delta", [1e-5, SMALLEST_DELTA])
@pytest.mark.parametrize("steps", [1_001, 2**18 + 1, MOST_STEPS, 8 * MOST_STEPS, 10**9])
def test_many_steps_of_half_of_the_records_cost_as_a_quarter_of_full_ones(sigma, steps, delta):
    # With much noise, half of the records at each of T steps are as all of them at T / 4.
    found = epsilon(event(2, steps, sigma), delta)
    quarter = epsilon(event(1, steps // 4, sigma), delta)
    by_rdp = epsilon(event(2, steps, sigma), delta, "rdp")
    assert quarter * (1 - 1e-3) <= found <= by_rdp
    # Where the arithmetic of that many steps could show in delta, the other bound is the answer.
    if steps > 10**7 or steps * 1e-14 > delta:
        assert found == by_rdp
    elif steps <= MOST_STEPS:
        assert found <= quarter * 1.02


def test_calibration_gives_methods_with_and_without_queries_one_total():
    plain = calibrate(38, 760, 1e-5, 3.0)
    beside_a_count = calibrate(38, 760, 1e-5, 3.0, (10.0,))
    assert beside_a_count == pytest.approx(1 / math.sqrt(plain**-2 - 0.01), rel=1e-12)
    assert beside_a_count > plain
    assert epsilon(event(38, 760, plain), 1e-5) == epsilon(
        event(38, 760, beside_a_count, 10.0), 1e-5
    )


def within_target(reached, target):
    return target * (1 - TOLERANCE) <= reached <= target


@pytest.mark.parametrize(
    ("rate", "steps", "delta", "target", "side", "noise"),
    [
        pytest.param(92, 1840, 1e-6, 3.0, (10.0,), None, marks=pytest.mark.slow),
        (50, 500, 1e-5, 0.3, (200.0, 300.0), 5.149694014975028),
        (20, 40, 1e-5, 12.0, (), 0.514855),
        (1, 1, 1e-5, 1.0, (), 3.73064),
        (1, 100, 1e-5, 0.1, (500.0,), 389.95941138099755),
        pytest.param(1000, 100_000, 1e-6, 1.0, (10.0,), None, marks=pytest.mark.slow),
        (2, 40, 1e-5, 1e3, (), 0.129584),
        (92, 1840, 1e-6, 1e-3, (), 1137.01),
        (100, 1000, 1e-5, 1e7, (), 0.02),  # the smallest noise there is
        # All that the steps reveal lies within delta: mu = q sqrt(T) / sigma, 0.4 mu = delta.
        (100, 100, 1e-5, 1e-9, (), 4000.0),
    ],
)
def test_calibration_meets_its_target_and_never_overshoots(rate, steps, delta, target, side, noise):
    """And gives the same noise in every version.

    A stored result is only as reproducible: a change bumps numerics_version.
    """
    sigma = calibrate(rate, steps, delta, target, side)
    assert noise is None or sigma == pytest.approx(noise, rel=1e-12)
    reached = epsilon(event(rate, steps, sigma, *side), delta)
    if sigma > SMALLEST_SIGMA and reached > 0.0:
        assert within_target(reached, target)
    assert 0.0 <= reached <= target


@pytest.mark.parametrize("target", [1e-2, 3.0, 1e3, LARGEST_EPSILON])
@pytest.mark.parametrize(
    ("rate", "steps"),
    [
        *[(20, 60), (20, 20_000), (1, 7), (1, 100_000)],
        pytest.param(100, MOST_STEPS, marks=pytest.mark.slow),
    ],
)
def test_any_target_is_met_or_refused_with_one_that_is(rate, steps, target):
    try:
        sigma = calibrate(rate, steps, 1e-5, target)
    except PrivacyError as error:
        assert target < 1.0
        (target,) = suggested(error)
        sigma = calibrate(rate, steps, 1e-5, target)
    assert 0.0 <= epsilon(event(rate, steps, sigma), 1e-5) <= target
    assert SMALLEST_SIGMA <= sigma <= LARGEST_SIGMA


def test_a_target_that_epsilon_jumps_over_gets_more_noise():
    sigma = calibrate(10_000, 300_000, 1e-5, LARGEST_EPSILON)
    assert SMALLEST_SIGMA < sigma < 0.1
    assert epsilon(event(10_000, 300_000, sigma), 1e-5) <= LARGEST_EPSILON


IN_LITTLE_MEMORY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
from fairaudit.privacy.accounting import epsilon
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
for i, rate in enumerate((30, 1000, 100_000, 10**7, 10**9)):
    for j, sigma in enumerate((0.001, 0.02, 0.1, 0.5, 30.0, 1e4)):
        steps = (1, 2, 9)[(i + j) % 3]  # each with every rate and every sigma
        event = SampledGaussian(rate, steps, (NoisyRelease("gradient", sigma),))
        low, high = (epsilon(event, 1e-5, kind) for kind in ("pld", "rdp"))
        assert 0.0 <= low <= high < float("inf"), (rate, steps, sigma)
"""


@pytest.mark.slow
def test_few_steps_at_small_rates_need_little_memory():
    child = ended([sys.executable, "-c", IN_LITTLE_MEMORY], seconds=None)
    assert child.returncode == 0, child.stderr[-2000:]


@pytest.mark.parametrize(
    ("rate", "epochs", "most"),
    [(19, 1_000_000, 52_631), (10_001, 1_000, 99), (1, 10**18, 10**6), (10**6, 2, 1)],
)
def test_more_steps_than_can_be_accounted_for_are_refused_with_how_many_can(rate, epochs, most):
    with refused_in_one_line(ConfigError, f"{rate * epochs:,} steps") as caught:
        refuse_many_steps(rate, epochs)
    assert f"{most:,} epoch" in caught.value.hint
    refuse_many_steps(rate, most)
    with pytest.raises(ConfigError):
        refuse_many_steps(rate, most + 1)
    with refused_in_one_line(ConfigError, "steps") as caught:
        refuse_many_steps(10**8, 1)
    assert "larger batch" in caught.value.hint


def suggested(error):
    numbers = re.findall(r"(?:epsilon|multiplier of) ([\d.e+-]+)", error.hint)
    return list(map(float, numbers))


def test_side_queries_that_cost_more_than_the_target_are_refused_with_numbers_that_work():
    side = (6.0, 8.0)
    with pytest.raises(PrivacyError, match="alone cost") as caught:
        calibrate(10, 200, 1e-5, 0.5, side)
    assert caught.value.exit_code == EXIT_PRIVACY
    alone = epsilon(event(10, 200, *side), 1e-5)
    told = float(re.search(r"alone cost ([\d.]+)", caught.value.message)[1])
    assert alone <= told <= alone + 0.01
    target, noise = suggested(caught.value)
    assert (target, noise) == (1.8, 28.5)  # from 1.5 times 1.1508, and twice the whole noise
    assert within_target(
        epsilon(event(10, 200, calibrate(10, 200, 1e-5, target, side), *side), 1e-5), target
    )
    quiet = (noise,) * len(side)
    assert within_target(
        epsilon(event(10, 200, calibrate(10, 200, 1e-5, 0.5, quiet), *quiet), 1e-5), 0.5
    )


def test_a_side_query_without_noise_is_refused():
    with pytest.raises(PrivacyError, match="alone cost inf"):
        calibrate(10, 200, 1e-5, 0.5, (0.0,))


def test_a_target_below_what_any_noise_reaches_is_refused_with_one_that_works():
    with pytest.raises(PrivacyError, match=f"noise of {LARGEST_SIGMA:g}") as caught:
        calibrate(92, 1840, 1e-6, 1e-6)
    target = suggested(caught.value)[0]
    assert within_target(epsilon(event(92, 1840, calibrate(92, 1840, 1e-6, target)), 1e-6), target)


def test_runs_that_are_all_released_compose():
    run = event(10, 200, 4.0)
    once, five = composed_epsilon([(run, 1)], 1e-5), composed_epsilon([(run, 5)], 1e-5)
    assert once == epsilon(run, 1e-5)
    assert five == pytest.approx(epsilon(event(10, 5 * 200, 4.0), 1e-5))
    assert five == composed_epsilon([(run, 2), (run, 3)], 1e-5)
    mixed = composed_epsilon([(run, 5), (event(10, 200, 4.0, 10.0), 5)], 1e-5)
    assert five < mixed < composed_epsilon([(run, 5)], 1e-5) * 2
    assert composed_epsilon([], 1e-5) == composed_epsilon([(run, 0)], 1e-5) == 0.0


def test_arms_on_one_sample_are_one_joint_release_that_costs_more_than_two_samples():
    dpsgd, adapt = event(10, 200, 4.0), event(10, 200, 4.0, 10.0)
    together = joint([dpsgd, adapt])
    assert together == SampledGaussian(10, 200, dpsgd.releases + adapt.releases)
    assert epsilon(together, 1e-6) > composed_epsilon([(dpsgd, 1), (adapt, 1)], 1e-6)
    assert joint([dpsgd]) == dpsgd


@pytest.mark.parametrize(
    "events",
    [[], [event(92, 184, 1.0), event(92, 185, 1.0)], [event(92, 184, 1.0), event(91, 184, 1.0)]],
)
def test_arms_of_different_steps_cannot_share_samples(events):
    with pytest.raises(ValueError, match="share their samples"):
        joint(events)


def test_no_noise_costs_everything_and_no_step_costs_nothing():
    for accountant in ("pld", "rdp"):
        assert epsilon(event(92, 1840, 0.0), 1e-6, accountant) == math.inf
        assert epsilon(event(92, 1840, 1.0, 0.0), 1e-6, accountant) == math.inf
        assert epsilon(event(92, 0, 1.0), 1e-6, accountant) == 0.0
    for of_noise in (partial(event, 92, 1840), partial(Gaussian, "minimiser")):
        both = [(of_noise(sigma), 1) for sigma in (1.0, 0.0)]
        assert composed_epsilon(both, 1e-6) == math.inf


@pytest.mark.parametrize(
    ("rate", "steps", "sigma", "delta"),
    [
        (92, 1840, 1e-9, 1e-6),
        (100, 1000, 0.05, 1e-5),
        (1, 100_000, 1.0, 1e-6),
        (100, 1000, 1e4, 1e-5),
        (1000, 100_000, 0.8, SMALLEST_DELTA),
        (92, 1840, 1.0, 0.9999),
    ],
)
def test_extremes_give_a_finite_upper_bound(rate, steps, sigma, delta):
    pld, rdp = (epsilon(event(rate, steps, sigma), delta, kind) for kind in ("pld", "rdp"))
    assert 0.0 <= pld < math.inf
    assert pld <= rdp * (1 + 1e-3)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_outside_its_range_is_a_programming_error(delta):
    with pytest.raises(ValueError, match="between 0 and 1"):
        epsilon(event(92, 1840, 1.0), delta)


def test_a_delta_beyond_floating_point_is_refused_with_one_that_works():
    with pytest.raises(PrivacyError, match="floating point") as caught:
        calibrate(92, 1840, 1e-12, 3.0)
    assert f"--delta {SMALLEST_DELTA:g}" in caught.value.hint


def test_the_accountant_does_not_write_to_the_log(caplog):
    with caplog.at_level(logging.DEBUG):
        epsilon(event(2, 77, 0.5), 1e-5, "rdp")
    assert not caplog.records
    logging.getLogger("absl").warning("others still can")
    assert caplog.records


def test_an_event_in_json_says_all_that_it_is():
    assert json.loads(json.dumps(event_to_json(event(214, 12840, 0.80258, 10.0)))) == {
        "kind": "sampled-gaussian",
        "steps_per_epoch": 214,
        "steps": 12840,
        "releases": [
            {"name": "gradient", "noise_multiplier": 0.80258},
            {"name": "count", "noise_multiplier": 10.0},
        ],
    }
    assert event_to_json(Gaussian("votes", 50.0, 7)) == {
        "kind": "gaussian",
        "name": "votes",
        "noise_multiplier": 50.0,
        "count": 7,
    }


# docs/methods.md 2.8: delta 1e-5.
GAUSSIANS = [
    (1, 7.0318266755825, 0.5, None),
    (100, 50 / math.sqrt(2), 1.061, 1.158),
    (200, 40 / math.sqrt(2), 1.993, 2.166),
    (1000, 50 / math.sqrt(2), 3.849, 4.162),
    (1000, 100 / math.sqrt(2), 1.760, 1.914),
]


@pytest.mark.parametrize(("count", "sigma", "exact", "rdp"), GAUSSIANS)
def test_unsampled_gaussians_cost_the_exact_checked_values(count, sigma, exact, rdp):
    votes = Gaussian("votes", sigma, count)
    assert epsilon(votes, 1e-5) == pytest.approx(exact, abs=5e-4)
    if rdp:
        assert epsilon(votes, 1e-5, "rdp") == pytest.approx(rdp, abs=2e-3)


@pytest.mark.parametrize("count", [1, 7, 4522])
@pytest.mark.parametrize("target", [0.005, 0.5, 3.0, 40.0])
def test_a_calibrated_gaussian_never_overshoots(count, target):
    sigma = calibrate_gaussian(count, 1e-6, target)
    assert target * (1 - 1e-4) <= epsilon(Gaussian("votes", sigma, count), 1e-6) <= target


def test_unsampled_gaussians_compose_exactly_and_with_sampled_ones():
    a, b = Gaussian("minimiser", 3.0), Gaussian("votes", 40.0, 100)
    together = composed_epsilon([(a, 2), (b, 1)], 1e-5)
    one = Gaussian("all", 1 / math.sqrt(2 / 9 + 100 / 1600))
    assert together == pytest.approx(epsilon(one, 1e-5), rel=1e-9)
    mixed = composed_epsilon([(a, 2), (b, 1), (event(30, 60, 1.0), 1)], 1e-5)
    assert (
        max(together, epsilon(event(30, 60, 1.0), 1e-5))
        < mixed
        < together + epsilon(event(30, 60, 1.0), 1e-5)
    )
    assert epsilon(Gaussian("minimiser", 0.0), 1e-5) == math.inf
