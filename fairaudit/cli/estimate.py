"""A plan in numbers: about how long it takes, for people and never for a report, and its JSON."""

import math
from dataclasses import asdict

from pydantic import JsonValue, TypeAdapter

from fairaudit.analysis.build_facts import privacy_of
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Plan
from fairaudit.report.reproduce import EXECUTION_FIELDS

# Seconds on one core of a 2024 server, measured on Adult with logistic regression and the 2 x 256
# network.
PER_OPERATION = 3e-10  # of an effort
START_UP = 3.0  # workers import torch once
PER_JOB = 0.3  # evaluation; the encoding is shared by a seed's jobs
PER_SEED = 1.2  # encoding and the scikit-learn baseline
PER_ROW = 7e-6  # of a job: preparation and evaluation, where millions of rows outweigh all else


def estimated_seconds(plan: Plan, cores: int) -> float:
    """Seconds of wall time on ``cores`` cores, by a rule of thumb for tables."""
    seconds = PER_OPERATION * _seeds(plan) * plan.effort.training + PER_SEED * plan.config.seeds
    for job in plan.jobs:
        seconds += _evaluating(plan, job.arm)
    for beside in plan.beside.values():
        seconds += estimated_seconds(beside, 1) - START_UP
    total = START_UP + seconds / _at_once(plan, cores) + reading_seconds(plan, cores)
    if plan.config.twins == "always":
        total += twin_seconds(plan, cores)
    return total


def twin_seconds(plan: Plan, cores: int) -> float:
    """Seconds that the twins of all arms take, or may take where they wait for a detected cost."""
    if plan.config.twins == "off":
        return 0.0
    seconds = PER_OPERATION * _seeds(plan) * plan.effort.twins
    for job in plan.jobs:
        if plan.arm(job.arm).has_twins:
            seconds += 2 * _evaluating(plan, job.arm)  # without noise, and its steps alone
    return seconds / _at_once(plan, cores)


def _evaluating(plan: Plan, arm: str) -> float:
    return plan.arm(arm).trials * (PER_JOB + PER_ROW * plan.training.n_public)


def reading_seconds(plan: Plan, cores: int) -> float:
    """Seconds of that which the readings of checkpoints take at most; 0 where none are asked for.

    How many batches a step needs is known only once it is read, so this is with as many as it may
    take.
    """
    if plan.config.diagnostics != "full":
        return 0.0
    return PER_OPERATION * _seeds(plan) * plan.effort.full / _at_once(plan, cores)


def _seeds(plan: Plan) -> int:
    return len({job.seed for job in plan.jobs})


def _at_once(plan: Plan, cores: int) -> int:
    return max(1, min(cores, len(plan.jobs)))


_JSON = TypeAdapter(dict[str, JsonValue])


def plan_record(prepared: Audit, *, seconds: float) -> dict[str, JsonValue]:
    """The JSON-ready record that ``plan --json`` prints.

    Options with origins, schedule, arms with epsilon, gates, where to.
    """
    plan, resolved = prepared.plan, prepared.resolved
    options = resolved.config.model_dump(mode="json", exclude=set(EXECUTION_FIELDS))
    arms = []
    for arm in plan.arms:
        facts = privacy_of(
            arm,
            plan,
            fitted=(),
            results={},
        ).model_dump(mode="json")
        arms.append(
            {
                "key": arm.key,
                "settings": arm.settings,
                "privacy": facts,
            }
        )
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
            "out": str(resolved.config.out),
            "trainings": plan.trainings,
            "trainings_beside": {name: len(beside.jobs) for name, beside in plan.beside.items()},
            "estimated_seconds": math.ceil(seconds),
            "notices": [asdict(notice) for notice in (*plan.notices, *prepared.dataset.notices)],
        }
    )
