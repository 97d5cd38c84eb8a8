"""One job in one worker process: split and encode its seed's rows, train, predict the test rows.

What leaves the process is a :class:`JobResult` of arrays (name -> array) and facts (JSON-ready); no
model does.
"""

import hashlib
import importlib
import math
import time

import numpy as np
import torch
from torch import Tensor, nn

from fairaudit.capabilities.installed import capability
from fairaudit.config.model_names import has_linear_baseline, is_factory
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import Inputs
from fairaudit.data.inputs.spool import Shared
from fairaudit.diagnostics import causes, misalignment
from fairaudit.diagnostics.checkpoints import kept_at_once, refuse_too_many
from fairaudit.diagnostics.observers import EpochCurves
from fairaudit.engine.devices import find_device
from fairaudit.engine.observe import Observer
from fairaudit.engine.stacked import DEFAULT_BUDGET
from fairaudit.errors import ConfigError, TrainingError
from fairaudit.execution.model_setup import start_model
from fairaudit.execution.outcomes import outcome
from fairaudit.execution.seed_data import SeedData, prepare_seed
from fairaudit.execution.trained import method_of
from fairaudit.execution.twins import train_twins
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.catalog import REFERENCE, admit, admit_own, find, home_of
from fairaudit.methods.spec import Need
from fairaudit.metrics.sklearn_check import logistic_baseline
from fairaudit.models.zoo import check_outputs
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Job, Plan
from fairaudit.privacy.events import event_to_json
from fairaudit.results.jobs import Array, JobContent, JobResult
from fairaudit.results.steps import STEPS

BASELINE_ROWS = 100_000  # of each side: enough for an accuracy to a third of a percent


def run_job(plan: Plan, job: Job, source: JobResult | None, inputs: Shared[Inputs]) -> JobResult:
    """Train one arm at one seed, and return its predictions, readings and facts.

    Args:
        plan: The frozen plan.
        job: The arm and seed to train.
        source: The result of ``job.source_id``, whose released series a control reads; None for a
            job that reads none.
        inputs: The data.

    Raises:
        TrainingError: The training diverged, or the user's own code or model failed.
        OutputError: The disk is full.
    """
    # A job of a plan beside the audit's is trained by that plan. Of the audit's own jobs ``way`` is
    # "", which names none.
    plan = plan.side_plans.get(job.way, plan)
    began = time.perf_counter()
    # Gradients of records that are predicted well become denormal float32 numbers, which a
    # processor handles several times more slowly; they are taken for 0.
    torch.set_flush_denormal(True)
    # Methods that options name are not in the catalog of this process yet.
    admit(plan.config.method)
    admit_own(plan.config)
    arm = plan.arm(job.arm)
    spec = find(arm.method)
    prepared = prepare_seed(plan, job.seed, inputs, by_pool=Need.PUBLIC_POOL in spec.needs)
    arrays, of_training = _train(plan, job, arm, prepared, source)
    # Which rows were tested is left out for twins, since the job of their arm says it, and for a
    # study, which keeps its rows in arrays of its own (unless code of the user's own trains it).
    if not job.is_twins and (not plan.study or arm.capability):
        arrays = {**_rows_of_split(prepared), **arrays}
    seconds = time.perf_counter() - began
    facts = {**_facts_of_data(prepared), **of_training, "seconds": seconds}
    return JobResult(job.id, arrays, facts)


def _rows_of_split(prepared: SeedData) -> dict[str, Array]:
    """Places of the test rows in the dataset, [n], and training rows of each class, [Y]."""
    dataset, split = prepared.dataset, prepared.encoded.split
    counts = np.bincount(dataset.labels[split.train], minlength=len(dataset.classes))
    return {"test_rows": split.test, "train_classes": counts.astype(np.int64)}


