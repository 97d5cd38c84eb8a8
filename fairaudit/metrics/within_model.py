"""Within-model metrics of every group at one seed, and what each test record contributes to them.

Rates are ratios of sums over records, so a record's influence on one is its linearised share; for
AUC it is DeLong's placement value. Influences are what :mod:`fairaudit.metrics.intervals` needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.risk import predicted_class, record_correct, record_loss

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

CALIBRATION_BINS = 10
RATES = ("selection_rate", "tpr", "fpr", "precision")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is predicted, which class rates are about, and which outcome people want.

    Args:
        n_classes: Y. positive: Index of the class that is true or false, or None where none is known.
        favourable: Index of the class that who is selected is given; None for that of the rate.
    """

    n_classes: int
    positive: int | None
    favourable: int | None = None

    @property
    def targets(self) -> tuple[int, ...]:
        """Classes whose rates are measured, one against the rest: the positive one, else all."""
        return tuple(range(self.n_classes)) if self.positive is None else (self.positive,)

    def selected(self, target: int) -> int:
        """The class whose prediction selects a record, where rates are about ``target``."""
        return target if self.favourable is None else self.favourable

    @property
    def scored(self) -> int | None:
        """Class whose probability ranks the records; None where no class is singled out."""
        return 1 if self.positive is None and self.n_classes == 2 else self.positive

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What the names of each target's rates end in."""
        return ("",) if self.positive is not None else tuple(f"[{t}]" for t in self.targets)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names in the order of :class:`SeedScores`; ``tpr[2]`` is the rate of class 2."""
        rates = [rate + suffix for suffix in self.suffixes for rate in RATES]
        auc = [] if self.scored is None else ["auc"]
        return ("accuracy", "loss", *rates, *auc, "calibration_error")


class SeedScores(NamedTuple):
    """M metrics at one seed, averaged over its private runs.

    Args:
        values: ``[M, K + 1]``, the last over all rows; NaN where undefined.
        within: Influence of each row on its own group's value, ``[M, n]``; 0 where undefined.
        whole: Influence of each row on the value over all rows, ``[M, n]``.
        behind: Rows that the value rests on (positives for tpr), ``[M, n]``.
    """

    values: Float64
    within: Float64
    whole: Float64
    behind: NDArray[np.bool_]

    def minus(self, other: "SeedScores") -> "SeedScores":
        """The change from ``other`` on the same rows; exactly 0 where both agree."""
        return SeedScores(
            self.values - other.values,
            self.within - other.within,
            self.whole - other.whole,
            self.behind & other.behind,
        )


def seed_scores(
    probabilities: NDArray[np.float32],
    labels: Int64,
    groups: Int64,
    n_groups: int,
    outcome: Outcome,
    metrics: Sequence[str] | None = None,
    weights: Float64 | None = None,
) -> SeedScores:
    """Every within-model metric of one arm at one seed, or some of them.

    Args:
        probabilities: ``[P, n, Y]``.
        labels: ``[n]``. groups: ``[n]`` in ``0..n_groups - 1``.
        n_groups: K, absent groups included.
        outcome: Which classes count.
        metrics: Names out of ``outcome.metrics``, in that order; None for all.
        weights: Of the runs, ``[P]``, sum 1; None: all alike.
    """
    wanted = frozenset(outcome.metrics if metrics is None else metrics)
    if weights is not None:
        probabilities, weights = probabilities[weights > 0.0], weights[weights > 0.0]
    runs = [_one_run(p, labels, groups, n_groups, outcome, wanted) for p in probabilities]
    if len(runs) == 1:
        return runs[0]
    return SeedScores(
        np.average([r.values for r in runs], axis=0, weights=weights),
        np.average([r.within for r in runs], axis=0, weights=weights),
        np.average([r.whole for r in runs], axis=0, weights=weights),
        np.logical_or.reduce([r.behind for r in runs]),
    )


def _one_run(
    probabilities: NDArray[np.float32],
    labels: Int64,
    groups: Int64,
    n_groups: int,
    outcome: Outcome,
    wanted: frozenset[str],
) -> SeedScores:
    parts = []
    if wanted - {"auc", "calibration_error"}:
        fractions = tuple(zip(*_fractions(probabilities, labels, outcome, wanted), strict=True))
        parts.append(_ratios(np.array(fractions[0]), np.array(fractions[1]), groups, n_groups))
    if "auc" in wanted:
        score, truth = probabilities[:, outcome.scored], labels == outcome.scored
        parts.append(_auc(score, truth, groups, n_groups))
    if "calibration_error" in wanted:
        parts.append(_calibration(probabilities, labels, groups, n_groups, outcome))
    return SeedScores(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def _fractions(
    probabilities: NDArray[np.float32], labels: Int64, outcome: Outcome, wanted: frozenset[str]
) -> Iterator[tuple[Float64, Float64]]:
    """Accuracy, loss and the rates of each target class, as ratios of sums over records."""
    everyone = np.ones(len(labels))
    correct = record_correct(probabilities[None], labels)[0]
    if "accuracy" in wanted:
        yield correct, everyone
    if "loss" in wanted:
        yield record_loss(probabilities[None], labels)[0], everyone
    broken = np.isnan(correct)
    predicted = predicted_class(probabilities)
    for target, suffix in zip(outcome.targets, outcome.suffixes, strict=True):
        some = [rate for rate in RATES if rate + suffix in wanted]
        truth = labels == target
        chosen = np.where(broken, np.nan, predicted == target) if some else everyone
        for rate in some:
            if rate == "selection_rate":
                yield np.where(broken, np.nan, predicted == outcome.selected(target)), everyone
            else:
                yield _rate(rate, truth, chosen)


def _rate(rate: str, truth: NDArray[np.bool_], chosen: Float64) -> tuple[Float64, Float64]:
    """Numerator and denominator of one rate: who of those that count was chosen, or was rightly."""
    if rate == "precision":
        return chosen * truth, chosen
    of = truth if rate == "tpr" else ~truth
    return chosen * of, of.astype(np.float64)


def _ratios(numerators: Float64, denominators: Float64, groups: Int64, n_groups: int) -> SeedScores:
    """Ratios of sums per group, with influence ``(numerator - ratio * denominator) / sum``."""
    tops = _sums(numerators, groups, n_groups)
    bottoms = _sums(denominators, groups, n_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = tops / bottoms
        inverse = 1.0 / bottoms
    known = np.isfinite(values)
    value, inverse = np.where(known, values, 0.0), np.where(known, inverse, 0.0)
    own = np.take(value, groups, axis=1)
    within = np.take(inverse, groups, axis=1) * (numerators - own * denominators)
    whole = inverse[:, -1:] * (numerators - value[:, -1:] * denominators)
    if np.isnan(numerators).any():
        # A broken record makes its group's value NaN, which is what says that there is no interval.
        within, whole = np.nan_to_num(within, nan=0.0), np.nan_to_num(whole, nan=0.0)
    values = np.where(known, values, np.nan)
    return SeedScores(values, within, whole, denominators > 0)


def _sums(values: Float64, groups: Int64, n_groups: int) -> Float64:
    per_group = np.array([np.bincount(groups, v, n_groups) for v in values])
    return np.concatenate([per_group, per_group.sum(axis=1, keepdims=True)], axis=1)


def _auc(score: NDArray[np.float32], truth: NDArray[np.bool_], groups: Int64, n_groups: int) -> SeedScores:
    """Area under the ROC curve. Source: DeLong et al. 1988 (placement values)."""
    n = len(score)
    values = np.full((1, n_groups + 1), np.nan)
    within, whole = np.zeros((1, n)), np.zeros((1, n))
    if np.isfinite(score).all():
        order = np.argsort(score)
        group_of = groups[order]
        for k in range(n_groups):
            values[0, k] = _placements(order[group_of == k], score, truth, within[0])
        values[0, n_groups] = _placements(order, score, truth, whole[0])
    return SeedScores(values, within, whole, np.ones((1, n), dtype=bool))


def _placements(
    order: NDArray[np.intp], score: NDArray[np.float32], truth: NDArray[np.bool_], influence: Float64
) -> float:
    """AUC of the rows in ``order`` (ascending score); writes their influences, returns NaN if undefined."""
    s, t = score[order], truth[order]
    positives = int(t.sum())
    negatives = len(t) - positives
    if not positives or not negatives:
        return float("nan")
    first = np.flatnonzero(np.append(True, s[1:] != s[:-1]))
    sizes = np.diff(np.append(first, len(s)))
    below = np.append(0, np.cumsum(t))  # positives before each place
    pos_before = np.repeat((below[first] + below[first + sizes]) / 2, sizes)  # ties count half
    neg_before = np.repeat(first + sizes / 2, sizes) - pos_before
    placement = np.where(t, neg_before / negatives, 1.0 - pos_before / positives)
    auc = float(placement[t].mean())
    influence[order] = (placement - auc) / np.where(t, positives, negatives)
    return auc


def _calibration(
    probabilities: NDArray[np.float32], labels: Int64, groups: Int64, n_groups: int, outcome: Outcome
) -> SeedScores:
    """Expected calibration error over 10 bins of equal width, weighted by rows.

    Two classes: the scored class's probability against its frequency. More: the confidence of the
    prediction against its accuracy (Guo et al. 2017). It is biased upward, more in small groups:
    noise in a bin counts as miscalibration. So it carries no interval.
    """
    if outcome.n_classes == 2 and outcome.scored is not None:
        forecast = probabilities[:, outcome.scored].astype(np.float64)
        event = (labels == outcome.scored).astype(np.float64)
    else:
        forecast = probabilities.max(axis=1).astype(np.float64)
        event = (predicted_class(probabilities) == labels).astype(np.float64)
    usable = np.where(np.isfinite(forecast), forecast, 0.0)
    bins = np.minimum((usable * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    cells = np.bincount(groups * CALIBRATION_BINS + bins, forecast - event, n_groups * CALIBRATION_BINS)
    cells = cells.reshape(n_groups, CALIBRATION_BINS)
    sizes = np.bincount(groups, minlength=n_groups)
    with np.errstate(invalid="ignore"):
        per_group = np.abs(cells).sum(axis=1) / sizes
    every = np.abs(cells.sum(axis=0)).sum() / len(labels)
    nothing = np.zeros((1, len(labels)))
    return SeedScores(
        np.append(per_group, every)[None], nothing, nothing, np.ones((1, len(labels)), dtype=bool)
    )
