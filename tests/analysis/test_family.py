"""What a report asserts of a method, among all groupings, groups, pairs and measures."""

from functools import partial

import pytest
from changed import replace
from handmade import comparison, estimate, gap
from scipy import stats

from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import _judged_class, family
from fairaudit.metrics.quantiles import with_joint_interval
from fairaudit.report.measures import main_gap
from fairaudit.results.estimates import ClassShare, estimated

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
    return Disclosure().of_measured(replace(made, **update))


def detected_gaps(result):
    found = set()
    for one in result.comparisons:
        for each in one.gaps:
            if each.reading == "detected":
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
    shared = with_joint_interval(one, many)
    assert (shared.low, shared.high) == pytest.approx((0.1 - half_of(many), 0.1 + half_of(many)))
    assert (shared.value, shared.by_seed) == (one.value, one.by_seed)


@pytest.mark.parametrize("metric", COSTS)
def test_measures_and_pairs_of_a_method_share_the_five_per_cent(metric):
    """Five measures of three pairs: one of fifteen."""
    place = (metric, ("M", "X"))
    for factor, expected in ((1.01, {("one", metric, "MX")}), (0.99, set())):
        assert detected_gaps(family([arm("one", {place: factor * half_of(15)})])) == expected


def test_groupings_of_a_method_are_of_one_family_and_other_methods_change_nothing():
    """By two groupings one of thirty; whatever stands beside, at whatever place."""
    size = {("tpr_cost", ("M", "X")): 1.01 * half_of(15)}
    large = {("tpr_cost", pair): 1.0 for pair in PAIRS}
    alone = family([arm("one", size)]).comparisons[0]
    for others in ([{}], [large], [{}, large, {}] * 3):
        beside = [arm(f"other{k}", sizes) for k, sizes in enumerate(others)]
        for compared in ([arm("one", size), *beside], [*beside, arm("one", size)]):
            found = family(compared).comparisons
            assert [one.arm for one in found] == [one.arm for one in compared]
            assert [one for one in found if one.arm == "one"] == [alone]
    by_race = replace(arm("one", {}), grouping="race")
    both = family([arm("one", size), arm("other", large), by_race])
    assert [(one.arm, one.grouping) for one in both.comparisons][2] == ("one", "race")
    assert "one" not in {who for who, *_ in detected_gaps(both)}
    larger = {("tpr_cost", ("M", "X")): 1.01 * half_of(30)}
    assert ("one", "tpr_cost", "MX") in detected_gaps(family([arm("one", larger), by_race]))


def test_what_is_detected_leaves_its_share_to_the_others():
    """Of fifteen: once a whole measure is told, the rest are of twelve."""
    between = (half_of(12) + half_of(15)) / 2
    loss = {("excess_risk", pair): 1.0 for pair in PAIRS}
    tpr = {("tpr_cost", ("F", "X")): between}
    assert detected_gaps(family([arm("one", tpr)])) == set()
    assert ("one", "tpr_cost", "FX") in detected_gaps(family([arm("one", {**loss, **tpr})]))


def test_the_test_leaves_every_interval_as_it_is_and_says_in_a_word_what_it_found():
    """The gap of F and M excludes 0 by itself, and fifteen tests together do not reject."""
    size = (half_of(3) + half_of(15)) / 2
    sizes = {("tpr_cost", ("F", "M")): size, ("privacy_cost", ("M", "X")): -1.0}
    made = arm("one", sizes)
    (one,) = family([made]).comparisons
    assert [g.signed for g in one.gaps] == [g.signed for g in made.gaps]
    of = {(g.metric, g.a, g.b): g for g in one.gaps}
    assert of["tpr_cost", "F", "M"].reading == "not certain"
    assert of["tpr_cost", "F", "M"].direction == ""
    assert of["tpr_cost", "F", "X"].reading == "not detected"
    paid = of["privacy_cost", "M", "X"]
    assert (paid.reading, paid.direction) == ("detected", "worse for X")
    # The least gap is that of the test: once the detected one has left, fourteen share.
    least = of["tpr_cost", "F", "M"].minimum_detectable
    assert least == pytest.approx(0.0251 - half_of(1) + half_of(14), rel=1e-3)


