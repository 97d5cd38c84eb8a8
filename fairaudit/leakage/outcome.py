"""What a model that is to be attacked leaves behind."""

import numpy as np

from fairaudit.execution.outcomes import Predicts, predictions
from fairaudit.execution.seed_data import SeedData
from fairaudit.leakage.attack import log_odds
from fairaudit.methods.base import Task, diverged
from fairaudit.results.jobs import Array


def on_everyone(task: Task, trained: Predicts, prepared: SeedData) -> dict[str, Array]:
    """How sure models are of the true class of every row of the audit, and which rows they learned.

    It is all that the attack reads of a training.

    Args:
        task, trained: The training, and its R models.
        prepared: The rows of this seed: members as its training rows, all others as test rows.

    Returns:
        ``rows`` [n] int64, row numbers, ascending; ``member`` [n] bool, whether each was trained
        on; ``confidence`` [R, n] float64, log odds of its true class.

    Raises:
        DivergedError: Predictions that are not finite.
    """
    encoded = prepared.encoded
    rows = np.concatenate([encoded.split.train, encoded.split.test])  # members first
    odds = np.empty((task.repeats, len(rows)))
    start = 0  # where the part begins in ``rows``
    for features, part in (
        (encoded.train, encoded.split.train),
        (encoded.test, encoded.split.test),
    ):
        # Slices of ``part``, and each model's probabilities of their rows, [R, m, Y].
        for piece, runs in predictions(trained, prepared, features, part):
            if not np.isfinite(runs).all():
                # Only for the hint; a method that is solved exactly has none.
                rate = task.settings.get("learning_rate", 1.0)
                raise diverged(task.arm, task.seed, rate, "predictions")
            labels = prepared.dataset.labels[part[piece]]
            places = slice(start + piece.start, start + piece.start + len(labels))
            odds[:, places] = [log_odds(run, labels) for run in runs]
        start += len(part)
    order = np.argsort(rows)  # so that all seeds have the rows in one order
    member = np.arange(len(rows)) < len(encoded.split.train)
    return {"rows": rows[order], "member": member[order], "confidence": odds[:, order]}
