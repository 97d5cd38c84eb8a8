from changed import replace
from handmade import comparison

from fairaudit.data.groups import NamedPair
from fairaudit.report.build_measured import disclosed
from fairaudit.report.decomposition import (
    ArmCauses,
    Association,
    BoundRecord,
    Decomposition,
    GroupCauses,
    OverSeeds,
)
from fairaudit.report.facts import ArmFacts, Control
from fairaudit.report.why import explain

CONTROL = Control(status="not needed", message="No arm scales gradients by a threshold.")
TRAITS = (
    *("angle_turned", "clipped_share", "mean_gradient_norm", "mean_input_norm", "hessian_trace"),
    "mean_closeness",
)


def over(*by_seed, half=0.1):
    mean = sum(by_seed) / len(by_seed)
    return OverSeeds(value=mean, low=mean - half, high=mean + half, by_seed=by_seed)


def group(name, direction, magnitude, noise, **traits):
    parts = dict(
        zip(("direction", "magnitude_effective", "noise"), (direction, magnitude, noise), strict=True)
    )
    size = sum(abs(sum(values)) for values in parts.values())
    return GroupCauses(
        group=name,
        parts={part: over(*values) for part, values in parts.items()},
        shares={part: over(abs(sum(values)) / size) for part, values in parts.items()},
        traits={trait: over(*traits.get(trait, (1.0, 1.0))) for trait in TRAITS},
    )


def facts(key, *, reference="sgd", source=None):
    return ArmFacts(
        key=key, method=key.split("@")[0], variant=None, settings={}, reference=reference, source=source,
        reads_groups=False, repeats=1, seeds_planned=2, seeds_finished=2, failed=(),
    )  # fmt: skip


def bound(assumption):
    return BoundRecord(
        name="Prop. 3", source="", a="F", b="M", bound=0.0, truth=1.0, slack=1.0, agreement=1.0,
        positive=over(1.0), assumption=assumption,
    )  # fmt: skip


def why(
    groups,
    *,
    key="dpsgd",
    costs=(0.04, 0.01),
    optimizer="sgd",
    bounds=(),
    associations=(),
    control=CONTROL,
    **arms,
):
    causes = {key: ArmCauses(reason="", groups=groups, bounds=bounds, associations=associations)}
    made = Decomposition(
        steps=8, batches=8, hessian_records=1024, optimizer=optimizer, arms=causes, claims=()
    )
    compared = [disclosed(comparison(key, costs), least=0)]
    return explain(made, [facts(key, **arms)], compared, control)


F = group("F", (9e-3, 7e-3), (1e-3, 1e-3), (1e-3, 1e-3), clipped_share=(0.5, 0.4), hessian_trace=(3.0, 2.0))
M = group("M", (1e-3, 1e-3), (1e-3, 2e-3), (1e-3, 1e-3))


def text_of(found, *kinds):
    return " ".join(sentence.text for sentence in found.of(*kinds))


def test_without_kept_steps_there_is_no_explanation():
    assert explain(None, [], [], CONTROL) is None


def test_the_group_that_pays_more_is_explained_and_every_sentence_names_its_figures():
    found = why((F, M))
    assert "mostly direction error" in text_of(found, "finding")
    assert "What F pays per step beyond M" in text_of(found, "finding")
    assert "direction error 80 %" in found.headline
    assert all(sentence.rests_on for sentence in found.sentences)
    reverse = why((F, M), costs=(0.01, 0.04))
    assert "What M pays" not in text_of(reverse, "finding")  # no part says so
    assert "No part of a step of dpsgd costs M more than F" in text_of(reverse, "finding")


def test_a_part_that_is_larger_at_some_seeds_alone_explains_nothing():
    unsteady = group("F", (9e-3, -1e-3), (1e-3, 1e-3), (1e-3, 1e-3))
    assert "No part of a step" in text_of(why((unsteady, M)), "finding")


def test_traits_set_a_group_apart_only_where_every_seed_agrees():
    found = text_of(why((F, M)), "trait")
    assert "set apart from M at every seed by" in found
    assert "curvature (Hessian trace) (2.50 times)" in found
    assert "hardly differ in" in found
    torn = group("F", (9e-3, 7e-3), (1e-3, 1e-3), (1e-3, 1e-3), hessian_trace=(3.0, 0.9))
    told = text_of(why((torn, M)), "trait")
    assert "Seeds disagree, or differ too little, on curvature" in told


