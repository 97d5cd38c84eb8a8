"""What a report asserts, among all methods, groups, pairs and measures together."""

from functools import partial

import pytest
from changed import replace
from handmade import comparison, estimate, gap
from scipy import stats

from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.family import family
from fairaudit.metrics.intervals import among
from fairaudit.report.main_gap import main_gap
from fairaudit.results.estimates import ClassShare

CHANGED = ("fpr", "auc", "precision", "calibration_error")
COSTS = ("privacy_cost", "excess_risk", "tpr_cost", "selection_cost")
GROUPS = ("F", "M", "X")
PAIRS = (("F", "M"), ("F", "X"), ("M", "X"))


def half_of(many, seeds=5):
    level = 1 - 0.025 / many
    t, z = stats.t.ppf(level, seeds - 1) * 0.004, stats.norm.ppf(level) * 0.006
    return (t**2 + z**2) ** 0.5


def arm(key, sizes, doubtful=()):
    """Three groups; ``sizes``: (metric, pair) -> how far the two lie apart, 0 for the others.

    Every measure of every pair is there, so five measures share an arm's part of the 5 %: four
    costs and the answers; with a change within a model six.
    """
    gaps = []
    for metric in dict.fromkeys((*COSTS, *(metric for metric, _ in sizes))):
        for a, b in PAIRS:
            value = sizes.get((metric, (a, b)), 0.0)
            gaps.append(gap(a, b, value, half_of(1), metric=metric))
    made = comparison(key, (0.1, 0.1, 0.1), names=GROUPS)
    of_costs = {name: estimate(0.1, half_of(1)) for name in COSTS}
    groups = [replace(group, estimates={**group.estimates, **of_costs}) for group in made.by_group]
    update = {"gaps": tuple(gaps), "by_group": tuple(groups), "doubtful": tuple(doubtful)}
    return disclosed(replace(made, **update), least=0)


def told(result):
    found = set()
    for one in result.comparisons:
        for each in one.gaps:
            if each.detected:
                found.add((one.arm, each.metric, each.a + each.b))
    return found


def share(group, answer, kept, reference=0.3, given=2):
    return ClassShare(
        group=group,
        answer=answer,
        private=estimate(0.0, half_of(1)),
        reference=estimate(reference, half_of(1)),
        kept=estimate(kept, half_of(1)),
        given=given,
        looked_at=6,
    )


@pytest.mark.parametrize("many", [1, 2, 16, 300])
def test_an_interval_that_several_share_is_that_of_bonferroni(many):
    one = estimate(0.1, half_of(1))
    shared = among(one, many)
    assert (shared.low, shared.high) == pytest.approx((0.1 - half_of(many), 0.1 + half_of(many)))
    assert (shared.value, shared.by_seed) == (one.value, one.by_seed)


@pytest.mark.parametrize("metric", COSTS)
def test_methods_measures_and_pairs_share_the_five_per_cent(metric):
    """Two methods of five measures of three pairs: one of thirty."""
    place = (metric, ("M", "X"))
    for factor, expected in ((1.01, {("second", metric, "MX")}), (0.99, set())):
        arms = [arm("first", {}), arm("second", {place: factor * half_of(30)})]
        assert told(family(arms)) == expected
    alone = family([arm("second", {place: 0.99 * half_of(30)})])
    assert told(alone) == {("second", metric, "MX")}  # of fifteen


def test_what_is_detected_leaves_its_share_to_the_others():
    """Of fifteen: once a whole measure is told, the rest are of twelve."""
    between = (half_of(12) + half_of(15)) / 2
    loss = {("excess_risk", pair): 1.0 for pair in PAIRS}
    tpr = {("tpr_cost", ("F", "X")): between}
    assert told(family([arm("one", tpr)])) == set()
    assert ("one", "tpr_cost", "FX") in told(family([arm("one", {**loss, **tpr})]))


