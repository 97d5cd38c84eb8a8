"""Readings of checkpoints -> each group's parts, statistics and bounds, in the report's types."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import (
    ArmReadings,
    arm_readings,
    curve,
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
    BoundRecord,
    Curve,
    Decomposition,
    GroupCauses,
    SignClaim,
)
from fairaudit.report.main_gap import detected_pair
from fairaudit.results.estimates import Comparison
from fairaudit.results.jobs import JobResult

_OF_DIRECTION = "excess risk of this step from clipping's direction, nats"
_OF_MAGNITUDE = "excess risk of this step from clipping's magnitude, nats"
# name -> what it is; in the order of the report
SERIES: Mapping[str, str] = {
    "r_direction": _OF_DIRECTION,
    "r_magnitude_effective": f"{_OF_MAGNITUDE}, against a plain step of the same effective length",
    "r_magnitude": "the same against a plain step of the method's own learning rate",
    "r_noise": "excess risk of this step from noise, nats",
    "r_clip": "excess risk of this step from clipping, in closed form, nats",
    "angle_turned": "degrees by which clipping turns the batch's gradient away from the group's",
    "clipped_share": "share of the group's records that are clipped",
    "mean_closeness": "boundary proximity, 1 - sum p^2",
    "mean_input_norm": "mean norm of the group's inputs",
    "hessian_trace": "trace of the group's Hessian",
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

ALL_PARTS = (*STEP_PARTS, "magnitude", "clip")
GROUP_STATISTICS = (
    "angle_turned",
    "clipped_share",
    "mean_input_norm",
    "mean_closeness",
    "hessian_trace",
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
    steps = 0
    for arm in plan.arms:
        readings = arm_readings(plan, arm, results)
        if readings is None:
            arms[arm.key] = ArmCauses(reason=_NO_TERMS)
            continue
        steps = steps or len(readings.steps)
        if readings.has_terms:
            split[arm.key] = readings
        pair = published or worst_off.get(arm.key)
        arms[arm.key] = arm_causes(readings, names, hidden, pair)
    sign_claims: list[SignClaim] = []
    for claims in added("claims"):
        sign_claims += claims(plan, split, names, worst_off, published)
    return Decomposition(
        steps=steps,
        optimizer=plan.config.optimizer,
        arms=arms,
        claims=tuple(sign_claims),
    )


def arm_causes(
    readings: ArmReadings,
    names: Sequence[str],
    hidden: Collection[str],
    pair: tuple[str, str] | None,
) -> ArmCauses:
    """The readings of one arm in the report's types.

    Args:
        readings: Those of its checkpoints.
        names: Groups.
        hidden: Suppressed groups.
        pair: Two groups that bounds are about, by a publication or because their costs are told
            apart.
    """
    series = tuple(_series(readings, names, hidden))
    if not readings.has_terms:
        return ArmCauses(
            reason="no record is clipped and no noise is added: every part is zero",
            series=series,
        )
    bounds: list[BoundRecord] = []
    if pair is not None:
        for causes in added("causes"):
            bounds += causes(readings, names, pair)
    groups = []
    for place, name in enumerate(names):
        if name not in hidden:
            groups.append(_group(readings, name, place))
    return ArmCauses(
        reason="",
        groups=tuple(groups),
        series=series,
        bounds=tuple(bounds),
    )


def _group(readings: ArmReadings, name: str, place: int) -> GroupCauses:
    """A group's parts of a step's cost, their shares and statistics, averaged over seeds."""
    totals = {part: readings.per_step(f"r_{part}")[:, place] for part in ALL_PARTS}
    size = sum(np.abs(totals[part]) for part in STEP_PARTS)
    shares = {}
    for part in STEP_PARTS:
        with np.errstate(invalid="ignore", divide="ignore"):
            shares[part] = over_seeds(np.abs(totals[part]) / size, is_share=True)
    statistics = {}
    for statistic in GROUP_STATISTICS:
        statistics[statistic] = over_seeds(readings.averaged(statistic)[:, place])
    return GroupCauses(
        group=name,
        parts={part: over_seeds(values) for part, values in totals.items()},
        shares=shares,
        statistics=statistics,
    )


def _series(
    readings: ArmReadings,
    names: Sequence[str],
    hidden: Collection[str],
) -> Iterator[Curve]:
    """Readings at each checkpoint as curves; columns of ``hidden`` groups are left empty."""
    for name, meaning in {**SERIES, **ERRORS}.items():
        if name not in readings.values:
            continue
        values = readings.values[name]  # [S, C, K or K + 1 or 1]
        columns = names if values.shape[2] > 1 else ("",)
        shown = values[:, :, : len(columns)].copy()
        shown[:, :, [column in hidden for column in columns]] = np.nan
        yield curve(name, readings.steps, columns, shown, meaning)
