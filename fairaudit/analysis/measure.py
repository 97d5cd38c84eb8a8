"""Results to comparisons: every arm against its reference, cut by every grouping."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.methods.catalog import REFERENCE, find
from fairaudit.metrics.compare import Twin, compare, measure_reference
from fairaudit.metrics.sklearn_check import sklearn_disagreement
from fairaudit.metrics.within_model import LabelOutcome, Predictions, seed_scores
from fairaudit.planning.plan import Arm, Plan
from fairaudit.results.estimates import DEFAULT, Measured, key_of
from fairaudit.results.jobs import JobResult

AGREEMENT = 1e-9  # with scikit-learn; rounding alone separates the two

Number = TypeVar("Number", bound=np.generic)


def measure(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> tuple[Measured, ...]:
    """Measure what was trained; a seed without a result is left out of its arm.

    Args:
        plan: What was planned.
        dataset: Labels and groups.
        results: Job id -> result.
    """
    if plan.config.self_check:
        _check_against_sklearn(plan, dataset, results)
    comparisons: list[Measured] = []
    for number, grouping in enumerate(dataset.groupings):
        predictions = {arm.key: _predictions(plan, arm.key, number, results) for arm in plan.arms}
        shared = _shared(dataset, grouping)
        for arm in plan.arms:
            if arm.reference is None:
                comparisons.append(measure_reference(arm.key, predictions[arm.key], *shared))
            else:
                for reference in _references(plan, arm):
                    own, other = predictions[arm.key], predictions[reference]
                    baseline = _on_rows_of(own, other)
                    twin = _twin(plan, arm, reference, own, number, results)
                    comparisons.append(compare(arm.key, reference, own, baseline, *shared, twin=twin))
    return tuple(comparisons)


def measure_ways(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> dict[str, tuple[Measured, ...]]:
    """The same of each way beside a search, under the names that its arms have there."""

    def named(found: Measured, way: str) -> Measured:
        reference = key_of(found.reference, way) if found.reference else ""
        return found.model_copy(update={"arm": key_of(found.arm, way), "reference": reference})

    return {
        way: tuple(named(found, way) for found in measure(own, dataset, results))
        for way, own in plan.ways.items()
    }


def measure_gains(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> tuple[Measured, ...]:
    """Every arm at its default setting, against itself as it was tuned, on the same seeds and test rows.

    What these comparisons call a cost is what searching gained.
    """
    untuned = plan.ways.get(DEFAULT)
    return tuple(
        compare(
            key_of(arm.key, DEFAULT),
            arm.key,
            default := _predictions(untuned, arm.key, number, results),
            _on_rows_of(default, _predictions(plan, arm.key, number, results)),
            *_shared(dataset, grouping),
        )
        for number, grouping in enumerate(dataset.groupings)
        for arm in plan.arms
        if untuned is not None
    )


def _shared(
    dataset: Dataset, grouping: Grouping
) -> tuple[NDArray[np.int64], Grouping, int | None, int, bool, bool, int | None]:
    """What all comparisons by a grouping are given."""
    is_given = dataset.split is not None
    return (
        dataset.labels,
        grouping,
        dataset.positive,
        len(dataset.classes),
        is_given,
        False,
        dataset.favourable,
    )


def _twin(
    plan: Plan,
    arm: Arm,
    reference: str,
    own: Sequence[Predictions],
    grouping: int,
    results: Mapping[str, JobResult],
) -> Twin | None:
    """The arm without its noise, where that is another model than the one it is compared with.

    An arm whose own reference is not sgd is that reference and noise.
    """
    if arm.has_twin:
        found = _predictions(plan, arm.key, grouping, results, "twin.")
    elif plan.config.twins and arm.reference is not None and arm.reference != reference:
        found = _on_rows_of(own, _predictions(plan, arm.reference, grouping, results))
    else:
        return None
    return Twin(find(arm.method).part, found)


def _references(plan: Plan, arm: Arm) -> Sequence[str]:
    """The arm's own reference, then sgd where that is another model than it trained without privacy."""
    assert arm.reference is not None
    own = plan.arm(arm.reference)
    is_alone = (
        own.reference is not None or own.method == REFERENCE or own.is_own_code
    )  # another kind of model
    return [own.key] if is_alone else [own.key, REFERENCE]


def _on_rows_of(private: Sequence[Predictions], baseline: Sequence[Predictions]) -> Sequence[Predictions]:
    """The baseline on the rows on which the arm was tested: a student pool leaves fewer of them."""
    rows_of = {p.seed: p.rows for p in private}
    found = []
    for p in baseline:
        rows = rows_of.get(p.seed)
        if rows is None:
            continue
        if not np.array_equal(p.rows, rows):
            place = np.flatnonzero(np.isin(p.rows, rows))
            p = replace(p, rows=p.rows[place], probabilities=p.probabilities[:, place])
        found.append(p)
    return found


def _check_against_sklearn(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> None:
    """Our rates against scikit-learn's, for the first run of every arm; equal, or a bug."""
    outcome = LabelOutcome(len(dataset.classes), dataset.positive, dataset.favourable)
    for number, grouping in enumerate(dataset.groupings):
        for arm in plan.arms:
            for run in _predictions(plan, arm.key, number, results)[:1]:
                labels, groups = dataset.labels[run.rows], grouping.groups[run.rows]
                first = run.probabilities[:1]
                scores = seed_scores(first, labels, groups, len(grouping.names), outcome)
                off = sklearn_disagreement(first[0], labels, groups, scores, outcome)
                assert off < AGREEMENT, f"{arm.key}: metrics differ from scikit-learn's by {off:g}"


def _predictions(
    plan: Plan, arm: str, grouping: int, results: Mapping[str, JobResult], of: str = ""
) -> Sequence[Predictions]:
    """An arm's, or with ``of`` its twin's where a seed has one."""
    return [
        Predictions(
            seed=seed,
            rows=_column(result, "test_rows", np.int64),
            probabilities=_column(result, f"{of}probabilities", np.float32),
            train_accuracy=_column(result, f"{of}train_correct.{grouping}", np.float64),
            train_loss=_column(result, f"{of}train_loss.{grouping}", np.float64),
            train_count=_column(result, f"{of}train_count.{grouping}", np.int64),
            train_classes=_column(result, "train_classes", np.int64),
            weights=_column(result, "weights", np.float64) if "weights" in result.arrays else None,
        )
        for seed, result in finished(plan, arm, results).items()
        if f"{of}probabilities" in result.arrays
    ]


def _column(result: JobResult, name: str, kind: type[Number]) -> NDArray[Number]:
    return result.arrays[name].astype(kind, copy=False)
