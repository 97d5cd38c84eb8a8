"""The order of the tests, the level of each, and simulated audits in which it must hold."""

import numpy as np
import pytest
from places import program
from scipy import stats

from fairaudit.choosing import tested
from fairaudit.choosing.sequence import Course, Number, look_sizes, skewed_quantile


def number(value, seed_sd=0.01, records_sd=0.005, seeds=10, is_size=True, own_sd=1.0):
    return Number(value, seed_sd**2, own_sd**2, records_sd**2, seeds, is_size)


def test_a_limit_is_the_conservative_one_sided_one():
    """Where test records alone make the seeds differ, nothing is skewed."""
    low, high = number(0.02).limits(0.0125)
    half = np.hypot(stats.t.ppf(0.9875, 9) * 0.01, stats.norm.ppf(0.9875) * 0.005)
    assert high == pytest.approx(0.02 + half, rel=1e-9)
    assert low == 0.0  # a size is not negative
    assert number(0.02, is_size=False).limits(0.0125).low == pytest.approx(0.02 - half, rel=1e-9)


def test_how_near_an_arm_is_counts_in_half_widths_of_its_farthest_number():
    beyond = [(0.10, 0.05, 0.06), (0.03, 0.02, 0.02), (0.5, 0.0, 0.9)]  # .8, 1 and nothing
    numbers = []
    for bound, value, limit in beyond:
        outcome = "passes" if bound < limit else "undecided"
        numbers.append(
            tested.TestedNumber.model_construct(
                bound=bound, value=value, limit=limit, outcome=outcome, is_size=True
            )
        )
    arm = tested.Tested.model_construct(numbers=tuple(numbers), outcome="undecided")
    assert arm.distance == (False, pytest.approx(1.0))


def by_brute_force(level, seeds, audits=400_000):
    """The quantile of t that exponential effects need, from as many audits."""
    x = np.random.default_rng(9).exponential(size=(audits, seeds))
    t = (x.mean(1) - 1) * seeds**0.5 / x.std(1, ddof=1)
    return -np.quantile(t, level)


@pytest.mark.parametrize(("level", "seeds"), [(0.05, 5), (0.0125, 10), (0.025, 20), (0.005, 20)])
def test_the_quantile_is_the_larger_of_those_of_normal_and_exponential_effects(level, seeds):
    assert skewed_quantile(level, seeds) == pytest.approx(by_brute_force(level, seeds), rel=0.02)
    assert skewed_quantile(level, seeds) > 1.2 * stats.t.ppf(1 - level, seeds - 1)


def test_what_test_records_do_not_explain_is_taken_to_be_skewed():
    own, level = 0.006, 0.0125
    t, z, c = stats.t.ppf(1 - level, 9), stats.norm.ppf(1 - level), skewed_quantile(level, 10)
    half = np.sqrt(t**2 * own**2 + c**2 * (0.01**2 - own**2) + z**2 * 0.005**2)
    assert number(0.02, own_sd=own).limits(level).high == pytest.approx(0.02 + half, rel=1e-9)
    few = number(0.02, own_sd=own, seeds=9)  # too few to tell which is which
    half = np.hypot(skewed_quantile(level, 9) * 0.01, z * 0.005)
    assert few.limits(level).high == pytest.approx(0.02 + half, rel=1e-9)


def test_more_seeds_are_given_up_by_the_limit_for_normal_effects():
    """A plain 95 % limit beyond the rule ends it.

    It is no pass, so the promise does not rest on it.
    """
    low = 0.09 - np.hypot(stats.t.ppf(0.95, 9) * 0.01, stats.norm.ppf(0.95) * 0.005)
    for limit, wanted in ((low - 1e-6, "breaks"), (low + 1e-6, "undecided")):
        judged = number(0.09, own_sd=0.0).judged(
            lambda v, x=limit: v > x, fails_above=True, level=0.0125
        )
        assert judged == wanted


def outcome(value, rule, *, level=0.0125, fails_above=True, **kept):
    return number(value, **kept).judged(rule, fails_above=fails_above, level=level)


def test_what_surely_keeps_the_limit_passes_what_surely_breaks_it_ends_and_the_rest_goes_on():
    def above(value):
        return value > 0.05

    assert outcome(0.01, above) == "passes"
    assert outcome(0.04, above) == "undecided"
    assert outcome(0.06, above) == "undecided"
    assert outcome(0.09, above) == "breaks"


def test_a_rule_on_small_numbers_is_judged_from_below():
    def below(value):
        return value < 0.7

    kept = {"fails_above": False, "is_size": False}
    assert outcome(0.8, below, **kept) == "passes"
    assert outcome(0.71, below, **kept) == "undecided"
    assert outcome(0.6, below, **kept) == "breaks"


def test_a_limit_itself_is_kept_by_above_and_broken_by_at_least():
    exact = number(0.05, seed_sd=0.0, records_sd=0.0)
    assert exact.judged(lambda v: v > 0.05, fails_above=True, level=0.01) == "passes"
    assert exact.judged(lambda v: v >= 0.05, fails_above=True, level=0.01) == "breaks"


def test_looks_double_up_to_the_most():
    assert look_sizes(10, 20) == (10, 20)
    assert look_sizes(10, 10) == look_sizes(20, 10) == (10,)
    assert look_sizes(5, 40) == (5, 10, 20, 40)
    assert look_sizes(10, 25) == (10, 20, 25)


FAMILIES = {"a": ["a@8", "a@4", "a@2"], "b": ["b@8", "b@4"]}


