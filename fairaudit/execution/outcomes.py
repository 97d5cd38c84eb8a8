"""What trained models predict of the test rows, as arrays of a job's result.

Shapes: R trained models (repeats), n rows, d inputs, Y classes, K groups.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.data.dataset import InputRows
from fairaudit.execution.seed_data import SeedData
from fairaudit.methods.base import Task, diverged
from fairaudit.results.jobs import Array

ROWS_AT_ONCE = 16_384  # of inputs that are not kept in memory


class Predicts(Protocol):
    """R models that predict."""

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Class probabilities [R, n, Y] for features [n, d]; groups [n] are the records' groups."""


def outcome(task: Task, trained: Predicts, prepared: SeedData) -> dict[str, Array]:
    """Arrays of a finished training: ``probabilities`` [R, n, Y] of the test rows, and group sizes.

    The sizes are those of :func:`training_counts`.

    Args:
        task: What was trained; named in the error.
        trained: The R models.
        prepared: The seed's data.

    Raises:
        DivergedError: Predictions that are not finite.
    """
    test = on_test(trained, prepared, task.repeats)
    if not np.isfinite(test).all():
        # 1.0: of a method without a learning rate; the error's hint alone reads it.
        raise diverged(task.arm, task.seed, task.settings.get("learning_rate", 1.0), "predictions")
    return {"probabilities": test, **training_counts(prepared)}


def on_test(trained: Predicts, prepared: SeedData, repeats: int) -> NDArray[np.float32]:
    """Class probabilities of the test rows by R = ``repeats`` models, ``[R, n, Y]``."""
    rows = prepared.encoded.split.test
    test = np.empty((repeats, len(rows), len(prepared.dataset.classes)), np.float32)
    for piece, part in predictions(trained, prepared, prepared.encoded.test, rows):
        test[:, piece] = part
    return test


def training_counts(
    prepared: SeedData, places: NDArray[np.int64] | None = None
) -> dict[str, Array]:
    """How many training rows each group has: ``train_count.G`` [K] for the G-th grouping.

    ``places``: positions among the training rows, to count these alone; None: all are counted.
    """
    rows = prepared.encoded.split.train
    if places is not None:
        rows = rows[places]
    arrays: dict[str, Array] = {}
    for number, grouping in enumerate(prepared.dataset.groupings):
        count = np.bincount(grouping.groups[rows], minlength=len(grouping.names))
        arrays[f"train_count.{number}"] = count.astype(np.int64)
    return arrays


def predictions(
    trained: Predicts, prepared: SeedData, features: InputRows, rows: NDArray[np.int64]
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Predict rows: in one piece, or piece by piece where their inputs are not in memory.

    Args:
        trained: R models.
        prepared: The seed's data, which has the rows' groups.
        features: Inputs of the rows, [n, ...].
        rows: Their indices in the dataset, [n].

    Yields:
        Where a piece lies among the rows, and its probabilities [R, n of the piece, Y]. Copy them
        out before the next: a piece that is kept stops its memory from being used again.
    """
    size = max(1, len(rows)) if isinstance(features, np.ndarray) else ROWS_AT_ONCE
    groups = prepared.dataset.groupings[0].groups  # the grouping that methods may read
    for start in range(0, len(rows), size):
        piece = slice(start, start + size)
        inputs = torch.from_numpy(features[piece])
        yield piece, trained.probabilities(inputs, torch.from_numpy(groups[rows[piece]])).numpy()
