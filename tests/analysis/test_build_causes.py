import numpy as np
import pytest
from changed import replace
from handmade import arm, comparison, dataset, gap, job_result, plan, resolved

from fairaudit.analysis.arm_readings import arm_readings, over_seeds
from fairaudit.analysis.build_causes import CORRELATED, decomposition
from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.explain_steps import detected_pair
from fairaudit.analysis.readings import Asked, sign_claim
from fairaudit.results.jobs import JobResult

STEPS = (0, 100, 1839)  # of 1,840
GROUPS = 2
K1 = GROUPS + 1


def series(*values, width=K1):
    """[C, 1, width]: one value per checkpoint, group 1 a tenth of group 0."""
    factors = np.array([1.0, 0.1, 0.5][:width])
    return np.array(values)[:, None, None] * factors


def arrays(scale=1.0):
    named = {
        "r_direction": series(1.0, 2.0, 3.0), "r_magnitude": series(0.0, 0.0, 0.0),
        "r_magnitude_effective": series(1.0, 1.0, 1.0), "r_noise": series(-1.0, -1.0, -1.0),
        "r_clip": series(2.0, 3.0, 4.0), "r_direction_star": series(1.0, 1.0, 1.0),
        "r_direction_se": series(0.01, 0.01, 0.01), "r_magnitude_effective_se": series(0.02, 0.02, 0.02),
        "r_direction_wanted": series(0.1, 0.1, 0.1), "r_magnitude_effective_wanted": series(0.01, 0.01, 0.01),
        "r_magnitude_star": series(1.0, 1.0, 1.0), "hessian_trace": series(3.0, 3.0, 3.0),
        "dropped": series(0.0, 1.0, 2.0, width=1), "learning_rate": series(0.5, 0.5, 0.5, width=1),
        "small_step": series(1.0, 0.0, 1.0, width=1), "convex": series(1.0, 1.0, 1.0, width=1),
    }  # fmt: skip
    groups = ("angle_turned", "clipped_share", "excess_norm", "mean_gradient_norm", "mean_input_norm",
              "mean_closeness", "mean_loss", "eigenvalue_largest", "eigenvalue_smallest")  # fmt: skip
    named |= {name: series(2.0, 2.0, 4.0) for name in groups}
    bounds = ("bound_direction", "bound_direction_star", "bound_clip")
    names = [*bounds, *(f"{name}_convex" for name in bounds), "bound_clip_printed"]
    named |= {name: np.tile(np.array([[0.0, 0.5], [-0.5, 0.0]]), (3, 1, 1, 1)) for name in names}
    named |= {kind: np.full((3, 1, len(CORRELATED), K1, 3), 0.25) for kind in ("pearson", "spearman")}
    counts = series(8.0, 20.0, 9.0, width=1)
    return {
        "cause_steps": np.array(STEPS),
        "cause.batches": counts,
        **{f"cause.{n}": scale * v for n, v in named.items()},
    }


def costing(key="global-adapt", loss=0.058, half=0.02, names=("F", "M")):
    """A comparison whose gap in loss is ``loss``, of the sign that the groups' costs have."""
    costs = (0.041, 0.012) if loss > 0 else (0.012, 0.041)
    made = comparison(key, costs, names=names)
    return replace(made, gaps=(*made.gaps, gap(*names, loss, half, metric="excess_risk")))


def audit(*, names=("F", "M"), seeds=3, **options):
    """A plan of some seeds whose private arm read its steps, its data, results and comparisons."""
    made = plan(resolved(diagnostics="full", seeds=seeds, **options).config)
    results = {}
    for job in made.jobs:
        base = job_result(job.id)
        read = made.arm(job.arm).reference is not None
        facts = {**base.facts, "causes": {"hessian_records": 1024}} if read else base.facts
        found = {**base.arrays, **(arrays(1.0 + 0.1 * job.seed) if read else {})}
        results[job.id] = JobResult(job.id, found, facts)
    compared = [disclosed(of_two_seeds(costing(names=names)), least=0)]
    return made, dataset(names), results, compared


def of_two_seeds(made):
    groups = tuple(
        replace(g, estimates={k: replace(e, by_seed=e.by_seed[:2]) for k, e in g.estimates.items()})
        for g in made.by_group
    )
    return replace(made, by_group=groups)


def test_without_full_diagnostics_there_is_no_decomposition():
    made, data, results, compared = audit()
    basic = plan(resolved().config)
    assert decomposition(basic, data, results, compared) is None
    assert decomposition(made, data, results, compared) is not None


