"""Forecasts of rules: beside a formula of their own, and held to what they promise."""

import math

import numpy as np
import pytest
from changed import replace
from handmade import dataset
from plans import plan
from scipy import stats

from fairaudit.analysis.forecast import forecasts
from fairaudit.data.dataset import Grouping
from fairaudit.gate.grammar import parse_rules

SIZES = (3000, 1000, 1500)


def of_sizes(*, given=False, names=("F", "M")):
    """A table of groups of these sizes, labels by turns."""
    sizes = SIZES[: len(names)]
    groups = np.repeat(np.arange(len(names)), sizes)
    n = len(groups)
    split = (np.arange(n) % 4 == 0).astype(np.int64) if given else None
    made = dataset(names)
    grouping = Grouping("sex", groups, names, None)
    return replace(
        made,
        labels=np.arange(n) // 4 % 2,
        groupings=(grouping,),
        split=split,
        features=made.features,
    )


def forecast(rule, table, *, changed=0.05, seeds=5):
    rules = parse_rules([rule])
    (found,) = forecasts(plan(seeds=seeds), table, rules, changed=changed)
    return found


@pytest.mark.parametrize("changed", [0.02, 0.05, 0.2])
@pytest.mark.parametrize("given", [False, True])
def test_the_width_is_that_of_the_formula(given, changed):
    """V_shared u/N of each group on rows of one split, and of each pair of rows of several.

    Of several splits each seed also has its own rows, by chance a share f of all.
    """
    found = forecast("privacy_cost_gap > 2 points", of_sizes(given=given), changed=changed)
    t, z, f = stats.t.ppf(0.975, 4), stats.norm.ppf(0.975), 0.2
    each = [size / 4 if given else size for size in SIZES[:2]]
    shared = sum(changed / n for n in each)
    own = 0.0 if given else sum(changed * (1 - f) / (f * n) for n in each) / 5
    expected = math.sqrt(t**2 * own + z**2 * shared)
    assert found.half_width == pytest.approx(expected, rel=0.25)
    assert found.can_pass == (found.half_width <= 0.02)


@pytest.mark.parametrize("rule", ["privacy_cost_gap > 2 points", "tpr_cost@sex=M > 2.8 points"])
def test_the_seeds_that_are_said_would_let_the_rule_pass_and_fewer_would_not(rule):
    table = of_sizes()
    now = forecast(rule, table)
    assert not now.can_pass
    assert now.seeds_needed > 5
    enough = forecast(rule, table, seeds=now.seeds_needed)
    assert enough.half_width == pytest.approx(now.limit, rel=0.35)
    assert enough.half_width < now.half_width
    assert 1 < now.rows_factor < 20


def test_of_three_groups_it_is_the_largest_gap_or_the_pair_that_is_named():
    table = of_sizes(names=("F", "M", "X"))
    largest = forecast("privacy_cost_gap > 5 points", table)
    pair = forecast("privacy_cost_gap@sex=F,X > 5 points", table)
    assert largest.half_width > pair.half_width
    group = forecast("privacy_cost@sex=F > 5 points", table)
    assert group.half_width < forecast("privacy_cost@sex=M > 5 points", table).half_width
    every = forecast("privacy_cost > 5 points", table)
    assert every.half_width == forecast("privacy_cost@sex=M > 5 points", table).half_width


def test_nothing_is_said_of_what_is_not_known_beforehand():
    rules = ["epsilon > 3", "excess_risk_gap > 0.1", "accuracy < 0.5", "impact_ratio < 0.8"]
    rules += [
        "privacy_cost_gap.ci_high > 0.1",
        "privacy_cost_gap < 0.1",
        "privacy_cost.noise > 0.1",
    ]
    assert not list(forecasts(plan(), of_sizes(), parse_rules(rules), changed=0.05))


def test_few_seeds_or_rows_decide_nothing():
    for options, table in ((({"seeds": 3}), of_sizes()), ({}, dataset())):
        given = {"seeds": 5, **options}
        rules = parse_rules(["privacy_cost_gap > 2 points"])
        (found,) = forecasts(plan(**given), table, rules, changed=0.05)
        assert found.half_width is None
        assert "too few" in found.reason
