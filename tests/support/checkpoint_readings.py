"""An audit whose private arm read its checkpoints, by hand."""

import numpy as np
from changed import replace
from handmade import comparison, dataset, gap, job_result, plan, resolved

from fairaudit.analysis.disclosure import Disclosure
from fairaudit.results.jobs import JobResult

STEPS = (0, 100, 1839)  # of 1,840
GROUPS = 2
K1 = GROUPS + 1


def series(*values, width=K1):
    """[C, 1, width]: one value per checkpoint, group 1 a tenth of group 0."""
    factors = np.array([1.0, 0.1, 0.5][:width])
    return np.array(values)[:, None, None] * factors


CONSTANT = {
    "r_magnitude": 0.0,
    "r_magnitude_effective": 1.0,
    "r_noise": -1.0,
    "r_direction_se": 0.01,
    "r_magnitude_effective_se": 0.02,
    "r_direction_star": 1.5,
    "r_magnitude_star": -0.5,
    "hessian_trace": 3.0,
}
OF_GROUPS = (
    *("angle_turned", "clipped_share", "excess_norm", "noise_norm"),
    *("mean_input_norm", "mean_closeness"),
    *("eigenvalue_largest", "eigenvalue_smallest", "eta_lambda"),
)
BOUNDS = (
    *("bound_direction", "bound_direction_star", "bound_clip"),
    *("bound_direction_curved", "bound_direction_star_curved", "bound_clip_curved"),
    *("bound_direction_star_printed", "bound_clip_printed"),
)


def arrays(scale=1.0):
    named = {name: series(value, value, value) for name, value in CONSTANT.items()}
    named |= {"r_direction": series(1.0, 2.0, 3.0), "r_clip": series(2.0, 3.0, 4.0)}
    named |= {name: series(2.0, 2.0, 4.0) for name in OF_GROUPS}
    pairs = np.tile(np.array([[0.0, 0.5], [-0.5, 0.0]]), (3, 1, 1, 1))
    named |= dict.fromkeys(BOUNDS, pairs)
    whole = {f"cause.{name}": scale * values for name, values in named.items()}
    ranks = np.tile(np.array([0.6, 0.5, 0.8]), (3, 1, 3, K1, 1))
    ranks[1] = np.nan  # not read at the second checkpoint
    ranks[:, :, 1] = np.nan  # of the second pair traces are not known
    whole["cause.correlations"] = ranks
    whole["cause.batch_norm"] = np.tile([3.0, 1.0], (3, 1, 1))
    # Too long a step at the last of the three, convex wherever it is known.
    for name, flags in (("is_short_step", [1.0, 1.0, 0.0]), ("is_convex", [1.0, np.nan, 1.0])):
        whole[f"cause.{name}"] = np.array(flags)[:, None, None]
    return {"cause_steps": np.array(STEPS), **whole}


def costing(key="global-adapt", loss=0.058, half=0.02, names=("F", "M")):
    """A comparison whose gap in loss is ``loss``, of the sign that the groups' costs have."""
    costs = (0.041, 0.012) if loss > 0 else (0.012, 0.041)
    made = comparison(key, costs, names=names)
    return replace(made, gaps=(*made.gaps, gap(*names, loss, half, metric="excess_risk")))


def checkpointed(*, names=("F", "M"), seeds=3, **options):
    """A plan of some seeds whose private arm read its steps, its data, results and comparisons."""
    made = plan(resolved(diagnostics="full", seeds=seeds, **options).config)
    results = {}
    for job in made.jobs:
        base = job_result(job.id)
        read = made.arm(job.arm).reference is not None
        found = {**base.arrays, **(arrays(1.0 + 0.1 * job.seed) if read else {})}
        results[job.id] = JobResult(job.id, found, base.facts)
    compared = [Disclosure().of_measured(of_two_seeds(costing(names=names)))]
    return made, dataset(names), results, compared


def of_two_seeds(made):
    groups = tuple(
        replace(g, estimates={k: replace(e, by_seed=e.by_seed[:2]) for k, e in g.estimates.items()})
        for g in made.by_group
    )
    return replace(made, by_group=groups)
