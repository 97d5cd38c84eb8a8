from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairaudit.metrics.gaps import minimum_detectable, rows_needed, seeds_needed
from fairaudit.metrics.intervals import Spread


def spread_with(value, v_seed=1e-4, v_shared=1e-4, seeds=5, in_seeds=0.0):
    """``in_seeds`` of V_seed comes from the records."""
    return Spread(
        np.zeros(seeds),
        value,
        v_seed,
        v_shared,
        v_shared + in_seeds,
        n_test=2000,
        n_min=1000,
        unit="fraction",
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


@pytest.mark.parametrize("in_seeds", [0.0, 2e-4])
def test_rows_needed_would_resolve_the_gap(in_seeds):
    """More rows shrink what is shared and what records contribute to V_seed alike."""
    spread = spread_with(0.02, v_seed=in_seeds + 1e-6, v_shared=4e-4, in_seeds=in_seeds)
    rows = rows_needed(spread)
    factor = rows / spread.n_min

    def grown(by):
        return spread_with(0.0, v_seed=in_seeds / by + 1e-6, v_shared=4e-4 / by)

    assert minimum_detectable(replace(grown(factor), n_min=rows)) <= 0.02 * 1.001
    assert minimum_detectable(grown(factor * 0.95)) > 0.02


def test_rows_that_are_thought_to_leave_the_spread_of_seeds_alone_are_too_many():
    spread = spread_with(0.02, v_seed=2e-5, v_shared=1e-4, in_seeds=1.9e-5)
    assert rows_needed(spread) < 0.8 * rows_needed(replace(spread, record_variance=1e-4))


def test_seeds_needed_would_resolve_the_gap():
    spread = spread_with(0.02, v_seed=2e-4, v_shared=1e-6)
    seeds = seeds_needed(spread)
    assert seeds > 5
    grown = replace(spread, by_seed=np.zeros(seeds), seed_variance=2e-4 * 5 / seeds)
    assert minimum_detectable(grown) <= 0.02
    assert grown.half_width() <= 0.02


def test_nothing_is_needed_where_the_gap_is_resolved_or_never_can_be():
    assert rows_needed(spread_with(0.5)) is None
    assert seeds_needed(spread_with(0.5)) is None
    assert rows_needed(spread_with(0.01, v_seed=1e-2, v_shared=1e-6)) is None
    assert seeds_needed(spread_with(0.01, v_seed=1e-6, v_shared=1e-2)) is None
    assert rows_needed(spread_with(0.0)) is None
