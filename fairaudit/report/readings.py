"""What a method's own diagnostics read of finished trainings, with the claims of the papers beside it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import find
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.measured import Claim, Reading
from fairaudit.results.jobs import JobResult

Float64 = NDArray[np.float64]
Results = Mapping[str, JobResult]

_PREFIX = "reading."
_MEAN = ("mean", "standard error")
_INTERVAL = ("value", "low", "high")

# name -> what it is; in the order of the report
MEANINGS: Mapping[str, str] = {
    "hessian_trace": "trace of the group's Hessian at the minimiser",
    "excess_risk_predicted": "excess risk by Theorem 1, nats",
    "excess_risk_drawn": "excess risk, mean over draws of the noise, nats",
    "excess_risk_drawn_se": "standard error of that excess risk, nats",
    "xi_predicted": "excess risk beyond everybody's (xi) by Theorem 1, nats",
    "xi_drawn": "excess risk beyond everybody's (xi), mean over draws, nats",
    "xi_drawn_se": "standard error of that xi, nats",
    "trace_agreement": "share of pairs of groups in which larger trace and larger excess risk coincide",
    "flip_probability": "probability that noise changes the winner of a query",
    "closeness": "boundary proximity, 1 - sum p^2 of the clean student",
    "input_norm": "mean norm of the inputs, constant included",
    "excess_risk": "excess risk on the student pool against the clean votes, nats",
    "gradient_norm": "norm of the group's mean gradient at the clean student",
    "beta_largest": "smoothness by the longest input",
    "beta_mean": "smoothness by the mean outer product of inputs",
    "deviation": "distance from the clean student",
    "deviation_bound": "bound on that distance, Theorem 2",
    "deviation_square": "squared distance from the clean student",
    "deviation_square_bound": "bound on that square, Corollary 2 corrected",
    "deviation_square_sharp": "bound on that square for independent flips",
    "xi": "largest difference of excess risk between groups, nats",
    "xi_bound": "bound on that difference, Theorem 1",
    "xi_bound_tight": "bound on that difference, Theorem 1 with the tighter smoothness",
    "group_noise_multiplier": "noise next to the group's longest gradient, mean over steps",
    "individual_epsilon": "upper bound on the epsilon that this noise would have given the group's records: "
    "descriptive, no guarantee",
    "spearman_closeness_flip": "rank correlation of boundary proximity and flip probability",
    "spearman_norm_excess": "rank correlation of input norm and excess risk",
    "spearman_flip_excess": "rank correlation of flip probability and excess risk",
}


def readings(
    plan: Plan, dataset: Dataset, results: Results, hidden: Collection[str] = ()
) -> dict[str, tuple[Reading, ...]]:
    """Every reading of every arm, mean over its finished seeds; None for a ``hidden`` group."""
    names = dataset.groupings[0].names
    found = {arm.key: tuple(_of_arm(plan, arm, names, results, hidden)) for arm in plan.arms}
    return {key: values for key, values in found.items() if values}


def claims(plan: Plan, results: Results, differing: Collection[str]) -> tuple[Claim, ...]:
    """What the papers claim of the chosen methods, and at how many seeds it held here.

    Args:
        plan: The arms.
        results: What they read.
        differing: Arms under which groups are detected to pay differently; others have no order to claim.
    """
    return (*_trace_claims(plan, results, differing), *_label_claims(plan, results))


def _of_arm(
    plan: Plan, arm: Arm, groups: Sequence[str], results: Results, hidden: Collection[str]
) -> Iterator[Reading]:
    for name, meaning in {**MEANINGS, **find(arm.method).meanings}.items():
        values = _by_seed(plan, arm.key, name, results)
        if not values:
            continue
        stacked = np.stack(list(values.values()))
        columns = _columns(name, stacked.shape[1], groups)
        if columns == tuple(groups):
            stacked[:, [group in hidden for group in groups]] = np.nan
        yield Reading(
            name=name,
            meaning=meaning,
            columns=columns,
            values=tuple(_mean(column) for column in stacked.T),
            by_seed=tuple(tuple(_finite(v) for v in row) for row in stacked),
        )


def _by_seed(plan: Plan, arm: str, name: str, results: Results) -> dict[int, Float64]:
    found = {}
    for job in plan.jobs:
        result = results.get(job.id) if job.arm == arm else None
        if result is not None and _PREFIX + name in result.arrays:
            found[job.seed] = np.asarray(result.arrays[_PREFIX + name], dtype=np.float64)
    return found


def _columns(name: str, width: int, groups: Sequence[str]) -> tuple[str, ...]:
    if name.startswith("spearman"):
        return _INTERVAL
    if name in ("deviation", "deviation_square"):
        return _MEAN
    return tuple(groups) if width == len(groups) > 1 else ("",) * width


@dataclass(frozen=True, slots=True)
class _Pair:
    """One claim that a reading of one arm is below that of another."""

    name: str
    statement: str


_LABEL_CLAIMS = (
    _Pair("deviation", "soft labels lower the student's deviation"),
    _Pair("xi", "soft labels lower the largest difference of excess risk between groups"),
)


def _trace_claims(plan: Plan, results: Results, differing: Collection[str]) -> Iterator[Claim]:
    for arm in (arm for arm in plan.arms if arm.key in differing):
        # Share of pairs of groups; of two groups it is 0 or 1. A seed agrees when most of its pairs do.
        shares = [float(v[0]) for v in _by_seed(plan, arm.key, "trace_agreement", results).values()]
        known = [share for share in shares if np.isfinite(share)]
        if known:
            yield Claim(
                statement="in most pairs of groups larger Hessian trace goes with larger excess risk",
                source="Tran et al. 2021, Theorem 1",
                arms=(arm.key,),
                share=float(np.mean([share > 0.5 for share in known])),
                n_seeds=len(known),
            )


def _label_claims(plan: Plan, results: Results) -> Iterator[Claim]:
    for soft in plan.arms:
        hard = next((a for a in plan.arms if a.key == soft.key.replace("pate-soft", "pate-hard")), None)
        if hard is None or hard is soft or soft.variant:
            continue
        for claim in _LABEL_CLAIMS:
            low, high = (_by_seed(plan, arm.key, claim.name, results) for arm in (soft, hard))
            seeds = sorted(set(low) & set(high))
            if seeds:
                yield Claim(
                    statement=claim.statement,
                    source="Tran and Fioretto 2023",
                    arms=(soft.key, hard.key),
                    share=float(np.mean([low[seed][0] < high[seed][0] for seed in seeds])),
                    n_seeds=len(seeds),
                )


def _mean(column: Float64) -> float | None:
    known = column[np.isfinite(column)]
    return float(known.mean()) if len(known) else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
