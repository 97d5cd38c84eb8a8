"""A plan in numbers: about how long it takes, for people and never for a report, and its JSON."""

import math
from dataclasses import asdict

from pydantic import JsonValue, TypeAdapter

from fairaudit.analysis.build_facts import privacy_facts, training_facts
from fairaudit.audit import PreparedAudit
from fairaudit.methods.catalog import find
from fairaudit.planning.effort import products
from fairaudit.planning.plan import Plan
from fairaudit.report.reproduce import EXECUTION_FIELDS

# Seconds on one core of a 2024 server, measured on Adult with logistic regression and the 2 x 256 network.
START_UP = 3.0  # workers import torch once
PER_JOB = 0.3  # evaluation; the encoding is shared by a seed's jobs
PER_SEED = 1.2  # encoding and the scikit-learn baseline
PER_ROW = 7e-6  # of a job: preparation and evaluation, where millions of rows outweigh all else
PER_STEP = 5e-4  # one step of a small model
PER_RECORD = 9e-7  # one record of a batch in one step
PER_WEIGHT = 2e-10  # one record times one hidden weight in one step
PER_READING = 5.0  # students of noised labels, where a method reads them
PER_CHECKPOINT = 0.1  # one checkpoint of a small model
CHECKPOINT_PASSES = 1.4  # gradients of all training records at each checkpoint
KEPT_RECORDS = 20_000  # gradients of one record that its curvature amounts to
MOST_BATCHES = 72  # at a checkpoint: those of a pilot and the most that it can ask for
BATCH_RECORDS = 1_500  # gradients of one record that the curvature along a batch's amounts to


def estimated_seconds(plan: Plan, cores: int) -> float:
    """Seconds of wall time on ``cores`` cores, by a rule of thumb for tables."""
    records = plan.schedule.expected_batch_size
    step = PER_STEP + records * (PER_RECORD + PER_WEIGHT * _products(plan))
    times = {arm.key: find(arm.method).trains_by_steps * (1 + arm.has_twin) for arm in plan.arms}
    tried = {arm.key: arm.tuning.trials * arm.tuning.mean_length if arm.tuning else 1.0 for arm in plan.arms}
    tries = {arm.key: arm.tuning.trials if arm.tuning else 1 for arm in plan.arms}
    each = PER_JOB + PER_ROW * plan.schedule.n_public
    work = sum(
        each * tries[job.arm] + times[job.arm] * tried[job.arm] * job.repeats * plan.schedule.steps * step
        for job in plan.jobs
    )
    work += sum(PER_READING for job in plan.jobs if find(plan.arm(job.arm).method).readings)
    work += PER_SEED * plan.config.seeds
    beside = sum(estimated_seconds(way, 1) - START_UP for way in plan.ways.values())
    audit = START_UP + (work + beside) / max(1, min(cores, len(plan.jobs))) + reading_seconds(plan, cores)
    return (estimated_seconds(plan.leakage, cores) if plan.leakage else 0.0) + audit


def reading_seconds(plan: Plan, cores: int) -> float:
    """Seconds of that which the readings of checkpoints take at most; 0 where none are asked for.

    How many batches a step needs is known only once it is read, so this is with as many as it may take.
    """
    if plan.config.diagnostics != "full":
        return 0.0
    kept = len(plan.schedule.kept(plan.config.diagnostics_every))
    batches = MOST_BATCHES * (plan.schedule.expected_batch_size + BATCH_RECORDS)
    passes = CHECKPOINT_PASSES * plan.schedule.n_public + KEPT_RECORDS + batches
    each = PER_CHECKPOINT + passes * (PER_RECORD + PER_WEIGHT * _products(plan))
    private = {arm.key for arm in plan.arms if find(arm.method).trains_by_steps and arm.reference}
    work = sum((job.arm in private) * job.repeats * kept * each for job in plan.jobs)
    return work / max(1, min(cores, len(plan.jobs)))


def _products(plan: Plan) -> float:
    return products(plan.config, plan.model_facts, plan.model)


_JSON = TypeAdapter(dict[str, JsonValue])


def plan_record(prepared: PreparedAudit, *, seconds: float) -> dict[str, JsonValue]:
    """What `plan --json` prints: options with origins, schedule, arms with epsilon, gates, where to."""
    plan, resolved = prepared.plan, prepared.resolved
    options = resolved.config.model_dump(mode="json", exclude=set(EXECUTION_FIELDS))
    privacy = {key: facts.model_dump(mode="json") for key, facts in privacy_facts(plan, fitted=()).items()}
    return _JSON.validate_python(
        {
            "data": {"name": prepared.dataset.name, "sha256": plan.digest, "rows": prepared.dataset.n_rows},
            "config": {
                name: {"value": value, "origin": resolved.origins[name]} for name, value in options.items()
            },
            "training": training_facts(plan).model_dump(mode="json"),
            "arms": [
                {"key": arm.key, "settings": dict(arm.settings), "privacy": privacy[arm.key]}
                for arm in plan.arms
            ],
            "gates": [{"rule": rule.text, "words": rule.words} for rule in prepared.rules],
            "out": str(resolved.config.out),
            "trainings": plan.trainings,
            "trainings_attacked": len(plan.leakage.jobs) if plan.leakage else 0,
            "estimated_seconds": math.ceil(seconds),
            "notices": [asdict(notice) for notice in (*plan.notices, *prepared.dataset.notices)],
        }
    )
