from changed import replace
from handmade import comparison, estimate, gap, privacy

from fairaudit.analysis.arm_readings import over_seeds
from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.detected import judged
from fairaudit.analysis.explain_steps import detected_pair
from fairaudit.analysis.why import explain
from fairaudit.report.decomposition import (
    ArmCauses,
    Association,
    Decomposition,
    GroupCauses,
    OverSeeds,
)
from fairaudit.report.facts import ArmFacts, Control

CONTROL = Control(status="not needed", message="No arm scales gradients by a threshold.")
GROUP_STATISTICS = (
    *("angle_turned", "clipped_share", "mean_gradient_norm", "mean_input_norm", "hessian_trace"),
    "mean_closeness",
)


def over(*by_seed, half=0.1):
    mean = sum(by_seed) / len(by_seed)
    return OverSeeds(value=mean, low=mean - half, high=mean + half, by_seed=by_seed)


def steady(mean, spread=0.1):
    """Five seeds around a mean; the 95 % interval over them is mean +- .196 |mean| or .5."""
    return tuple(mean * (1 + spread * k) for k in (-2, -1, 0, 1, 2))


def group(name, direction, magnitude, noise, **statistics):
    parts = dict(
        zip(
            ("direction", "magnitude_effective", "noise"),
            (direction, magnitude, noise),
            strict=True,
        )
    )
    size = sum(abs(sum(values)) for values in parts.values())
    return GroupCauses(
        group=name,
        parts={part: over_seeds(values) for part, values in parts.items()},
        shares={part: over(abs(sum(values)) / size) for part, values in parts.items()},
        statistics={
            statistic: over_seeds(statistics.get(statistic, steady(1.0, 0.01)))
            for statistic in GROUP_STATISTICS
        },
    )


def facts(key):
    return ArmFacts(
        key=key,
        method=key,
        variant=None,
        settings={},
        privacy=privacy(),
        trainer="",
        reference="sgd",
        source=None,
        reads_groups=False,
        repeats=1,
        seeds_planned=2,
        seeds_finished=2,
        failed=(),
        trainings="",
    )


def read_of(*groups, associations=()):
    """What was read of the steps of dpsgd."""
    causes = {"dpsgd": ArmCauses(reason="", groups=groups, associations=associations)}
    return Decomposition(
        steps=1, batches=1, hessian_records=1, optimizer="sgd", arms=causes, claims=()
    )


def costing(key, costs, half=0.017123456, names=("F", "M")):
    """A comparison whose gap in loss is twice that in accuracy, as each group's excess risk is."""
    made = comparison(key, costs, names=names, half=half)
    loss = gap(names[0], names[-1], 2 * (costs[0] - costs[-1]), 2 * half, metric="excess_risk")
    return replace(made, gaps=(*made.gaps, loss))


def why(*groups, costs=(0.04, 0.01), half=0.005):
    compared = [disclosed(costing("dpsgd", costs, half), least=0)]
    return explain(read_of(*groups), [facts("dpsgd")], compared, CONTROL)


F = group(
    "F",
    steady(8e-3),
    steady(1e-3),
    steady(1e-3),
    clipped_share=steady(0.45, 0.01),
    hessian_trace=steady(2.5, 0.01),
)
M = group("M", steady(1e-3), steady(1.5e-3), steady(1e-3))


def text_of(found, *kinds):
    return " ".join(sentence.text for sentence in found.of(*kinds))


def test_the_group_that_pays_more_is_explained_and_every_sentence_names_its_figures():
    found = why(F, M)
    told = text_of(found, "finding")
    assert "this difference is detected" in told
    assert "F minus M under dpsgd, is mostly gradient direction: 7 [" in told
    assert "F: 80 % [70, 90] from gradient dir" in found.headline
    assert all(sentence.rests_on for sentence in found.sentences)


def test_where_no_difference_is_detected_nobody_is_named_and_nothing_explained():
    """Twin: the interval of the gap just holds zero, or just not."""
    found = why(F, M, half=0.031)
    told = text_of(found, "finding", "statistic", "suggestion")
    assert "No difference" in told
    assert "(at most, in nats: dpsgd 0.122)" in told
    assert found.headline == ""
    assert why(F, M, half=0.029).headline


def test_a_group_without_a_detected_cost_has_nothing_to_explain():
    found = why(F, M, costs=(0.005, -0.04))  # F loses .01 nats, give or take .021; M gains
    assert "none is detected to lose (dpsgd)" in text_of(found, "finding")
    assert not found.of("statistic", "suggestion")


def test_a_loss_of_few_test_rows_decides_nothing():
    made = costing("dpsgd", (0.04, 0.01), 0.005)
    few = tuple(
        replace(g, estimates={k: replace(e, n_test=199) for k, e in g.estimates.items()})
        for g in made.by_group
    )
    (enough,) = judged([disclosed(made, least=0)])
    (too_few,) = judged([disclosed(replace(made, by_group=few), least=0)])
    assert detected_pair(enough) == ("F", "M")
    assert detected_pair(too_few) is None