def test_where_everything_is_told_each_has_its_own_interval():
    """Nothing is left to share the 5 % with: a study has none of the measures that stay silent."""
    sizes = {("leakage_auc", pair): 1.0 for pair in PAIRS}
    (one,) = family([arm("one", sizes)], ("leakage_auc",)).comparisons
    attacked = [of_pair for of_pair in one.gaps if of_pair.metric == "leakage_auc"]
    assert [of_pair.detected for of_pair in attacked] == [True] * 3
    for of_pair in attacked:
        assert of_pair.joint_high == pytest.approx(1 + half_of(1))


def test_where_none_is_detected_the_printed_interval_is_that_of_all_together():
    """Its own interval leaves 0 out, which would contradict the word beside it."""
    size = (half_of(3) + half_of(15)) / 2
    (one,) = family([arm("one", {("tpr_cost", ("F", "M")): size})]).comparisons
    of_pair = next(g for g in one.gaps if (g.metric, g.a, g.b) == ("tpr_cost", "F", "M"))
    assert of_pair.signed.low > 0
    assert of_pair.detected is False
    assert (of_pair.size.low, of_pair.reading) == (0.0, "at most")
    assert of_pair.size.high == pytest.approx(size + half_of(15))
    assert of_pair.minimum_detectable == pytest.approx(0.0251 - half_of(1) + half_of(15))
    # Beside a rule's limit stands what the rule was held against.
    assert of_pair.revised(limit=0.5).size == of_pair.simultaneous


def test_a_named_pair_counts_as_a_measure():
    size = 1.01 * half_of(7)  # four costs of which one has two thirds more, the answers, itself
    made = arm("one", {("tpr_cost", ("F", "M")): size})
    gaps = [
        replace(g, named=True) if (g.a, g.b, g.metric) == ("F", "M", "tpr_cost") else g
        for g in made.gaps
    ]
    assert told(family([replace(made, gaps=tuple(gaps))])) == {("one", "tpr_cost", "FM")}
    assert told(family([made])) == set()


def test_what_gates_may_not_read_decides_nothing():
    """As a loss of few rows; its place in the measure stays."""
    made = arm("one", {("excess_risk", ("F", "M")): 1.0, ("tpr_cost", ("F", "M")): 1.0})
    few = [
        replace(g, gated=False, reason="few rows") if g.metric == "excess_risk" else g
        for g in made.gaps
    ]
    assert told(family([replace(made, gaps=tuple(few))])) == {("one", "tpr_cost", "FM")}


def test_changes_within_a_model_are_of_the_family_and_costs_are_told_once():
    """Twelve changes are one measure; the change of a cost's metric is the cost itself."""
    large = 1.01 * half_of(6 * 12)
    sizes = {(f"change.{metric}", ("F", "M")): large for metric in CHANGED}
    sizes |= {("change.tpr", ("F", "M")): 1.0}
    found = family([arm("one", sizes)])
    assert {(g.arm, g.metric, g.a, g.b) for g in found.changed} == {
        ("one", metric, "F", "M") for metric in CHANGED
    }
    assert found.changed[0].change.low > 0
    both = family([arm("one", sizes), arm("two", {})])
    assert both.changed == ()


def test_a_change_of_one_seed_or_one_that_gates_may_not_read_is_not_told():
    made = arm("one", {("change.auc", ("F", "M")): 1.0})
    bare = [replace(g, signed=replace(g.signed, low=None, high=None)) for g in made.gaps]
    few = [replace(g, gated=False, reason="few seeds") for g in made.gaps]
    assert len(family([made]).changed) == 1
    for gaps in (bare, few):
        assert family([replace(made, gaps=tuple(gaps))]).changed == ()


