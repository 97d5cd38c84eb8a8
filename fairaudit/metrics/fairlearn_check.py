"""The field's standard implementation as a check on ours."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.risk import predicted_class
from fairaudit.metrics.within_model import Outcome, SeedScores

Int64 = NDArray[np.int64]

RATES = ("selection_rate", "tpr", "fpr", "precision")


def fairlearn_disagreement(
    probabilities: NDArray[np.float32], labels: Int64, groups: Int64, scores: SeedScores, outcome: Outcome
) -> float:
    """Largest difference between our rates and fairlearn's MetricFrame, one run at one seed.

    MetricFrame needs 0.5 s for 12,000 rows and five metrics, so it checks the product's numbers
    instead of making them. It reads one row per (label, prediction, group) with the count as weight,
    which gives the same numbers in 0.1 s.

    Args:
        probabilities: ``[n, Y]``, the run that ``scores`` came from.
        labels: ``[n]``. groups: ``[n]``.
        scores: What :func:`seed_scores` made of this run alone.
        outcome: Must name a positive class.
    """
    # fairlearn takes 1.8 s to import, and only this check needs it.
    from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
    from sklearn.metrics import accuracy_score, precision_score

    target = outcome.targets[0]
    table = np.stack([labels, predicted_class(probabilities), groups], axis=1)
    cells, counts = np.unique(table, axis=0, return_counts=True)

    def of_target(rate: Callable[..., float]) -> Callable[..., float]:
        of = outcome.selected(target) if rate is selection_rate else target

        def one_against_rest(true: Int64, predicted: Int64, sample_weight: Int64) -> float:
            binary = np.asarray(true) == of, np.asarray(predicted) == of
            return rate(*binary, sample_weight=np.asarray(sample_weight), pos_label=True)

        return one_against_rest

    def precision(true: Int64, predicted: Int64, sample_weight: Int64, pos_label: bool) -> float:
        weight = sample_weight
        return float(precision_score(true, predicted, sample_weight=weight, zero_division=np.nan))

    oracles = dict(
        zip(
            RATES,
            map(of_target, (selection_rate, true_positive_rate, false_positive_rate, precision)),
            strict=True,
        )
    )
    frame = MetricFrame(
        metrics={"accuracy": accuracy_score, **oracles},
        y_true=cells[:, 0],
        y_pred=cells[:, 1],
        sensitive_features=cells[:, 2],
        sample_params={name: {"sample_weight": counts} for name in ("accuracy", *RATES)},
    )
    suffix = "" if outcome.positive is not None else f"[{target}]"
    ours = {
        name: scores.values[outcome.metrics.index(name + (suffix if name in RATES else ""))]
        for name in frame.overall.index
    }
    theirs_by_group = frame.by_group
    worst = 0.0
    for name, values in ours.items():
        theirs = np.append(theirs_by_group[name].to_numpy(dtype=np.float64), frame.overall[name])
        mine = np.append(values[theirs_by_group.index.to_numpy()], values[-1])
        defined = ~np.isnan(mine)  # fairlearn calls an undefined rate 0
        worst = max(worst, float(np.abs(mine - theirs)[defined].max(initial=0.0)))
    return worst
