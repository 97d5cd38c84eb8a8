"""Curves over training: means over windows, with the interval of the mean over seeds."""

import numpy as np
import pytest
from scipy import stats

from fairaudit.analysis.arm_readings import MAX_OBSERVATIONS, curve


def test_a_short_curve_is_kept_as_it_is_with_its_interval_over_seeds():
    by_seed = np.array([[[1.0], [5.0]], [[2.0], [7.0]], [[6.0], [np.nan]]])
    found = curve("x", [0, 9], ["F"], by_seed)
    assert found.steps == (0, 9)
    assert found.values == ((3.0,), (6.0,))
    assert found.window == 1
    for place, seeds in enumerate(([1, 2, 6], [5, 7])):
        low, high = stats.t.interval(0.95, len(seeds) - 1, np.mean(seeds), stats.sem(seeds))
        assert (found.low[place][0], found.high[place][0]) == pytest.approx((low, high))


def test_a_long_curve_is_averaged_over_windows_at_each_seed_before_seeds_are_compared():
    rng = np.random.default_rng(0)
    level = np.array([1.0, 2.0, 3.0])[:, None, None]
    by_seed = level + rng.normal(size=(3, 6000, 2)) * 5
    found = curve("x", list(range(0, 60000, 10)), ["F", "M"], by_seed)
    assert (len(found.steps), found.window) == (MAX_OBSERVATIONS, 100)
    assert found.steps[:2] == (495, 1495)
    windows = by_seed.reshape(3, 60, 100, 2).mean(2)
    assert np.array(found.values) == pytest.approx(windows.mean(0))
    assert np.array(found.spread) == pytest.approx(windows.std(0, ddof=1))
    half = stats.t.ppf(0.975, 2) * windows.std(0, ddof=1) / 3**0.5
    assert np.array(found.high) - np.array(found.low) == pytest.approx(2 * half)
    assert curve("x", [0, 1, 2, 3], ["F"], by_seed[:, :4, :1], most=2).window == 2


def test_one_seed_has_no_interval_and_what_is_unknown_stays_so():
    found = curve("x", [0, 1], ["F"], np.array([[[1.0], [np.nan]]]))
    assert found.values == ((1.0,), (None,))
    assert found.low == found.high == found.spread == ((None,), (None,))