def test_a_trait_below_zero_is_compared_too():
    curved = group("F", (9e-3, 7e-3), (1e-3, 1e-3), (1e-3, 1e-3), hessian_trace=(-16.0, -15.0))
    flat = group("M", (1e-3, 1e-3), (1e-3, 2e-3), (1e-3, 1e-3), hessian_trace=(-4.0, -4.0))
    assert "set apart from M at every seed by curvature (Hessian trace) (-15.5 beside -4)" in text_of(
        why((curved, flat)), "trait"
    )


def test_over_three_groups_the_traits_that_go_with_the_cost_are_named_in_order():
    associations = tuple(
        Association(trait=trait, correlation=r, agreement=0.75, compared=12)
        for trait, r in (("size", -0.9), ("hessian_trace", 0.2), ("mean_loss", 0.95), ("clipped_share", 0.5))
    )
    told = text_of(why((F, M), associations=associations), "trait")
    assert "loss +0.95 (75% of pairs); size -0.90 (75% of pairs); share of clipped records +0.50" in told
    assert "curvature (Hessian trace) +0.20" not in told


def test_levers_follow_from_the_largest_part_and_are_called_expectations():
    assert "larger --max-grad-norm" in text_of(why((F, M)), "lever")
    assert "larger --threshold" in text_of(why((F, M), key="global-adapt"), "lever")
    noisy = group("F", (1e-4, 1e-4), (1e-4, 1e-4), (9e-3, 9e-3), clipped_share=(0.01, 0.0))
    said = text_of(why((noisy, M)), "lever")
    assert "larger --epsilon" in said
    assert "--max-grad-norm, or a method" not in said
    short = group("F", (1e-4, 1e-4), (9e-3, 9e-3), (1e-4, 1e-4), clipped_share=(0.01, 0.0))
    said = text_of(why((short, M)), "lever")
    assert "more --epochs" in said
    assert "another clipping bound should change little" in said


def test_what_the_figures_cannot_say_is_said():
    found = text_of(why((F, M), optimizer="adam", bounds=(bound("a group's loss is not convex"),)), "limit")
    assert "do not add up to the measured excess risk" in found
    assert "optimizer is adam" in found
    assert "dpsgd: a group's loss is not convex" in found
    assert "With two groups" in found
    assert "optimizer" not in text_of(why((F, M)), "limit")


def test_the_control_speaks_where_it_was_run_and_is_not_itself_explained():
    ran = Control(status="run", message="its gap is no smaller")
    assert text_of(why((F, M), control=ran), "control") == "its gap is no smaller"
    assert why((F, M), source="global-adapt").headline == ""


def test_an_unresolved_difference_is_called_so():
    assert "not resolved" in text_of(why((F, M)), "finding")


def taken_apart(**costs):
    """The ablation's arms with the costs of F and M in each; half-widths of 0.5 points."""
    names = ("clipped", "magnitude-only", "direction-only", "sgd-slowed")
    each = {name: costs.get(name.replace("-", "_"), (0.0, 0.0)) for name in names}
    compared = [disclosed(comparison(n, c, half=0.005), least=0) for n, c in each.items()]
    return explain(None, [facts(name) for name in names], compared, CONTROL)


def test_of_many_groups_the_ablation_tells_those_of_the_pair_that_was_asked_for():
    names = tuple("abcdefgh")
    arms = ("clipped", "magnitude-only", "direction-only")
    measured = comparison("clipped", (0.1, *[0.05] * 6, 0.02), names=names, half=0.005)
    asked = [NamedPair("sex", "a", "h")]
    compared = [disclosed(replace(measured, arm=arm), least=0, named=asked) for arm in arms]
    told = text_of(explain(None, [facts(arm) for arm in arms], compared, CONTROL), "ablation")
    assert "clipping costs a 10.0 [8.6, 11.4], h 2.0 [0.6, 3.4]; its magnitude" in told
    assert "each half by itself" in told


def test_the_ablation_says_which_half_shows_the_gap_that_clipping_shows():
    both = text_of(taken_apart(clipped=(0.1, 0.02)), "ablation")
    assert "shown for neither half by itself" in both
    assert "plain SGD slowed by as much" in both
    one = text_of(taken_apart(clipped=(0.1, 0.02), direction_only=(0.08, 0.02)), "ablation")
    assert (
        "is shown for one half by itself: direction-only 6.0 [5.5, 6.5] points beside clipping's 8.0" in one
    )
    two = text_of(
        taken_apart(clipped=(0.1, 0.02), direction_only=(0.08, 0.02), magnitude_only=(0.09, 0.0)), "ablation"
    )
    assert "is shown for each half by itself: magnitude-only 9.0" in two
    assert "none to take apart" in text_of(taken_apart(), "ablation")
    other = text_of(taken_apart(clipped=(0.1, 0.02), direction_only=(0.02, 0.08)), "ablation")
    assert "neither half" in other  # a gap the other way round is another gap