def _facts_of_data(prepared: SeedData) -> dict[str, object]:
    """What the report says of a seed's data: sizes, inputs, what was fitted, doubles (JSON-ready).

    ``duplicates_across_split`` counts the test rows that are equal to a training row.
    """
    encoded, dataset = prepared.encoded, prepared.dataset
    facts: dict[str, object] = {
        "n_train": len(encoded.split.train),
        "inputs": list(encoded.names),
        "fitted": list(encoded.fitted),
        "merged": dict(encoded.merged),
    }
    first = dataset.duplicate_of  # [N], of each row the index of its first identical row
    if first is not None:  # None: not known
        is_double = np.isin(first[encoded.split.test], first[encoded.split.train])
        facts["duplicates_across_split"] = int(is_double.sum())
    return facts


def _train(
    plan: Plan, job: Job, arm: Arm, prepared: SeedData, source: JobResult | None
) -> JobContent:
    """Train a job by whoever trains it, and keep what is read of such a training.

    Code that options name is run by its capability, and a search trains its candidates itself.
    All else is trained by the arm's method: its twins, a training of a study, an arm of the audit.

    Args:
        plan, job, source: As of :func:`run_job`.
        arm: The job's.
        prepared: The seed's data.
    """
    if arm.capability:
        return capability(arm.capability).train(plan, job, arm, prepared)
    method = method_of(arm)
    # A search has no source to read: each of its candidates is a training of its own.
    task = task_of(plan, job, arm, prepared, None if arm.search else source)
    if job.is_twins:
        rate = plan.arm(REFERENCE).settings["learning_rate"]
        return train_twins(arm, method, task, prepared, rate)
    if arm.search is not None:
        return arm.search.train(arm, method, task, prepared)
    if plan.study:
        return _train_for_study(plan, arm, method, task, prepared)
    return _train_and_read(plan, arm, method, task, prepared)


def _train_for_study(
    plan: Plan, arm: Arm, method: Method, task: Task, prepared: SeedData
) -> JobContent:
    """Train an arm beside the audit, and keep the arrays that the study keeps of it; no facts."""
    trained = method.fit(task, [])
    _assert_as_planned(arm, trained)
    return capability(plan.study).outcome(task, trained, prepared), {}


def _train_and_read(
    plan: Plan, arm: Arm, method: Method, task: Task, prepared: SeedData
) -> JobContent:
    """Train an arm as the plan has it, and read what ``--diagnostics`` asks for.

    Returns:
        The training's part of :class:`JobResult`: arrays (probabilities of test rows, readings,
        traces over steps) and facts.

    Raises:
        TrainingError: The training diverged, or the method does not say what a reading of its is.
    """
    observers: list[Observer] = []
    if plan.config.diagnostics != "off":
        observers.append(EpochCurves())
    trained = method.fit(task, observers)
    _assert_as_planned(arm, trained)
    arrays = {
        **outcome(task, trained, prepared),
        **_readings_of_method(plan, arm, method, task, trained),
        **_readings_at_checkpoints(plan, method, task, trained, prepared),
        **_series(trained),
    }
    facts: dict[str, object] = {
        "event": event_to_json(trained.event) if trained.event else None,
        "params_sha256": hashlib.sha256(trained.parameters.numpy().tobytes()).hexdigest(),
        "parameters": trained.network.n_parameters,
    }
    # By a linear model's accuracy the report judges whether the reference is undertrained.
    has_baseline = has_linear_baseline(plan.training.model, prepared.dataset.image_shape)
    if arm.method == REFERENCE and has_baseline:
        facts["sklearn_baseline"] = _baseline(prepared)
    return arrays, facts


