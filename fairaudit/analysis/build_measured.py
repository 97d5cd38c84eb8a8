"""Comparisons and finished jobs -> what was measured, in the report's types."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from fairaudit.analysis.arm_readings import curve, finished, nan_mean
from fairaudit.analysis.build_causes import decomposition
from fairaudit.analysis.misalignment import step_readings
from fairaudit.analysis.readings import readings
from fairaudit.config.model_names import has_linear_baseline
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.metrics.registry import UNDERTRAINED_BY
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.measures import COST, main_gap
from fairaudit.report.types.decomposition import Curve
from fairaudit.report.types.measured import Diagnostics, SklearnBaseline, Sweep, SweepPoint
from fairaudit.results.estimates import Comparison, interval_of
from fairaudit.results.jobs import JobResult

SKLEARN_BASELINE = "scikit-learn logistic regression, same rows and inputs"
SEARCH_BASELINE = "scikit-learn logistic regression, all training rows, same inputs"
NO_BASELINE = "a linear model of pixels says nothing of how well a network was trained"
PIXEL_BASELINE = "scikit-learn logistic regression on the pixels of {rows:,.0f} of the same images"


def sklearn_baseline(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> SklearnBaseline:
    """The reference's accuracy beside scikit-learn's: is the reference trained well enough?

    ``undertrained`` is None where that is not known: no finished seed has the comparison, or
    the comparison would be unfair, as of a linear model of pixels with a network.
    """
    arm = next(a for a in plan.arms if a.reference is None)  # the reference
    arm_results = finished(plan, arm.key, results)
    fitted = {
        seed: facts
        for seed, facts in _fitted_baselines(plan, arm.key, results).items()
        if seed in arm_results
    }
    # Both means are over the same seeds; without any baseline, over all seeds of the reference.
    compared = [result for seed, result in arm_results.items() if not fitted or seed in fitted]
    accuracies = [_test_accuracy(result, dataset) for result in compared]
    accuracy, library, undertrained = None, None, None
    if accuracies:
        accuracy = float(np.mean(accuracies))
    # ``reason``: why there is no accuracy of scikit-learn; it becomes "" where there is one.
    baseline, reason = SKLEARN_BASELINE, "no seed of the reference carries it"
    if not has_linear_baseline(plan.training.model, dataset.image_shape):
        baseline, reason = "none", NO_BASELINE
    if fitted:
        library, reason = float(np.mean([facts["accuracy"] for facts in fitted.values()])), ""
        undertrained = accuracy is not None and library - accuracy > UNDERTRAINED_BY
        if dataset.image_shape is not None:
            rows = fitted[max(fitted)].get("train_rows", 0)  # of the last seed, for all
            baseline = PIXEL_BASELINE.format(rows=rows)
        elif plan.default_plans:  # a search: its own trainings leave out rows to score by
            baseline = SEARCH_BASELINE
    return SklearnBaseline(
        arm=arm.key,
        reference_accuracy=accuracy,
        baseline=baseline,
        baseline_accuracy=library,
        undertrained=undertrained,
        n_seeds=len(accuracies),
        reason=reason,
    )


def _fitted_baselines(
    plan: Plan, arm: str, results: Mapping[str, JobResult]
) -> dict[int, Mapping[str, float]]:
    """Seed -> what scikit-learn's model reached beside a job of the reference ``arm``.

    That is ``accuracy`` and ``train_rows``. A job of a search holds none; the job of the default
    setting, which is trained beside it, does.
    """
    fitted: dict[int, Mapping[str, float]] = {}
    for trained in (plan, *plan.default_plans.values()):
        for seed, result in finished(trained, arm, results).items():
            facts = result.facts.get("sklearn_baseline")
            if isinstance(facts, Mapping):
                fitted[seed] = facts
    return fitted


def _test_accuracy(result: JobResult, dataset: Dataset) -> float:
    """The accuracy of one seed's models on its test rows, in the mean over R models.

    The candidates of a search count by the probability that the search keeps each.
    """
    labels = dataset.labels[np.asarray(result.arrays["test_rows"], dtype=np.int64)]
    predicted = np.asarray(result.arrays["probabilities"]).argmax(-1)  # [R, n]
    weights = result.arrays.get("weights")  # of a search's candidates
    shares = None if weights is None else weights.astype(np.float64)
    # The mean of each model's accuracy, [R], by these shares; None: all alike.
    return float(np.average((predicted == labels).mean(-1), weights=shares))


def sweeps(comparisons: Sequence[Comparison], plan: Plan) -> tuple[Sweep, ...]:
    """The curves of cost and gap over epsilon, of every method that was trained at several.

    There is one for each method, reference and grouping. An arm whose noise was given, so that it
    has no target epsilon, is in none.
    """
    # (method, reference, grouping) -> the points of its curve
    families: dict[tuple[str, str, str], list[SweepPoint]] = {}
    for comparison in comparisons:
        arm, gap = plan.arm(comparison.arm), main_gap(comparison)
        target = arm.privacy.target_epsilon
        if target is None or not comparison.reference:
            continue  # its noise was given, or it is a reference, which has no cost
        method = f"{arm.method}:{arm.variant}" if arm.variant else arm.method
        point = SweepPoint(
            arm=arm.key,
            target_epsilon=target,
            epsilon=arm.privacy.headline,
            cost={g.group: interval_of(g.estimates.get(COST)) for g in comparison.by_group},
            gap=None if gap is None else interval_of(gap.signed),
        )
        families.setdefault((method, comparison.reference, comparison.grouping), []).append(point)
    curves = []
    for (method, reference, grouping), points in families.items():
        points.sort(key=lambda point: point.target_epsilon)
        if points[0].target_epsilon < points[-1].target_epsilon:  # else there is only one epsilon
            curves.append(
                Sweep(method=method, reference=reference, grouping=grouping, points=tuple(points))
            )
    return tuple(curves)


def diagnostics(
    plan: Plan,
    dataset: Dataset,
    results: Mapping[str, JobResult],
    compared: Sequence[Comparison] = (),
) -> Diagnostics:
    """Everything that was recorded during training, as means over each arm's seeds and repeats.

    Args:
        plan, dataset, results: The audit.
        compared: The comparisons, which say what groups are suppressed: of these nothing is shown.
    """
    first = dataset.groupings[0]
    suppressed: dict[str, set[str]] = {grouping.name: set() for grouping in dataset.groupings}
    for comparison in compared:
        for group in comparison.by_group:
            if group.n_test is None:  # a suppressed group has no count
                suppressed[comparison.grouping].add(group.group)
    hidden = suppressed[first.name]
    of_first = [comparison for comparison in compared if comparison.grouping == first.name]
    curves = {}
    for arm in plan.arms:
        of_arm = tuple(_curves(plan, arm, results, first, hidden))
        if of_arm:
            curves[arm.key] = of_arm
    return Diagnostics(
        level=plan.config.diagnostics,
        arms=curves,
        readings=readings(plan, dataset, results, hidden),
        steps=step_readings(plan, dataset, results, suppressed),
        decomposition=decomposition(plan, dataset, results, of_first),
    )


def _curves(
    plan: Plan,
    arm: Arm,
    results: Mapping[str, JobResult],
    grouping: Grouping,
    hidden: Collection[str],
) -> Iterator[Curve]:
    """An arm's curves over training, by name: each trace averaged over repeats and seeds.

    A seed that lacks a trace, or has another number of steps than the first one, is left out of its
    mean. A trace that has neither one number at a step nor one for each group is left out.

    Args:
        plan, arm, results: The arm, and where its results are found.
        grouping: The first one, whose groups a trace with a number for each group is about.
        hidden: Suppressed groups, whose numbers are left out.
    """
    done = [result.arrays for result in finished(plan, arm.key, results).values()]
    names = {key.removeprefix("trace.") for a in done for key in a if key.startswith("trace.")}
    for name in sorted(names):
        traces = [a for a in done if f"trace.{name}" in a]
        steps = np.asarray(traces[0][f"trace_steps.{name}"], dtype=np.int64)
        by_seed = []
        for arrays in traces:
            trace = np.asarray(arrays[f"trace.{name}"], dtype=np.float64)  # [T_obs, R, ...]
            if len(trace) == len(steps):
                of_repeats = trace.reshape(*trace.shape[:2], -1).swapaxes(0, 1)
                by_seed.append(nan_mean(of_repeats))  # [R, T_obs, columns] -> [T_obs, columns]
        values = np.stack(by_seed)  # [S, T_obs, columns]
        columns: tuple[str, ...] = ("",)
        # With one group alone, a single number could be the group's or the training's; it is taken
        # for the training's.
        if values.shape[2] == len(grouping.names) > 1:
            columns = grouping.names
        if values.shape[2] != len(columns):
            continue
        values[:, :, [column in hidden for column in columns]] = np.nan  # ``values`` is a copy
        yield curve(name, steps.tolist(), columns, values)
