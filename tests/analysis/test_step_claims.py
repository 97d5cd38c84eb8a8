"""Bounds and claims of the papers, of steps that were read by hand."""

import numpy as np
import pytest
from changed import replace
from checkpoint_readings import STEPS, arrays, checkpointed, costing
from handmade import arm, dataset, job_result, plan, privacy, resolved
from scipy.stats import t

from fairaudit.analysis.build_causes import decomposition
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.sign_claims import OpenClaim, sign_claim
from fairaudit.results.jobs import JobResult


def test_bounds_stand_beside_the_truth():
    made, data, results, compared = checkpointed()
    bounds = {
        b.name: b for b in decomposition(made, data, results, compared).arms["global-adapt"].bounds
    }
    first = bounds["Prop. 3"]
    assert (first.a, first.b) == ("F", "M")
    assert first.bound == pytest.approx(0.55)
    assert first.truth == pytest.approx(1.1 * 0.9 * 2)
    assert first.agreement == first.positive.value == 1.0


def claims_of(loss, **named):
    """The claims of dpsgd on Female and Male, with three seeds that agree to some tenths."""
    names = ("Female", "Male")
    made, data, results, _ = checkpointed(names=names, preset="esipova-adult", method=["dpsgd"])
    dpsgd = plan(made.config, (arm("sgd", reference=None), arm("dpsgd")))
    found = {}
    for job in dpsgd.jobs:
        read = results[job.id.replace("dpsgd", "global-adapt")]
        found[job.id] = JobResult(job.id, {**read.arrays, **named}, read.facts)
    compared = [Disclosure().of_measured(costing("dpsgd", loss, names=names))]
    return {c.statement: c for c in decomposition(dpsgd, data, found, compared).claims}


def test_a_preset_names_the_order_of_a_claim_and_the_audit_who_pays():
    found = claims_of(0.058)
    assert found["dpsgd: direction error is larger for Male than for Female"].verdict == "fails"
    trace = found["dpsgd: Female, which pays more than Male, has the larger Hessian trace"]
    assert trace.verdict == "holds"
    # Five claims share the 5 %: a direction, a bound, three statistics. By hand the traces
    # differ by 2.7 times 1, 1.1 and 1.2.
    half = t.ppf(1 - 0.025 / 5, 2) * 0.27 / 3**0.5
    assert trace.found.high - trace.found.value == pytest.approx(half)


def test_scaling_is_held_against_clipping_at_its_own_epsilon():
    """Errors of direction by hand: 8 and 2 of clipping at epsilon 1 and 3, 4 and 3 of scaling."""
    scales = {"dpsgd@1": 8.0, "dpsgd@3": 2.0, "global-adapt@1": 4.0, "global-adapt@3": 3.0}
    arms = [arm("sgd", reference=None)]
    for key in scales:
        target = float(key[-1])
        arms.append(arm(key, privacy=replace(privacy(), target_epsilon=target)))
    made = plan(resolved(diagnostics="full", seeds=3).config, tuple(arms))
    results = {}
    for job in made.jobs:
        if job.arm in scales:
            read = arrays(scales[job.arm] * (1 + 0.01 * job.seed))
            results[job.id] = JobResult(job.id, read, job_result(job.id).facts)
    compared = [Disclosure().of_measured(costing(key)) for key in scales]
    claims = decomposition(made, dataset(), results, compared).claims
    found = {c.statement: c.found.value for c in claims if "smaller under" in c.statement}
    line = 1.01 * np.interp(np.arange(1840), STEPS, [1.0, 2.0, 3.0]).mean()
    assert found == {
        f"direction error of {group} is smaller under global-adapt@{e} than under dpsgd@{e}": value
        for e, change in ((1, -4.0), (3, 1.0))
        for group, value in (
            ("F", pytest.approx(change * line)),
            ("M", pytest.approx(0.1 * change * line)),
        )
    }


@pytest.mark.parametrize(
    ("expected", "values", "verdict"),
    [
        ("+", [1.0, 1.1, 0.9], "holds"),
        ("-", [1.0, 1.1, 0.9], "fails"),
        (
            "+",
            [1.0, 2.0, 0.5],
            "cannot tell",
        ),  # every seed agrees, and three of them do not show it
        ("+", [1.0, -2.0, np.nan, 0.0], "cannot tell"),
        ("+", [1.0], "cannot tell"),
    ],
)
def test_a_claim_is_judged_by_the_interval_of_its_mean_over_seeds(expected, values, verdict):
    assert sign_claim(OpenClaim("a", "b", expected, np.array(values))).verdict == verdict
