"""Readings of checkpoints -> each group's parts, group statistics and bounds.

In the report's types.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import (
    ArmReadings,
    arm_readings,
    curve,
    known_mean,
    over_seeds,
)
from fairaudit.capabilities import added
from fairaudit.config.presets import find_preset
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE
from fairaudit.planning.plan import Plan
from fairaudit.report.decomposition import (
    STEP_PARTS,
    ArmCauses,
    Curve,
    Decomposition,
    GroupCauses,
    SignClaim,
)
from fairaudit.report.main_gap import detected_pair
from fairaudit.results.estimates import Comparison, finite
from fairaudit.results.jobs import JobResult

_OF_DIRECTION = "excess risk of this step from clipping's direction, nats"
_OF_MAGNITUDE = "excess risk of this step from clipping's magnitude, nats"
# name -> what it is; in the order of the report
SERIES: Mapping[str, str] = {
    "r_direction": _OF_DIRECTION,
    "r_magnitude_effective": f"{_OF_MAGNITUDE}, against a plain step of the same effective length",
    "r_magnitude": "the same against a plain step of the method's own learning rate",
    "r_direction_star": f"{_OF_DIRECTION}; the split that turns first and shortens after",
    "r_magnitude_star": f"{_OF_MAGNITUDE}; the split that turns first and shortens after",
    "r_noise": "excess risk of this step from noise, nats",
    "r_clip": "excess risk of this step from clipping, in closed form, nats",
    "r_clip_batches": "the same over the drawn batches, nats",
    "angle_turned": "degrees by which clipping turns the batch's gradient away from the group's",
    "cos_before": "cosine of the group's gradient and the batch's",
    "cos_after": "cosine of the group's gradient and the processed batch's",
    "clipped_share": "share of the group's records that are clipped",
    "excess_norm": "mean length that clipping takes from a record of the group",
    "norm_group_mean": "norm of the group's mean gradient",
    "mean_gradient_norm": "mean norm of the group's record gradients",
    "mean_loss": "mean loss of the group, nats",
    "mean_closeness": "boundary proximity, 1 - sum p^2",
    "mean_input_norm": "mean norm of the group's inputs",
    "mean_trace": "mean trace of a record's Hessian, as the correlations take it",
    "hessian_trace": "trace of the group's Hessian",
    "eigenvalue_largest": "largest eigenvalue of the group's Hessian",
    "eigenvalue_smallest": "smallest eigenvalue of the group's Hessian",
    "noise_norm": "length of the noise on a mean over the group's part of a batch",
    "shrinkage": "length of the processed batch's gradient over the plain one's",
    "cos_batch": "cosine of the batch's gradient before and after",
    "batches": "batches drawn at this step",
}
_OVER_BATCHES = "standard error over the drawn batches of one training, mean over seeds: "
ERRORS: Mapping[str, str] = {
    **{
        f"{name}_se": f"{_OVER_BATCHES}{name}"
        for name in SERIES
        if name.startswith("r_") and name != "r_noise"
    },
    "hessian_trace_se": "standard error over random probes of hessian_trace; 0 where it is exact",
}

Float64 = NDArray[np.float64]

TRACE_ERROR = "hessian_trace_difference_se"  # of each pair of groups
SAMPLED = ("direction", "magnitude_effective")  # means over drawn batches
ALL_PARTS = (*STEP_PARTS, "magnitude", "clip", "direction_star", "magnitude_star")
GROUP_STATISTICS = (
    *("angle_turned", "clipped_share", "excess_norm", "mean_gradient_norm", "mean_input_norm"),
    *("mean_closeness", "mean_loss", "hessian_trace", "eigenvalue_largest"),
)

_NO_TERMS = (
    "no checkpoint: it does not train by steps, its steps are not sums over the expected batch, "
    "or no seed finished"
)


def decomposition(
    plan: Plan,
    dataset: Dataset,
    results: Mapping[str, JobResult],
    compared: Sequence[Comparison],
) -> Decomposition | None:
    """Everything that was read of checkpoints; None where none was asked for.

    Args:
        plan, dataset, results: The audit.
        compared: By the first grouping.
    """
    if plan.config.diagnostics != "full":
        return None
    names = dataset.groupings[0].names
    hidden = {g.group for c in compared for g in c.by_group if g.n_test is None}
    worst_off = {}
    for comparison in compared:
        if comparison.reference == REFERENCE:
            pair = detected_pair(comparison)
            if pair is not None:
                worst_off[comparison.arm] = pair
    published = None
    if plan.config.preset is not None:
        published = find_preset(plan.config.preset).worst_off
    if published is not None and not set(published) <= set(names) - hidden:
        published = None  # the file lacks one of the publication's groups
    arms, split = {}, {}
    steps = batches = hessian_records = 0
    for arm in plan.arms:
        readings = arm_readings(plan, arm, results)
        if readings is None:
            arms[arm.key] = ArmCauses(reason=_NO_TERMS)
            continue
        steps = steps or len(readings.steps)
        hessian_records = hessian_records or readings.hessian_records
        if readings.has_terms:
            split[arm.key] = readings
            batches = max(batches, int(readings.values["batches"].max()))
        pair = published or worst_off.get(arm.key)
        arms[arm.key] = arm_causes(readings, names, hidden, pair)
    told: list[SignClaim] = []
    for claims in added("claims"):
        told += claims(plan, split, names, worst_off, published)
    return Decomposition(
        steps=steps,
        batches=batches,
        hessian_records=hessian_records,
        optimizer=plan.config.optimizer,
        arms=arms,
        claims=tuple(told),
    )


def arm_causes(
    found: ArmReadings,
    names: Sequence[str],
    hidden: Collection[str],
    pair: tuple[str, str] | None,
) -> ArmCauses:
    """The readings of one arm in the report's types.

    Args:
        found: The readings.
        names: Groups.
        hidden: Suppressed groups.
        pair: Two groups that bounds are about, by a publication or because their costs are told
            apart.
    """
    series = tuple(_series(found, names, hidden))
    if not found.has_terms:
        return ArmCauses(
            reason="no record is clipped and no noise is added: every part is zero",
            series=series,
        )
    eta_lambda = found.values["learning_rate"] * found.values["eigenvalue_largest"]
    known = eta_lambda[np.isfinite(eta_lambda)]
    trace_error = None
    if pair is not None and TRACE_ERROR in found.values:
        a, b = (names.index(name) for name in pair)
        trace_error = known_mean(found.values[TRACE_ERROR][:, :, a, b])
    more: dict[str, Any] = {}
    for causes in added("causes"):
        more |= causes(found, names, hidden, pair)
    groups = []
    for place, name in enumerate(names):
        if name not in hidden:
            groups.append(_group(found, name, place))
    return ArmCauses(
        reason="",
        groups=tuple(groups),
        series=series,
        trace_difference_error=trace_error,
        dropped_batches=known_mean(found.values["dropped"]),
        largest_step=float(known.max()) if len(known) else None,
        **more,
    )


def _group(found: ArmReadings, name: str, place: int) -> GroupCauses:
    totals = {part: found.per_step(f"r_{part}")[:, place] for part in ALL_PARTS}
    size = sum(np.abs(totals[part]) for part in STEP_PARTS)
    shares, errors, wanted = {}, {}, {}
    for part in STEP_PARTS:
        with np.errstate(invalid="ignore", divide="ignore"):
            shares[part] = over_seeds(np.abs(totals[part]) / size, is_share=True)
    for part in SAMPLED:
        errors[part] = finite(found.error(f"r_{part}")[place])
        if f"r_{part}_wanted" in found.values:  # trainings of earlier versions lack it
            wanted[part] = finite(found.error(f"r_{part}", "wanted")[place])
    statistics = {}
    for statistic in GROUP_STATISTICS:
        statistics[statistic] = over_seeds(found.averaged(statistic)[:, place])
    return GroupCauses(
        group=name,
        parts={part: over_seeds(values) for part, values in totals.items()},
        shares=shares,
        statistics=statistics,
        errors=errors,
        wanted=wanted,
    )


def _series(
    found: ArmReadings,
    names: Sequence[str],
    hidden: Collection[str],
) -> Iterator[Curve]:
    for name, meaning in {**SERIES, **ERRORS}.items():
        if name not in found.values:
            continue
        values = found.values[name]  # [S, C, K or K + 1 or 1]
        columns = names if values.shape[2] > 1 else ("",)
        shown = values[:, :, : len(columns)].copy()
        shown[:, :, [column in hidden for column in columns]] = np.nan
        yield curve(name, found.steps, columns, shown, meaning)
