"""Readings of checkpoints -> each group's parts, statistics and bounds, in the report's types.

A *part* is what one component of a training step (direction, magnitude, noise) adds to a group's
loss, in nats a step; a *bound* is a published lower bound on how much more one group pays; a
*claim* is a statement of a paper that is held against this audit's numbers (``sign_claims``).
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import (
    ArmReadings,
    arm_readings,
    curve,
    known_mean,
    nan_mean,
    over_seeds,
)
from fairaudit.analysis.sign_claims import claims
from fairaudit.config.presets import find_preset
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import REFERENCE
from fairaudit.planning.plan import Plan
from fairaudit.report.measures import detected_pair
from fairaudit.report.types.decomposition import (
    BATCH_NORM,
    CLIPPINGS,
    STEP_PARTS,
    Agreement,
    ArmCauses,
    BoundRecord,
    Decomposition,
    GroupCauses,
    RankCorrelation,
)
from fairaudit.results.estimates import Comparison, finite
from fairaudit.results.jobs import JobResult
from fairaudit.results.steps import CORRELATED

Float64 = NDArray[np.float64]

ALL_PARTS = (*STEP_PARTS, "magnitude", "clip", "direction_star", "magnitude_star")
GROUP_STATISTICS = (
    "angle_turned",
    "clipped_share",
    "excess_norm",
    "noise_norm",
    "hessian_trace",
    "eigenvalue_largest",
    "eigenvalue_smallest",
    "mean_closeness",
    "mean_input_norm",
)
# Series -> name of its curve over the checkpoints.
CURVES: Mapping[str, str] = {
    "eta_lambda": "eta_lambda",
    "excess_norm": "excess_norm",
    "noise_norm": "noise_norm",
    "hessian_trace": "hessian_trace",
    "r_clip": "clip",
    "r_direction_star": "direction_star",
    "r_magnitude_star": "magnitude_star",
}
_ESIPOVA = "Esipova et al. 2023"
_TRAN = "Tran et al. 2021"
# Name of the bound's series -> (series of the quantity that it bounds, its name, its source).
BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "bound_direction": ("r_direction", "Prop. 3", f"{_ESIPOVA}, Prop. 3"),
    "bound_direction_star": (
        "r_direction_star",
        "Prop. 3*",
        f"{_ESIPOVA}, Prop. 3* with its last term squared",
    ),
    "bound_direction_star_printed": (
        "r_direction_star",
        "Prop. 3* as printed",
        f"{_ESIPOVA}, Prop. 3*",
    ),
    "bound_clip": ("r_clip", "Thm 3", f"{_TRAN}, Thm 3 with Lemma 2 corrected"),
    "bound_clip_printed": ("r_clip", "Thm 3 as printed", f"{_TRAN}, Thm 3"),
}
# Statistics of groups whose order the papers hold against the order of costs.
_ORDERED = ("hessian_trace", "mean_input_norm", "mean_closeness")
# Series of 0 and 1 -> what is not met where it is 0.
_ASSUMED = {
    "is_short_step": "the step is longer than 1 / largest eigenvalue",
    "is_convex": "a group's loss is not convex",
}


_NO_TERMS = (
    "no checkpoint: it does not train by steps, its steps are not sums over the expected batch, "
    "or no seed finished"
)


def decomposition(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult], compared: Sequence[Comparison]
) -> Decomposition | None:
    """Everything that was read at checkpoints; None without ``--diagnostics full``.

    Args:
        plan, dataset: Of the audit.
        results: Job id -> result.
        compared: The comparisons by the first grouping, the only one by whose groups checkpoints
            are read.
    """
    if plan.config.diagnostics != "full":
        return None
    names = dataset.groupings[0].names
    hidden = {g.group for c in compared for g in c.by_group if g.n_test is None}  # suppressed
    worst_off = _worst_off(compared)
    published = None  # the two groups that the preset's publication names, if any
    if plan.config.preset is not None:
        published = find_preset(plan.config.preset).worst_off
    if published is not None and not set(published) <= set(names) - hidden:
        published = None  # one of the publication's groups is not in the file, or is suppressed
    arms = {}
    split = {}  # arm -> its readings, where its steps were split into parts
    steps = 0  # how many checkpoints were read, the same of every arm; 0: none of any arm
    for arm in plan.arms:
        readings = arm_readings(plan, arm, results)
        if readings is None:
            arms[arm.key] = ArmCauses(reason=_NO_TERMS)
            continue
        if not steps:
            steps = len(readings.steps)
        if readings.has_terms:
            split[arm.key] = readings
        pair = published or worst_off.get(arm.key)
        of_reference = [c for c in compared if (c.arm, c.reference) == (arm.key, arm.reference)]
        of_arm = arm_causes(readings, names, hidden, pair)
        agreements = tuple(_agreements(readings, names, of_reference[0])) if of_reference else ()
        arms[arm.key] = of_arm.model_copy(update={"agreements": agreements})
    return Decomposition(
        steps=steps,
        optimizer=plan.config.optimizer,
        arms=arms,
        claims=claims(plan, split, names, worst_off, published),
    )


def _worst_off(compared: Sequence[Comparison]) -> dict[str, tuple[str, str]]:
    """Arm -> two groups whose excess risks over `sgd` are detected to differ, the larger first."""
    pairs = {}
    for comparison in compared:
        if comparison.reference == REFERENCE:
            pair = detected_pair(comparison)
            if pair is not None:
                pairs[comparison.arm] = pair
    return pairs


def arm_causes(
    readings: ArmReadings,
    names: Sequence[str],
    hidden: Collection[str],
    pair: tuple[str, str] | None,
) -> ArmCauses:
    """The readings of one arm in the report's types; with a reason alone where it has no parts.

    Args:
        readings: Those of its checkpoints.
        names: Groups.
        hidden: Suppressed groups, which are left out.
        pair: Two groups that bounds are about, by a publication or because their excess risks are
            detected to differ, the one that pays more first; None: those whose directions differ
            most.
    """
    if not readings.has_terms:
        return ArmCauses(reason="no record is clipped and no noise is added: every part is zero")
    # Places below K of the groups that are not suppressed; place K, of all records, is not shown.
    shown = [place for place, name in enumerate(names) if name not in hidden]
    if pair is None:
        direction = nan_mean(readings.per_step("r_direction"))  # mean over seeds, [K]
        known = [place for place in shown if np.isfinite(direction[place])]
        known.sort(key=lambda place: -direction[place])  # the largest first
        if len(known) > 1:
            pair = names[known[0]], names[known[-1]]
    bounds: tuple[BoundRecord, ...] = ()
    if pair is not None:
        bounds = tuple(bounds_of_arm(readings, names, pair))
    curves = []
    for series, name in CURVES.items():
        by_seed = readings.values[series][..., shown]  # [S, C, shown groups]
        curves.append(curve(name, readings.steps, [names[place] for place in shown], by_seed))
    curves.append(curve(BATCH_NORM, readings.steps, CLIPPINGS, readings.values[BATCH_NORM]))
    groups = []
    for place, name in enumerate(names):
        if name not in hidden:
            parts = {}
            for part in ALL_PARTS:
                parts[part] = over_seeds(readings.per_step(f"r_{part}")[:, place])
            statistics = {}
            for statistic in GROUP_STATISTICS:
                statistics[statistic] = over_seeds(readings.averaged(statistic)[:, place])
            groups.append(GroupCauses(group=name, parts=parts, statistics=statistics))
    return ArmCauses(
        reason="",
        groups=tuple(groups),
        bounds=bounds,
        curves=tuple(curves),
        correlations=tuple(_correlations(readings, names, hidden)),
    )


def _correlations(
    readings: ArmReadings, names: Sequence[str], hidden: Collection[str]
) -> Iterator[RankCorrelation]:
    """Rank correlations over the records of every group and over all, where they are known."""
    means = nan_mean(readings.averaged("correlations"))  # [pairs, K + 1, (value, low, high)]
    for between, of_pair in zip(CORRELATED, means, strict=True):
        for group, numbers in zip((*names, ""), of_pair, strict=True):
            value, low, high = map(finite, numbers)
            # The correlation over all records ("") would tell that of a suppressed group, given
            # those of the other groups.
            is_hidden = group in hidden or (group == "" and len(hidden) > 0)
            if not is_hidden and value is not None:
                yield RankCorrelation(between=between, group=group, value=value, low=low, high=high)


def _agreements(
    readings: ArmReadings, names: Sequence[str], compared: Comparison
) -> Iterator[Agreement]:
    """The share of pairs of groups in which the larger statistic goes with the larger excess risk.

    One for each statistic, as the mean over seeds; chance alone makes it one half. Nothing where
    excess risks and readings are of different seeds. Source: docs/methods.md 8.6.

    Args:
        readings: The arm's.
        names: Groups, in the order of the readings.
        compared: The arm's comparison with its reference.
    """
    risks = {g.group: g.estimates.get("excess_risk") for g in compared.by_group}
    rows = []  # of each group its excess risk at every seed; empty where it has none
    for name in names:
        risk = risks.get(name)
        by_seed = () if risk is None else risk.by_seed
        rows.append([np.nan if value is None else value for value in by_seed])
    seeds = max(map(len, rows), default=0)
    if seeds != len(readings.seeds):
        return  # one of both lacks a seed, so they cannot be paired
    cost = np.array([row or [np.nan] * seeds for row in rows])  # [K, S]
    for reading in _ORDERED:
        values = readings.averaged(reading)[:, : len(names)].T  # [K, S], without all rows
        agrees = []  # of each pair, [S]: 1.0 or 0.0, NaN where a number is unknown
        for a, b in itertools.combinations(range(len(names)), 2):
            product = (values[a] - values[b]) * (cost[a] - cost[b])
            agrees.append(np.where(np.isfinite(product), product > 0, np.nan))
        shares = nan_mean(np.array(agrees)) if agrees else np.full(seeds, np.nan)  # [S]
        if np.isfinite(shares).any():
            agreed = over_seeds(shares, is_share=True)
            yield Agreement(reading=reading, cost="excess_risk", **agreed.model_dump())


def bounds_of_arm(
    readings: ArmReadings, names: Sequence[str], pair: tuple[str, str]
) -> Iterator[BoundRecord]:
    """Each bound on how much more the first group of a pair pays for one step than the second.

    The ``truth`` of a record is what the diagnostics measure of the bounded quantity at the same
    step. A ``curved`` bound has the eigenvalues themselves in the place of 1 / eta. Source:
    docs/methods.md 8.4.

    Args:
        readings: The arm's series over S seeds, C checkpoints and K groups: bounds
            ``[S, C, K, K]``, what they bound ``[S, C, K]``; NaN is unknown.
        names: Names of the K groups.
        pair: Names of two of them.
    """
    a, b = map(names.index, pair)
    assumption = _assumption(readings)
    for bound, (quantity, name, source) in BOUNDS.items():
        values = readings.values[bound][:, :, a, b]
        truth = readings.values[quantity][:, :, a] - readings.values[quantity][:, :, b]
        series = {"bound": values, "truth": truth}  # name -> [S, C]
        if f"{bound}_curved" in readings.values:
            series["curved"] = readings.values[f"{bound}_curved"][:, :, a, b]
        defined = np.isfinite(values) & np.isfinite(truth)
        has_same_sign = np.where(defined, np.sign(values) == np.sign(truth), np.nan)  # [S, C]
        positive = np.where(np.isfinite(values), values > 0, np.nan)
        means = {key: known_mean(numbers) for key, numbers in series.items()}
        yield BoundRecord(
            name=name,
            source=source,
            a=pair[0],
            b=pair[1],
            bound=means["bound"],
            truth=means["truth"],
            agreement=known_mean(has_same_sign),
            positive=over_seeds(nan_mean(positive.T), is_share=True),  # share of checkpoints, [S]
            curved=means.get("curved"),
            assumption=assumption,
            steps=readings.steps,
            curves={key: tuple(map(finite, nan_mean(rows))) for key, rows in series.items()},
        )


def _assumption(readings: ArmReadings) -> str:
    """Which assumption of the bounds is not met at how many checkpoints, in words; "" for none."""
    failed = []
    for name, what in _ASSUMED.items():
        share = known_mean(1.0 - readings.values[name])
        if share is None:
            failed.append(f"not known whether {what}")
        elif share:
            failed.append(f"assumption not met at {100 * share:.0f} % of steps: {what}")
    return "; ".join(failed)
