"""About how long a plan takes (for people, never for a report), and the JSON of ``plan --json``."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict

from pydantic import JsonValue, TypeAdapter

from fairaudit.analysis.build_facts import privacy_of
from fairaudit.analysis.forecast import Forecast
from fairaudit.messages.base import Message
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Job, Plan
from fairaudit.report.reproduce import EXECUTION_FIELDS

# Seconds on one core of a 2024 server, measured on Adult with logistic regression and the 2 x 256
# network.
PER_OPERATION = 3e-10  # of the work that `Plan.effort` counts
START_UP = 3.0  # workers import torch once
PER_JOB = 0.3  # evaluation; the encoding is shared by a seed's jobs
PER_SEED = 1.2  # encoding and the scikit-learn baseline
PER_ROW = 7e-6  # of a job: preparation and evaluation, where millions of rows outweigh all else


def estimated_seconds(plan: Plan, cores: int, done: Collection[str] = ()) -> float:
    """Wall time of a whole run in s on ``cores`` cores, by a rule of thumb for tables.

    The plans beside ``plan`` are included, and twins where ``--twins always`` trains them.

    Args:
        plan: What is run.
        cores: Trainings at a time.
        done: Ids of jobs that are trained already, as by another value of a sweep.
    """
    seconds = PER_SEED * plan.config.seeds  # on one core, until they are divided below
    by_arm = plan.effort.by_arm
    for job in _open(plan, done):
        seconds += PER_OPERATION * by_arm[job.arm].training + _evaluation_seconds(plan, job.arm)
    for side_plan in plan.side_plans.values():  # on one core too, by the workers that run already
        seconds += estimated_seconds(side_plan, 1) - START_UP
    total = (
        START_UP + seconds / _at_once(plan.every_job, cores) + reading_seconds(plan, cores, done)
    )
    if plan.config.twins == "always":
        total += twin_seconds(plan, cores, done)
    return total


def seconds_of_side_plans(plan: Plan, cores: int) -> dict[str, float]:
    """Wall time in s that each study beside the plan adds, by its name; plans of ways are left out.

    A study shares the ``cores`` with the plan, and its workers run already.
    """
    at_once = _at_once(plan.every_job, cores)
    return {
        name: (estimated_seconds(side_plan, 1) - START_UP) / at_once
        for name, side_plan in plan.side_plans.items()
        if side_plan.study
    }


def twin_seconds(plan: Plan, cores: int, done: Collection[str] = ()) -> float:
    """Wall time in s of the twins of all arms; 0 with ``--twins off``.

    With ``--twins auto`` it is the most: twins are then trained where a cost is detected. Arguments
    are those of :func:`estimated_seconds`.
    """
    if plan.config.twins == "off":
        return 0.0
    seconds = 0.0
    by_arm = plan.effort.by_arm
    for job in _open(plan, done):
        if plan.arm(job.arm).has_twins:
            # Two twins: without noise, and the arm's steps alone.
            evaluation = 2 * _evaluation_seconds(plan, job.arm)
            seconds += PER_OPERATION * by_arm[job.arm].twins + evaluation
    return seconds / _at_once(plan.jobs, cores)


def _evaluation_seconds(plan: Plan, arm: str) -> float:
    """Seconds that a job of the arm takes beside its steps: preparation and evaluation."""
    return plan.arm(arm).trials * (PER_JOB + PER_ROW * plan.training.n_public)


def reading_seconds(plan: Plan, cores: int, done: Collection[str] = ()) -> float:
    """Wall time in s that the readings of checkpoints take at most; 0 where none are taken.

    How many batches a checkpoint's reading draws is known only once it is taken: the largest number
    is assumed. Arguments are those of :func:`estimated_seconds`.
    """
    if plan.config.diagnostics != "full":
        return 0.0
    by_arm = plan.effort.by_arm
    work = sum(by_arm[job.arm].full for job in _open(plan, done))
    return PER_OPERATION * work / _at_once(plan.jobs, cores)


def _open(plan: Plan, done: Collection[str]) -> Iterator[Job]:
    """The plan's own jobs that are still to be trained."""
    return (job for job in plan.jobs if job.id not in done)


def _at_once(jobs: Sequence[Job], cores: int) -> int:
    """How many of the jobs are trained at a time, at least 1."""
    return max(1, min(cores, len(jobs)))


_JSON = TypeAdapter(dict[str, JsonValue])


def plan_record(
    prepared: Audit, *, seconds: float, foreseen: Sequence[Forecast] = ()
) -> dict[str, JsonValue]:
    """The JSON-ready record that ``plan --json`` prints.

    The record holds the options with their origins, schedule, arms with epsilon, gates, what these
    can be expected to say, and the output folder.

    Args:
        prepared: The audit, of which nothing is trained yet.
        seconds: Estimated wall time of the run.
        foreseen: What the rules can be expected to say.
    """
    plan, resolved = prepared.plan, prepared.resolved
    options = resolved.config.model_dump(mode="json", exclude=set(EXECUTION_FIELDS))
    arms = []
    for arm in plan.arms:
        facts = privacy_of(arm, plan, fitted=(), results={}).model_dump(mode="json")
        arms.append({"key": arm.key, "settings": arm.settings, "privacy": facts})
    return _JSON.validate_python(
        {
            "data": {
                "name": prepared.dataset.name,
                "sha256": plan.digest,
                "rows": prepared.dataset.n_rows,
            },
            "config": {
                name: {"value": value, "origin": resolved.origins[name]}
                for name, value in options.items()
            },
            "training": plan.training.model_dump(mode="json"),
            "arms": arms,
            "gates": [{"rule": rule.text, "words": rule.words()} for rule in prepared.rules],
            "forecasts": [{**asdict(one), "can_pass": one.can_pass} for one in foreseen],
            "out": str(resolved.config.out),
            "trainings": plan.trainings,
            "trainings_beside": {
                name: len(side_plan.jobs) for name, side_plan in plan.side_plans.items()
            },
            "estimated_seconds": math.ceil(seconds),
            "notices": [_entry(notice) for notice in (*plan.notices, *prepared.dataset.notices)],
        }
    )


def _entry(notice: Message) -> dict[str, str]:
    """One message as an entry of the record's ``notices``."""
    return {"code": notice.code, "message": notice.text, "fix": notice.fix, "level": notice.level}