def test_a_class_is_lost_by_the_interval_that_holds_for_all_together():
    """Five measures of six groups and classes; both the contrast and the reference must be told."""
    limit = half_of(30)
    lost = share("F", 1, -1.01 * limit)
    open_one = share("M", 0, -0.99 * limit)
    unsure = share("X", 1, -1.01 * limit, reference=0.99 * limit)
    (one,) = family([arm("one", {}, (lost, open_one, unsure))]).comparisons
    assert [s.is_lost for s in one.doubtful] == [True, False, False]
    assert [s.rows_needed is None for s in one.doubtful] == [True, False, False]
    answers = {group.group: group.estimates["one_answer"] for group in one.by_group}
    assert (answers["F"].value, answers["F"].low, answers["F"].high) == (1.0, 1.0, 1.0)
    assert answers["M"].value is answers["X"].value is None
    # Half an interval is .7 per cent too wide, so 1.4 per cent more rows (a share is left over).
    assert 382 < one.doubtful[1].rows_needed < 1.1 * 382


def test_a_group_that_a_seed_lacks_has_not_kept_its_answers():
    made = arm("one", {})
    lacking = [
        replace(group, estimates={**group.estimates, "privacy_cost": estimate(0.1)})
        for group in made.by_group
    ]
    (one,) = family([replace(made, by_group=tuple(lacking))]).comparisons
    assert {group.value("one_answer") for group in one.by_group} == {None}


def test_a_named_pair_does_not_hide_the_largest_gap():
    """Of one class's rates among many groups a report holds the named pairs and the largest."""
    of_class = partial(gap, metric="tpr_cost[2]")
    gaps = (of_class("F", "M", 0.0, named=True), of_class("X", "F", 1.0, kind="max"))
    (one,) = family([replace(arm("one", {}), gaps=gaps)]).comparisons
    largest = main_gap(one, "tpr_cost[2]")
    assert (largest.a, largest.detected, largest.size.low > 0.9) == ("X", True, True)


def paying(key, **costs):
    """Costs over all rows; others have no interval."""
    made = arm(key, {})
    overall = dict.fromkeys(COSTS, estimate(0.1))
    for cost, value in costs.items():
        overall[cost] = estimate(value, half_of(1))
    return replace(made, overall=replace(made.overall, estimates=overall))


def test_what_all_rows_lose_is_one_more_measure_of_a_method():
    """Of two methods twelve measures; the loss is looked at first, then accuracy, then rates."""
    over, under = 1.01 * half_of(12), 0.99 * half_of(12)
    for costs, expected in (
        ({"privacy_cost": 1.0, "excess_risk": under}, ()),
        ({"privacy_cost": under, "excess_risk": over, "tpr_cost": 1.0}, ("excess_risk",)),
        ({"privacy_cost": over, "tpr_cost": over}, ("privacy_cost", "tpr_cost")),
    ):
        first, second = family([paying("one", excess_risk=0.0), paying("two", **costs)]).comparisons
        assert (first.paid, second.paid) == ((), expected)


def test_rows_that_gain_pay_nothing_and_few_rows_decide_nothing():
    gained = paying("one", privacy_cost=-1.0, tpr_cost=1.0)
    (one,) = family([gained]).comparisons
    assert one.paid == ("tpr_cost",)
    few = replace(gained.overall, ungated={"tpr_cost": "few rows"})
    (one,) = family([replace(gained, overall=few)]).comparisons
    assert one.paid == ()


def test_one_answer_is_left_where_all_classes_but_one_are_lost():
    """Of three given classes two; one of three is a lost class, and no answer is not told of."""
    gone = -2 * half_of(60)
    for lost, doubt, expected in (
        ((0, 2), (), 1.0),
        ((2,), (), 0.0),
        ((2,), (0,), None),
        ((), (0,), 0.0),
    ):
        shares = [share("F", k, gone, given=3) for k in lost]
        shares += [share("F", k, -1e-4, given=3) for k in doubt]
        (one,) = family([arm("one", {}, shares)]).comparisons
        answers = {group.group: group.value("one_answer") for group in one.by_group}
        assert answers == {"F": expected, "M": 0.0, "X": 0.0}
