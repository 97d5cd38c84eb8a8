import math

import numpy as np
from plans import empty_dataset, plan

from fairaudit.analysis.readings import readings
from fairaudit.results.jobs import JobResult


def with_readings(read, seeds=2, **given):
    """A plan and its results: ``read`` gives the readings of an arm at a seed."""
    found = plan(seeds=seeds, **given)
    results = {
        job.id: JobResult(
            job.id,
            {f"reading.{name}": np.array(v) for name, v in read(job.arm, job.seed).items()},
            {},
        )
        for job in found.jobs
    }
    return found, results


def of_traces(arm, seed):
    if arm != "output-perturbation":
        return {}
    return {
        "hessian_trace": [1.0 + seed, 2.0],
        "trace_agreement": [float(seed == 0)],
        "excess_risk_drawn": [math.nan, 0.5],
    }


def test_readings_are_means_over_seeds_with_groups_as_columns():
    found, results = with_readings(of_traces, method=("output-perturbation",))
    by_arm = readings(found, empty_dataset(), results)
    assert list(by_arm) == ["output-perturbation"]
    trace, risk, agreement = by_arm["output-perturbation"]
    assert (trace.columns, trace.values) == (("F", "M"), (1.5, 2.0))
    assert trace.by_seed == ((1.0, 2.0), (2.0, 2.0))
    assert risk.values == (None, 0.5)  # undefined is not 0
    assert agreement.columns == ("",)


def test_a_suppressed_group_has_no_reading():
    found, results = with_readings(of_traces, method=("output-perturbation",))
    trace, risk, agreement = readings(found, empty_dataset(), results, {"F"})["output-perturbation"]
    assert trace.values == (None, 2.0)
    assert trace.by_seed == ((None, 2.0), (None, 2.0))
    assert risk.values == (None, 0.5)
    assert agreement.values == (0.5,)
