from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairaudit.metrics.intervals import Spread
from fairaudit.metrics.power import minimum_detectable, rows_needed, seeds_needed


def spread_with(value, v_seed=1e-4, v_rec=1e-4, seeds=5):
    return Spread(np.zeros(seeds), value, v_seed, v_rec, n_test=2000, n_min=1000, unit="fraction")


def test_minimum_detectable_gap_is_methods_formula():
    spread = spread_with(0.0, v_seed=4e-4, v_rec=9e-4)
    variance = 13e-4
    df = variance**2 / ((4e-4) ** 2 / 4 + (9e-4) ** 2 / 999)
    expected = (stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * variance**0.5
    assert minimum_detectable(spread) == pytest.approx(expected)


@pytest.mark.parametrize(("v_seed", "v_rec"), [(1e-6, 4e-4), (4e-4, 1e-6)])
def test_a_gap_of_the_minimum_detectable_size_is_found_four_times_in_five(v_seed, v_rec):
    rng = np.random.default_rng(0)
    files = 4000
    gap = minimum_detectable(spread_with(0.0, v_seed, v_rec))
    y = gap + rng.normal(size=(files, 1)) * v_rec**0.5 + rng.normal(size=(files, 5)) * (5 * v_seed) ** 0.5
    half = np.sqrt(stats.t.ppf(0.975, 4) ** 2 * y.var(axis=1, ddof=1) / 5 + 1.96**2 * v_rec)
    power = (y.mean(axis=1) > half).mean()
    assert 0.76 < power < 0.84


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
