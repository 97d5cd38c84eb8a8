"""What a training on the same rows leaves behind."""

import numpy as np

from fairaudit.execution.outcomes import outcome
from fairaudit.execution.seed_data import SeedData
from fairaudit.methods.base import Task, TrainedReplicates
from fairaudit.results.jobs import Array


def predicted(task: Task, trained: TrainedReplicates, prepared: SeedData) -> dict[str, Array]:
    """What a training predicts of its test rows, as an audit's own job holds it.

    Args:
        task, trained: The training, and its model.
        prepared: The rows of its seed.

    Returns:
        ``test_rows``, ``probabilities``, ``train_count.G`` and the series of the training, which a
        control reads: as of :class:`fairaudit.results.jobs.JobResult`.

    Raises:
        DivergedError: Predictions that are not finite.
    """
    arrays = {"test_rows": prepared.encoded.split.test, **outcome(task, trained, prepared)}
    for name, (steps, values) in trained.trace.stacked().items():
        arrays[f"trace.{name}"] = values.float().contiguous().numpy()
        arrays[f"trace_steps.{name}"] = np.asarray(steps, dtype=np.int64)
    return arrays
