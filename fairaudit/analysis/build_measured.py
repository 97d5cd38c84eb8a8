"""Comparisons and finished jobs -> what was measured, in the report's types."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import (
    ANGLE,
    MAX_OBSERVATIONS,
    arm_readings,
    curve,
    finished,
    misalignment,
    nan_mean,
)
from fairaudit.analysis.build_causes import decomposition
from fairaudit.analysis.build_facts import visible
from fairaudit.analysis.explain_steps import detected_pair
from fairaudit.analysis.readings import claims, readings
from fairaudit.config.model_names import LINEAR
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.data.groups import NamedPair
from fairaudit.errors import numbered
from fairaudit.metrics.gaps import direction
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.decomposition import Curve
from fairaudit.report.main_gap import COST, main_gap
from fairaudit.report.measured import (
    UNDERTRAINED_BY,
    Diagnostics,
    SelectionRates,
    SklearnBaseline,
    Sweep,
    SweepPoint,
)
from fairaudit.results.estimates import Comparison, Gap, GroupMeasure, Measured, interval_of, undefined
from fairaudit.results.jobs import Array, JobResult

MOST_GROUPS_OF_CLASS = 3  # whose every pair is told in every class's rates
OF_ONE_BATCH = ("cos_", "norm_")  # readings of a single batch, which say little alone
SMOOTHED = 20  # windows that a curve of such readings is averaged over
OF_SUPPRESSED = "the most selected group is suppressed, and a ratio would tell its rate"
UNFAVOURED = "the favourable class is not known: set --favourable"
SKLEARN_BASELINE = "scikit-learn logistic regression, same rows and inputs"
BESIDE_A_SEARCH = "scikit-learn logistic regression, all training rows, same inputs"
NO_BASELINE = "a linear model of pixels says nothing of how well a network was trained"
PIXEL_BASELINE = "scikit-learn logistic regression on the pixels of {rows:,.0f} of the same images"


def disclosed(
    measured: Measured,
    *,
    least: int,
    named: Sequence[NamedPair] = (),
    unpredicted: Mapping[str, int] | None = None,
) -> Comparison:
    """The comparison as a report may hold it: small groups suppressed, of very many gaps the ones to read.

    Args:
        measured: What was measured.
        least: Test rows; groups with fewer are suppressed, and every number that would tell theirs.
        named: Pairs that ``compare`` asked for before training: their own intervals hold.
        unpredicted: Group -> rows that given predictions lack.
    """
    lacking = {"": sum((unpredicted or {}).values()), **(unpredicted or {})}
    asked = {frozenset((pair.a, pair.b)) for pair in named if pair.grouping == measured.grouping}
    hidden = {g.group for g in measured.by_group if 0 < (g.n_test or 0) < least}
    # What is divided by a suppressed group's rate would tell that rate.
    untold = {ratio for ratio, group in measured.divided_by.items() if group in hidden}
    untold |= {"change.impact_ratio"} if untold else set()

    def group(measure: GroupMeasure, untold: Collection[str] = ()) -> GroupMeasure:
        unpredicted = visible(lacking.get(measure.group, 0), least)
        if measure.group in hidden:
            reason = f"suppressed: fewer than {numbered(least, 'test row')}"
            return GroupMeasure(
                group=measure.group, n_test=None, n_train=None, gated=False, reason=reason, estimates={},
                unpredicted=unpredicted,
            )  # fmt: skip
        told = {
            metric: undefined(OF_SUPPRESSED, estimate.unit) if metric in untold else estimate
            for metric, estimate in measure.estimates.items()
        }
        return measure.model_copy(update={"estimates": told, "unpredicted": unpredicted})

    return Comparison(
        arm=measured.arm,
        reference=measured.reference,
        grouping=measured.grouping,
        estimand=measured.estimand,
        overall=group(measured.overall),
        by_group=tuple(group(each, untold) for each in measured.by_group),
        gaps=tuple(
            _named(gap) if gap.kind == "pair" and frozenset((gap.a, gap.b)) in asked else gap
            for gap in measured.gaps
            if gap.metric not in untold
            and not {gap.a, gap.b} & hidden
            and not (hidden and gap.kind == "mean")  # which is of all pairs
            and _is_reported(gap, asked, len(measured.by_group))
        ),
        worst={metric: name for metric, name in measured.worst.items() if name not in hidden},
    )


def selections(
    comparisons: Sequence[Comparison], measured: Sequence[Measured], dataset: Dataset
) -> tuple[SelectionRates, ...]:
    """Selection rates and impact ratios of every arm, the reference's once per grouping.

    Args:
        comparisons: As they are told.
        measured: The same as they were measured.
        dataset: Its classes.
    """
    favourable = None if dataset.favourable is None else dataset.classes[dataset.favourable]
    found: dict[tuple[str, str], SelectionRates] = {}
    for comparison, behind in zip(comparisons, measured, strict=True):
        for arm, prefix in ((comparison.reference, "reference."), (comparison.arm, "")):
            if not arm:
                continue  # the reference by itself has none
            if (comparison.grouping, arm) in found:
                continue
            most = behind.divided_by.get(prefix + "impact_ratio")
            ratio = {g.group: g.value(prefix + "impact_ratio") for g in comparison.by_group}
            found[comparison.grouping, arm] = SelectionRates(
                arm=arm,
                grouping=comparison.grouping,
                favourable=favourable,
                rate={g.group: g.value(prefix + "selection_rate") for g in comparison.by_group},
                impact_ratio=ratio,
                reference=most if most is not None and ratio[most] is not None else None,
                excluded=tuple(group for group in ratio if ratio[group] is None),
                reason=""
                if favourable is not None
                else "the favourable class is not known: set --favourable",
            )
    return tuple(found.values())


def sklearn_baseline(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> SklearnBaseline:
    """The reference beside a standard library's model on the same rows."""
    arm = next(a for a in plan.arms if a.reference is None)
    is_fitting = dataset.image_shape is None or plan.model in LINEAR
    own = finished(plan, arm.key, results)
    # A search leaves none: the reference at its default setting, trained beside it, does.
    also = {
        seed: result
        for way in plan.ways.values()
        for seed, result in finished(way, arm.key, results).items()
        if "sklearn_baseline" in result.facts
    }
    beside = [
        (r, found)
        for seed, r in own.items()
        if isinstance(found := also.get(seed, r).facts.get("sklearn_baseline"), Mapping)
    ]
    theirs = [float(found["accuracy"]) for _, found in beside]
    # The same seeds for both, where there are two.
    ours = [_accuracy(result, dataset) for result in ([r for r, _ in beside] or own.values())]
    rows = float(beside[-1][1].get("train_rows", 0)) if beside else 0.0
    mine, other = (float(np.mean(each)) if each else None for each in (ours, theirs))
    baseline = SKLEARN_BASELINE if is_fitting else "none"
    if theirs and dataset.image_shape is not None:
        baseline = PIXEL_BASELINE.format(rows=rows)
    elif theirs and also:
        baseline = BESIDE_A_SEARCH
    missing = "no seed of the reference carries it" if is_fitting else NO_BASELINE
    return SklearnBaseline(
        arm=arm.key,
        reference_accuracy=mine,
        baseline=baseline,
        baseline_accuracy=other,
        undertrained=None if mine is None or other is None else other - mine > UNDERTRAINED_BY,
        n_seeds=len(ours),
        reason="" if theirs else missing,
    )


