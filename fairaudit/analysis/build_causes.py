"""Readings of checkpoints -> each group's parts, group statistics and bounds, in the report's types."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import ArmReadings, arm_readings, curve, known_mean, nan_mean, over_seeds
from fairaudit.analysis.explain_steps import detected_pair
from fairaudit.analysis.readings import sign_claims
from fairaudit.config.presets import find_preset
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE
from fairaudit.metrics.agreement import associate
from fairaudit.planning.plan import Plan
from fairaudit.report.decomposition import (
    ArmCauses,
    Association,
    BoundRecord,
    Correlation,
    Curve,
    Decomposition,
    GroupCauses,
)
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

_TRAN = "Tran et al. 2021, Thm 3 with Lemma 2 corrected"
# bound -> (the quantity it bounds, name, source)
BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "bound_direction": ("r_direction", "Prop. 3", "Esipova et al. 2023, Prop. 3"),
    "bound_direction_convex": ("r_direction", "Prop. 3, any step", "Esipova et al. 2023, Prop. 3"),
    "bound_direction_star": (
        "r_direction_star",
        "Prop. 3*",
        "Esipova et al. 2023, Prop. 3*, last term corrected",
    ),
    "bound_direction_star_convex": (
        "r_direction_star",
        "Prop. 3*, any step",
        "Esipova et al. 2023, Prop. 3*, last term corrected",
    ),
    "bound_clip": ("r_clip", "Thm 3", _TRAN),
    "bound_clip_printed": ("r_clip", "Thm 3 as printed", "Tran et al. 2021, Thm 3"),
    "bound_clip_convex": ("r_clip", "Thm 3, any step", _TRAN),
}


Float64 = NDArray[np.float64]

PARTS = ("direction", "magnitude_effective", "noise")
SAMPLED = ("direction", "magnitude_effective")  # means over drawn batches
ALL_PARTS = (*PARTS, "magnitude", "clip", "direction_star", "magnitude_star")
CORRELATED = (("input_norm", "gradient_norm"), ("closeness", "trace"), ("input_norm", "trace"))
GROUP_STATISTICS = (
    *("angle_turned", "clipped_share", "excess_norm", "mean_gradient_norm", "mean_input_norm"),
    *("mean_closeness", "mean_loss", "hessian_trace", "eigenvalue_largest"),
)

_NO_TERMS = (
    "no checkpoint: it does not train by steps, its steps are not sums over the expected batch, or no seed "
    "finished"
)


def decomposition(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult], compared: Sequence[Comparison]
) -> Decomposition | None:
    """Everything that was read of checkpoints; None where none was asked for.

    Args:
        plan, dataset, results: The audit.
        compared: By the first grouping.
    """
    if plan.config.diagnostics != "full":
        return None
    hidden = {g.group for c in compared for g in c.by_group if g.n_test is None}
    found = {arm.key: readings for arm in plan.arms if (readings := arm_readings(plan, arm, results))}
    worst_off = {c.arm: pair for c in compared if c.reference == REFERENCE and (pair := detected_pair(c))}
    # The order of groups that the publication behind a preset reports, where the file has them.
    published = None if plan.config.preset is None else find_preset(plan.config.preset).worst_off
    if published is not None and not set(published) <= set(dataset.groupings[0].names) - hidden:
        published = None
    costs = {c.arm: c for c in compared if c.reference == REFERENCE}
    split = {key: readings for key, readings in found.items() if readings.has_terms}
    first = next(iter(found.values()), None)
    return Decomposition(
        steps=len(first.steps) if first else 0,
        batches=max((int(readings.values["batches"].max()) for readings in split.values()), default=0),
        hessian_records=first.hessian_records if first else 0,
        optimizer=plan.config.optimizer,
        arms={
            arm.key: arm_causes(
                found[arm.key], dataset, hidden, published or worst_off.get(arm.key), costs.get(arm.key)
            )
            if arm.key in found
            else ArmCauses(reason=_NO_TERMS)
            for arm in plan.arms
        },
        claims=sign_claims(plan, split, dataset.groupings[0].names, worst_off, published),
    )


def arm_causes(
    found: ArmReadings,
    dataset: Dataset,
    hidden: Collection[str],
    pair: tuple[str, str] | None,
    costs: Comparison | None,
) -> ArmCauses:
    """The readings of one arm in the report's types.

    Args:
        found: The readings.
        dataset: Names.
        hidden: Suppressed groups.
        pair: Two groups that bounds are about, by a publication or because their costs are told apart.
        costs: The arm beside plain training.
    """
    names = dataset.groupings[0].names
    shown = [name for name in names if name not in hidden]
    if not found.has_terms:
        return ArmCauses(
            reason="no record is clipped and no noise is added: every part is zero",
            series=tuple(_series(found, names, hidden)),
        )
    eta_lambda = found.values["learning_rate"] * found.values["eigenvalue_largest"]
    known = eta_lambda[np.isfinite(eta_lambda)]

    def of_pair(name: str) -> float | None:
        if pair is None or name not in found.values:
            return None
        a, b = (names.index(each) for each in pair)
        return known_mean(found.values[name][:, :, a, b])

    groups = tuple(_group(found, name, names.index(name)) for name in shown)
    return ArmCauses(
        reason="",
        groups=groups,
        series=tuple(_series(found, names, hidden)),
        correlations=tuple(_correlations(found, names, hidden)),
        associations=tuple(_associations(groups, costs)) if costs else (),
        bounds=tuple(_bounds(found, names, pair)) if pair else (),
        theorem_3=of_pair("theorem_3_fires"),
        trace_difference_error=of_pair("hessian_trace_difference_se"),
        dropped_batches=known_mean(found.values["dropped"]),
        largest_step=float(known.max()) if len(known) else None,
    )


def _group(found: ArmReadings, name: str, place: int) -> GroupCauses:
    totals = {part: found.per_step(f"r_{part}")[:, place] for part in ALL_PARTS}
    size = sum(np.abs(totals[part]) for part in PARTS)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = {part: np.abs(totals[part]) / size for part in PARTS}
    return GroupCauses(
        group=name,
        parts={part: over_seeds(values) for part, values in totals.items()},
        shares={part: over_seeds(values, is_share=True) for part, values in shares.items()},
        statistics={
            statistic: over_seeds(found.averaged(statistic)[:, place]) for statistic in GROUP_STATISTICS
        },
        errors={part: finite(found.error(f"r_{part}")[place]) for part in SAMPLED},
        wanted={
            part: finite(found.error(f"r_{part}", "wanted")[place])
            for part in SAMPLED
            if f"r_{part}_wanted" in found.values  # trainings of earlier versions lack it
        },
    )


def _series(found: ArmReadings, names: Sequence[str], hidden: Collection[str]) -> Iterator[Curve]:
    for name, meaning in {**SERIES, **ERRORS}.items():
        if name not in found.values:
            continue
        values = found.values[name]  # [S, C, K or K + 1 or 1]
        columns = names if values.shape[2] > 1 else ("",)
        shown = values[:, :, : len(columns)].copy()
        shown[:, :, [column in hidden for column in columns]] = np.nan
        yield curve(name, found.steps, columns, shown, meaning)


def _correlations(found: ArmReadings, names: Sequence[str], hidden: Collection[str]) -> Iterator[Correlation]:
    kinds: tuple[Literal["pearson", "spearman"], ...] = ("pearson", "spearman")
    for kind in kinds:
        table = nan_mean(found.averaged(kind))  # [pairs, K + 1, 3]
        for number, between in enumerate(CORRELATED):
            for place, group in enumerate((*names, "")):
                if group in hidden:
                    continue
                value, low, high = (finite(v) for v in table[number, place])
                yield Correlation(between=between, group=group, kind=kind, value=value, low=low, high=high)


def _associations(groups: Sequence[GroupCauses], costs: Comparison) -> Iterator[Association]:
    risks = {g.group: e.by_seed for g in costs.by_group if (e := g.estimates.get("excess_risk"))}
    known = [group for group in groups if group.group in risks]
    if len(known) < 2:
        return
    cost = np.array([risks[group.group] for group in known], dtype=np.float64).T  # [S, K]; None is NaN
    sizes = {g.group: g.n_train for g in costs.by_group}
    by_statistic = {
        statistic: [group.statistics[statistic].by_seed for group in known] for statistic in GROUP_STATISTICS
    }
    by_statistic["size"] = [(sizes[group.group],) * len(cost) for group in known]
    for statistic, rows in by_statistic.items():
        values = np.array(rows, dtype=np.float64).T
        if values.shape != cost.shape:  # a seed failed in one arm only: its readings have no partner
            return
        found = associate(values, cost)
        yield Association(
            statistic=statistic,
            correlation=finite(found.correlation),
            agreement=finite(found.agreement),
            compared=found.compared,
        )


def _bounds(found: ArmReadings, names: Sequence[str], pair: tuple[str, str]) -> Iterator[BoundRecord]:
    a, b = (names.index(name) for name in pair)
    for bound, (quantity, name, source) in BOUNDS.items():
        values = found.values[bound][:, :, a, b]
        truth = found.values[quantity][:, :, a] - found.values[quantity][:, :, b]
        known = np.isfinite(values) & np.isfinite(truth)
        alike = np.where(known, np.sign(values) == np.sign(truth), np.nan)
        positive = np.where(np.isfinite(values), values > 0, np.nan)
        yield BoundRecord(
            name=name,
            source=source,
            a=pair[0],
            b=pair[1],
            bound=known_mean(values),
            truth=known_mean(truth),
            slack=known_mean(truth - values),
            agreement=known_mean(alike),
            positive=over_seeds(nan_mean(positive.T), is_share=True),
            assumption=_assumption(found, any_step=bound.endswith("_convex")),
        )


def _assumption(found: ArmReadings, *, any_step: bool) -> str:
    """In words, which assumption of a bound failed at how many checkpoints; empty where none did."""
    failed = []
    for name, what in (
        ("small_step", "the step is longer than 1 / largest eigenvalue"),
        ("convex", "a group's loss is not convex"),
    ):
        if name == "small_step" and any_step:
            continue
        share = known_mean(1.0 * (found.values[name] == 0)[np.isfinite(found.values[name])])
        if share is None:
            failed.append(f"not known whether {what}: no eigenvalue was found")
        elif share:
            failed.append(f"assumption not met at {100 * share:.0f} % of the checkpoints: {what}")
    return "; ".join(failed)