def test_a_mean_per_step_weighs_checkpoints_by_the_steps_that_they_stand_for():
    made, _, results, _ = audit()
    found = arm_readings(made, made.arm("global-adapt"), results)
    # 1 at step 0, 2 at 100, 3 at 1839, straight between: sums of arithmetic series.
    line = np.interp(np.arange(1840), STEPS, [1.0, 2.0, 3.0])
    assert found.per_step("r_direction")[0, 0] == pytest.approx(line.mean())
    assert found.per_step("r_noise")[0, 0] == pytest.approx(-1.0)
    assert found.seeds == (0, 1, 2)


def test_the_error_over_batches_is_that_of_the_mean_over_steps_and_seeds():
    made, _, results, _ = audit()
    found = arm_readings(made, made.arm("global-adapt"), results)
    # Weights of the three checkpoints in that mean, and the same error at each; seeds count 1, 1.1, 1.2.
    weights = np.array([0.5 + 50, 50 + 869.5, 869.5 + 0.5]) / 1840
    each = [scale * 0.01 * np.sqrt((weights**2).sum()) for scale in (1.0, 1.1, 1.2)]
    assert found.error("r_direction")[0] == pytest.approx(np.sqrt(np.square(each).sum()) / 3)


def test_parts_shares_and_traits_are_told_by_group_and_seed():
    made, data, results, compared = audit()
    found = decomposition(made, data, results, compared)
    causes = found.arms["global-adapt"]
    assert [group.group for group in causes.groups] == ["F", "M"]
    shares = causes.groups[0].shares
    assert sum(share.value for share in shares.values()) == pytest.approx(1.0)
    assert causes.groups[0].parts["noise"].value == pytest.approx(-1.1)
    assert causes.groups[1].parts["noise"].by_seed == pytest.approx((-0.1, -0.11, -0.12))
    assert causes.groups[0].statistics["hessian_trace"].value == pytest.approx(3.3)
    assert causes.dropped_batches == pytest.approx(1.1)
    assert found.batches == 20
    each = [group.errors for group in causes.groups]
    assert each[0].keys() == {"direction", "magnitude_effective"}
    assert each[0]["magnitude_effective"] == pytest.approx(2 * each[0]["direction"])
    assert each[1]["direction"] == pytest.approx(0.1 * each[0]["direction"])
    wanted = causes.groups[0].wanted
    assert wanted["direction"] == pytest.approx(10 * each[0]["direction"])
    assert wanted["magnitude_effective"] == pytest.approx(each[0]["magnitude_effective"] / 2)
    curve = next(c for c in causes.series if c.name == "r_direction")
    assert curve.steps == STEPS
    assert curve.values[2] == pytest.approx((3.3, 0.33))
    assert curve.spread[2] == pytest.approx((0.3, 0.03))
    assert found.arms["sgd"].reason


def test_bounds_stand_beside_the_truth_with_what_they_assume():
    made, data, results, compared = audit()
    bounds = {b.name: b for b in decomposition(made, data, results, compared).arms["global-adapt"].bounds}
    first = bounds["Prop. 3"]
    assert (first.a, first.b) == ("F", "M")
    assert first.bound == pytest.approx(0.55)
    assert first.truth == pytest.approx(1.1 * 0.9 * 2)
    assert first.slack == pytest.approx(first.truth - first.bound)
    assert first.agreement == first.positive.value == 1.0
    assert "33 % of the checkpoints" in first.assumption
    assert bounds["Prop. 3, any step"].assumption == ""


def test_a_suppressed_group_has_no_figure_anywhere():
    made, data, results, _ = audit()
    few = disclosed(comparison(), least=500)  # every group of 382 rows
    causes = decomposition(made, data, results, [few]).arms["global-adapt"]
    assert causes.groups == ()
    assert causes.bounds == ()
    assert {c.group for c in causes.correlations} == {""}
    by_group = [c for c in causes.series if len(c.columns) > 1]
    assert all(v is None for c in by_group for row in (*c.values, *c.spread) for v in row)


def test_an_arm_without_checkpoints_says_why():
    made, data, _, compared = audit()
    bare = {job.id: job_result(job.id) for job in made.jobs}
    found = decomposition(made, data, bare, compared)
    assert all(causes.reason and not causes.groups for causes in found.arms.values())
    assert found.claims == ()


def test_nobody_is_the_one_who_pays_where_the_difference_is_not_detected():
    assert detected_pair(disclosed(costing(), least=0)) == ("F", "M")
    assert detected_pair(disclosed(costing(loss=-0.058), least=0)) == ("M", "F")
    assert detected_pair(disclosed(costing(half=0.06), least=0)) is None
    assert detected_pair(disclosed(costing(), least=500)) is None
    made, data, results, _ = audit()
    compared = [disclosed(costing(half=0.06), least=0)]
    found = decomposition(made, data, results, compared)
    assert found.claims == ()
    assert found.arms["global-adapt"].bounds == ()
    assert found.arms["global-adapt"].groups  # figures of every group stay