def test_the_largest_gap_is_detected_only_where_its_interval_excludes_zero():
    """A pair that was named has a share of its own, and the largest is chosen among three."""
    size = (half_of(1) + half_of(3)) / 2
    named = gap("F", "M", size, half_of(1), metric="leakage_auc", named=True)
    others = [gap(a, b, 0.0, half_of(1), metric="leakage_auc") for a, b in PAIRS[1:]]
    largest = gap("F", "M", size, half_of(3), metric="leakage_auc", kind="max")
    made = replace(arm("one", {}), gaps=(named, *others, largest))
    (one,) = family([made], ("leakage_auc",)).comparisons
    assert one.gaps[-1].signed.low < 0
    assert [one.gaps[0].reading, one.gaps[-1].reading] == ["detected", "not detected"]


def test_a_named_pair_counts_as_a_measure():
    size = 1.01 * half_of(7)  # four costs of which one has two thirds more, the answers, itself
    made = arm("one", {("tpr_cost", ("F", "M")): size})
    gaps = [
        replace(g, named=True) if (g.a, g.b, g.metric) == ("F", "M", "tpr_cost") else g
        for g in made.gaps
    ]
    assert detected_gaps(family([replace(made, gaps=tuple(gaps))])) == {("one", "tpr_cost", "FM")}
    assert detected_gaps(family([made])) == set()


def test_what_gates_may_not_read_decides_nothing():
    """As a loss of few rows."""
    made = arm("one", {("excess_risk", ("F", "M")): 1.0, ("tpr_cost", ("F", "M")): 1.0})
    few = [
        replace(g, gated=False, reason="few rows") if g.metric == "excess_risk" else g
        for g in made.gaps
    ]
    assert detected_gaps(family([replace(made, gaps=tuple(few))])) == {("one", "tpr_cost", "FM")}


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
    assert family([arm("one", sizes), replace(arm("one", {}), grouping="race")]).changed == ()


def test_a_change_of_one_seed_or_one_that_gates_may_not_read_is_not_told():
    made = arm("one", {("change.auc", ("F", "M")): 1.0})
    bare = [replace(g, signed=replace(g.signed, low=None, high=None)) for g in made.gaps]
    few = [replace(g, gated=False, reason="few seeds") for g in made.gaps]
    assert len(family([made]).changed) == 1
    for gaps in (bare, few):
        assert family([replace(made, gaps=tuple(gaps))]).changed == ()


def test_a_class_is_lost_by_the_test_of_all_together_and_keeps_its_interval():
    """Five measures of six groups and classes; both the contrast and the reference must be told."""
    limit = half_of(30)
    lost = share("F", 1, -1.01 * limit)
    open_one = share("M", 0, -0.99 * limit)
    unsure = share("X", 1, -1.01 * limit, reference=0.99 * limit)
    (one,) = family([arm("one", {}, (lost, open_one, unsure))]).comparisons
    assert [s.is_lost for s in one.doubtful] == [True, False, False]
    assert [s.kept for s in one.doubtful] == [lost.kept, open_one.kept, unsure.kept]
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
    assert (largest.a, largest.reading, largest.signed.low > 0.9) == ("X", "detected", True)


def paying(key, **costs):
    """Costs over all rows; others have no interval."""
    made = arm(key, {})
    overall = dict.fromkeys(COSTS, estimate(0.1))
    for cost, value in costs.items():
        overall[cost] = estimate(value, half_of(1))
    return replace(made, overall=replace(made.overall, estimates=overall))


def test_what_all_rows_lose_is_one_more_measure_of_a_method():
    """Six measures; the loss is looked at first, then accuracy, then rates."""
    over, under = 1.01 * half_of(6), 0.99 * half_of(6)
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


def test_rows_are_said_to_tell_only_where_seeds_are_enough_and_rows_not_absurd():
    def needed(*, seeds, training_sd, wide):
        numbers = {"records_sd": 0.002, "n_test": 2000, "unit": "fraction", "n_seeds": seeds}
        kept, reference = (
            estimated(x, x - wide, x + wide, training_sd=training_sd, **numbers)
            for x in (-0.01, 0.3)
        )
        share = ClassShare(
            group="F", answer=1, private=kept, reference=reference, kept=kept, given=2, looked_at=2
        )
        return _judged_class(0, share, set(), 1.0).rows_needed

    # Half an interval of three times the value: nine times the rows.
    assert needed(seeds=5, training_sd=0.0, wide=0.03) == 18_000
    assert needed(seeds=2, training_sd=0.0, wide=0.03) is None
    assert needed(seeds=1, training_sd=None, wide=0.03) == 18_000  # one model, rows alone
    assert needed(seeds=5, training_sd=0.0, wide=0.1) is None  # a hundred times
