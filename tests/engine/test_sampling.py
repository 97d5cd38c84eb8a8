import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from fairaudit.engine.sampling import PoissonSampler, poisson_positions

# Each statistical check below fails a correct sampler with probability 1e-6 at most (Bonferroni
# where it looks at many numbers); the seeds are fixed, so it does not flicker.
FALSE_ALARM = 1e-6


def rounds(records, steps_per_epoch, epochs, seed=0, draw=poisson_positions):
    """Inclusions [steps, records] of some epochs, 0 or 1 (or more, for a sampler that repeats)."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(epochs):
        drawn, cuts = draw(rng, records, steps_per_epoch)
        table += [np.bincount(drawn[a:b], minlength=records) for a, b in itertools.pairwise(cuts)]
    return np.array(table)


def right_frequencies(table, rate):
    """Every record is drawn as often as a coin of ``rate`` says."""
    steps, records = table.shape
    low, high = stats.binom.ppf(
        [FALSE_ALARM / records / 2, 1 - FALSE_ALARM / records / 2], steps, rate
    )
    counts = table.sum(0)
    return bool(((counts >= low) & (counts <= high)).all())


def right_size_variance(table, rate):
    """Batch sizes scatter as N q (1 - q), by the chi-square of their squared deviations."""
    steps, records = table.shape
    sizes = table.sum(1)
    spread = ((sizes - records * rate) ** 2).sum() / (records * rate * (1 - rate))
    # Binomial sizes are not quite normal: their kurtosis widens the chi-square's variance.
    excess = (1 - 6 * rate * (1 - rate)) / (records * rate * (1 - rate))
    reach = stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(steps * (2 + excess))
    return bool(abs(spread - steps) < reach)


def independent_records(table, rate):
    """Pairs of neighbouring records are drawn together as often as two coins say."""
    steps, records = table.shape
    together = int((table[:, : records - 1 : 2] * table[:, 1::2]).sum())
    trials = steps * (records // 2)
    return stats.binomtest(together, trials, rate**2).pvalue > FALSE_ALARM


def independent_steps(table, rate):
    """A record drawn at one step is drawn at the next as often as any other."""
    together = int((table[:-1:2] * table[1::2]).sum())
    trials = (len(table) // 2) * table.shape[1]
    return stats.binomtest(together, trials, rate**2).pvalue > FALSE_ALARM


CHECKS = (right_frequencies, right_size_variance, independent_records, independent_steps)


@pytest.mark.parametrize(("records", "steps_per_epoch"), [(60, 5), (400, 20), (30, 2), (9, 100)])
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_records_are_drawn_by_independent_coins(records, steps_per_epoch, check):
    table = rounds(records, steps_per_epoch, 10_000 // steps_per_epoch)
    assert table.max() == 1
    assert check(table, 1 / steps_per_epoch)


@given(st.integers(1, 300), st.integers(1, 400), st.integers(0, 2**31))
@example(7, 1, 0)
def test_every_round_is_ascending_without_repeats_and_within_range(records, steps_per_epoch, seed):
    drawn, cuts = poisson_positions(np.random.default_rng(seed), records, steps_per_epoch)
    assert len(cuts) == steps_per_epoch + 1
    assert cuts[0] == 0
    assert cuts[-1] == len(drawn)
    for a, b in itertools.pairwise(cuts):
        part = drawn[a:b]
        assert (np.diff(part) > 0).all()
        assert not len(part) or (part[0] >= 0 and part[-1] < records)
        assert steps_per_epoch > 1 or len(part) == records  # at rate one every batch is everything


def test_an_empty_batch_of_several_replicates_has_no_columns():
    sampler = PoissonSampler([np.random.default_rng(s) for s in range(2)], 1, 1000)
    index, present = sampler.draw()
    assert index.shape == present.shape == (2, 0)


def test_replicates_draw_what_they_would_draw_alone():
    alone = [PoissonSampler([np.random.default_rng(s)], 40, 8) for s in range(3)]
    together = PoissonSampler([np.random.default_rng(s) for s in range(3)], 40, 8)
    for _ in range(20):
        index, present = together.draw()
        assert index.dtype == torch.int64
        for r, sampler in enumerate(alone):
            expected = sampler.draw()[0]
            assert torch.equal(index[r, present[r]], expected)
            assert (index[r, len(expected) :] == 40).all()


class Few:
    """A stream that deals three numbers at a time, so that an epoch takes many draws."""

    def __init__(self, rng):
        self.rng = rng

    def standard_exponential(self, size):
        return self.rng.standard_exponential(3)


def test_an_epoch_that_takes_many_draws_is_that_of_one():
    whole = poisson_positions(np.random.default_rng(5), 50, 4)
    in_parts = poisson_positions(Few(np.random.default_rng(5)), 50, 4)
    for one, other in zip(whole, in_parts, strict=True):
        assert one.tolist() == other.tolist()