def test_a_difference_is_told_by_the_interval_that_holds_for_all_that_sentences_choose_from():
    """Half widths by hand: .0162 of one gap, .0194 of two, .0229 of four, .0267 of eight."""
    made = costing("dpsgd", (0.031, 0.01), 0.0162)  # gaps of .021 in accuracy and .042 in loss
    (alone,) = judged([disclosed(made, least=0)])
    assert [gap.detected for gap in alone.gaps] == [True, None, True]
    of_four = judged([disclosed(replace(made, arm=arm), least=0) for arm in "abcd"])
    assert [gap.detected for gap in of_four[0].gaps] == [False, None, True]
    assert all(gap.direction for gap in of_four[0].gaps[::2])
    (by_itself,) = judged([disclosed(replace(made, reference=""), least=0)])
    assert {gap.detected for gap in by_itself.gaps} == {None}


def test_what_is_detected_leaves_its_share_to_the_others():
    """Gaps of .024 lie between the .0267 of eight and the .0229 of the four that are left."""
    wide, even = (
        costing("dpsgd", (0.034, 0.01), 0.0162),
        comparison("dpsgd", (0.034, 0.01), half=0.0162),
    )
    loss = gap("F", "M", 0.024, 0.0162, metric="excess_risk")
    even = replace(even, gaps=(*even.gaps, loss))  # nothing stands out, so nothing leaves its share
    for made, expected in ((wide, True), (even, False)):
        found = judged([disclosed(replace(made, arm=arm), least=0) for arm in "abcd"])
        assert {gap.detected for c in found for gap in c.gaps if gap.metric == "privacy_cost"} == {
            expected
        }


def three(*pairs, largest):
    """Groups A, B and C with pairs ``(a, b, gap, half)`` in both costs, and the largest of them."""
    made = comparison("dpsgd", (0.05, 0.03, 0.0), names=("A", "B", "C"), half=0.005)
    gaps = [
        gap(*pair, metric=metric)
        for metric in ("privacy_cost", "excess_risk")
        for pair in (*pairs, largest)
    ]
    kinds = ("pair",) * len(pairs) + ("max",)
    return replace(
        made, gaps=tuple(replace(g, kind=kind) for g, kind in zip(gaps, kinds * 2, strict=True))
    )


def test_of_three_groups_a_pair_is_explained_though_the_largest_gap_is_open():
    """A against C is the largest and open; B against C is detected, and what is said is of it."""
    made = three(
        ("A", "B", 0.02, 0.06),
        ("A", "C", 0.05, 0.06),
        ("B", "C", 0.03, 0.004),
        largest=("A", "C", 0.05, 0.06),
    )
    (found,) = judged([disclosed(made, least=0)])
    assert [g.detected for g in found.gaps] == [False, False, True, False] * 2
    assert detected_pair(found) == ("B", "C")
    names = (F, M, group("A", steady(1e-3), steady(1e-3), steady(1e-3)))
    groups = tuple(
        g.model_copy(update={"group": name}) for g, name in zip(names, "BCA", strict=True)
    )
    told = text_of(explain(read_of(*groups), [facts("dpsgd")], [found], CONTROL), "finding")
    assert "No difference" not in told
    assert "B 0." in told.partition("this difference is detected")[0]


def test_what_is_not_gated_bounds_nothing():
    """Neither "at most" nor "within tolerance".

    Which a gate on the same number would call inconclusive.
    """
    open_gap = gap("F", "M", 0.001, 0.002)
    assert open_gap.revised().reading == "at most"
    assert open_gap.revised(limit=0.02).reading == "within tolerance"
    few = {"gated": False, "reason": "4 seeds; gates need 5"}
    assert {open_gap.revised(**few, limit=limit).reading for limit in (None, 0.02)} == {
        "cannot tell"
    }
    assert gap("F", "M", 0.03, 0.002).revised(**few).reading == "difference detected"


def test_a_part_is_told_only_where_its_interval_excludes_zero():
    unsteady = group("F", (9e-3, -1e-3, 1e-3, 8e-3, -2e-3), steady(5e-3), steady(1e-3))
    told = text_of(why(unsteady, M), "finding", "suggestion")
    assert "gradient direction: cannot tell" in told
    assert "from gradient direction." not in told.partition("Per-step loss increase for M")[0]
    assert "part of gradient direction" not in told


def test_a_part_of_the_other_sign_is_no_share_of_the_increase():
    helped = group("F", steady(-8e-3), steady(1e-3), steady(12e-3))
    told = text_of(why(helped, M), "finding")
    assert "Per-step loss change for F under dpsgd, in thousandths of a nat: -8 [" in told
    assert "%" not in told.partition("Per-step loss increase for M")[0]
    assert not why(helped, M).of("suggestion")


