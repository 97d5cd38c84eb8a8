"""Readings of checkpoints -> each group's parts, group statistics and bounds, in the report's types."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.presets.collection import find_preset
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE
from fairaudit.metrics.agreement import associate
from fairaudit.planning.plan import Plan
from fairaudit.report.arm_readings import ArmReadings, arm_readings, over_seeds
from fairaudit.report.cause_names import BOUNDS, ERRORS, SERIES
from fairaudit.report.decomposition import (
    ArmCauses,
    Association,
    BoundRecord,
    Correlation,
    Curve,
    Decomposition,
    GroupCauses,
)
from fairaudit.report.explained_method import detected_pair
from fairaudit.report.series import curve, nan_mean
from fairaudit.report.sign_claims import sign_claims
from fairaudit.results.estimates import Comparison
from fairaudit.results.jobs import JobResult

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
    published = _published(plan, dataset, hidden)
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


def _published(plan: Plan, dataset: Dataset, hidden: Collection[str]) -> tuple[str, str] | None:
    """The order of groups that the publication behind a preset reports, where the file has them."""
    if plan.config.preset is None:
        return None
    order = find_preset(plan.config.preset).worst_off
    names = set(dataset.groupings[0].names) - set(hidden)
    return order if order is not None and set(order) <= names else None


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
    groups = tuple(_group(found, name, names.index(name)) for name in shown)
    return ArmCauses(
        reason="",
        groups=groups,
        series=tuple(_series(found, names, hidden)),
        correlations=tuple(_correlations(found, names, hidden)),
        associations=tuple(_associations(groups, costs)) if costs else (),
        bounds=tuple(_bounds(found, names, pair)) if pair else (),
        theorem_3=_of_pair(found, "theorem_3_fires", names, pair),
        trace_difference_error=_of_pair(found, "hessian_trace_difference_se", names, pair),
        dropped_batches=_mean(found.values["dropped"]),
        largest_step=_largest(eta_lambda),
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
        errors={part: _finite(found.error(f"r_{part}")[place]) for part in SAMPLED},
        wanted={
            part: _finite(found.error(f"r_{part}", "wanted")[place])
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
                value, low, high = (_finite(v) for v in table[number, place])
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
            correlation=_finite(found.correlation),
            agreement=_finite(found.agreement),
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
            bound=_mean(values),
            truth=_mean(truth),
            slack=_mean(truth - values),
            agreement=_mean(alike),
            positive=over_seeds(nan_mean(positive.T), is_share=True),
            assumption=_assumption(found, any_step=bound.endswith("_convex")),
        )


def _of_pair(
    found: ArmReadings, name: str, names: Sequence[str], pair: tuple[str, str] | None
) -> float | None:
    if pair is None or name not in found.values:
        return None
    a, b = (names.index(each) for each in pair)
    return _mean(found.values[name][:, :, a, b])


def _assumption(found: ArmReadings, *, any_step: bool) -> str:
    """In words, which assumption of a bound failed at how many checkpoints; empty where none did."""
    failed = []
    small, convex = found.values["small_step"], found.values["convex"]
    if not any_step:
        failed += _failed(small, "the step is longer than 1 / largest eigenvalue")
    failed += _failed(convex, "a group's loss is not convex")
    return "; ".join(failed)


def _failed(flags: Float64, what: str) -> list[str]:
    known = flags[np.isfinite(flags)]
    if not len(known):
        return [f"not known whether {what}: no eigenvalue was found"]
    share = float((known == 0).mean())
    return [f"assumption not met at {100 * share:.0f} % of the checkpoints: {what}"] if share else []


def _mean(values: Float64) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _largest(values: Float64) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
