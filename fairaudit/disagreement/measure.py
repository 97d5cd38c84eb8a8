"""Trainings on the same rows -> the share of each group that is decided by chance.

The numbers and gaps stand in the audit's own comparisons, under the names of
``metrics.registry.of_retraining``; a study says from which trainings they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished
from fairaudit.analysis.build_facts import digest_of, failed_seeds
from fairaudit.data.dataset import Float32, Grouping, Int64
from fairaudit.data.predictions import Scored
from fairaudit.disagreement.plan import AGAIN, NAME, OWN_ROWS, TO_MEASURE, why_not
from fairaudit.disagreement.study import Disagreement, RetrainedArm
from fairaudit.errors import numbered
from fairaudit.metrics.disagreement import LEAST_TRAININGS, NOT_TESTED, disagreement_tables
from fairaudit.metrics.gaps import (
    GroupSelection,
    checked_contrast,
    gaps_of,
    judged,
    too_few_for_gates,
)
from fairaudit.metrics.intervals import EvaluatedRecords, MetricTable, estimate
from fairaudit.metrics.registry import DISAGREEMENT, DISAGREEMENT_COST, spec_of
from fairaudit.metrics.within_model import predicted_class
from fairaudit.planning.flow import Audit
from fairaudit.results.estimates import Estimate, Gap, GroupMeasure, Measured, undefined
from fairaudit.results.jobs import JobResult

ONE_GIVEN = "predictions of one training were given"
OTHER_PEOPLE = "the seeds' predictions are on different rows"


@dataclass(frozen=True, slots=True)
class Answered:
    """Whom one training answered, and how.

    Args:
        rows: Rows of the dataset that it was tested on, ``[n]``.
        answers: The class that it predicts for each, ``[n]``.
    """

    rows: Int64
    answers: Int64


Trainings = Mapping[int, Answered]  # seed -> what that training answered


def compared(audit: Audit) -> tuple[Measured, ...]:
    """The audit's comparisons with the disagreement of every arm, of its reference, and the cost.

    Where no trainings are on the same rows the numbers are there and undefined, with the reason.
    """
    plan, dataset = audit.plan, audit.dataset
    why = why_not(plan, dataset)
    if why == OWN_ROWS:
        why = f"{why}: {TO_MEASURE}"
    # Its jobs are on the same rows: the further trainings of --again, else the audit's own seeds.
    trained = plan.side_plans.get(AGAIN, plan)
    least = plan.config.suppress_below
    groupings = {grouping.name: grouping for grouping in dataset.groupings}
    measured = []
    for one in audit.comparisons:
        if why:
            measured.append(_undefined(one, why))
            continue
        arms = [one.arm, one.reference] if one.reference else [one.arm]
        sides, why_no_gate = [], ""  # if trainings of both failed, the reference's are named
        for key in arms:
            done = finished(trained, key, audit.results)
            sides.append({seed: _answered(result) for seed, result in done.items()})
            failed = failed_seeds(trained, key, audit.results, audit.failures)
            if failed:
                why_no_gate = f"{numbered(len(failed), 'training')} of {key} without a result"
        grouping = groupings[one.grouping]
        measured.append(with_disagreement(one, grouping, sides, least, why_no_gate))
    return tuple(measured)


def measure(audit: Audit) -> Disagreement:
    """From which trainings the disagreement was measured, or why it was not."""
    plan = audit.plan
    trained = plan.side_plans.get(AGAIN, plan)  # the further trainings, else the audit's own
    why = why_not(plan, audit.dataset)
    arms = []
    for arm in () if why else trained.arms:  # where nothing was measured, no arm is named
        arms.append(
            RetrainedArm(
                arm=arm.key,
                finished=len(finished(trained, arm.key, audit.results)),
                failed=failed_seeds(trained, arm.key, audit.results, audit.failures),
                trainings=digest_of(trained, arm.key, audit.results),
            )
        )
    return Disagreement(
        name=NAME,
        comparisons=(),
        source="again" if AGAIN in plan.side_plans else "seeds",
        reason=why,
        advice=TO_MEASURE if why == OWN_ROWS else "",
        planned=0 if why else trained.config.seeds,
        arms=tuple(arms),
    )


def scored(
    scored: Scored, comparisons: Sequence[Measured]
) -> tuple[tuple[Measured, ...], Disagreement | None]:
    """The disagreement in given predictions, whose seeds are taken for trainings on the same rows.

    Args:
        scored: The predictions.
        comparisons: What was measured of them.

    Returns:
        The comparisons with the disagreement; and the study, which says from which trainings the
        disagreement is, None where one training was given.
    """
    seeds = len(scored.predictions)
    why = ""
    if seeds == 1:
        why = ONE_GIVEN
    elif not scored.same_rows:
        why = OTHER_PEOPLE
    groupings = {grouping.name: grouping for grouping in scored.dataset.groupings}
    private, baseline = (
        _given(models, scored.rows) for models in (scored.predictions, scored.baseline)
    )
    measured = []
    for one in comparisons:
        if why:
            measured.append(_undefined(one, why))
            continue
        if one.reference and baseline:
            sides = [private, baseline]
        elif baseline:  # a model measured by itself is then the baseline
            sides = [baseline]
        else:
            sides = [private]
        measured.append(with_disagreement(one, groupings[one.grouping], sides))
    study = Disagreement(
        name=NAME, comparisons=(), source="given", reason=why, planned=seeds, arms=()
    )
    return tuple(measured), None if seeds == 1 else study


def _answered(result: JobResult) -> Answered:
    """What the training of a job answered; of several repeats the first.

    Repeats of a job share its start, so they are no independent trainings.
    """
    probabilities = result.arrays["probabilities"][:1].astype(np.float32, copy=False)
    rows = result.arrays["test_rows"].astype(np.int64, copy=False)
    return Answered(rows, _classes(probabilities))


def _given(models: Sequence[Float32], rows: Sequence[Int64]) -> dict[int, Answered]:
    """What given predictions of each seed answered; empty where none are given."""
    given = {}
    for seed, probabilities in enumerate(models):
        given[seed] = Answered(rows[seed], _classes(probabilities[None]))
    return given


def _classes(probabilities: NDArray[np.float32]) -> Int64:
    """The predicted class of each row, ``[n]``; NOT_TESTED where an output is not finite.

    Args:
        probabilities: Of one model, ``[1, n, Y]``.
    """
    known = np.isfinite(probabilities[0]).all(axis=-1)
    return np.where(known, predicted_class(probabilities)[0], NOT_TESTED)


def with_disagreement(
    measured: Measured,
    grouping: Grouping,
    sides: Sequence[Trainings],
    suppressed_below: int = 0,
    why_no_gate: str = "",
) -> Measured:
    """The comparison with its disagreement, from trainings that differ in nothing but chance.

    Args:
        measured: The comparison.
        grouping: By which it is cut.
        sides: Trainings of the arm; then of its reference, if it has one, by the same seeds.
        suppressed_below: A group of fewer people is hidden, so compared with no other.
        why_no_gate: Why no gate may read the numbers (trainings failed), in words; "" if gates may.
    """
    # Seeds at which each of the models was trained.
    seeds = [seed for seed in sides[0] if all(seed in side for side in sides)]
    if len(seeds) < LEAST_TRAININGS:
        trainings = numbered(len(seeds), "training")
        return _undefined(measured, f"{trainings} on the same rows; {LEAST_TRAININGS} are needed")
    tested = [sides[0][seed].rows for seed in seeds]
    records = EvaluatedRecords.of(tested, grouping.groups, len(grouping.names))
    answers = [_answers(side, seeds, records, len(grouping.groups)) for side in sides]
    # At each seed a person counts if the arm and its reference both answered.
    known = np.logical_and.reduce([of_side >= 0 for of_side in answers])  # NOT_TESTED is negative
    answers = [np.where(known, of_side, NOT_TESTED) for of_side in answers]
    tables = disagreement_tables(answers[0], records, *answers[1:])
    counts = next(iter(tables.values())).counts  # of people by group, the same in every table
    cut = GroupSelection(
        names=grouping.names,
        missing=grouping.missing,
        counts=counts,
        n_seeds=len(seeds),
        suppressed_below=suppressed_below,
        each="training",
    )
    groups = [*measured.by_group, measured.overall]
    revised = [_with_numbers(group, k, tables, cut, why_no_gate) for k, group in enumerate(groups)]
    gaps: list[Gap] = list(measured.gaps)
    for table in tables.values():
        for gap in gaps_of(table, cut):
            if why_no_gate and gap.gated:
                ungated = gap.model_copy(update={"gated": False, "reason": why_no_gate})
                gap = judged(ungated, is_detected=False)  # its reading follows from ``gated``
            gaps.append(gap)
    update = {"by_group": tuple(revised[:-1]), "overall": revised[-1], "gaps": tuple(gaps)}
    return measured.model_copy(update=update)


def _answers(
    side: Trainings, seeds: Sequence[int], records: EvaluatedRecords, n_rows: int
) -> Int64:
    """Answers of some trainings to the tested people in their order, ``[S, U]``.

    Args:
        side: The trainings.
        seeds: Which of them, ``[S]``.
        records: The tested people.
        n_rows: N, of the dataset.
    """
    answers = np.full((len(seeds), len(records.ids)), NOT_TESTED, dtype=np.int64)
    of_row = np.empty(n_rows, dtype=np.int64)  # one seed's answer by row of the dataset
    for place, seed in enumerate(seeds):
        of_row.fill(NOT_TESTED)
        of_row[side[seed].rows] = side[seed].answers
        answers[place] = of_row[records.ids]
    return answers


def _with_numbers(
    group: GroupMeasure,
    k: int,
    tables: Mapping[str, MetricTable],
    cut: GroupSelection,
    why_no_gate: str,
) -> GroupMeasure:
    """The measures of group k, or of all rows where k is K, with the disagreement added.

    Args:
        group: The measures without the disagreement.
        k: Index of the group.
        tables: Name of a number -> its values at every training, by group.
        cut: The K groups, and which of them are too small to compare.
        why_no_gate: As of :func:`with_disagreement`.
    """
    estimates, ungated = dict(group.estimates), dict(group.ungated)
    for name, table in tables.items():
        estimates[name] = _number(table, k, cut)
        # The first reason that is not "".
        why = why_no_gate or cut.too_few_seeds or too_few_for_gates(table, cut, [k])
        if why:
            ungated[name] = why
    return group.model_copy(update={"estimates": estimates, "ungated": ungated})


def _number(table: MetricTable, k: int, cut: GroupSelection) -> Estimate:
    """The number of group k with its interval; undefined where too few people leave no interval."""
    number = estimate(checked_contrast(table, cut, k))
    if number.ends is None:
        return undefined(number.reason, number.unit, number.n_test)
    return number


def _undefined(measured: Measured, why: str) -> Measured:
    """The comparison with numbers that are undefined, for that reason."""
    names = list(_names(measured))
    nothing = {name: undefined(why, spec_of(name).unit, n_test=None) for name in names}
    groups = [
        group.model_copy(update={"estimates": {**group.estimates, **nothing}})
        for group in (*measured.by_group, measured.overall)
    ]
    return measured.model_copy(update={"by_group": tuple(groups[:-1]), "overall": groups[-1]})


def _names(measured: Measured) -> Iterator[str]:
    """Names of the numbers that a comparison has."""
    yield DISAGREEMENT
    if measured.reference:
        yield f"reference.{DISAGREEMENT}"
        yield DISAGREEMENT_COST
