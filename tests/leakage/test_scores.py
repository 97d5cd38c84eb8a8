"""Membership scores, thresholds, intervals: second computation, brute force, broken twins."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from fairaudit.leakage import attack as leakage
from fairaudit.leakage.attack import (
    Attack,
    accused,
    area,
    attack_tables,
    likelihood_ratios,
    log_odds,
    wrongly_accused,
)
from fairaudit.metrics.intervals import contrast, estimate
from fairaudit.metrics.tables import metric_table
from fairaudit.privacy.tradeoff import rate_of_gaussian

AUC, TPR = "leakage_auc", "leakage_tpr"


def models(seed=0, seeds=8, rows=60, leak=1.0, spread=1.0):
    """Confidences of models that know a learned record by ``leak`` (a number or [rows])."""
    rng = np.random.default_rng(seed)
    member = rng.random((seeds, rows)) < 0.5
    own = leak * rng.gamma(1.0, 1.0, rows) if np.ndim(leak) == 0 else leak
    noise = np.where(member, 1.0, spread) * rng.standard_normal((seeds, rows))
    return Attack(3.0 * rng.standard_normal(rows) + own * member + noise, member)


def told_by_hand(phi, member):
    """The score of each record at each target from the formulas, one at a time."""
    seeds, rows = phi.shape
    out = np.full((seeds, rows), np.nan)
    for s in range(seeds):
        shadows = [t for t in range(seeds) if t != s]
        ins = [[phi[t, i] for t in shadows if member[t, i]] for i in range(rows)]
        outs = [[phi[t, i] for t in shadows if not member[t, i]] for i in range(rows)]

        def pooled(sides):
            squares = math.fsum((x - np.mean(side)) ** 2 for side in sides for x in side)
            return squares / sum(max(len(side) - 1, 0) for side in sides)

        in_variance, out_variance = pooled(ins), pooled(outs)
        both = [i for i in range(rows) if ins[i] and outs[i]]
        differences = {i: np.mean(ins[i]) - np.mean(outs[i]) for i in both}
        chance = {i: in_variance / len(ins[i]) + out_variance / len(outs[i]) for i in both}
        mean = np.mean(list(differences.values()))
        real = max(0.0, np.mean([(differences[i] - mean) ** 2 - chance[i] for i in both]))
        for i in both:
            d = mean + real / (real + chance[i]) * (differences[i] - mean)
            # The mean without the record that leaves the least squares of all of its shadows.
            start = np.mean([*(x - d for x in ins[i]), *outs[i]])
            inside = norm.logpdf(phi[s, i], start + d, math.sqrt(in_variance))
            out[s, i] = inside - norm.logpdf(phi[s, i], start, math.sqrt(out_variance))
    return out


@pytest.mark.parametrize(
    ("seeds", "rows", "leak", "spread"), [(8, 40, 1.0, 1.0), (5, 60, 0.0, 2.0)]
)
def test_scores_are_those_of_a_second_computation(seeds, rows, leak, spread):
    phi, member = models(1, seeds, rows, leak, spread)
    found, expected = likelihood_ratios(phi, member), told_by_hand(phi, member)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.nanmax(np.abs(found - expected)) < 1e-9
    assert np.isnan(found).any() == (
        seeds == 5
    )  # few shadows leave some record without any of a side


def test_no_membership_of_a_target_enters_its_scores():
    phi, member = models(2)
    before = likelihood_ratios(phi, member)
    for s in (0, 5):
        turned = member.copy()
        turned[s] = ~turned[s]
        assert_allclose(likelihood_ratios(phi, turned)[s], before[s], rtol=0, atol=1e-9)


def test_what_is_added_to_a_record_everywhere_changes_no_score():
    phi, member = models(4)
    shifted = likelihood_ratios(phi + 50.0 * np.arange(phi.shape[1]), member)
    assert_allclose(shifted, likelihood_ratios(phi, member), atol=1e-8)


def test_models_that_are_all_alike_tell_nothing():
    member = models(5).member
    score = likelihood_ratios(np.ones(member.shape), member)
    assert (score[np.isfinite(score)] == 0.0).all()


def test_log_odds_lose_nothing_near_one():
    sure = np.array([[1.0, 1e-30], [1e-30, 1.0], [0.25, 0.75], [1.0, 0.0]], np.float32)
    found = log_odds(sure, np.array([0, 0, 1, 0]))
    tiny = math.log(float(np.finfo(np.float32).tiny))
    expected = [30 * math.log(10), -30 * math.log(10), math.log(3), -tiny]
    assert_allclose(found, expected, rtol=1e-6)
    three = np.array([[0.2, 0.3, 0.5]])
    assert log_odds(three, np.array([1]))[0] == pytest.approx(math.log(0.3 / 0.7))


@pytest.mark.parametrize("decimals", [9, 1])  # without ties and with many
def test_the_area_is_scikit_learns(decimals):
    rng = np.random.default_rng(6)
    members, others = (
        np.round(rng.normal(0.3, 1, 130), decimals),
        np.round(rng.normal(0, 1, 170), decimals),
    )
    found, below, above = area(members, others)
    truth, score = np.r_[np.ones(130), np.zeros(170)], np.r_[members, others]
    assert found == pytest.approx(roc_auc_score(truth, score), abs=1e-9)
    assert below.mean() == pytest.approx(above.mean(), abs=1e-12)


def test_group_tables_hold_scikit_learns_areas():
    attack = models(7, rows=120)
    groups = np.arange(120) % 3
    tables, records = attack_tables(attack, None, groups, 3)
    score = likelihood_ratios(*attack)
    for s, k in itertools.product(range(8), range(4)):
        use = np.isfinite(score[s]) & ((groups == k) | (k == 3))
        expected = roc_auc_score(attack.member[s][use], score[s][use])
        assert tables[AUC].by_seed[s, k] == pytest.approx(expected, abs=1e-9)
    assert records.count().tolist() == [40, 40, 40, 120]


def chance_of_coins(member, others, j):
    """Of all orders of what ties with the member.

    The share in which it is above the j-th of the others.
    """
    if j < 1:
        return 0.0
    wins, every = 0, 0
    tied = sum(x == member for x in others)
    above = sum(x > member for x in others)
    for order in itertools.permutations(range(tied + 1)):  # 0 is the member
        rank = above + order.index(0)  # of the others, so many are above it
        wins, every = wins + (rank < j), every + 1
    return wins / every


@pytest.mark.parametrize(
    "others", [[5.0, 4.0, 3.0, 2.0, 1.0], [2.0, 2.0, 2.0, 1.0], [3.0, 1.0, 1.0, 1.0, 0.0]]
)
@pytest.mark.parametrize("rate", [0.05, 0.2, 0.35, 0.5, 0.9])
def test_thresholds_are_those_of_brute_force(others, rate):
    members = np.array([4.5, 3.0, 2.0, 1.0, 0.0])
    place = rate * (len(others) + 1)
    j = math.floor(place)
    expected = [
        (1 - (place - j)) * chance_of_coins(m, others, j)
        + (place - j) * chance_of_coins(m, others, j + 1)
        for m in members
    ]
    assert_allclose(accused(members, np.array(others), rate), expected, atol=1e-12)


@pytest.mark.parametrize("size", [12, 19, 33, 100])
def test_a_new_outsider_is_accused_at_the_rate_whatever_the_size(size):
    everyone = np.random.default_rng(size).normal(size=size)
    for rate in (0.05, 0.01):
        new = [accused(everyone[[i]], np.delete(everyone, i), rate)[0] for i in range(size)]
        assert np.mean(new) == pytest.approx(rate, abs=1e-12)
        assert_allclose(wrongly_accused(everyone, rate), new, atol=1e-12)


def test_outsiders_that_tie_share_their_accusations():
    found = wrongly_accused(np.array([1.0, 3.0, 3.0, 3.0, 0.0]), 0.3)  # 1.5 accusations among three
    assert_allclose(found, [0.0, 0.5, 0.5, 0.5, 0.0])


def attacked(seed, leak, rows=(260, 140), seeds=8):
    """Of two groups that leak differently.

    Value and 95 % interval of each and of the gap, and its truth.
    """
    groups = np.repeat([0, 1], rows)
    attack = models(seed, seeds, sum(rows), np.asarray(leak, float)[groups])
    tables, _ = attack_tables(attack, None, groups, 2)
    return {
        name: [estimate(contrast(table, *c)) for c in ((0,), (1,), (1, 0))]
        for name, table in tables.items()
    }


def test_a_planted_leak_in_one_group_is_found_and_covered():
    found = attacked(0, (0.0, 2.0), rows=(900, 500), seeds=16)
    exact = {
        AUC: norm.cdf(2.0 / math.sqrt(2)),
        TPR: rate_of_gaussian(2.0, 0.05),
    }  # of who knows all means
    for name, without in ((AUC, 0.5), (TPR, 0.05), ("leakage_advantage", 0.0)):
        clean, leaky, gap = found[name]
        assert clean.low < without < clean.high
        assert leaky.low > without
        assert gap.low > 0.0
    for name, most in exact.items():
        assert found[name][1].low < most  # shadows know the means only about
        assert found[name][1].value > 0.75 * most


def test_groups_whose_scores_spread_alike_differ_at_one_threshold_but_leak_alike():
    """One threshold accuses the group of wild scores more, members and outsiders.

    That is no leak.
    """
    rng = np.random.default_rng(9)
    groups = np.repeat([0, 1], 700)
    phi = np.where(groups == 1, 4.0, 1.0) * rng.standard_normal((16, 1400))
    attack = Attack(phi, rng.random((16, 1400)) < 0.5)
    tables, _ = attack_tables(attack, None, groups, 2)
    bare = estimate(contrast(tables["leakage_tpr_global"], 1, 0))
    honest = estimate(contrast(tables["leakage_advantage"], 1, 0))
    assert bare.low > 0.02
    assert honest.low < 0.0 < honest.high


def test_no_attack_beats_the_ceiling_of_gaussian_noise():
    for mu in (0.5, 1.5):
        rows = 1500
        attack = models(10, 24, rows, np.full(rows, mu))
        tables, _ = attack_tables(attack, None, np.zeros(rows, np.int64), 1)
        for name, rate in leakage.WITHIN.items():
            found = estimate(contrast(tables[name], 0))
            assert found.low < rate_of_gaussian(mu, rate)
            assert found.value < rate_of_gaussian(mu, rate) + 0.01
        # It is not far below: with one leak for all, the shadows tell nearly all there is.
        assert estimate(contrast(tables[TPR], 0)).value > rate_of_gaussian(mu, 0.05) - 0.05


def test_the_change_is_the_paired_difference():
    private, reference = models(11, leak=0.2), models(12, leak=2.0)
    reference = Attack(reference.confidence, private.member)
    tables, _ = attack_tables(private, reference, np.zeros(60, np.int64), 1)
    for name in leakage.METRICS_OF_LEAKAGE:
        own, other = tables[name].by_seed, tables[f"reference.{name}"].by_seed
        assert_allclose(tables[f"change.{name}"].by_seed, own - other, atol=1e-12)
    same, _ = attack_tables(private, private, np.zeros(60, np.int64), 1)
    assert (same["change.leakage_tpr"].by_seed == 0.0).all()


def test_record_variance_is_that_of_leaving_records_out(monkeypatch):
    """The jackknife recomputes everything, thresholds and pooled variances too."""
    rng, rows, seeds = np.random.default_rng(13), 400, 8
    groups = (np.arange(rows) % 8 == 0).astype(np.int64)  # a small one, whose scores spread more
    member = rng.random((seeds, rows)) < 0.5
    phi = rng.standard_normal((seeds, rows)) * np.where(groups, 2.0, 1.0) + member
    found = {}

    def kept(name, influences, counts):
        found[name] = influences.covariance()[0]
        return metric_table(name, influences, counts)

    monkeypatch.setattr(leakage, "metric_table", kept)
    attack_tables(Attack(phi, member), None, groups, 2)
    found_whole = dict(found)  # of all records
    blocks = np.array_split(rng.permutation(rows), 80)
    left = []
    for b in blocks:
        fewer = Attack(np.delete(phi, b, 1), np.delete(member, b, 1))
        left.append(attack_tables(fewer, None, np.delete(groups, b), 2)[0])
    for name, group, least, most in (
        (AUC, 2, 0.6, 1.4),
        (TPR, 2, 0.4, 1.6),
        ("leakage_tpr_global", 1, 0.3, 1.5),
    ):
        values = np.array([one[name].by_seed[:, group].mean() for one in left])
        jackknife = (len(blocks) - 1) * values.var()
        assert least < found_whole[name][group, group] / jackknife < most, name


@pytest.mark.slow
@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_equal_groups_differ_in_seven_per_cent_of_audits_at_most(leak):
    audits = 300
    found = [attacked(seed, (leak, leak)) for seed in range(audits)]
    most = 0.07 + 1.64 * math.sqrt(0.07 * 0.93 / audits)  # intervals hold in .93 or more
    for name in (AUC, TPR, "leakage_advantage"):
        assert np.mean([one[name][2].excludes_zero for one in found]) <= most
        values = np.array([one[name][0].value for one in found])
        covered = [one[name][0].low <= values.mean() <= one[name][0].high for one in found]
        assert np.mean(covered) >= 0.93


@pytest.mark.slow
def test_equal_arms_differ_in_five_per_cent_of_audits_at_most():
    audits = 100
    found = []
    for seed in range(audits):
        rng = np.random.default_rng(seed)
        member = rng.random((8, 240)) < 0.5
        level, gain = 3.0 * rng.standard_normal(240), rng.gamma(1.0, 1.0, 240)
        arms = [
            Attack(level + gain * member + rng.standard_normal((8, 240)), member) for _ in range(2)
        ]
        tables, _ = attack_tables(*arms, np.zeros(240, np.int64), 1)
        found.append(
            [estimate(contrast(tables[f"change.{name}"], 0)).excludes_zero for name in (AUC, TPR)]
        )
    assert np.mean(found, axis=0).max() <= 0.05 + 1.64 * math.sqrt(0.05 * 0.95 / audits)
