"""A job that the user's own code trains: what it is handed, and what its predictions come to."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fairaudit.capabilities import part_of
from fairaudit.data.dataset import Int64
from fairaudit.execution.outcomes import OnTraining, group_means
from fairaudit.execution.seed_data import SeedData
from fairaudit.execution.twins import named
from fairaudit.metrics.within_model import record_correct, record_loss
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Job, Plan
from fairaudit.results.jobs import STEP_FACT, WITHOUT_NOISE, Array, StepTwin
from fairaudit.trainers.handed import asked_of, run_seed, stream, with_groups
from fairaudit.trainers.process import Given, Trained, train_once
from fairaudit.trainers.synthetic import train_on_table


def train(
    plan: Plan, job: Job, arm: Arm, prepared: SeedData
) -> tuple[dict[str, Array], dict[str, object]]:
    """Arrays and facts of a job that the user's own code trains.

    Args:
        plan, job, arm: Which.
        prepared: The seed's data.

    Raises:
        TrainerError: It failed, exceeded a limit, or predicted what is no probability.
    """
    if arm.trainer not in plan.config.trainer:
        arrays, facts = train_on_table(plan, job, arm, prepared)
    else:
        arrays, facts = _train(plan, job, arm, prepared)
    if job.is_twins:
        return named(WITHOUT_NOISE, arrays), {**facts, STEP_FACT: StepTwin.NONE}
    return arrays, facts


def _train(
    plan: Plan, job: Job, arm: Arm, prepared: SeedData
) -> tuple[dict[str, Array], dict[str, object]]:
    if arm.search is not None:

        def train_at(
            number: int, settings: Mapping[str, float], fit: Int64, validation: Int64
        ) -> Trained:
            given = _given(plan, job, arm, prepared, fit, settings, validation)
            return train_once(given, run_seed(job, arm, number))

        try_ranges = part_of(arm.search.capability, "try_ranges")
        arrays, tried = try_ranges(arm, job.seed, prepared, train_at)
        return arrays, {"event": None, "claimed": [None], **tried}
    everyone = np.arange(len(prepared.encoded.split.train))
    given = _given(plan, job, arm, prepared, everyone, {})
    runs = [
        train_once(
            given,
            run_seed(
                job,
                arm,
                repeat,
            ),
        )
        for repeat in range(job.repeats)
    ]
    labels = prepared.dataset.labels[prepared.encoded.split.train]
    fitted = np.stack([run.train for run in runs])
    on_training = OnTraining(record_correct(fitted, labels), record_loss(fitted, labels))
    arrays = {
        "probabilities": np.stack([run.test for run in runs]),
        **group_means(on_training, prepared),
    }
    facts: dict[str, object] = {"event": None, "claimed": [run.claimed for run in runs]}
    if job.seed == plan.config.seed and not job.is_twins:  # is it deterministic?
        again = train_once(given, run_seed(job, arm, 0))
        facts["differs_by"] = float(np.abs(again.test - runs[0].test).max(initial=0.0))
    return arrays, facts


def _given(
    plan: Plan,
    job: Job,
    arm: Arm,
    prepared: SeedData,
    fit: Int64,
    settings: Mapping[str, float],
    beside: Int64 | None = None,
) -> Given:
    """What a training is handed.

    Args:
        plan, job, arm, prepared: Which, on which data.
        fit: Places among the training rows, of those that it trains on.
        settings: Those of a search, none at the default; for a function that declares some.
        beside: Places of those that it predicts after the test rows.
    """
    from safetensors.numpy import save  # `plan` sends nothing

    config, dataset, encoded = plan.config, prepared.dataset, prepared.encoded
    split, grouping = encoded.split, dataset.groupings[0]
    others = np.empty(0, np.int64) if beside is None else beside
    rows = split.train[fit]
    tensors: dict[str, NDArray[np.generic]] = {"labels": dataset.labels[rows]}
    tables: tuple[bytes, ...] = ()
    hidden = ""
    if config.trainer_groups:
        tensors["groups"] = grouping.groups[rows]
    if config.raw:
        table = dataset.features
        if config.trainer_groups:
            table = with_groups(table, grouping)
        elif grouping.name not in table.column_names:
            hidden = grouping.name
        tested = np.concatenate([split.test, split.train[others]])
        tables = tuple(stream(table.take(places)) for places in (rows, tested))
    else:
        tested = np.concatenate([encoded.test[:], encoded.train[others]])
        tensors["train"] = _channels_first(encoded.train[fit])
        tensors["test"] = _channels_first(tested)
    asked = {
        "trainer": arm.trainer,
        "privacy": asked_of(plan, job, arm),
        "settings": dict(settings),
        "classes": dataset.classes,
        "names": () if config.raw else encoded.names,
        "group_names": grouping.names if config.trainer_groups else (),
        "tables": len(tables),
        "synthesizes": False,
        "hidden": hidden,
        "memory": config.trainer_memory,
    }
    return Given(asked, save(tensors), tables, config.trainer_timeout)


def _channels_first(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    if rows.ndim == 4:
        return np.ascontiguousarray(np.moveaxis(rows, -1, 1))
    return rows
