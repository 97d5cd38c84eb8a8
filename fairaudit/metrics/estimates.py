"""Numbers with their uncertainty; the vocabulary of every measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Predictions:
    """One arm at one seed, on that seed's test rows.

    Args:
        seed: Audit seed.
        rows: Which record each row is, ``[n]``; the same record keeps its number over seeds.
        probabilities: ``[P, n, Y]``, P private runs of this seed (1 for the reference).
        train_accuracy, train_loss: Training split, per group, ``[P, K]``; train_count ``[K]``.
        train_classes: Training rows of each class, ``[Y]``; None where they are not known.
    """

    seed: int
    rows: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    train_accuracy: NDArray[np.float64]
    train_loss: NDArray[np.float64]
    train_count: NDArray[np.int64]
    train_classes: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds with its 95 % interval.

    Args:
        value: None where it is undefined; then ``reason`` says why.
        low, high: Interval ends, None where there is no honest interval; then too ``reason`` says
            why. A number with a reason is shown and never gated.
        training_sd: sqrt(V_seed), what differs between seeds: training, and test rows where each seed
            has its own. records_sd: sqrt(V_shared), the test records that seeds share.
        n_seeds: Seeds behind it. n_test: Distinct test records behind it.
        unit: ``fraction``, ``nats``, ``ratio``.
        by_seed: The per-seed values, ``()`` where there are none.
    """

    value: float | None
    low: float | None
    high: float | None
    training_sd: float | None
    records_sd: float | None
    n_seeds: int
    n_test: int
    unit: str
    reason: str = ""
    by_seed: tuple[float, ...] = ()


def undefined(reason: str, unit: str, n_test: int = 0) -> Estimate:
    """A number that does not exist, and why."""
    return Estimate(None, None, None, None, None, 0, n_test, unit, reason)


@dataclass(frozen=True, slots=True)
class GroupMeasure:
    """One group's numbers in one comparison.

    Args:
        group: Its name. n_test: Distinct tested records. n_train: Training records, mean over seeds.
        gated: Whether gates and maxima may read it; reason: why not.
        estimates: metric -> Estimate. Keys: ``privacy_cost`` (accuracy lost), ``excess_risk``
            (loss gained), then ``M`` and ``reference.M`` for M in accuracy, loss, selection_rate,
            tpr, fpr, precision, impact_ratio, auc, calibration_error, and ``train.accuracy``,
            ``train.loss``, ``reference.train.accuracy``, ``reference.train.loss``,
            ``train.privacy_cost``, ``train.excess_risk``; with a noise-free twin both costs in parts,
            ``privacy_cost.clipping``, ``privacy_cost.noise`` (``names.PARTS``), and where the training
            classes are known ``privacy_cost.constant``, ``excess_risk.constant``: against the model
            that predicts their shares for everybody. Without a favourable class the rates
            are per class, ``tpr[2]`` for class 2, and the plain keys carry the reason.
        ungated: Metrics that gates do not read though the group is large enough: why.
    """

    group: str
    n_test: int
    n_train: float
    gated: bool
    reason: str
    estimates: Mapping[str, Estimate]
    ungated: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference between groups.

    Args:
        metric: ``privacy_cost``, ``excess_risk``, or a within-model metric M or ``reference.M`` or
            ``change.M`` (how much privacy widens the within-model gap).
        kind: ``pair`` (a against b), ``population`` (a against all; xi_a for excess_risk),
            ``max`` (largest minus smallest), ``mean`` (of the pairs' |gap|; costs of three groups
            or more, no sign).
        a, b: Group names; for ``max`` the pair that attains it, the larger value first; b is ""
            for ``population``.
        signed: value_a - value_b. absolute: |signed| after averaging, with its interval.
        simultaneous: absolute with Bonferroni quantiles over the K(K-1)/2 pairs; equals
            absolute for two groups.
        direction: ``worse for F`` in words, or "" where the sign is not resolved among all pairs.
        direction_alone: The same by its own interval, for a pair that was named beforehand.
        minimum_detectable: Gap this audit would find with power .80, same unit; None if S = 1.
        rows_needed, seeds_needed: Distinct test records in the smaller group, or seeds, that would
            resolve a gap of the size seen; None where it is resolved or cannot be.
        shuffle_p: Label-shuffle reference of the max gap; descriptive.
        gated, reason: As for a group.
    """

    metric: str
    kind: str
    a: str
    b: str
    signed: Estimate
    absolute: Estimate
    simultaneous: Estimate
    direction: str = ""
    direction_alone: str = ""
    minimum_detectable: float | None = None
    rows_needed: int | None = None
    seeds_needed: int | None = None
    shuffle_p: float | None = None
    gated: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One arm against its reference, cut by one grouping.

    Args:
        arm, reference: Arm keys. grouping: Grouping name.
        estimand: What the intervals are about, in words.
        overall: The same estimates over all test rows.
        by_group: One entry per group, absent groups included.
        gaps: pairs, population and max gaps of every metric.
        worst: metric -> name of the group that fares worst.
        divided_by: Ratio -> name of the group whose value the others are divided by.
    """

    arm: str
    reference: str
    grouping: str
    estimand: str
    overall: GroupMeasure
    by_group: tuple[GroupMeasure, ...]
    gaps: tuple[Gap, ...]
    worst: Mapping[str, str]
    divided_by: Mapping[str, str] = field(default_factory=dict)