def _readings_of_method(
    plan: Plan, arm: Arm, method: Method, task: Task, trained: TrainedReplicates
) -> dict[str, Array]:
    """What the method's own diagnostics read, as ``reading.NAME``; nothing without diagnostics.

    Raises:
        TrainingError: The method does not say what a reading of its is.
    """
    spec = find(arm.method)
    if plan.config.diagnostics == "off" or not spec.readings:
        return {}
    module, _, name = spec.readings.partition(":")
    read = getattr(importlib.import_module(module), name)(method, task, trained)
    # A third-party method must say what each of its readings is; ours are known to.
    unsaid = sorted(read.keys() - spec.meanings.keys()) if home_of(spec) else []
    if unsaid:
        raise TrainingError(
            f"{spec.name} reads {unsaid[0]!r} and does not say what that is",
            hint=f"name it in MethodSpec.meanings of {spec.name}",
        )
    return {f"reading.{name}": value.double().contiguous().numpy() for name, value in read.items()}


def _readings_at_checkpoints(
    plan: Plan, method: Method, task: Task, trained: TrainedReplicates, prepared: SeedData
) -> dict[str, Array]:
    """Readings of the steps at which checkpoints were kept, and the numbers of these steps.

    The readings are gradient misalignment and what the step adds to each group's loss, named as
    ``results/steps.py`` says; with ``--diagnostics full`` also ``cause.NAME`` (norms, curvature,
    correlates). Without a checkpoint the result is empty.

    Args:
        plan, method, task: What was trained, and how.
        trained: The R models, with the checkpoints that the training kept.
        prepared: The seed's data, for the groups of its training rows.
    """
    if not trained.checkpoints:
        return {}
    amount = plan.amount_read(len(trained.checkpoints))
    of_steps = misalignment.read(method, task, trained, _rows_by_grouping(prepared), amount)
    of_causes: dict[str, Tensor] = {}
    if plan.config.diagnostics == "full":
        of_causes = causes.read(method, task, trained)
    arrays: dict[str, Array] = {name: value.numpy() for name, value in of_steps.items()}
    arrays |= {f"cause.{name}": value.numpy() for name, value in of_causes.items()}
    steps = np.asarray([checkpoint.step for checkpoint in trained.checkpoints], dtype=np.int64)
    if of_steps:
        arrays[STEPS] = steps
    if of_causes:
        arrays["cause_steps"] = steps
    return arrays


def _series(trained: TrainedReplicates) -> dict[str, Array]:
    """What the training recorded over its steps: each series as ``trace.NAME``, float32 [T, R, ..].

    The steps of a series are ``trace_steps.NAME`` [T]. Of a rule that clips groups differently
    there is also ``reading.group_noise_multiplier`` [K], the mean noise multiplier of each group.
    """
    arrays: dict[str, Array] = {}
    series = trained.trace.stacked()  # name -> steps [T], values [T, R, ..]
    name = "group_noise_multiplier"
    if name in series and trained.event is not None:  # the series says nothing without noise
        # The mean over steps and repeats of [T, R, K].
        arrays[f"reading.{name}"] = series[name][1].double().numpy().mean((0, 1))
    for name, (steps, values) in series.items():
        arrays[f"trace.{name}"] = values.to(torch.float32).contiguous().numpy()
        arrays[f"trace_steps.{name}"] = np.asarray(steps, dtype=np.int64)
    return arrays


def _baseline(prepared: SeedData) -> dict[str, float]:
    """How scikit-learn's logistic regression does on the seed's rows: accuracy, rows fitted.

    Of records that are not in memory it is given every k-th, at most ``BASELINE_ROWS`` of the
    training rows and as many of the test rows.
    """
    encoded, labels = prepared.encoded, prepared.dataset.labels
    train, test = slice(None), slice(None)
    if not isinstance(encoded.train, np.ndarray):
        train = slice(None, None, math.ceil(len(encoded.train) / BASELINE_ROWS))
        test = slice(None, None, math.ceil(len(encoded.test) / BASELINE_ROWS))
    return logistic_baseline(
        encoded.train[train],
        labels[encoded.split.train[train]],
        encoded.test[test],
        labels[encoded.split.test[test]],
        len(prepared.dataset.classes),
    )


