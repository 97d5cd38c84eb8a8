from dataclasses import replace

import numpy as np
import pytest
from means import record_means
from scipy import stats

from fairaudit.metrics.intervals import EvaluatedRecords, contrast, estimate, largest

# Six records, groups 0 0 0 1 1 1; two seeds that share records 0, 1 and 3.
GROUPS = np.array([0, 0, 0, 1, 1, 1])
ROWS = [np.array([0, 1, 3, 4]), np.array([0, 1, 2, 3, 5])]
VALUES = [np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0, 0.0])]


def mean_table(values=VALUES, rows=ROWS, groups=GROUPS, n_groups=2, unit="fraction"):
    return record_means("m", values, EvaluatedRecords.of(rows, groups, n_groups), unit=unit)


def by_hand(a, b, floor):
    """docs/methods.md 6.3 written out with loops over records and seeds."""
    psi, y, influence = dict.fromkeys(range(len(GROUPS)), 0.0), [], []
    for rows, values in zip(ROWS, VALUES, strict=True):
        means = {
            k: np.mean([v for r, v in zip(rows, values, strict=True) if GROUPS[r] == k])
            for k in (a, b)
        }
        influence.append({})
        for r, v in zip(rows, values, strict=True):
            k = GROUPS[r]
            n = sum(GROUPS[q] == k for q in rows)
            influence[-1][r] = (1 if k == a else -1) * (v - means[k]) / n
            psi[r] += influence[-1][r] / len(ROWS)
        y.append(means[a] - means[b])
    # Two seeds, so one pair: the covariance of the two values through the records in both.
    shared = sum(influence[0].get(i, 0.0) * influence[1].get(i, 0.0) for i in range(len(GROUPS)))
    floors = 0.0
    for k in (a, b) if floor else ():
        of_seeds = np.zeros((2, len(GROUPS)))
        for seed, of_seed in enumerate(influence):
            for i, value in of_seed.items():
                of_seeds[seed, i] = value * (GROUPS[i] == k)
        correlation = of_seeds[0] @ of_seeds[1] / (of_seeds**2).sum(1).mean()
        floors += np.clip(correlation, 0, 1) * 2 / (3 + 2) ** 2
    v_rec = sum(p**2 for p in psi.values()) + floors
    return np.mean(y), np.var(y, ddof=1) / len(y), max(shared + floors, 0.0), v_rec


@pytest.mark.parametrize("unit", ["fraction", "nats"])
def test_a_pair_equals_the_formula_written_out_by_hand(unit):
    spread = contrast(mean_table(unit=unit), 0, 1)
    d, v_seed, v_shared, v_rec = by_hand(0, 1, floor=unit == "fraction")
    assert spread.value == pytest.approx(d, abs=1e-15)
    assert spread.seed_variance == pytest.approx(v_seed, abs=1e-15)
    assert spread.shared_variance == pytest.approx(v_shared, abs=1e-15)
    assert spread.record_variance == pytest.approx(v_rec, abs=1e-15)
    t, z = stats.t.ppf(0.975, 1), stats.norm.ppf(0.975)
    half = np.sqrt(t**2 * v_seed + z**2 * v_shared)
    e = estimate(spread)
    assert (e.low, e.high) == pytest.approx((d - half, d + half))
    assert (e.training_sd, e.records_sd) == pytest.approx((v_seed**0.5, v_shared**0.5))
    assert spread.half_width(conservative=True) == pytest.approx(
        np.sqrt(t**2 * v_seed + z**2 * v_rec)
    )
    assert (e.n_seeds, e.n_test) == (2, 6)


def test_a_single_group_has_its_own_records_and_floor_and_the_conservative_interval():
    spread = contrast(mean_table(), 0)
    # psi: record 0 (.5/2 + (2/3)/3)/2, record 1 (-.5/2 - (1/3)/3)/2, record 2 (-(1/3)/3)/2
    first, second = np.array([0.25, -0.25, 0.0]), np.array([2 / 9, -1 / 9, -1 / 9])
    floor = first @ second / ((first**2).sum() + (second**2).sum()) * 2 * 2 / 25
    assert spread.record_variance == pytest.approx(((first + second) ** 2).sum() / 4 + floor)
    assert spread.shared_variance == spread.record_variance > first @ second + floor
    assert spread.half_width() == spread.half_width(conservative=True)
    assert spread.n_test == 3


@pytest.mark.parametrize("fixed_split", [True, False])
@pytest.mark.parametrize("stable", [0.0, 0.5, 1.0])
def test_the_variances_of_seeds_and_shared_records_add_up_to_that_of_the_mean(fixed_split, stable):
    """The broken variant.

    The full record variance beside that of the seeds, which holds some of it.
    """
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], [100, 100])
    found, uncut = [], []
    for _ in range(2000):
        person, rows, values = rng.normal(size=200), [], []
        for _ in range(4):
            row = rows[0] if rows and fixed_split else np.sort(rng.permutation(200)[:60])
            fresh = rng.normal(size=60)
            shift = 0.04 * rng.normal(size=2)[groups[row]]
            rows.append(row)
            values.append(stable**0.5 * person[row] + (1 - stable) ** 0.5 * fresh + shift)
        of_audit = mean_table(values, rows, groups, 2, "nats")
        found.append(contrast(of_audit, 0, 1))
        uncut.append(np.array([1, -1, 0]) @ of_audit.covariance[1] @ [1, -1, 0])
    truth = np.var([s.value for s in found])
    seeds, records = (
        np.array([getattr(s, f"{k}_variance") for s in found]) for k in ("seed", "record")
    )
    assert [s.shared_variance for s in found] == pytest.approx(np.maximum(uncut, 0.0), abs=1e-15)
    assert 0.93 < (seeds + uncut).mean() / truth < 1.07
    if stable < 1 or not fixed_split:
        assert (seeds + records).mean() / truth > 1.15