def test_a_difference_per_step_of_the_other_sign_explains_nothing():
    told = text_of(why(F, M, costs=(0.01, 0.04)), "finding")  # M pays, though F's steps cost more
    assert "M minus F under dpsgd, has the other sign than the measured difference: -6.5 [" in told
    assert "mostly" not in told


def over_groups(names):
    """What is said of correlations of .99, .96, .9 and .2 over so many groups."""
    associations = tuple(
        Association(statistic=statistic, correlation=r, agreement=0.75, compared=12)
        for statistic, r in (
            ("size", -0.96),
            ("hessian_trace", 0.2),
            ("mean_loss", 0.99),
            ("clipped_share", 0.9),
        )
    )
    groups = [group(name, steady(1e-3), steady(1e-3), steady(1e-3)) for name in names]
    made = read_of(*groups, associations=associations)
    costs = (0.04, *(0.02 for _ in names[2:]), 0.01)
    compared = [disclosed(costing("dpsgd", costs, 0.005, tuple(names)), least=0)]
    return text_of(explain(made, [facts("dpsgd")], compared, CONTROL), "statistic")


def test_a_correlation_over_few_groups_is_not_told():
    """Above tanh(2.498 / sqrt(K - 3)) for four: none of three groups, .987 of four, .892 of six."""
    assert "Over the" not in over_groups("abc")
    four = over_groups("abcd")
    assert "loss +0.99 (75% of pairs)." in four
    assert "size" not in four.partition("Over the")[2]
    six = over_groups("abcdef").partition("Over the")[2]
    assert "loss +0.99 (75% of pairs); size -0.96 (75% of pairs)" in six
    assert "share of clipped records +0.90" in six
    assert "curvature" not in six


def retrained(costs, *, by_step=(1e-3, 8e-3, 1e-3), parts=None):
    """dpsgd, of which F pays most by shrinkage as its steps have it, and what trained models say.

    Args:
        costs: Of the ablation's models, as in ``taken_apart``. by_step: F's parts.
        parts: Excess risk without noise and of noise, of every group of dpsgd; none without a twin.
    """
    made = costing("dpsgd", (0.04, 0.01), 0.005)
    if parts is not None:
        named = zip(("clipping", "noise"), parts, strict=True)
        more = {
            f"{cost}.{name}": estimate(value, 0.005, "nats")
            for name, value in named
            for cost in ("privacy_cost", "excess_risk")
        }
        made = replace(
            made,
            by_group=tuple(replace(g, estimates={**g.estimates, **more}) for g in made.by_group),
            overall=replace(made.overall, estimates={**made.overall.estimates, **more}),
        )
    names = ("clipped", "magnitude-only", "direction-only") if costs else ()
    each = [comparison(n, costs.get(n.replace("-", "_"), (0.0, 0.0)), half=0.005) for n in names]
    group_f = group("F", *map(steady, by_step), clipped_share=steady(0.4, 0.01))
    read = read_of(group_f, M)
    compared = [disclosed(one, least=0) for one in (made, *each)]
    return explain(read, [facts("dpsgd"), *(facts(n) for n in names)], compared, CONTROL)


def test_where_the_ablation_disagrees_with_single_steps_it_leads_and_the_disagreement_is_told():
    found = retrained(
        {"clipped": (0.06, 0.01), "magnitude_only": (0.001, 0.0), "direction_only": (0.06, 0.01)}
    )
    told = text_of(found, "finding")
    assert "disagree on F under dpsgd; the trained models lead" in told
    assert "magnitude-only costs F 0.1 [-1.3, 1.5] points" in told
    assert found.headline.startswith("Single steps and trained models disagree on F")
    assert "shrinkage" not in text_of(found, "suggestion")
    agreed = retrained({"clipped": (0.06, 0.01), "magnitude_only": (0.05, 0.0)})
    assert "disagree" not in text_of(agreed, "finding")
    assert "gradient shrinkage" in text_of(agreed, "suggestion")


def test_where_the_twin_without_noise_disagrees_it_leads():
    found = retrained({}, by_step=(1e-4, 1e-4, 9e-3), parts=(0.078, 0.002))
    told = text_of(found, "finding")
    assert "Single steps and trained models disagree on F" in told
    assert "0.078 [0.073, 0.083] are there when it is trained without its noise" in told
    assert "--epsilon" not in text_of(found, "suggestion")
    agreed = retrained({}, by_step=(1e-4, 1e-4, 9e-3), parts=(0.002, 0.078))
    assert "disagree" not in text_of(agreed, "finding")
    assert "--epsilon" in text_of(agreed, "suggestion")


def test_nothing_is_suggested_against_a_part_that_no_trained_model_shows():
    """The twin finds no cost of noise, though not so little that it contradicts the steps."""
    found = retrained({}, by_step=(1e-4, 1e-4, 9e-3), parts=(0.04, 0.004))
    assert "--epsilon" not in text_of(found, "suggestion")