def sweeps(comparisons: Sequence[Comparison], plan: Plan) -> tuple[Sweep, ...]:
    """The curves over epsilon of every method that ran at several; an arm without a target is in none."""
    families: dict[tuple[str, str, str], list[SweepPoint]] = {}
    for comparison in comparisons:
        arm, gap = plan.arm(comparison.arm), main_gap(comparison)
        if arm.privacy.target_epsilon is None or not comparison.reference:
            continue
        method = f"{arm.method}:{arm.variant}" if arm.variant else arm.method
        point = SweepPoint(
            arm=arm.key,
            target_epsilon=arm.privacy.target_epsilon,
            epsilon=arm.privacy.epsilon,
            cost={group.group: interval_of(group.estimates.get(COST)) for group in comparison.by_group},
            gap=None if gap is None else interval_of(gap.absolute),
        )
        families.setdefault((method, comparison.reference, comparison.grouping), []).append(point)
    return tuple(
        Sweep(
            method=method,
            reference=reference,
            grouping=grouping,
            points=tuple(sorted(points, key=lambda point: point.target_epsilon)),
        )
        for (method, reference, grouping), points in families.items()
        if len({point.target_epsilon for point in points}) > 1
    )


def diagnostics(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult], compared: Sequence[Comparison] = ()
) -> Diagnostics:
    """Every trace of every arm, averaged over its seeds and repeats; suppressed groups have none."""
    hidden = {g.group for c in compared for g in c.by_group if g.n_test is None}
    first = dataset.groupings[0]
    curves = {arm.key: tuple(_curves(plan, arm, results, first, hidden)) for arm in plan.arms}
    checkpoints = {arm.key: arm_readings(plan, arm, results) for arm in plan.arms}
    return Diagnostics(
        level=plan.config.diagnostics,
        arms={key: found for key, found in curves.items() if found},
        readings=readings(plan, dataset, results, hidden),
        claims=claims(plan, results, {c.arm for c in compared if c.reference and detected_pair(c)}),
        decomposition=decomposition(plan, dataset, results, compared),
        misalignment={
            key: misalignment(found, first.names, hidden)
            for key, found in checkpoints.items()
            if found is not None and ANGLE in found.values
        },
    )


