"""What trained models predict.

On the test rows, and in the mean of each group on the training rows.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.data.dataset import InputRows
from fairaudit.execution.seed_data import SeedData
from fairaudit.methods.base import Task, diverged
from fairaudit.metrics.within_model import record_correct, record_loss
from fairaudit.results.jobs import Array

ROWS_AT_ONCE = 16_384  # of inputs that are not kept in memory


class Predicts(Protocol):
    """R models that predict."""

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Features [n, d] of records of groups [n] -> [R, n, Y]."""


class OnTraining(NamedTuple):
    """Every training record under R models, ``[R, n]``.

    Whether it is right (1.0 or 0.0), and its loss.
    """

    correct: NDArray[np.float64]
    loss: NDArray[np.float64]


def outcome(
    task: Task,
    trained: Predicts,
    prepared: SeedData,
) -> dict[str, Array]:
    """``probabilities`` on the test rows and the training metrics.

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
        **group_means(on_training(trained, prepared, task.repeats), prepared),
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


def on_training(trained: Predicts, prepared: SeedData, repeats: int) -> OnTraining:
    """How R models do on each training row."""
    rows = prepared.encoded.split.train
    labels = prepared.dataset.labels[rows]
    correct, loss = (np.empty((repeats, len(rows))) for _ in range(2))
    for piece, part in predictions(trained, prepared, prepared.encoded.train, rows):
        correct[:, piece], loss[:, piece] = (
            record_correct(part, labels[piece]),
            record_loss(part, labels[piece]),
        )
    return OnTraining(correct, loss)


def group_means(
    found: OnTraining, prepared: SeedData, places: NDArray[np.int64] | None = None
) -> dict[str, Array]:
    """Mean accuracy and loss of each group, ``[R, K]`` per grouping, on training rows."""
    some = slice(None) if places is None else places
    rows = prepared.encoded.split.train[some]
    arrays: dict[str, Array] = {}
    for number, grouping in enumerate(prepared.dataset.groupings):
        groups, k = grouping.groups[rows], len(grouping.names)
        count = np.bincount(groups, minlength=k)
        arrays[f"train_count.{number}"] = count.astype(np.int64)
        arrays[f"train_correct.{number}"] = _means(found.correct[:, some], groups, count)
        arrays[f"train_loss.{number}"] = _means(found.loss[:, some], groups, count)
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


def _means(
    values: NDArray[np.float64],
    groups: NDArray[np.int64],
    count: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Means per group of values [R, n] -> [R, K]; NaN for an absent group."""
    sums = np.stack(
        [
            np.bincount(
                groups,
                row,
                len(count),
            )
            for row in values
        ]
    )
    means: NDArray[np.float64] = np.divide(
        sums,
        count,
        out=np.full(sums.shape, np.nan),
        where=count > 0,
    )
    return means
