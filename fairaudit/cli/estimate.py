"""About how long a plan takes; for people, never for a report."""

from fairaudit.methods.catalog import find
from fairaudit.planning.effort import products
from fairaudit.planning.plan import Plan

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
    attacked = estimated_seconds(plan.leakage, cores) if plan.leakage else 0.0
    return attacked + _of_audit(plan, cores)


def _of_audit(plan: Plan, cores: int) -> float:
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
    return START_UP + (work + beside) / max(1, min(cores, len(plan.jobs))) + reading_seconds(plan, cores)


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