def _named(gap: Gap) -> Gap:
    """The gap of a pair that was named beforehand, whose sign its own interval resolves."""
    value, is_resolved = gap.signed.value, gap.signed.excludes_zero
    said = direction(gap.metric, gap.a, gap.b, value) if value is not None and is_resolved else ""
    return gap.revised(named=True, direction=said)


def _is_reported(gap: Gap, asked: Collection[frozenset[str]], groups: int) -> bool:
    """Of many groups' rates of one class among several: the largest gap, and the pairs that were named.

    Ten groups and ten classes make six thousand others an arm, and some of them stand out by chance.
    """
    of_class = gap.metric.endswith("]")
    one_of_many = of_class and groups > MOST_GROUPS_OF_CLASS and gap.kind in ("pair", "population")
    return not one_of_many or frozenset((gap.a, gap.b)) in asked


def _accuracy(result: JobResult, dataset: Dataset) -> float:
    labels = dataset.labels[np.asarray(result.arrays["test_rows"], dtype=np.int64)]
    predicted = np.asarray(result.arrays["probabilities"]).argmax(-1)  # [R, n]
    weights = result.arrays.get("weights")  # of a search's candidates
    shares = None if weights is None else weights.astype(np.float64)
    return float(np.average((predicted == labels).mean(-1), weights=shares))


def _curves(
    plan: Plan, arm: Arm, results: Mapping[str, JobResult], grouping: Grouping, hidden: Collection[str]
) -> Iterator[Curve]:
    """Curves by name; seeds that lack one (or whose steps differ) are left out of its mean."""
    done = finished(plan, arm.key, results).values()
    for name in sorted(
        {key.removeprefix("trace.") for r in done for key in r.arrays if key.startswith("trace.")}
    ):
        holders = [r.arrays for r in done if f"trace.{name}" in r.arrays]
        steps = np.asarray(holders[0][f"trace_steps.{name}"], dtype=np.int64)
        alike = [_over_repeats(a[f"trace.{name}"]) for a in holders if len(a[f"trace.{name}"]) == len(steps)]
        values = np.stack(alike)  # [S, T_obs, columns]
        columns = grouping.names if values.shape[2] == len(grouping.names) > 1 else ("",)
        if values.shape[2] != len(columns):
            continue  # a reading of another shape has no place in a table by group
        values[:, :, [column in hidden for column in columns]] = np.nan
        most = SMOOTHED if name.startswith(OF_ONE_BATCH) else MAX_OBSERVATIONS
        yield curve(name, steps.tolist(), columns, values, most=most)


def _over_repeats(trace: Array) -> NDArray[np.float64]:
    """``[T_obs, R, ...]`` -> ``[T_obs, columns]``."""
    values = np.asarray(trace, dtype=np.float64)
    flat = values.reshape(*values.shape[:2], -1)
    return nan_mean(flat.swapaxes(0, 1))