def _rows_by_grouping(prepared: SeedData) -> list[misalignment.Cut]:
    """The training rows of a seed, divided into groups by each grouping of the audit."""
    rows = prepared.encoded.split.train
    cuts = []
    for number, grouping in enumerate(prepared.dataset.groupings):
        cuts.append(misalignment.Cut.of(grouping.groups, len(grouping.names), rows, number))
    return cuts


def _assert_as_planned(arm: Arm, trained: TrainedReplicates) -> None:
    """Assert that the training released what the plan computed the arm's epsilon for.

    Where no event is planned (a published form without an established guarantee), nothing is
    asserted: no epsilon is stated either.
    """
    assert trained.event == arm.privacy.event or not arm.privacy.event, (
        f"{arm.key} did {trained.event}, planned {arm.privacy.event}"
    )


def task_of(plan: Plan, job: Job, arm: Arm, prepared: SeedData, source: JobResult | None) -> Task:
    """The task (data, settings, streams) that an arm's method trains at one seed.

    Args:
        plan: Of the job; its schedule and options.
        job: The arm's job at that seed.
        arm: What is trained.
        prepared: The seed's data.
        source: Result of the arm that a control reads; None: it reads none.

    Raises:
        TrainingError: The user's own model cannot be made, or memory cannot hold the checkpoints.
    """
    schedule, config = plan.training, plan.config
    model = _model_at_start(config, job.seed, prepared)
    parameters = sum(p.numel() for p in model.parameters())
    # Names of the streams that batches are drawn from, one for each repeat.
    sampling = [f"{arm.key}/{repeat}" for repeat in range(job.repeats)]
    if arm.shares_samples:  # the first repeat trains on the reference's batches
        sampling[0] = "shared"
    released: dict[str, Array] = {}  # the series that a control reads of its source
    if source is not None and arm.source is not None:
        name = find(arm.method).source_series
        released[name] = source.arrays[f"trace.{name}"]
    return Task(
        arm=arm.key,
        seed=job.seed,
        repeats=job.repeats,
        settings=arm.settings,
        optimizer=config.optimizer,
        model=model,
        pool=prepared.pool,
        steps_per_epoch=schedule.steps_per_epoch,
        epochs=schedule.epochs,
        n_public=schedule.n_public,
        sampling=sampling,
        source=released,
        budget=DEFAULT_BUDGET if config.memory is None else config.memory * 2**20,  # MiB to bytes
        public=prepared.public,
        records=prepared.encoded.split.train,
        device=find_device(config.device),
        checkpoints=_steps_to_keep(plan, arm, job.repeats * parameters),
    )


def _model_at_start(config: AuditConfig, seed: int, prepared: SeedData) -> nn.Module:
    """The model with its initial parameters; a user's own is tried on one record.

    Raises:
        TrainingError: The user's own model cannot be made, or has other outputs than classes.
    """
    try:
        model = start_model(config, prepared.pool, seed, prepared.encoded.columns)
        if is_factory(config.model):
            record = prepared.pool.gather(torch.zeros(1, dtype=torch.int64), None).inputs
            check_outputs(config.model, model, record, prepared.pool.n_classes)
    except ConfigError as error:  # a factory may fail at one seed alone, which is no wrong option
        raise TrainingError(error.message, error.hint) from error
    return model


def _steps_to_keep(plan: Plan, arm: Arm, parameters: int) -> tuple[int, ...]:
    """The steps at which parameters are kept, to be read after the training; ascending.

    Args:
        plan, arm: What is trained, and with which ``--diagnostics``.
        parameters: How many one checkpoint holds, of all repeats together.

    Raises:
        TrainingError: ``--diagnostics full`` asks for more checkpoints than memory holds.
    """
    config = plan.config
    if config.diagnostics == "full":
        steps = plan.training.kept(config.diagnostics_every)
        refuse_too_many(len(steps), parameters)
        return steps
    # With `basic` no steps of a reference are read, nor those of a search's candidates.
    if arm.reference is None or arm.search is not None:
        return ()
    return plan.amount_read(kept_at_once(parameters)).steps
