import numpy as np
import pytest
from changed import replace
from checkpoint_readings import STEPS, checkpointed, costing
from handmade import comparison, job_result, plan, resolved

from fairaudit.analysis.arm_readings import arm_readings, over_seeds
from fairaudit.analysis.build_causes import decomposition
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.report.measures import detected_pair


def test_without_full_diagnostics_there_is_no_decomposition():
    made, data, results, compared = checkpointed()
    basic = plan(resolved().config)
    assert decomposition(basic, data, results, compared) is None
    assert decomposition(made, data, results, compared) is not None


def test_a_mean_per_step_weighs_checkpoints_by_the_steps_that_they_stand_for():
    made, _, results, _ = checkpointed()
    found = arm_readings(made, made.arm("global-adapt"), results)
    # 1 at step 0, 2 at 100, 3 at 1839, straight between: sums of arithmetic series.
    line = np.interp(np.arange(1840), STEPS, [1.0, 2.0, 3.0])
    assert found.per_step("r_direction")[0, 0] == pytest.approx(line.mean())
    assert found.per_step("r_noise")[0, 0] == pytest.approx(-1.0)
    assert found.seeds == (0, 1, 2)


def test_parts_and_traits_are_told_by_group_and_seed():
    made, data, results, compared = checkpointed()
    found = decomposition(made, data, results, compared)
    causes = found.arms["global-adapt"]
    assert [group.group for group in causes.groups] == ["F", "M"]
    assert causes.groups[0].parts["noise"].value == pytest.approx(-1.1)
    assert causes.groups[1].parts["noise"].by_seed == pytest.approx((-0.1, -0.11, -0.12))
    assert causes.groups[0].statistics["hessian_trace"].value == pytest.approx(3.3)
    assert found.arms["sgd"].reason


def test_a_suppressed_group_has_no_figure_anywhere():
    made, data, results, _ = checkpointed()
    few = Disclosure(least=500).of_measured(comparison())  # every group of 382 rows
    causes = decomposition(made, data, results, [few]).arms["global-adapt"]
    assert causes.groups == ()
    assert causes.bounds == ()
    assert causes.correlations == ()
    assert causes.agreements == ()


def test_an_arm_without_checkpoints_says_why():
    made, data, _, compared = checkpointed()
    bare = {job.id: job_result(job.id) for job in made.jobs}
    found = decomposition(made, data, bare, compared)
    assert all(causes.reason and not causes.groups for causes in found.arms.values())
    assert found.claims == ()


def test_nobody_is_the_one_who_pays_where_the_difference_is_not_detected():
    assert detected_pair(Disclosure().of_measured(costing())) == ("F", "M")
    assert detected_pair(Disclosure().of_measured(costing(loss=-0.058))) == ("M", "F")
    assert detected_pair(Disclosure().of_measured(costing(half=0.06))) is None
    assert detected_pair(Disclosure(least=500).of_measured(costing())) is None
    made, data, results, _ = checkpointed()
    compared = [Disclosure().of_measured(costing(half=0.06))]
    found = decomposition(made, data, results, compared)
    assert found.claims == ()
    assert found.arms["global-adapt"].groups  # figures of every group stay
    # Bounds and truths are figures, too: of the two groups whose directions differ most.
    assert {(b.a, b.b) for b in found.arms["global-adapt"].bounds} == {("F", "M")}


def test_bounds_stand_in_each_form_beside_the_truth_with_the_assumption_that_fails():
    made, data, results, compared = checkpointed()
    causes = decomposition(made, data, results, compared).arms["global-adapt"]
    by_name = {bound.name: bound for bound in causes.bounds}
    assert list(by_name) == [
        *("Prop. 3", "Prop. 3*", "Prop. 3* as printed"),
        *("Thm 3", "Thm 3 as printed"),
    ]
    star = by_name["Prop. 3*"]
    assert (star.a, star.b) == ("F", "M")
    assert star.bound == star.curved == pytest.approx(0.55)  # 0.5 at the scales 1, 1.1 and 1.2
    assert star.truth == pytest.approx(1.5 * 0.9 * 1.1)
    assert by_name["Prop. 3* as printed"].curved is None
    assert star.steps == STEPS
    assert star.curves["truth"] == pytest.approx([1.5 * 0.9 * 1.1] * 3)
    assert by_name["Thm 3"].truth == pytest.approx(3.0 * 0.9 * 1.1)
    assert star.assumption == (
        "assumption not met at 33 % of steps: the step is longer than 1 / largest eigenvalue"
    )


def test_correlations_over_records_are_means_of_the_checkpoints_that_have_them():
    made, data, results, compared = checkpointed()
    found = decomposition(made, data, results, compared).arms["global-adapt"].correlations
    assert {one.between for one in found} == {
        ("input_norm", "gradient_norm"),
        ("input_norm", "trace"),
    }
    assert [one.group for one in found[:3]] == ["F", "M", ""]
    assert (found[0].value, found[0].low, found[0].high) == pytest.approx((0.6, 0.5, 0.8))


def test_groups_are_held_in_the_order_of_their_costs_seed_by_seed():
    made, data, results, _ = checkpointed()
    costs = Disclosure().of_measured(costing())
    risks = {"F": (0.3, 0.1, 0.2), "M": (0.1, 0.2, 0.1)}
    by_group = []
    for group in costs.by_group:
        risk = replace(group.estimates["excess_risk"], by_seed=risks[group.group])
        by_group.append(replace(group, estimates={**group.estimates, "excess_risk": risk}))
    compared = [replace(costs, by_group=tuple(by_group))]
    causes = decomposition(made, data, results, compared).arms["global-adapt"]
    trace = next(one for one in causes.agreements if one.reading == "hessian_trace")
    assert trace.by_seed == (1.0, 0.0, 1.0)  # F has the larger trace at every seed
    assert trace.value == pytest.approx(2 / 3)
    assert (trace.low, trace.high) == (0.0, 1.0)


def test_readings_at_checkpoints_are_kept_as_curves():
    made, data, results, compared = checkpointed()
    curves = {
        c.name: c for c in decomposition(made, data, results, compared).arms["global-adapt"].curves
    }
    assert curves["eta_lambda"].columns == ("F", "M")
    assert curves["eta_lambda"].steps == STEPS
    assert curves["eta_lambda"].values[0] == pytest.approx((2.2, 0.22))
    assert curves["batch_norm"].columns == ("before clipping", "after clipping")
    assert curves["batch_norm"].values == ((3.0, 1.0),) * 3
    assert set(curves) >= {"excess_norm", "noise_norm", "direction_star", "magnitude_star"}


def test_an_interval_over_seeds_needs_two_of_them():
    assert over_seeds([1.0]).low is None
    assert over_seeds([np.nan, np.nan]).value is None
    two = over_seeds([1.0, 3.0, np.nan])
    assert two.value == 2.0
    assert two.high - two.value == pytest.approx(12.706, rel=1e-3)  # t_.975 of one degree, times 1
    assert two.by_seed == (1.0, 3.0, None)
    assert not two.excludes_zero


def test_the_interval_of_a_share_ends_at_what_a_share_can_be():
    plain, share = (over_seeds((0.98, 0.9, 0.99), is_share=is_share) for is_share in (False, True))
    assert plain.high > 1.0
    assert (share.value, share.low, share.high) == (plain.value, plain.low, 1.0)
    assert over_seeds((0.02, 0.1, 0.01), is_share=True).low == 0.0
