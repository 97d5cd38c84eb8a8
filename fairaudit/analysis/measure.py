"""Results to comparisons: every arm against its reference, cut by every grouping.

A *twin* is a private training once more, without its noise or with its steps alone; it lies between
an arm and its reference and splits the arm's cost. ``grouping`` as a number is the place of a
grouping in the data set: of each a job holds its training rows by group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.misalignment import with_step_readings
from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.methods.catalog import find
from fairaudit.metrics.compare import (
    FIXED_SPLIT,
    ONE_MODEL,
    ONE_TABLE,
    SEVERAL_SPLITS,
    Evaluation,
    Twin,
    compare,
    measure_reference,
)
from fairaudit.metrics.registry import STEP, STEP_AND_CLIPPING
from fairaudit.metrics.within_model import ArmPredictions, LabelOutcome
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Arm, Plan
from fairaudit.results.estimates import Measured
from fairaudit.results.jobs import STEP_FACT, WITHOUT_NOISE, JobResult, StepTwin

Number = TypeVar("Number", bound=np.generic)


def measured(audit: Audit) -> Audit:
    """A copy of the audit with its comparisons and with what capabilities (as leakage) measured.

    A capability may add numbers to the comparisons (``compared``), and have a study of its own.
    """
    audit = replace(audit, comparisons=measure(audit.plan, audit.dataset, audit.results))
    for capability in CAPABILITIES:
        audit = replace(audit, comparisons=capability.compared(audit))
    studies = {}
    for capability in CAPABILITIES:
        study = capability.measure(audit)
        if study is not None:  # None: it was not asked for
            studies[capability.name] = study
    return replace(audit, studies=studies)


def measure(plan: Plan, dataset: Dataset, results: Mapping[str, JobResult]) -> tuple[Measured, ...]:
    """Compare every arm with its references, or measure it by itself where it has none.

    There is one result for each arm, reference and grouping. A seed without a result is left out of
    its arm.

    Args:
        plan: What was planned.
        dataset: Labels and groups.
        results: Job id -> result.
    """
    comparisons: list[Measured] = []
    for number, grouping in enumerate(dataset.groupings):
        of_arm = {arm.key: predictions(plan, arm.key, number, results) for arm in plan.arms}
        shared = evaluation(dataset, grouping, plan.config.suppress_below)
        # A given synthetic table is one drawing of its maker; intervals hold no effect of another.
        if plan.config.has_given_synthetic:
            shared = replace(shared, estimand=estimand_of_table(plan.config))
        for arm in plan.arms:
            private = of_arm[arm.key]
            if arm.reference is None:
                comparisons.append(measure_reference(shared, arm.key, private))
                continue
            for reference in (arm.reference, *arm.other_references):
                baseline = on_rows_of(private, of_arm[reference])
                twins = _twins(plan, arm, baseline, number, results)
                # Against a further reference, the twin is the arm's own reference: what the arm
                # would be without its noise.
                if plan.config.twins != "off" and arm.reference != reference:
                    between = on_rows_of(private, of_arm[arm.reference])
                    twins = [Twin(find(arm.method).part, between)]
                made = compare(shared, arm.key, reference, private, baseline, twins)
                comparisons.append(with_step_readings(made, plan, grouping, number, results))
    return tuple(comparisons)


def evaluation(dataset: Dataset, grouping: Grouping, suppressed_below: int) -> Evaluation:
    """What all comparisons by a grouping are measured on: labels, groups, classes, estimand.

    The estimand says whether the split was given with the data or is another at each seed.
    """
    outcome = LabelOutcome(len(dataset.classes), dataset.positive, dataset.favourable)
    estimand = SEVERAL_SPLITS if dataset.split is None else FIXED_SPLIT
    return Evaluation(dataset.labels, grouping, outcome, estimand, suppressed_below)


def estimand_of_table(config: AuditConfig) -> str:
    """The estimand with a given synthetic table: of models trained on it, or of one of them."""
    return ONE_MODEL if config.seeds == 1 else ONE_TABLE


def _twins(
    plan: Plan,
    arm: Arm,
    baseline: Sequence[ArmPredictions],
    grouping: int,
    results: Mapping[str, JobResult],
) -> list[Twin]:
    """The twins of an arm, in order from its reference: its steps alone, itself without noise.

    Empty where no twin was trained; only the arm without noise where the effects of the length of
    its steps and of its clipping cannot be separated.

    Args:
        plan: Holds the twins' jobs.
        arm: The arm.
        baseline: Predictions of its reference on the same rows.
        grouping: Place of the grouping.
        results: Job id -> result.
    """
    arm_results = finished(plan, arm.key, results)
    # Seed -> twins' result; without the arm's result there is nothing that a twin could split.
    trained: dict[int, JobResult] = {}
    for job in plan.twins:
        if job.arm == arm.key and job.id in results and job.seed in arm_results:
            trained[job.seed] = results[job.id]
    if not trained:
        return []
    without_noise = _predictions(
        _with_twin_arrays(arm_results, trained, f"{WITHOUT_NOISE}."), grouping
    )
    # Where one seed has no twin of the steps alone, step and clipping are one part at all seeds.
    if any(result.facts[STEP_FACT] == StepTwin.NONE for result in trained.values()):
        spec = find(arm.method)
        return [Twin(STEP_AND_CLIPPING if spec.trains_by_steps else spec.part, without_noise)]
    steps_alone = _predictions(_with_twin_arrays(arm_results, trained, f"{STEP_FACT}."), grouping)
    # Where the arm's steps are as long as the reference's, the reference itself is the twin.
    for p in baseline:
        if p.seed in trained and trained[p.seed].facts[STEP_FACT] == StepTwin.REFERENCE:
            steps_alone.append(p)
    return [Twin(STEP, steps_alone), Twin(find(arm.method).part, without_noise)]


def _with_twin_arrays(
    of_arm: Mapping[int, JobResult], twins: Mapping[int, JobResult], prefix: str
) -> dict[int, JobResult]:
    """Seed -> the arm's result with a twin's predictions in the place of its own.

    Args:
        of_arm: Seed -> result of the arm.
        twins: Seed -> result of its twins' job, which holds the arrays of both twins.
        prefix: Which twin: what the names of its arrays begin with. A seed without any is left out.
    """
    swapped = {}
    for seed, twin in twins.items():
        arrays = {}
        for name, values in twin.arrays.items():
            if name.startswith(prefix):
                arrays[name.removeprefix(prefix)] = values
        if arrays:
            swapped[seed] = replace(of_arm[seed], arrays={**of_arm[seed].arrays, **arrays})
    return swapped


def on_rows_of(
    private: Sequence[ArmPredictions], baseline: Sequence[ArmPredictions]
) -> Sequence[ArmPredictions]:
    """The baseline's predictions on the rows on which the arm was tested at the same seed.

    An arm whose students are trained on a part of the test rows (PATE) is tested on the others. A
    seed that the arm lacks is left out.
    """
    rows_of = {p.seed: p.rows for p in private}
    aligned = []
    for p in baseline:
        rows = rows_of.get(p.seed)
        if rows is None:
            continue
        if not np.array_equal(p.rows, rows):
            # In the baseline's order; `compare` asserts that it is the arm's, too.
            place = np.flatnonzero(np.isin(p.rows, rows))
            p = replace(p, rows=p.rows[place], probabilities=p.probabilities[:, place])
        aligned.append(p)
    return aligned


def predictions(
    plan: Plan, arm: str, grouping: int, results: Mapping[str, JobResult]
) -> Sequence[ArmPredictions]:
    """What an arm predicts at every finished seed, with its training rows by a grouping.

    Args:
        plan: Holds the jobs.
        arm: Key of the arm.
        grouping: Place of the grouping.
        results: Job id -> result.
    """
    return _predictions(finished(plan, arm, results), grouping)


def _predictions(results: Mapping[int, JobResult], grouping: int) -> list[ArmPredictions]:
    """The predictions of one arm out of its results by seed.

    ``grouping``: the place of the grouping by which training rows are counted.
    """
    by_seed = []
    for seed, result in results.items():
        weights = None
        if "weights" in result.arrays:
            weights = _column(result, "weights", np.float64)
        of_seed = ArmPredictions(
            seed=seed,
            rows=_column(result, "test_rows", np.int64),
            probabilities=_column(result, "probabilities", np.float32),
            train_count=_column(result, f"train_count.{grouping}", np.int64),
            train_classes=_column(result, "train_classes", np.int64),
            weights=weights,
        )
        by_seed.append(of_seed)
    return by_seed


def _column(result: JobResult, name: str, kind: type[Number]) -> NDArray[Number]:
    """An array of a finished training, of any shape, as ``kind``; a copy only if types differ."""
    return result.arrays[name].astype(kind, copy=False)
