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
from fairaudit.results.estimates import Measured
from fairaudit.results.jobs import JobResult

Number = TypeVar("Number", bound=np.generic)


def measured(audit: Audit) -> Audit:
    """The audit with what was measured of its finished trainings."""
    audit = replace(audit, comparisons=measure(audit.plan, audit.dataset, audit.results))
    studies = {}
    for name, measure_study in parts("measure"):
        study = measure_study(audit)
        if study is not None:
            studies[name] = study
    return replace(audit, studies=studies)


def measure(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> tuple[Measured, ...]:
    """Measure what was trained; a seed without a result is left out of its arm.

    Args:
        plan: What was planned.
        dataset: Labels and groups.
        results: Job id -> result.
    """
    comparisons: list[Measured] = []
    for number, grouping in enumerate(dataset.groupings):
        of_arm = {arm.key: predictions(plan, arm.key, number, results) for arm in plan.arms}
        shared = evaluation(dataset, grouping)
        for arm in plan.arms:
            own = of_arm[arm.key]
            if arm.reference is None:
                comparisons.append(measure_reference(shared, arm.key, own))
                continue
            for reference in _references(plan, arm):
                baseline = on_rows_of(own, of_arm[reference])
                twin = _twin(plan, arm, reference, own, number, results)
                comparisons.append(compare(shared, arm.key, reference, own, baseline, twin))
    return tuple(comparisons)


def evaluation(dataset: Dataset, grouping: Grouping) -> Evaluation:
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
        found = predictions(plan, arm.key, grouping, results, "twin.")
    elif plan.config.twins and arm.reference is not None and arm.reference != reference:
        found = on_rows_of(own, predictions(plan, arm.reference, grouping, results))
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


def on_rows_of(
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


def predictions(
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
