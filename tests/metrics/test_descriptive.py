import math

import numpy as np
import pytest

from fairaudit.metrics.descriptive import shuffle_p
from fairaudit.metrics.intervals import EvaluatedRecords


def fixture(rng, gap, k=2, is_fraction=False, n=900):
    groups = rng.integers(0, k, n)
    rows = [np.sort(rng.choice(n, 400, replace=False)) for _ in range(4)]
    base = rng.standard_t(3, n) * 0.3 + gap * (groups == 0)
    d = [np.round(np.clip(base[r], -1, 1)) if is_fraction else base[r] for r in rows]
    return d, EvaluatedRecords.of(rows, groups, k)


def brute_force(d, records, k, rng, shuffles=400):
    """The same statistic by shuffling the labels one permutation at a time."""
    total, tested = np.zeros(len(records.ids)), np.zeros(len(records.ids))
    for place, v in zip(records.places, d, strict=True):
        total[place] += v
        tested[place] += 1

    def statistic(groups):
        means, variances = [], []
        for g in range(k):
            e, c = total[groups == g], tested[groups == g]
            m = e.sum() / c.sum()
            means.append(m)
            variances.append(((e - m * c) ** 2).sum() / c.sum() ** 2)
        return max(
            abs(means[a] - means[b]) / np.sqrt(variances[a] + variances[b])
            for a in range(k)
            for b in range(a)
        )

    seen, groups, hits = statistic(records.groups), records.groups.copy(), 0
    for _ in range(shuffles):
        rng.shuffle(groups)
        hits += statistic(groups) >= seen
    return hits / shuffles


@pytest.mark.parametrize(("k", "is_fraction"), [(2, False), (2, True), (3, False)])
def test_the_shuffle_equals_one_permutation_at_a_time(k, is_fraction):
    rng = np.random.default_rng(11 * k + is_fraction)
    d, records = fixture(rng, 0.02, k, is_fraction)
    fast = shuffle_p(d, records, range(k), np.random.default_rng(0), width=1.0 if is_fraction else math.inf)
    assert fast == pytest.approx(brute_force(d, records, k, rng), abs=0.1)


def test_a_large_gap_gets_the_smallest_p_and_a_constant_the_largest():
    rng = np.random.default_rng(5)
    d, records = fixture(rng, 1.0)
    assert shuffle_p(d, records, [0, 1], np.random.default_rng(0), width=math.inf) == 0.001
    flat = [np.full_like(v, 0.3) for v in d]
    assert shuffle_p(flat, records, [0, 1], np.random.default_rng(0), width=1.0) == 1.0


def test_without_a_gap_shuffles_are_uniform():
    """Classes cut by rank instead of value tell the groups apart and fail here."""
    p = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d, records = fixture(rng, 0.0, n=500, is_fraction=True)
        p.append(shuffle_p(d, records, [0, 1], rng, width=1.0))
    assert 0.3 < np.mean(p) < 0.7
    assert np.mean(np.array(p) <= 0.05) < 0.2


def test_one_group_has_nothing_to_shuffle():
    d, records = fixture(np.random.default_rng(0), 0.0)
    assert shuffle_p(d, records, [0], np.random.default_rng(0), width=math.inf) is None
