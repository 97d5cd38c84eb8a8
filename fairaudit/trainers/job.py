"""A job that the user's own code trains: what it is handed, and what its predictions come to."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.execution.outcomes import OnTraining, group_means
from fairaudit.execution.seed_data import SeedData
from fairaudit.metrics.within_model import record_correct, record_loss
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Job, Plan
from fairaudit.privacy.streams import seed_of
from fairaudit.results.jobs import Array
from fairaudit.trainers.process import Given, train_once

_LARGEST_SEED = 2**31  # what numpy, torch and scikit-learn all take


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
    given = _given(plan, arm, prepared)
    runs = [train_once(given, _seed(job, arm, repeat)) for repeat in range(job.repeats)]
    rows = prepared.encoded.split.train
    labels = prepared.dataset.labels[rows]
    train = np.stack([run.train for run in runs])
    arrays = {
        "probabilities": np.stack([run.test for run in runs]),
        **group_means(
            OnTraining(record_correct(train, labels), record_loss(train, labels)), prepared
        ),
    }
    facts: dict[str, object] = {"event": None, "claimed": [run.claimed for run in runs]}
    if job.seed == plan.config.seed:  # is it deterministic?
        again = train_once(given, _seed(job, arm, 0))
        facts["differs_by"] = float(np.abs(again.test - runs[0].test).max(initial=0.0))
    return arrays, facts


def _seed(job: Job, arm: Arm, repeat: int) -> int:
    """The audit's seed, so that arms of one seed are paired; other repeats draw anew."""
    if not repeat and "#" not in arm.key:
        return job.seed
    return seed_of(job.seed, "init", arm.key, repeat) % _LARGEST_SEED


def _given(plan: Plan, arm: Arm, prepared: SeedData) -> Given:
    from safetensors.numpy import save  # `plan` sends nothing

    config, dataset, encoded = plan.config, prepared.dataset, prepared.encoded
    split, grouping = encoded.split, dataset.groupings[0]
    tensors: dict[str, NDArray[np.generic]] = {"labels": dataset.labels[split.train]}
    tables: tuple[bytes, ...] = ()
    if config.trainer_groups:
        tensors["groups"] = grouping.groups[split.train]
    if config.raw:
        tables = tuple(_stream(dataset.features.take(rows)) for rows in (split.train, split.test))
    else:
        tensors |= {
            "train": _channels_first(encoded.train[:]),
            "test": _channels_first(encoded.test[:]),
        }
    target = arm.privacy.target_epsilon
    asked = {
        "trainer": arm.trainer,
        "privacy": None if target is None else [target, plan.training.delta],
        "classes": dataset.classes,
        "names": () if config.raw else encoded.names,
        "group_names": grouping.names if config.trainer_groups else (),
        "raw": config.raw,
        "memory": config.trainer_memory,
    }
    return Given(asked, save(tensors), tables, config.trainer_timeout)


def _channels_first(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    if rows.ndim == 4:
        return np.ascontiguousarray(np.moveaxis(rows, -1, 1))
    return rows


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
