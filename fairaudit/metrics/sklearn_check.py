"""Is the reference trained well enough? Another library's model as the yardstick."""

import warnings

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.registry import UNDERTRAINED_BY

MOST_PIXELS = 20_000_000  # of images that are fitted; half a minute on one core


def logistic_baseline(
    train: NDArray[np.float32],
    train_labels: NDArray[np.int64],
    test: NDArray[np.float32],
    test_labels: NDArray[np.int64],
    n_classes: int,
) -> dict[str, float]:
    """Accuracy of scikit-learn's logistic regression on the same split.

    Args:
        train: ``[n, d]``, or images ``[n, H, W, C]``, of which every k-th is used where they are
            many.
        train_labels: ``[n]``.
        test: ``[m, ...]``.
        test_labels: ``[m]``.
        n_classes: Y; a training split with one class only predicts that class.

    Returns:
        ``accuracy`` on the test rows and ``train_accuracy``, fractions; ``train_rows`` used.
    """
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes 1.1 s to import
    from sklearn.linear_model import LogisticRegression

    if train.ndim > 2:
        step = -(-train.size // MOST_PIXELS)
        train, test = train[::step].reshape(-1, train[0].size), test.reshape(len(test), -1)
        train_labels = train_labels[::step]
    if n_classes < 2 or len(np.unique(train_labels)) < 2:
        only = train_labels[0]
        return _accuracies(train_labels == only, test_labels == only)
    # Two hundred steps at this tolerance are within 0.1 point of the optimum on the public sets.
    model = LogisticRegression(tol=1e-3, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline needs no sixth digit
        model.fit(train, train_labels)
    return _accuracies(model.predict(train) == train_labels, model.predict(test) == test_labels)


def _accuracies(
    train_correct: NDArray[np.bool_], test_correct: NDArray[np.bool_]
) -> dict[str, float]:
    """The baseline's accuracies, from whether each row's prediction is correct, ``[n]``."""
    return {
        "accuracy": float(test_correct.mean()),
        "train_accuracy": float(train_correct.mean()),
        "train_rows": float(len(train_correct)),
    }


def undertrained(reference_accuracy: float, baseline_accuracy: float) -> bool:
    """The reference is more than one point below the baseline: costs against it cannot be read."""
    return baseline_accuracy - reference_accuracy > UNDERTRAINED_BY