def test_a_group_against_everybody_allows_for_the_records_they_share():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 3, 60)
    rows = [np.sort(rng.choice(60, 40, replace=False)) for _ in range(4)]
    values = [rng.normal(size=40) for _ in rows]
    spread = contrast(mean_table(values, rows, groups, 3, "nats"), 1, 3)
    psi = np.zeros((4, 60))
    for one, r, v in zip(psi, rows, values, strict=True):
        own = groups[r] == 1
        one[r] -= (v - v.mean()) / 40
        one[r[own]] += (v[own] - v[own].mean()) / own.sum()
    assert spread.record_variance == pytest.approx((psi.mean(0) ** 2).sum())
    pairs = [psi[s] @ psi[t] for s in range(4) for t in range(4) if s != t]
    assert spread.shared_variance == pytest.approx(max(np.mean(pairs), 0.0))
    assert spread.shared_variance > 0
    assert spread.by_seed == pytest.approx(
        [v[groups[r] == 1].mean() - v.mean() for r, v in zip(rows, values, strict=True)]
    )


def test_no_disagreement_seen_is_not_certainty_for_fractions_but_is_for_losses():
    nothing = [np.zeros_like(v) for v in VALUES]
    fractions, losses = (
        contrast(mean_table(nothing, unit=unit), 0, 1) for unit in ("fraction", "nats")
    )
    assert (fractions.shared_variance, fractions.record_variance) == pytest.approx((4 / 25, 4 / 25))
    assert (losses.shared_variance, losses.record_variance) == (0.0, 0.0)


def spread_with(value, v_seed=1e-4, v_shared=1e-4, seeds=5):
    base = contrast(mean_table([np.zeros(4)] * seeds, [ROWS[0]] * seeds), 0, 1)
    both = {"shared_variance": v_shared, "record_variance": 3 * v_shared}
    return replace(base, value=value, seed_variance=v_seed, n_min=1000, **both)


@pytest.mark.parametrize("value", [-0.2, -0.01, 0.0, 0.01, 0.2])
def test_the_absolute_interval_is_the_signed_one_folded(value):
    signed = estimate(spread_with(value))
    folded = signed.size
    ends = sorted([abs(signed.low), abs(signed.high)])
    crosses = signed.low <= 0 <= signed.high
    assert (folded.low, folded.high) == pytest.approx((0.0 if crosses else ends[0], ends[1]))


def test_the_largest_gap_is_bounded_by_every_pair():
    close, far = spread_with(0.10, v_seed=1e-3), spread_with(-0.11, v_seed=1e-6, v_shared=1e-6)
    h = [s.half_width(3) for s in (close, far)]
    e = largest([close, far], 3)
    assert e.value == pytest.approx(0.11)
    assert e.low == pytest.approx(max(0.0, 0.10 - h[0], 0.11 - h[1]))
    assert e.high == pytest.approx(max(0.10 + h[0], 0.11 + h[1]))
    # the pointwise interval of the winner, which covers .38 with ten gaps, is strictly inside
    assert e.high > estimate(far).size.high
    assert e.low < estimate(far).size.low


def test_a_group_absent_at_one_seed_has_a_value_and_no_interval():
    rows = [np.array([0, 3]), np.array([0, 1])]
    spread = contrast(mean_table([np.ones(2), np.zeros(2)], rows), 1)
    e = estimate(spread)
    assert (e.value, e.low, e.n_seeds) == (1.0, None, 1)
    assert "1 of 2 seeds" in e.reason


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_ends_where_the_number_does_and_holds_what_it_held(seed):
    """Shares of 40 and 60 records near 0 or 1 at three seeds.

    The plain interval leaves [0, 1] in most.
    """
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1], [40, 60])
    share = rng.choice([0.02, 0.98], size=2)
    values = [(rng.random(100) < share[groups]).astype(float) for _ in range(3)]
    free = mean_table(values, [np.arange(100)] * 3, groups)
    held = replace(free, bounds=(0.0, 1.0))
    for groups_of, least in (((0,), 0.0), ((1,), 0.0), ((2,), 0.0), ((0, 1), -1.0), ((1, 2), -1.0)):
        plain, cut = estimate(contrast(free, *groups_of)), estimate(contrast(held, *groups_of))
        assert (cut.low, cut.high) == (max(plain.low, least), min(plain.high, 1.0))
        size = cut.size
        assert 0.0 <= size.low <= size.value <= size.high <= 1.0
    apart = largest([contrast(held, 0, 1), contrast(held, 0, 2), contrast(held, 1, 2)], 3)
    assert 0.0 <= apart.low <= apart.value <= apart.high <= 1.0


def test_a_gap_between_two_costs_may_be_as_large_as_two():
    costs = replace(mean_table([-np.sign(GROUPS[rows] - 0.5) for rows in ROWS]), bounds=(-1.0, 1.0))
    found = estimate(contrast(costs, 0, 1))
    assert (found.value, found.high) == (2.0, 2.0)
    assert estimate(contrast(costs, 0)).high == 1.0
    assert 1.0 < estimate(contrast(costs, 0, 1)).size.low < 2.0
