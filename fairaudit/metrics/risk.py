"""Per-record outcomes of a model: was it right, and how surprised was it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

# A float32 softmax underflows to 0, where -log is infinite. The smallest normal float32 is the
# smallest probability that the format holds at full precision; it caps a loss at 87.3 nats.
PROBABILITY_FLOOR = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class Predictions:
    """One arm at one seed, on that seed's test rows.

    Args:
        seed: Audit seed.
        rows: Which record each row is, ``[n]``; the same record keeps its number over seeds.
        probabilities: ``[P, n, Y]``, P private runs of this seed (1 for the reference).
        train_accuracy, train_loss: Training split, per group, ``[P, K]``; train_count ``[K]``.
        train_classes: Training rows of each class, ``[Y]``; None where they are not known.
        weights: Of the runs, ``[P]``, sum 1: those of a search count as often as it would release them.
            None: all alike.
    """

    seed: int
    rows: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    train_accuracy: NDArray[np.float64]
    train_loss: NDArray[np.float64]
    train_count: NDArray[np.int64]
    train_classes: NDArray[np.int64] | None = None
    weights: Float64 | None = None

    def over_runs(self, values: Float64) -> Float64:
        """The mean over the runs of values ``[P, ...]``, by their weights."""
        if self.weights is None:
            return np.asarray(values.mean(axis=0))
        counted = self.weights > 0.0  # what never counts may be undefined
        return np.asarray(np.tensordot(self.weights[counted], values[counted], axes=1))


def predicted_class(probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
    """The most probable class of each record, ``[P, n]``; a tie goes to the lower class index."""
    if probabilities.shape[-1] == 2:  # a comparison is ten times faster than argmax over two columns
        upper: NDArray[np.int64] = (probabilities[..., 1] > probabilities[..., 0]).astype(np.int64)
        return upper
    classes: NDArray[np.int64] = np.argmax(probabilities, axis=-1)
    return classes


def record_correct(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> Float64:
    """Whether each record is classified correctly.

    Args:
        probabilities: ``[P, n, Y]``.
        labels: ``[n]``.

    Returns:
        ``[P, n]``, 1.0 or 0.0; NaN where a probability is not finite, so that a broken model
        makes its numbers undefined instead of wrong.
    """
    correct: Float64 = (predicted_class(probabilities) == labels).astype(np.float64)
    if not np.isfinite(probabilities).all():
        correct[~np.isfinite(probabilities).all(axis=-1)] = np.nan
    return correct


def record_loss(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> Float64:
    """Cross-entropy of each record in nats, ``-log p_y`` with ``p_y`` no less than float32's tiny.

    Args:
        probabilities: ``[P, n, Y]``.
        labels: ``[n]``.

    Returns:
        ``[P, n]``, at most 87.34; NaN stays NaN.
    """
    of_label = probabilities[:, np.arange(len(labels)), labels].astype(np.float64)
    loss: Float64 = -np.log(np.maximum(of_label, PROBABILITY_FLOOR))
    return loss
