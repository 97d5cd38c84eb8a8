"""From candidates to a report: a seed's figure is the expectation over what its search keeps."""

import numpy as np
import pytest
from jobs import run_here
from plans import search

from fairaudit.analysis.measure import measure
from fairaudit.metrics.within_model import record_correct, record_loss


@pytest.fixture(scope="module")
def measured():
    plan, dataset = search(tune=4, seeds=2, twins="always")
    results = {job.id: run_here(plan, job) for job in plan.every_job}
    return plan, dataset, results, measure(plan, dataset, results)


def by_hand(plan, dataset, results, arm, of=""):
    """Accuracy and loss of each group, [seeds, 2, groups].

    Each candidate's own, times its chance.
    """
    found = []
    twins = {(job.arm, job.seed): results[job.id].arrays for job in plan.twins}
    for job in (job for job in plan.jobs if job.arm == arm):
        arrays = results[job.id].arrays
        predicted = twins[arm, job.seed] if of else arrays
        labels, groups = (
            v[arrays["test_rows"]] for v in (dataset.labels, dataset.groupings[0].groups)
        )
        correct, loss = np.zeros(2), np.zeros(2)
        for weight, p in zip(arrays["weights"], predicted[f"{of}probabilities"], strict=True):
            for k in (0, 1):
                rows = groups == k
                correct[k] += weight * record_correct(p[None], labels)[0, rows].mean()
                loss[k] += weight * record_loss(p[None], labels)[0, rows].mean()
        found.append([correct, loss])
    return np.array(found)


def test_a_cost_is_the_difference_of_both_arms_expectations(measured):
    plan, dataset, results, comparisons = measured
    models = (("dpsgd", ""), ("sgd", ""), ("dpsgd", "step."), ("dpsgd", "without_noise."))
    private, reference, step, twin = (
        by_hand(plan, dataset, results, arm, of) for arm, of in models
    )
    found = next(c for c in comparisons if c.arm == "dpsgd")
    for k, group in enumerate(found.by_group):
        values = {name: group.estimates[name].value for name in group.estimates}
        assert values["accuracy"] == pytest.approx(private[:, 0, k].mean())
        assert values["reference.accuracy"] == pytest.approx(reference[:, 0, k].mean())
        assert values["privacy_cost"] == pytest.approx((reference - private)[:, 0, k].mean())
        assert values["excess_risk"] == pytest.approx((private - reference)[:, 1, k].mean())
        assert values["privacy_cost.step"] == pytest.approx((reference - step)[:, 0, k].mean())
        assert values["privacy_cost.clipping"] == pytest.approx((step - twin)[:, 0, k].mean())
        assert values["privacy_cost.noise"] == pytest.approx((twin - private)[:, 0, k].mean())
