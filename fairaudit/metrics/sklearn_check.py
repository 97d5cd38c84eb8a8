"""Another library's answers as a check on ours: is the reference trained well enough, are the rates right?"""

import warnings

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.within_model import LabelOutcome, SeedScores, predicted_class

UNDERTRAINED_BY = 0.01  # one accuracy point
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
        train: ``[n, d]``, or images ``[n, H, W, C]``, of which every k-th is used where they are many.
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


def _accuracies(train_correct: NDArray[np.bool_], test_correct: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "accuracy": float(test_correct.mean()),
        "train_accuracy": float(train_correct.mean()),
        "train_rows": float(len(train_correct)),
    }


def undertrained(reference_accuracy: float, baseline_accuracy: float) -> bool:
    """The reference is more than one point below the baseline: costs against it cannot be read."""
    return baseline_accuracy - reference_accuracy > UNDERTRAINED_BY


Int64 = NDArray[np.int64]


def sklearn_disagreement(
    probabilities: NDArray[np.float32],
    labels: Int64,
    groups: Int64,
    scores: SeedScores,
    outcome: LabelOutcome,
) -> float:
    """Largest difference between our rates and those of scikit-learn's confusion matrices, of one run.

    Args:
        probabilities: ``[n, Y]``, the run that ``scores`` came from.
        labels: ``[n]``.
        groups: ``[n]``.
        scores: What :func:`seed_scores` made of this run alone.
        outcome: Which classes count; of several the first is checked.
    """
    from sklearn.metrics import confusion_matrix  # scikit-learn takes 1.1 s to import

    target, classes = outcome.targets[0], list(range(outcome.n_classes))
    suffix = "" if outcome.positive is not None else f"[{target}]"
    predicted = predicted_class(probabilities)
    worst = 0.0
    for place in (*np.unique(groups), -1):  # -1: all rows
        among = groups == place if place >= 0 else slice(None)
        counts = confusion_matrix(labels[among], predicted[among], labels=classes).astype(np.float64)
        hits, true, chosen = counts[target, target], counts[target].sum(), counts[:, target].sum()
        rows = counts.sum()
        theirs = {
            "accuracy": (np.trace(counts), rows),
            f"selection_rate{suffix}": (counts[:, outcome.selected(target)].sum(), rows),
            f"tpr{suffix}": (hits, true),
            f"fpr{suffix}": (chosen - hits, rows - true),
            f"precision{suffix}": (hits, chosen),
        }
        for name, (part, whole) in theirs.items():
            ours = scores.values[outcome.metrics.index(name), place]
            if whole and not np.isnan(ours):
                worst = max(worst, abs(float(ours - part / whole)))
    return worst
