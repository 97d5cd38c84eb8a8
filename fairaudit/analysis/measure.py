"""Results to comparisons: every arm against its reference, cut by every grouping."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.capabilities import parts
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.methods.catalog import REFERENCE, find
from fairaudit.metrics.compare import (
    FIXED_SPLIT,
    SEVERAL_SPLITS,
    Evaluation,
    Twin,
    compare,
    measure_reference,
)
from fairaudit.metrics.within_model import LabelOutcome, Predictions
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Arm, Plan
from fairaudit.results.estimates import DEFAULT, Measured, key_of
from fairaudit.results.jobs import JobResult

Number = TypeVar("Number", bound=np.generic)


def measured(audit: Audit) -> Audit:
    """The audit with what was measured of its finished trainings."""
    everything = audit.plan, audit.dataset, audit.results
    studies = {}
    for name, measure_study in parts("measure"):
        if name in audit.plan.beside:
            studies[name] = measure_study(audit, audit.plan.beside[name])
    return replace(
        audit,
        comparisons=measure(*everything),
        ways=measure_ways(*everything),
        gains=measure_gains(*everything),
        studies=studies,
    )


def measure(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> tuple[Measured, ...]:
    """Measure what was trained; a seed without a result is left out of its arm.

    Args:
        plan: What was planned.
        dataset: Labels and groups.
        results: Job id -> result.
    """
    comparisons: list[Measured] = []
    for number, grouping in enumerate(dataset.groupings):
        predictions = {arm.key: _predictions(plan, arm.key, number, results) for arm in plan.arms}
        shared = _shared(dataset, grouping)
        for arm in plan.arms:
            own = predictions[arm.key]
            if arm.reference is None:
                comparisons.append(measure_reference(shared, arm.key, own))
                continue
            for reference in _references(plan, arm):
                baseline = _on_rows_of(own, predictions[reference])
                twin = _twin(plan, arm, reference, own, number, results)
                comparisons.append(compare(shared, arm.key, reference, own, baseline, twin))
    return tuple(comparisons)


def measure_ways(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> dict[str, tuple[Measured, ...]]:
    """The same of each way beside a search, under the names that its arms have there."""
    own = plan.beside.get(DEFAULT)
    if own is None:
        return {}
    renamed = []
    for comparison in measure(own, dataset, results):
        names = {"arm": key_of(comparison.arm, DEFAULT)}
        if comparison.reference:
            names["reference"] = key_of(comparison.reference, DEFAULT)
        renamed.append(comparison.model_copy(update=names))
    return {DEFAULT: tuple(renamed)}


def measure_gains(
    plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]
) -> tuple[Measured, ...]:
    """Every arm at its default setting against itself as tuned, on the same seeds and rows.

    What these comparisons call a cost is what searching gained.
    """
    untuned = plan.beside.get(DEFAULT)
    if untuned is None:
        return ()
    gains = []
    for number, grouping in enumerate(dataset.groupings):
        shared = _shared(dataset, grouping)
        for arm in plan.arms:
            default = _predictions(untuned, arm.key, number, results)
            tuned = _on_rows_of(default, _predictions(plan, arm.key, number, results))
            gains.append(compare(shared, key_of(arm.key, DEFAULT), arm.key, default, tuned))
    return tuple(gains)


def _shared(dataset: Dataset, grouping: Grouping) -> Evaluation:
    """What all comparisons by a grouping are measured on."""
    outcome = LabelOutcome(len(dataset.classes), dataset.positive, dataset.favourable)
    estimand = SEVERAL_SPLITS if dataset.split is None else FIXED_SPLIT
    return Evaluation(dataset.labels, grouping, outcome, estimand)


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
    """The arm's own reference, then sgd where that is another model."""
    assert arm.reference is not None
    own = plan.arm(arm.reference)
    if own.reference or own.method == REFERENCE or own.is_own_code:  # another kind of model
        return [own.key]
    return [own.key, REFERENCE]


def _on_rows_of(
    private: Sequence[Predictions], baseline: Sequence[Predictions]
) -> Sequence[Predictions]:
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
