"""Within-model metrics of every group at one seed, and what each test record contributes to them.

Rates are ratios of sums over records, so a record's influence on one is its linearised share; for
AUC it is DeLong's placement value. Influences are what :mod:`fairaudit.metrics.intervals` needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.registry import METRICS, MetricSpec

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

CALIBRATION_BINS = 10

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
        weights: Of the runs, ``[P]``, sum 1: those of a search count as often as it would release
            them.
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
    if (
        probabilities.shape[-1] == 2
    ):  # a comparison is ten times faster than argmax over two columns
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


@dataclass(frozen=True, slots=True)
class LabelOutcome:
    """What is predicted, which class rates are about, and which outcome people want.

    Args:
        n_classes: Y.
        positive: Index of the class that is true or false, or None where none is known.
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
    def measured(self) -> Iterator[tuple[str, MetricSpec, int | None]]:
        """Each computed metric by name, in the order of :class:`SeedScores`.

        With the class it is about.

        ``tpr[2]`` is the rate of class 2. Neighbours in the registry that are about one class stand
        together for each class.
        """
        computed = [
            spec
            for spec in METRICS.values()
            if spec.compute is not None and (self.scored is not None or "score" not in spec.needs)
        ]
        for is_of_class, specs in groupby(computed, key=lambda spec: "positive" in spec.needs):
            neighbours = tuple(specs)
            for target in self.targets if is_of_class else (None,):
                suffix = "" if target is None or self.positive is not None else f"[{target}]"
                for spec in neighbours:
                    yield spec.name + suffix, spec, target

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names in the order of :class:`SeedScores`."""
        return tuple(name for name, _, _ in self.measured)


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
    outcome: LabelOutcome,
    metrics: Sequence[str] | None = None,
    weights: Float64 | None = None,
) -> SeedScores:
    """Every within-model metric of one arm at one seed, or some of them.

    Args:
        probabilities: ``[P, n, Y]``.
        labels: ``[n]``.
        groups: ``[n]`` in ``0..n_groups - 1``.
        n_groups: K, absent groups included.
        outcome: Which classes count.
        metrics: Names out of ``outcome.metrics``, in that order; None for all.
        weights: Of the runs, ``[P]``, sum 1; None: all alike.
    """
    wanted = frozenset(outcome.metrics if metrics is None else metrics)
    if weights is not None:
        probabilities, weights = probabilities[weights > 0.0], weights[weights > 0.0]
    of_rows = labels, groups, n_groups, outcome
    runs = [_one_run(EvaluatedRows.of(p, *of_rows), wanted) for p in probabilities]
    if len(runs) == 1:
        return runs[0]
    return SeedScores(
        np.average([r.values for r in runs], axis=0, weights=weights),
        np.average([r.within for r in runs], axis=0, weights=weights),
        np.average([r.whole for r in runs], axis=0, weights=weights),
        np.logical_or.reduce([r.behind for r in runs]),
    )


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """The test rows of one model, as the registry's metrics are computed from them.

    Args:
        probabilities: ``[n, Y]``.
        labels: Index of the true class, ``[n]``.
        groups: ``[n]`` in ``0..n_groups - 1``.
        n_groups: K.
        outcome: Which classes count.
        predicted: Index of the most probable class, ``[n]``.
        correct: 1.0 where that is the true one, else 0.0; NaN where an output is not finite,
            ``[n]``.
        target: The class that a metric is about which needs ``positive``; -1 for any other metric.
    """

    probabilities: NDArray[np.float32]
    labels: Int64
    groups: Int64
    n_groups: int
    outcome: LabelOutcome
    predicted: Int64
    correct: Float64
    target: int = -1

    @classmethod
    def of(
        cls,
        probabilities: NDArray[np.float32],
        labels: Int64,
        groups: Int64,
        n_groups: int,
        outcome: LabelOutcome,
    ) -> "EvaluatedRows":
        """The rows of one run, with what follows from its probabilities."""
        correct = record_correct(probabilities[None], labels)[0]
        return cls(
            probabilities,
            labels,
            groups,
            n_groups,
            outcome,
            predicted_class(probabilities),
            correct,
        )

    @property
    def everyone(self) -> Float64:
        """1.0 for every row."""
        return np.ones(len(self.labels))

    @property
    def loss(self) -> Float64:
        """Cross-entropy in nats."""
        loss: Float64 = record_loss(self.probabilities[None], self.labels)[0]
        return loss

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Whether ``target`` is the true class."""
        truth: NDArray[np.bool_] = self.labels == self.target
        return truth

    @property
    def chosen(self) -> Float64:
        """1.0 where ``target`` is predicted; NaN as in ``correct``."""
        return self._where_known(self.predicted == self.target)

    @property
    def selected(self) -> Float64:
        """1.0 where the favourable class is predicted, or ``target`` where none is named."""
        return self._where_known(self.predicted == self.outcome.selected(self.target))

    def auc(self) -> SeedScores:
        """Area under the ROC curve of the scored class.

        Source: DeLong et al. 1988 (placement values).
        """
        score, truth = (
            self.probabilities[:, self.outcome.scored],
            self.labels == self.outcome.scored,
        )
        n = len(score)
        values = np.full((1, self.n_groups + 1), np.nan)
        within, whole = np.zeros((1, n)), np.zeros((1, n))
        if np.isfinite(score).all():
            order = np.argsort(score)
            group_of = self.groups[order]
            for k in range(self.n_groups):
                values[0, k] = _placements(order[group_of == k], score, truth, within[0])
            values[0, self.n_groups] = _placements(order, score, truth, whole[0])
        return SeedScores(values, within, whole, np.ones((1, n), dtype=bool))

    def calibration(self) -> SeedScores:
        """Expected calibration error over 10 bins of equal width, weighted by rows.

        Two classes: the scored class's probability against its frequency. More: the confidence of
        the prediction against its accuracy (Guo et al. 2017). It is biased upward, more in small
        groups: noise in a bin counts as miscalibration. So it carries no interval.
        """
        if self.outcome.n_classes == 2 and self.outcome.scored is not None:
            forecast = self.probabilities[:, self.outcome.scored].astype(np.float64)
            event = (self.labels == self.outcome.scored).astype(np.float64)
        else:
            forecast = self.probabilities.max(axis=1).astype(np.float64)
            event = (self.predicted == self.labels).astype(np.float64)
        usable = np.where(np.isfinite(forecast), forecast, 0.0)
        bins = np.minimum((usable * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
        cell, n_cells = self.groups * CALIBRATION_BINS + bins, self.n_groups * CALIBRATION_BINS
        cells = np.bincount(cell, forecast - event, n_cells).reshape(
            self.n_groups, CALIBRATION_BINS
        )
        sizes = np.bincount(self.groups, minlength=self.n_groups)
        with np.errstate(invalid="ignore"):
            per_group = np.abs(cells).sum(axis=1) / sizes
        every = np.abs(cells.sum(axis=0)).sum() / len(self.labels)
        nothing = np.zeros((1, len(self.labels)))
        return SeedScores(
            np.append(per_group, every)[None],
            nothing,
            nothing,
            np.ones((1, len(self.labels)), dtype=bool),
        )

    def _where_known(self, holds: NDArray[np.bool_]) -> Float64:
        return np.where(np.isnan(self.correct), np.nan, holds)


def _one_run(rows: EvaluatedRows, wanted: frozenset[str]) -> SeedScores:
    found = [
        spec.compute(rows if target is None else replace(rows, target=target))
        for name, spec, target in rows.outcome.measured
        if name in wanted and spec.compute is not None
    ]
    parts: list[SeedScores] = []
    for is_done, neighbours in groupby(found, key=lambda scores: isinstance(scores, SeedScores)):
        if is_done:
            parts += neighbours
        else:
            tops, bottoms = (
                np.array(each, dtype=np.float64) for each in zip(*neighbours, strict=True)
            )
            parts.append(_ratios(tops, bottoms, rows.groups, rows.n_groups))
    return SeedScores(*(np.concatenate(field) for field in zip(*parts, strict=True)))


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


def _placements(
    order: NDArray[np.intp],
    score: NDArray[np.float32],
    truth: NDArray[np.bool_],
    influence: Float64,
) -> float:
    """AUC of the rows in ``order`` (ascending score).

    Writes their influences, returns NaN if undefined.
    """
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
