"""One job in one worker process: split and encode its seed's rows, train, predict the test rows.

What leaves the process is a :class:`JobResult` of arrays (name -> array) and facts (JSON-ready); no
model does.
"""

import hashlib
import importlib
import time

import numpy as np
import torch
from torch import Tensor

from fairaudit.capabilities.installed import capability
from fairaudit.config.model_names import has_linear_baseline, is_factory
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
    """
    plan = plan.side_plans.get(
        job.way, plan
    )  # a job of a plan beside the audit's is trained by that
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
    dataset, split = prepared.dataset, prepared.encoded.split
    # The arm's own job holds its twins'; a study its own, unless code of the user's trains it.
    if not job.is_twins and (not plan.study or arm.capability):
        counts = np.bincount(dataset.labels[split.train], minlength=len(dataset.classes))
        arrays = {"test_rows": split.test, "train_classes": counts.astype(np.int64), **arrays}
    # `first` [N]: of each row the index of its first identical row; None where that is not known.
    encoded, first = prepared.encoded, dataset.duplicate_of
    facts: dict[str, object] = {
        "n_train": len(encoded.split.train),
        "inputs": list(encoded.names),
        "fitted": list(encoded.fitted),
        "merged": dict(encoded.merged),
    }
    if first is not None:
        is_double = np.isin(first[encoded.split.test], first[encoded.split.train])
        facts["duplicates_across_split"] = int(is_double.sum())
    facts |= {**of_training, "seconds": time.perf_counter() - began}
    return JobResult(job.id, arrays, facts)


def _train(
    plan: Plan, job: Job, arm: Arm, prepared: SeedData, source: JobResult | None
) -> JobContent:
    """Train a job by whoever trains it, and keep what is read of such a training.

    Code that options name is trained by its capability, and candidates of a search by the search.
    All else is trained by the arm's method: its twins, a training of a study, an arm of the audit.

    Args:
        plan, job, source: As of :func:`run_job`.
        arm: The job's.
        prepared: The seed's data.
    """
    if arm.capability:
        return capability(arm.capability).train(plan, job, arm, prepared)
    method = method_of(arm)
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
    """Train an arm beside the audit, and keep what the study that asked for it keeps."""
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
    # Beside it the report judges whether the reference is undertrained.
    is_fair = has_linear_baseline(plan.training.model, prepared.dataset.image_shape)
    if arm.method == REFERENCE and is_fair:
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
    """What the steps did to each group, and with ``--diagnostics full`` why; with their steps.

    Nothing where no checkpoint was kept.
    """
    turned: dict[str, Tensor] = {}
    why: dict[str, Tensor] = {}
    if trained.checkpoints:
        amount = plan.amount_read(len(trained.checkpoints))
        turned = misalignment.read(method, task, trained, _cuts(prepared), amount)
    if plan.config.diagnostics == "full":
        why = causes.read(method, task, trained)
    steps = np.asarray([checkpoint.step for checkpoint in trained.checkpoints], dtype=np.int64)
    arrays: dict[str, Array] = {name: value.numpy() for name, value in turned.items()}
    arrays |= {f"cause.{name}": value.numpy() for name, value in why.items()}
    if turned:
        arrays[STEPS] = steps
    if why:
        arrays["cause_steps"] = steps
    return arrays


def _series(trained: TrainedReplicates) -> dict[str, Array]:
    """Series over the steps as ``trace.NAME`` with ``trace_steps.NAME``, and what sums one up."""
    arrays: dict[str, Array] = {}
    series = trained.trace.stacked()
    name = "group_noise_multiplier"
    if name in series and trained.event is not None:  # the rule clips groups differently
        # [K], the mean over steps and repeats of [T, R, K].
        arrays[f"reading.{name}"] = series[name][1].double().numpy().mean((0, 1))
    for name, (steps, values) in series.items():
        arrays[f"trace.{name}"] = values.to(torch.float32).contiguous().numpy()
        arrays[f"trace_steps.{name}"] = np.asarray(steps, dtype=np.int64)
    return arrays


def _baseline(prepared: SeedData) -> dict[str, float]:
    """How a standard library's logistic regression does on the seed's rows."""
    encoded, labels = prepared.encoded, prepared.dataset.labels
    every = [slice(None)] * 2
    if not isinstance(encoded.train, np.ndarray):  # not in memory: every k-th record
        thinned = (-(-len(rows) // BASELINE_ROWS) for rows in (encoded.train, encoded.test))
        every = [slice(None, None, step) for step in thinned]
    return logistic_baseline(
        encoded.train[every[0]],
        labels[encoded.split.train[every[0]]],
        encoded.test[every[1]],
        labels[encoded.split.test[every[1]]],
        len(prepared.dataset.classes),
    )


def _cuts(prepared: SeedData) -> list[misalignment.Cut]:
    """The training rows of a seed, cut by every grouping of the audit."""
    rows = prepared.encoded.split.train
    cuts = []
    for number, grouping in enumerate(prepared.dataset.groupings):
        cuts.append(misalignment.Cut.of(grouping.groups, len(grouping.names), rows, number))
    return cuts


def _assert_as_planned(arm: Arm, trained: TrainedReplicates) -> None:
    """Assert that the training released what the plan computed the arm's epsilon for."""
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
        TrainingError: The user's own model cannot be made.
    """
    schedule, config = plan.training, plan.config
    try:
        model = start_model(config, prepared.pool, job.seed, prepared.encoded.columns)
        if is_factory(config.model):
            record = prepared.pool.gather(torch.zeros(1, dtype=torch.int64), None).inputs
            check_outputs(config.model, model, record, prepared.pool.n_classes)
    except ConfigError as error:  # a user's factory may fail at one seed alone
        raise TrainingError(error.message, error.hint) from error
    sampling = [f"{arm.key}/{repeat}" for repeat in range(job.repeats)]
    if arm.shares_samples:  # the first repeat trains on the reference's batches
        sampling[0] = "shared"
    released: dict[str, Array] = {}
    if source is not None and arm.source is not None:
        name = find(arm.method).source_series
        released[name] = source.arrays[f"trace.{name}"]
    budget = DEFAULT_BUDGET
    if config.memory is not None:
        budget = config.memory * 2**20
    parameters = job.repeats * sum(p.numel() for p in model.parameters())
    checkpoints: tuple[int, ...] = ()  # that are read after training
    if config.diagnostics == "full":
        checkpoints = schedule.kept(config.diagnostics_every)
        refuse_too_many(len(checkpoints), parameters)
    elif arm.reference is not None and arm.search is None:
        checkpoints = plan.amount_read(kept_at_once(parameters)).steps
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
        budget=budget,
        public=prepared.public,
        records=prepared.encoded.split.train,
        device=find_device(config.device),
        checkpoints=checkpoints,
    )
