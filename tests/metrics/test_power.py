import numpy as np
import pytest
from scipy import stats

from fairaudit.metrics.gaps import minimum_detectable
from fairaudit.metrics.intervals import Spread


def spread_with(value, v_seed=1e-4, v_shared=1e-4, seeds=5):
    return Spread(
        np.zeros(seeds), value, v_seed, v_shared, v_shared, n_test=2000, n_min=1000, unit="fraction"
    )


def share_found(gap, v_seed, v_shared, seeds=5):
    """How often an interval clears zero when the true gap is ``gap``."""
    rng = np.random.default_rng(0)
    files = 20_000
    y = (
        gap
        + rng.normal(size=(files, 1)) * v_shared**0.5
        + rng.normal(size=(files, seeds)) * (seeds * v_seed) ** 0.5
    )
    half = np.sqrt(
        stats.t.ppf(0.975, seeds - 1) ** 2 * y.var(axis=1, ddof=1) / seeds + 1.96**2 * v_shared
    )
    return (y.mean(axis=1) > half).mean()


@pytest.mark.parametrize("seeds", [5, 10, 20])
@pytest.mark.parametrize(
    ("v_seed", "v_shared"), [(1e-6, 4e-4), (4e-4, 1e-6), (1e-4, 1e-4), (1e-4, 3e-4), (3e-4, 1e-4)]
)
def test_a_gap_of_the_minimum_detectable_size_is_found_four_times_in_five(v_seed, v_shared, seeds):
    gap = minimum_detectable(spread_with(0.0, v_seed, v_shared, seeds))
    assert 0.78 <= share_found(gap, v_seed, v_shared, seeds) <= 0.82


def test_satterthwaites_degrees_alone_promise_too_much_where_both_variances_count():
    """(t_.975 + t_.80) SE, the broken variant: a reader would plan a study that fails too often."""
    variance = 2e-4
    df = variance**2 / (1e-8 / 4 + 1e-8 / 999)
    gap = (stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * variance**0.5
    assert share_found(gap, 1e-4, 1e-4) < 0.75
