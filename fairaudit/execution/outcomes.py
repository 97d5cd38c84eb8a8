"""What trained models predict of the test rows."""

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
        """Features [n, d] of records of groups [n] -> [R, n, Y]."""


def outcome(
    task: Task,
    trained: Predicts,
    prepared: SeedData,
) -> dict[str, Array]:
    """``probabilities`` of the test rows, and how many training rows each group has.

    Raises:
        DivergedError: Predictions that are not finite.
    """
    test = on_test(trained, prepared, task.repeats)
    if not np.isfinite(test).all():
        raise diverged(
            task.arm,
            task.seed,
            task.settings.get("learning_rate", 1.0),
            "predictions",
        )
    return {
        "probabilities": test,
        **training_counts(prepared),
    }


def on_test(
    trained: Predicts,
    prepared: SeedData,
    repeats: int,
) -> NDArray[np.float32]:
    """What R models predict of the test rows, ``[R, n, Y]``."""
    rows = prepared.encoded.split.test
    test = np.empty(
        (
            repeats,
            len(rows),
            len(prepared.dataset.classes),
        ),
        np.float32,
    )
    for piece, part in predictions(trained, prepared, prepared.encoded.test, rows):
        test[:, piece] = part
    return test


def training_counts(
    prepared: SeedData, places: NDArray[np.int64] | None = None
) -> dict[str, Array]:
    """Training rows of each group, ``[K]`` per grouping; of some places among them, or of all."""
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
    """Places among rows of the dataset and [R, n, Y] there.

    In pieces where inputs are not in memory.

    Callers write a piece in place: one that is kept would stop the memory of the next from being
    used again.
    """
    size = max(1, len(rows)) if isinstance(features, np.ndarray) else ROWS_AT_ONCE
    groups = prepared.dataset.groupings[0].groups
    for start in range(0, len(rows), size):
        piece = slice(start, start + size)
        inputs = torch.from_numpy(features[piece])
        yield piece, trained.probabilities(inputs, torch.from_numpy(groups[rows[piece]])).numpy()
