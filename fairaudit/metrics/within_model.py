"""Within-model metrics of every group at one seed, and what each test record contributes to them.

Shapes: n test rows of a seed, K groups (K + 1 where the last place stands for all rows), P private
runs, Y classes. The *scored* class is the one whose probability ranks the rows, the *target* the
class that a rate (as tpr) is about, the *favourable* class the outcome that people want.

Rates are ratios of sums over records, so a record's influence on one is its linearised share; for
AUC it is DeLong's placement value. Influences are what :mod:`fairaudit.metrics.intervals` needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.registry import METRICS, MetricSpec, costs

Bools = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
# A metric is the ratio of two sums over rows: what each row adds to them, [n].
Ratio = tuple[Float64 | Bools, Float64 | Bools]

CALIBRATION_BINS = 10  # of equal width on [0, 1]

# A float32 softmax underflows to 0, where -log is infinite. The smallest normal float32 is the
# smallest probability that the format holds at full precision; it caps a loss at 87.3 nats.
PROBABILITY_FLOOR = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class ArmPredictions:
    """One arm at one seed, on that seed's test rows.

    Args:
        seed: Audit seed.
        rows: Which record each row is, ``[n]``; the same record keeps its number over seeds.
        probabilities: ``[P, n, Y]``, P private runs of this seed (1 for the reference).
        train_count: Training rows of each group, ``[K]``.
        train_classes: Training rows of each class, ``[Y]``; None where they are not known.
        weights: Of the runs, ``[P]``, sum 1. Where the runs are a search's candidates, a weight is
            the probability that the search releases that one. None: all alike.
    """

    seed: int
    rows: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    train_count: NDArray[np.int64]
    train_classes: NDArray[np.int64] | None = None
    weights: Float64 | None = None


def predicted_class(probabilities: NDArray[np.float32]) -> NDArray[np.int64]:
    """The most probable class of each record, ``[P, n]``; a tie goes to the lower class index.

    Example:
        >>> import numpy as np
        >>> predicted_class(np.array([[[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]]])).tolist()
        [[0, 0, 1]]
    """
    # With two classes a comparison is ten times faster than argmax.
    if probabilities.shape[-1] == 2:
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

    Example:
        >>> import numpy as np
        >>> probabilities = np.array([[[0.7, 0.3], [0.2, 0.8], [np.nan, 1.0]]])
        >>> record_correct(probabilities, np.array([0, 0, 1])).tolist()
        [[1.0, 0.0, nan]]
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

    Example:
        >>> import numpy as np
        >>> record_loss(np.array([[[0.5, 0.5], [0.25, 0.75]]]), np.array([0, 0])).round(3).tolist()
        [[0.693, 1.386]]
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
        favourable: Index of the class that counts as selected; None: the class which the rate is
            about.

    Example:
        >>> LabelOutcome(n_classes=3, positive=None).targets
        (0, 1, 2)
        >>> LabelOutcome(n_classes=2, positive=1).metric_names[:2]
        ('accuracy', 'loss')
    """

    n_classes: int
    positive: int | None
    favourable: int | None = None

    @property
    def targets(self) -> tuple[int, ...]:
        """Classes whose rates are measured, each against the rest: the positive one, else all."""
        return tuple(range(self.n_classes)) if self.positive is None else (self.positive,)

    def selected(self, target: int) -> int:
        """The class whose prediction selects a record, where rates are about ``target``."""
        return target if self.favourable is None else self.favourable

    @property
    def scored(self) -> int | None:
        """Class whose probability ranks the records: the positive one, else the later of two.

        None where there are more classes and none is positive.
        """
        return 1 if self.positive is None and self.n_classes == 2 else self.positive

    @property
    def answer(self) -> int | None:
        """With two classes, the one whose rates costs are about (as the true positive rate lost).

        The favourable one, else the positive one, else the later. None with more classes: there
        each class has costs of its own.
        """
        if self.n_classes != 2:
            return None
        if self.favourable is not None:
            return self.favourable
        return 1 if self.positive is None else self.positive

    @property
    def cost_metrics(self) -> Iterator["ClassMetric"]:
        """Every cost that can be measured, as the metric that it is a change of, with its class.

        ``name`` is the cost's, ``spec`` the metric's: ``tpr_cost`` with the entry of ``tpr``. A
        cost that ranks rows needs a scored class. With two classes the cost of a rate is about
        ``answer``; with more there is one for each class. That of the selection rate exists with
        two classes only.
        """
        for name in costs():
            spec = METRICS[METRICS[name].cost_of]
            if "positive" not in spec.needs:
                if self.scored is not None or "score" not in spec.needs:
                    yield ClassMetric(name, spec)
            elif self.answer is not None:
                yield ClassMetric(name, spec, self.answer)
            elif "favourable" not in spec.needs:
                for target in range(self.n_classes):
                    yield ClassMetric(f"{name}[{target}]", spec, target)

    @property
    def class_metrics(self) -> Iterator["ClassMetric"]:
        """Every metric that is computed from rows; one about a class once for each of ``targets``.

        In the registry's order, except that metrics about one class which follow each other in it
        stay together: all of class 0, then all of class 1.
        """
        computed = [
            spec
            for spec in METRICS.values()
            if spec.compute is not None and (self.scored is not None or "score" not in spec.needs)
        ]
        for is_of_class, specs in groupby(computed, key=lambda spec: "positive" in spec.needs):
            if not is_of_class:
                yield from (ClassMetric(spec.name, spec) for spec in specs)
                continue
            neighbours = tuple(specs)  # groupby's iterator can be read only once
            for target in self.targets:
                suffix = "" if self.positive is not None else f"[{target}]"
                for spec in neighbours:
                    yield ClassMetric(spec.name + suffix, spec, target)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that are measured, as a report writes them."""
        return tuple(metric.name for metric in self.class_metrics)


class ClassMetric(NamedTuple):
    """A metric that is computed from rows, and the class that it is about.

    Args:
        name: ``tpr``, or ``tpr[2]`` of class 2 where no class is positive; or that of its cost.
        spec: The metric's entry in the registry.
        target: The class; -1 for a metric that is about none.
    """

    name: str
    spec: MetricSpec
    target: int = -1


class SeedScores(NamedTuple):
    """One metric at one seed, averaged over its private runs.

    Args:
        values: ``[K + 1]``, the last over all rows; NaN where undefined.
        within: Influence of each row on its own group's value, ``[n]``; 0 where undefined.
        whole: Influence of each row on the value over all rows, ``[n]``.
        support: Rows that the value rests on (positives for tpr), ``[n]``.
    """

    values: Float64
    within: Float64
    whole: Float64
    support: Bools

    def minus(self, other: "SeedScores", times: float = 1.0) -> "SeedScores":
        """These scores minus ``times`` those of another model on the same rows.

        Influences are linear, so those of the difference are the differences of both. The
        difference rests on the rows on which both rest. ``times`` other than 1 compares with a part
        of the other's, as ``doubtful_classes`` does.
        """
        return SeedScores(
            self.values - times * other.values,
            self.within - times * other.within,
            self.whole - times * other.whole,
            self.support & other.support,
        )


@dataclass(frozen=True, slots=True)
class EvaluatedSeed:
    """The test rows of an arm at one seed, once for each private run.

    Args:
        runs: The private runs whose weight is above 0.
        weights: Of the runs, sum 1; None: all alike.

    Example:
        >>> import numpy as np
        >>> certain = np.eye(2, dtype=np.float32)[[0, 1, 1, 1]]  # what is predicted of four rows
        >>> one = ArmPredictions(0, np.arange(4), certain[None], np.array([2, 2]))
        >>> labels, sex = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
        >>> seed = EvaluatedSeed.of(one, labels, sex, 2, LabelOutcome(2, positive=1))
        >>> accuracy = ClassMetric("accuracy", METRICS["accuracy"])
        >>> seed.score(accuracy).values.tolist()  # of the groups, of all rows
        [1.0, 0.5, 0.75]
    """

    runs: tuple["EvaluatedRows", ...]
    weights: Float64 | None

    @classmethod
    def of(
        cls,
        predictions: ArmPredictions,
        labels: Int64,
        groups: Int64,
        n_groups: int,
        outcome: LabelOutcome,
    ) -> "EvaluatedSeed":
        """Join the predictions of each run with the labels and groups of its rows.

        Args:
            predictions: Of the arm at this seed.
            labels: Of its rows, ``[n]``.
            groups: ``[n]`` in ``0..n_groups - 1``.
            n_groups: K, absent groups included.
            outcome: Which classes count.
        """
        probabilities, weights = predictions.probabilities, predictions.weights
        # Candidates that a search never releases have weight 0 and are not measured.
        if weights is not None:
            probabilities, weights = probabilities[weights > 0.0], weights[weights > 0.0]
        of_rows = labels, groups, n_groups, outcome
        return cls(tuple(EvaluatedRows.of(run, *of_rows) for run in probabilities), weights)

    def score(self, metric: ClassMetric) -> SeedScores:
        """One metric, averaged over the runs by their weights."""
        runs = [run.score(metric) for run in self.runs]
        if len(runs) == 1:
            return runs[0]
        return SeedScores(
            np.average([r.values for r in runs], axis=0, weights=self.weights),
            np.average([r.within for r in runs], axis=0, weights=self.weights),
            np.average([r.whole for r in runs], axis=0, weights=self.weights),
            np.logical_or.reduce([r.support for r in runs]),
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
        correct: 1.0 where ``predicted`` is the true class, else 0.0; NaN where an output is not
            finite, ``[n]``.
        target: The class that the metric being computed is about; -1 for a metric about none.
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
        """The rows of one run from probabilities ``[n, Y]``, labels and groups ``[n]``."""
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

    def score(self, metric: ClassMetric) -> SeedScores:
        """One metric of these rows, with what each row contributes to it.

        Where the registry's ``compute`` gives a numerator and a denominator of each row, the metric
        is the ratio of their sums over a group; else ``compute`` gives the scores themselves.
        """
        assert metric.spec.compute is not None, f"{metric.name} is not computed from rows"
        # ``compute`` takes rows alone, so the class that the metric is about goes with them.
        result = metric.spec.compute(replace(self, target=metric.target))
        if isinstance(result, SeedScores):
            return result
        numerator, denominator = (np.asarray(part, dtype=np.float64) for part in result)
        return _ratio(numerator, denominator, self.groups, self.n_groups)

    @property
    def everyone(self) -> Float64:
        """1.0 for every row, ``[n]``: the denominator of a mean over rows."""
        return np.ones(len(self.labels))

    @property
    def loss(self) -> Float64:
        """Cross-entropy of each row in nats, ``[n]``."""
        loss: Float64 = record_loss(self.probabilities[None], self.labels)[0]
        return loss

    @property
    def truth(self) -> Bools:
        """Whether ``target`` is the true class of each row, ``[n]``."""
        truth: Bools = self.labels == self.target
        return truth

    @property
    def chosen(self) -> Float64:
        """1.0 where ``target`` is predicted, else 0.0; NaN as in ``correct``, ``[n]``."""
        return self._where_known(self.predicted == self.target)

    @property
    def selected(self) -> Float64:
        """1.0 where the favourable class is predicted, or ``target`` where none is named, ``[n]``.

        0.0 elsewhere, NaN as in ``correct``.
        """
        return self._where_known(self.predicted == self.outcome.selected(self.target))

    def auc(self) -> SeedScores:
        """Area under the ROC curve of the scored class against the rest.

        NaN for a group that lacks one of both, and everywhere if a probability is not finite.
        Source: DeLong et al. 1988 (placement values); docs/methods.md 6.5.
        """
        # Never None: ``class_metrics`` has this metric only where there is a scored class.
        score = self.probabilities[:, self.outcome.scored]
        truth = self.labels == self.outcome.scored
        n = len(score)
        values = np.full(self.n_groups + 1, np.nan)
        within, whole = np.zeros(n), np.zeros(n)
        if np.isfinite(score).all():
            order = np.argsort(score)  # sorted once: a group's rows keep this order
            group_of = self.groups[order]
            for k in range(self.n_groups):
                values[k] = _auc_with_influence(order[group_of == k], score, truth, within)
            values[-1] = _auc_with_influence(order, score, truth, whole)
        # Support is every row: the registry's ``rests_on`` says what else limits an AUC's count.
        return SeedScores(values, within, whole, np.ones(n, dtype=bool))

    def calibration(self) -> SeedScores:
        """Expected calibration error over 10 bins of equal width, weighted by rows.

        Of n rows: sum over bins of |sum over the bin's rows of (forecast - event)| / n.
        With two classes the forecast is the scored class's probability, and the event that the
        scored class is the true one. With more the forecast is the probability of the predicted
        class, and the event that the prediction is correct (Guo et al. 2017). The error is biased
        upward, more in small groups: noise in a bin counts as miscalibration. So it has no
        interval, and its influences are 0. Source: docs/methods.md 6.5.
        """
        # Of two classes one is always scored; the second condition is for mypy.
        if self.outcome.n_classes == 2 and self.outcome.scored is not None:
            forecast = self.probabilities[:, self.outcome.scored].astype(np.float64)
            event = (self.labels == self.outcome.scored).astype(np.float64)
        else:
            forecast = self.probabilities.max(axis=1).astype(np.float64)
            event = (self.predicted == self.labels).astype(np.float64)
        # A NaN has no bin. Put into the first, it makes the sums of its group NaN, as it should.
        usable = np.where(np.isfinite(forecast), forecast, 0.0)
        # A forecast of exactly 1 belongs to the last bin.
        bins = np.minimum((usable * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
        cell = self.groups * CALIBRATION_BINS + bins  # one number for group and bin, [n]
        sums = np.bincount(cell, forecast - event, self.n_groups * CALIBRATION_BINS)
        excess = sums.reshape(self.n_groups, CALIBRATION_BINS)
        sizes = np.bincount(self.groups, minlength=self.n_groups)
        with np.errstate(invalid="ignore"):  # 0 / 0 for a group without rows
            per_group = np.abs(excess).sum(axis=1) / sizes
        overall = np.abs(excess.sum(axis=0)).sum() / len(self.labels)
        nothing = np.zeros(len(self.labels))  # influences
        everyone = np.ones(len(self.labels), dtype=bool)
        return SeedScores(np.append(per_group, overall), nothing, nothing, everyone)

    def _where_known(self, holds: Bools) -> Float64:
        """1.0 where ``holds``, else 0.0; NaN where the model's output is not finite, ``[n]``."""
        return np.where(np.isnan(self.correct), np.nan, holds)


