import math

import numpy as np
from plans import plan, table

from fairaudit.analysis.readings import readings
from fairaudit.papers.claims import claims
from fairaudit.results.jobs import JobResult


def audit(read, seeds=2, **given):
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
        "xi_drawn": [math.nan, 0.5],
    }


def test_readings_are_means_over_seeds_with_groups_as_columns():
    found, results = audit(of_traces, method=("output-perturbation",))
    by_arm = readings(found, table(), results)
    assert list(by_arm) == ["output-perturbation"]
    trace, xi, agreement = by_arm["output-perturbation"]
    assert (trace.columns, trace.values) == (("F", "M"), (1.5, 2.0))
    assert trace.by_seed == ((1.0, 2.0), (2.0, 2.0))
    assert xi.values == (None, 0.5)  # undefined is not 0
    assert agreement.columns == ("",)


def test_a_claim_is_reported_with_the_share_of_seeds_at_which_it_held():
    read = audit(of_traces, method=("output-perturbation",))
    (claim,) = claims(*read, {"output-perturbation"})
    assert (claim.share, claim.n_seeds, claim.arms) == (0.5, 2, ("output-perturbation",))
    assert claims(*read, {"dpsgd"}) == ()  # no difference between its groups is detected


def test_soft_and_hard_labels_are_compared_at_the_same_epsilon():
    def read(arm, seed):
        if "clean" in arm or "pate" not in arm:
            return {}
        return {
            "deviation": [1.0 if "soft" in arm else 2.0 - 3 * seed, 0.1],
            "xi": [0.5 if "soft" in arm else 0.1],
        }

    given = {"method": ("pate-hard", "pate-soft"), "noise_multiplier": None, "epsilon": (1.0, 2.0)}
    found = claims(*audit(read, **given), ())
    assert [claim.arms for claim in found] == [
        (f"pate-soft@{e}", f"pate-hard@{e}") for e in (1, 2) for _ in ("deviation", "xi")
    ]
    assert [claim.share for claim in found] == [0.5, 0.0, 0.5, 0.0]


def test_without_finished_seeds_there_is_nothing_to_say():
    found, _ = audit(of_traces, method=("output-perturbation", "pate-hard", "pate-soft"))
    assert readings(found, table(), {}) == {}
    assert claims(found, {}, {"output-perturbation"}) == ()


def test_of_several_groups_a_seed_agrees_when_most_pairs_do():
    def read(arm, seed):
        return (
            {"trace_agreement": [(1.0, 2 / 3, 1 / 3)[seed]]} if arm == "output-perturbation" else {}
        )

    (claim,) = claims(
        *audit(read, seeds=3, method=("output-perturbation",)), {"output-perturbation"}
    )
    assert claim.share == 2 / 3


def test_a_suppressed_group_has_no_reading():
    found, results = audit(of_traces, method=("output-perturbation",))
    trace, xi, agreement = readings(found, table(), results, {"F"})["output-perturbation"]
    assert trace.values == (None, 2.0)
    assert trace.by_seed == ((None, 2.0), (None, 2.0))
    assert xi.values == (None, 0.5)
    assert agreement.values == (0.5,)


def test_noise_next_to_groups_is_called_descriptive():
    def read(arm, seed):
        found = {"group_noise_multiplier": [1.0, 2.0], "individual_epsilon": [3.0, 1.0]}
        return found if arm == "dpsgd-f" else {}

    found, results = audit(read, method=("dpsgd-f",))
    noise, own = readings(found, table(), results)["dpsgd-f"]
    assert (noise.columns, own.values) == (("F", "M"), (3.0, 1.0))
    assert "no guarantee" in own.meaning
