"""Another library's counts as a check on our rates, from inside an audit."""

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.risk import predicted_class
from fairaudit.metrics.within_model import LabelOutcome, SeedScores

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