def walked(outcomes, families=FAMILIES, looks=(10, 20)):
    """Every test in its order.

    ``outcomes``: (arm, seeds) -> outcome, "passes" where it says nothing.
    """
    course, order = Course(families, looks), []
    while due := course.due():
        for seeds, arms in due.items():
            for arm in arms:
                order.append((arm, seeds))
                course.enter(arm, outcomes.get((arm, seeds), "passes"))
    return course, order


def test_five_per_cent_are_shared_by_methods_and_looks():
    assert Course(FAMILIES, (10, 20)).level == pytest.approx(0.0125)
    assert Course({"a": ["a"]}, (10,)).level == pytest.approx(0.05)
    assert Course({"a": ["a@1"], "b": ["b@1"], "c": ["c@1"]}, (10, 20, 40)).level == pytest.approx(
        0.05 / 9
    )


def test_epsilons_are_tested_from_the_largest_down_until_one_does_not_pass():
    course, order = walked({("a@4", 10): "breaks"})
    assert [arm for arm, _ in order if arm[0] == "a"] == ["a@8", "a@4"]
    assert course.passed == {"a": ["a@8"], "b": ["b@8", "b@4"]}
    assert course.due() == {}


def test_more_seeds_are_tried_where_it_cannot_be_told_and_undecided_is_not_passed():
    course, order = walked(
        {("a@4", 10): "undecided", ("b@8", 10): "undecided", ("b@8", 20): "undecided"}
    )
    assert [step for step in order if step[0] == "a@4"] == [("a@4", 10), ("a@4", 20)]
    assert ("a@2", 10) in order  # a later epsilon begins with the first look again
    assert course.passed == {"a": ["a@8", "a@4", "a@2"], "b": []}
    assert ("b@4", 10) not in order


def test_a_number_that_no_seed_can_supply_ends_its_method_at_once():
    course = Course(FAMILIES, (10, 20))
    course.enter("a@8", "undecided", is_final=True)
    assert course.due() == {10: ["b@8"]}


@pytest.fixture(scope="module")
def study():
    """Whose audits are decided by the command's own code."""
    return program("benchmarks/choosing.py")


def within(share, audits, limit=0.05):
    """At most the limit, but for the chance of so many audits (3 standard deviations)."""
    return share <= limit + 3 * (limit * (1 - limit) / audits) ** 0.5


def test_a_few_simulated_audits_keep_the_level_and_a_sweep_read_by_eye_does_not(study):
    world = study.World(study.AT_LIMIT, study.steady())
    drawn = study.draw(world, 200, np.random.default_rng(1))
    assert within(study.decide(world, drawn).wrong, 200)
    assert not within(study.decide(world, drawn, study.point_alone).wrong, 200)


def test_of_easy_truths_the_smallest_that_keeps_the_limit_is_found(study):
    world = study.World(((0.5, 0.5, -0.5), (0.5, -0.5, 0.5)), study.steady())
    found = study.decide(world, study.draw(world, 30, np.random.default_rng(2)))
    assert (found.wrong, found.best) == (0.0, 1.0)
    assert found.seeds == 50  # five arms, ten seeds each: nothing below the bump is looked at


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "shape", "sd"),
    [
        ("AT_LIMIT", "normal", 1.0),
        ("AT_LIMIT", "exponential", 2.0),
        ("AT_LIMIT", "exponential", 20.0),
        ("STEP_DOWN", "exponential", 2.0),
        ("BUMP", "exponential", 2.0),
    ],
)
def test_at_most_five_per_cent_of_1000_audits_recommend_what_breaks_the_rule(
    study, truth, shape, sd
):
    cell = study.steady(shape=shape, skewed=(0,), seed_sd=sd, sizes=(420,))
    world = study.World(getattr(study, truth), cell)
    found = study.decide(world, study.draw(world, 1000, np.random.default_rng(3)))
    assert within(found.wrong, 1000), found


@pytest.mark.slow
def test_each_part_of_the_procedure_is_needed(study):
    """Without it the simulation shows more than five per cent of wrong recommendations."""
    for shape, sd, twins in (
        ("normal", 0.5, (study.at_five_per_cent, study.seeds_alone, study.point_alone)),
        (
            "exponential",
            5.0,
            (study.at_five_per_cent, study.student, study.narrow, study.point_alone),
        ),
    ):
        cell = study.steady(shape=shape, skewed=(0,), seed_sd=sd, sizes=(420,))
        world = study.World(((0.0,) * 3,) * 2, cell)
        drawn = study.draw(world, 1000, np.random.default_rng(4))
        assert within(study.decide(world, drawn).wrong, 1000)
        for broken in twins:
            assert not within(study.decide(world, drawn, broken).wrong, 1000), (shape, broken)
    assert not within(study.decide(world, drawn, upward=True).wrong, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.5, 0.25, 0.0])
def test_seeds_are_at_most_half_as_many_again_as_an_oracle_needs(study, part):
    for shape, sd in (("normal", 1.0), ("exponential", 1.0)):
        cell = study.coverage.Cell(20, shape=shape, skewed=(0,), seed_sd=sd)
        world = study.World((((1 - part) * study.NEAR,),), cell, study.NEAR)
        drawn = study.draw(world, 500, np.random.default_rng(5))
        ours, best = study.decide(world, drawn), study.decide(world, drawn, study.oracle(drawn))
        assert ours.seeds <= 1.5 * best.seeds
        assert ours.best >= best.best - 0.35
