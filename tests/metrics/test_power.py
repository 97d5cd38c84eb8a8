from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairaudit.metrics.intervals import Spread
from fairaudit.metrics.power import minimum_detectable, rows_needed, seeds_needed


def spread_with(value, v_seed=1e-4, v_rec=1e-4, seeds=5):
    return Spread(np.zeros(seeds), value, v_seed, v_rec, n_test=2000, n_min=1000, unit="fraction")


def share_found(gap, v_seed, v_rec):
    """How often an interval of five seeds clears zero when the true gap is ``gap``."""
    rng = np.random.default_rng(0)
    files = 8000
    y = gap + rng.normal(size=(files, 1)) * v_rec**0.5 + rng.normal(size=(files, 5)) * (5 * v_seed) ** 0.5
    half = np.sqrt(stats.t.ppf(0.975, 4) ** 2 * y.var(axis=1, ddof=1) / 5 + 1.96**2 * v_rec)
    return (y.mean(axis=1) > half).mean()


@pytest.mark.parametrize(("v_seed", "v_rec"), [(1e-6, 4e-4), (4e-4, 1e-6), (1e-4, 1e-4), (1e-4, 3e-4)])
def test_a_gap_of_the_minimum_detectable_size_is_found_four_times_in_five(v_seed, v_rec):
    gap = minimum_detectable(spread_with(0.0, v_seed, v_rec))
    assert 0.775 < share_found(gap, v_seed, v_rec) < 0.825


def test_satterthwaites_degrees_alone_promise_too_much_where_both_variances_count():
    """(t_.975 + t_.80) SE, the broken variant: a reader would plan a study that fails too often."""
    variance = 2e-4
    df = variance**2 / (1e-8 / 4 + 1e-8 / 999)
    gap = (stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * variance**0.5
    assert share_found(gap, 1e-4, 1e-4) < 0.75


def test_rows_needed_would_resolve_the_gap():
    spread = spread_with(0.02, v_seed=1e-6, v_rec=4e-4)
    rows = rows_needed(spread)
    factor = rows / spread.n_min
    grown = replace(spread, record_variance=spread.record_variance / factor, n_min=rows)
    assert minimum_detectable(grown) <= 0.02 * 1.001
    shrunk = replace(spread, record_variance=spread.record_variance / (factor * 0.95))
    assert minimum_detectable(shrunk) > 0.02


def test_seeds_needed_would_resolve_the_gap():
    spread = spread_with(0.02, v_seed=2e-4, v_rec=1e-6)
    seeds = seeds_needed(spread)
    assert seeds > 5
    grown = replace(spread, by_seed=np.zeros(seeds), seed_variance=2e-4 * 5 / seeds)
    assert minimum_detectable(grown) <= 0.02
    assert grown.half_width() <= 0.02


def test_nothing_is_needed_where_the_gap_is_resolved_or_never_can_be():
    assert rows_needed(spread_with(0.5)) is None
    assert seeds_needed(spread_with(0.5)) is None
    assert rows_needed(spread_with(0.01, v_seed=1e-2, v_rec=1e-6)) is None
    assert seeds_needed(spread_with(0.01, v_seed=1e-6, v_rec=1e-2)) is None
    assert rows_needed(spread_with(0.0)) is None