def _ratio(numerator: Float64, denominator: Float64, groups: Int64, n_groups: int) -> SeedScores:
    """The ratio of two sums over each group and over all rows, with each row's influence on it.

    Row i has the influence (numerator_i - ratio denominator_i) / sum of denominators. The ratio is
    NaN where the denominators of a group sum to 0, as of a true positive rate without positives.
    Source: docs/methods.md 6.5.

    Args:
        numerator, denominator: What each row adds to the sums, ``[n]``.
        groups: Of the rows, ``[n]``.
        n_groups: K.
    """
    denominators = _sums(denominator, groups, n_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = _sums(numerator, groups, n_groups) / denominators
        inverse = 1.0 / denominators
    defined = np.isfinite(values)
    # Where a group's value is undefined, the group's rows have influence 0, not NaN.
    known, inverse = np.where(defined, values, 0.0), np.where(defined, inverse, 0.0)
    within = inverse[groups] * (numerator - known[groups] * denominator)
    whole = inverse[-1] * (numerator - known[-1] * denominator)
    if np.isnan(numerator).any():
        # A record with NaN already makes its group's value NaN, so there is no interval; its
        # influence must not spread to others.
        within, whole = np.nan_to_num(within, nan=0.0), np.nan_to_num(whole, nan=0.0)
    return SeedScores(np.where(defined, values, np.nan), within, whole, denominator > 0)


def _sums(values: Float64, groups: Int64, n_groups: int) -> Float64:
    """Sums of ``values`` ``[n]`` over each group and, last, over all rows, ``[K + 1]``."""
    per_group = np.bincount(groups, values, n_groups)
    return np.append(per_group, per_group.sum())


def _auc_with_influence(
    order: NDArray[np.intp], score: NDArray[np.float32], truth: Bools, influence: Float64
) -> float:
    """The AUC of some of the rows, and into ``influence`` what each of them contributes to it.

    By DeLong's placement values. The placement of a positive is the share of negatives with a lower
    score, that of a negative the share of positives with a higher one; ties count half. The AUC is
    the mean placement of the positives. The influence of a row is (placement - AUC) / (rows of its
    own class).

    Args:
        order: Indices of these rows by ascending score, ``[m]``.
        score, truth: Of all rows, ``[n]``: probability of the class, whether it is the true one.
        influence: Of all rows on the AUC, ``[n]``; is written at these rows.

    Returns:
        The AUC; NaN, and nothing is written, if these rows are of one class.
    """
    ranked, is_positive = score[order], truth[order]
    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    if not positives or not negatives:
        return float("nan")
    # Runs of equal scores (ties): where each begins in the order, and its length.
    first = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    sizes = np.diff(np.append(first, len(ranked)))
    before = np.append(0, np.cumsum(is_positive))  # positives before each place, [m + 1]
    # Positives (negatives) with a lower score than each row, ties counting half, [m]: the mean of
    # those before its run of ties and those before the end of that run.
    positives_below = np.repeat((before[first] + before[first + sizes]) / 2, sizes)
    negatives_below = np.repeat(first + sizes / 2, sizes) - positives_below
    placement = np.where(
        is_positive, negatives_below / negatives, 1.0 - positives_below / positives
    )
    auc = float(placement[is_positive].mean())
    influence[order] = (placement - auc) / np.where(is_positive, positives, negatives)
    return auc