def claims_of(loss, **named):
    """The claims of dpsgd on Female and Male, with three seeds that agree to some tenths."""
    names = ("Female", "Male")
    made, data, results, _ = audit(names=names, preset="esipova-adult", method=["dpsgd"])
    dpsgd = plan(made.config, (arm("sgd", reference=None), arm("dpsgd")))
    found = {}
    for job in dpsgd.jobs:
        read = results[job.id.replace("dpsgd", "global-adapt")]
        found[job.id] = JobResult(job.id, {**read.arrays, **named}, read.facts)
    compared = [disclosed(costing("dpsgd", loss, names=names), least=0)]
    return {c.statement: c.verdict for c in decomposition(dpsgd, data, found, compared).claims}


def test_a_preset_names_the_order_of_a_claim_and_the_audit_who_pays():
    found = claims_of(0.058)
    assert found["dpsgd: direction error is larger for Male than for Female"] == "fails"
    assert found["dpsgd: Female, which pays more than Male, has the larger Hessian trace"] == "holds"


def test_a_claim_that_holds_of_the_groups_the_other_way_round_too_is_dropped():
    """By hand the bounds are +.5 for the first group and -.5 the other way round; here both are negative."""
    bound = "dpsgd: the bound of Thm 3, corrected, for Male against Female is negative"
    assert claims_of(0.058)[bound] == "holds"
    below = np.tile(np.array([[0.0, -0.5], [-0.6, 0.0]]), (3, 1, 1, 1))
    assert bound not in claims_of(0.058, **{"cause.bound_clip": below})


@pytest.mark.parametrize(
    ("expected", "values", "verdict"),
    [
        ("+", [1.0, 1.1, 0.9], "holds"),
        ("-", [1.0, 1.1, 0.9], "fails"),
        ("+", [1.0, 2.0, 0.5], "cannot tell"),  # every seed agrees, and three of them do not show it
        ("+", [1.0, -2.0, np.nan, 0.0], "cannot tell"),
        ("+", [1.0, 1.5], "cannot tell"),
        ("+", [1.0], "cannot tell"),
    ],
)
def test_a_claim_is_judged_by_the_interval_of_its_mean_over_seeds(expected, values, verdict):
    assert sign_claim(Asked("a", "b", expected, np.array(values))).verdict == verdict


def test_claims_share_their_level():
    asked = Asked("a", "b", "+", np.array([1.0, 2.0, 1.5, 1.2]))
    t = {1: 3.18245, 9: 7.18487}  # of three degrees of freedom, at 1 - .025 and at 1 - .025 / 9
    for many, quantile in t.items():
        found = sign_claim(asked, many).found
        half = quantile * np.std(asked.values, ddof=1) / 2
        assert found.high - found.value == pytest.approx(half, rel=1e-4)
    assert [sign_claim(asked, many).verdict for many in t] == ["holds", "cannot tell"]


def test_an_interval_over_seeds_needs_two_of_them():
    assert over_seeds([1.0]).low is None
    assert over_seeds([np.nan, np.nan]).value is None
    two = over_seeds([1.0, 3.0, np.nan])
    assert two.value == 2.0
    assert two.high - two.value == pytest.approx(12.706, rel=1e-3)  # t_.975 of one degree, times 1
    assert two.by_seed == (1.0, 3.0, None)
    assert not two.excludes_zero


def test_group_statistics_and_excess_risk_are_associated_over_groups():
    made, data, results, compared = audit(seeds=2)  # by hand F pays more at both seeds
    found = {
        a.statistic: a for a in decomposition(made, data, results, compared).arms["global-adapt"].associations
    }
    assert (found["hessian_trace"].agreement, found["hessian_trace"].compared) == (1.0, 2)
    assert found["hessian_trace"].correlation is None  # of two groups it would be 1 by construction
    assert found["size"].compared == 0  # as large as each other
    assert found["size"].agreement is None


def test_a_seed_that_only_one_side_finished_leaves_nothing_to_associate():
    made, data, results, compared = audit(seeds=3)  # the costs are of two seeds
    assert decomposition(made, data, results, compared).arms["global-adapt"].associations == ()


def test_the_interval_of_a_share_ends_at_what_a_share_can_be():
    plain, share = (over_seeds((0.98, 0.9, 0.99), is_share=is_share) for is_share in (False, True))
    assert plain.high > 1.0
    assert (share.value, share.low, share.high) == (plain.value, plain.low, 1.0)
    assert over_seeds((0.02, 0.1, 0.01), is_share=True).low == 0.0
