"""Predictions of two arms to one :class:`MetricTable` per metric, for both and for the change."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.estimates import Predictions
from fairaudit.metrics.intervals import (
    Float64,
    Int64,
    MetricTable,
    Records,
    covariances,
    floor_variance,
    summed_over_seeds,
)
from fairaudit.metrics.within_model import Outcome, seed_scores

LOSSES = ("loss", "excess_risk")
NO_CALIBRATION_INTERVAL = "binned calibration error is biased upward in small groups: no interval"


class ArmScores(NamedTuple):
    """M within-model metrics of one arm, or of the change between two, over all seeds.

    Args:
        values: ``[S, M, K + 1]``.
        own: Influence of each distinct record on its group's mean over seeds, ``[M, U]``.
        every: On the mean over all rows, ``[M, U]``.
        behind: Records that the metric rests on at any seed, ``[M, U]``.
    """

    values: Float64
    own: Float64
    every: Float64
    behind: NDArray[np.bool_]

    def minus(self, other: "ArmScores") -> "ArmScores":
        """The change from ``other`` on the same rows; exactly 0 where both agree."""
        return ArmScores(
            self.values - other.values,
            self.own - other.own,
            self.every - other.every,
            self.behind & other.behind,
        )


def arm_scores(
    predictions: Sequence[Predictions], labels: Int64, records: Records, outcome: Outcome
) -> ArmScores:
    """Every within-model metric of one arm.

    Args:
        predictions: Seed by seed, in the order of ``records``.
        labels: Of the whole data set, ``[N]``.
        records: The index of these predictions' rows.
        outcome: Which class is favourable.
    """
    k = records.n_groups
    scores = [
        seed_scores(p.probabilities, labels[p.rows], records.groups[place], k, outcome)
        for p, place in zip(predictions, records.places, strict=True)
    ]
    behind = np.zeros((len(outcome.metrics), len(records.ids)), dtype=bool)
    for place, score in zip(records.places, scores, strict=True):
        for known, now in zip(behind, score.behind, strict=True):
            known[place] |= now
    return ArmScores(
        np.array([s.values for s in scores]),
        summed_over_seeds(records, [s.within for s in scores]),
        summed_over_seeds(records, [s.whole for s in scores]),
        behind,
    )


def metric_tables(
    scores: ArmScores, records: Records, outcome: Outcome, prefix: str
) -> dict[str, MetricTable]:
    """One table per metric.

    Args:
        scores: Of one arm, or of the change between two.
        records: The index of their rows.
        outcome: As they were scored.
        prefix: "", ``reference.`` or ``change.``.
    """
    covariance = covariances(records, scores.own, scores.every)
    counts_of = {m: records.count(row) for m, row in zip(outcome.metrics, scores.behind, strict=True)}
    tables = {}
    for m, metric in enumerate(outcome.metrics):
        count, reason = counts_of[metric], ""
        if metric == "auc":  # rests on both classes, so on the rarer
            suffix = "" if outcome.positive is not None else f"[{outcome.scored}]"
            count = np.minimum(counts_of[f"tpr{suffix}"], counts_of[f"fpr{suffix}"])
        if metric == "calibration_error":
            reason = NO_CALIBRATION_INTERVAL
        unit = "nats" if metric in LOSSES else "fraction"
        floor = np.diag(floor_variance(count)) if unit == "fraction" else 0.0
        name = prefix + metric
        tables[name] = MetricTable(name, unit, scores.values[:, m], covariance[m] + floor, count, reason)
    return tables


def cost_tables(change: dict[str, MetricTable]) -> dict[str, MetricTable]:
    """``privacy_cost`` (accuracy lost) and ``excess_risk`` (loss gained). Source: METHODS 8.1."""
    lost, gained = change["change.accuracy"], change["change.loss"]
    return {
        "privacy_cost": replace(lost, name="privacy_cost", by_seed=-lost.by_seed),
        "excess_risk": replace(gained, name="excess_risk"),
    }


def impact_ratio(selection: MetricTable, name: str, eligible: Sequence[int]) -> tuple[MetricTable, Float64]:
    """Selection rate over that of the most selected group, with the delta method's Jacobian.

    The most selected group is chosen once, on the mean over seeds, among the eligible groups.
    Taking the largest biases the ratio downward where groups are nearly equal.

    Args:
        selection: Selection rate of one arm.
        name: Name of the ratio.
        eligible: Groups that may be the yardstick.

    Returns:
        The table, and d(ratio) / d(rate), ``[K + 1, K + 1]``.
    """
    rates = selection.by_seed
    usable = [k for k in eligible if np.isfinite(rates[:, k]).all()]
    if len(usable) < 2:
        return _no_ratio(selection, name, "impact ratio needs two groups that are large enough")
    mean = rates.mean(axis=0)
    top = max(usable, key=lambda k: mean[k])
    if (rates[:, top] == 0).any():
        return _no_ratio(selection, name, "nobody is selected at some seed")
    ratio = rates / rates[:, [top]]
    ratio[:, -1] = np.nan  # "all rows" has no impact ratio
    centre = np.nan_to_num(ratio.mean(axis=0))
    jacobian = np.eye(len(mean))
    jacobian[:, top] -= centre
    jacobian /= mean[top]
    covariance = jacobian @ selection.covariance @ jacobian.T
    return MetricTable(name, "ratio", ratio, covariance, selection.counts), jacobian


def _no_ratio(selection: MetricTable, name: str, reason: str) -> tuple[MetricTable, Float64]:
    table = replace(
        selection, name=name, unit="ratio", by_seed=np.full_like(selection.by_seed, np.nan), reason=reason
    )
    return table, np.zeros_like(selection.covariance)


def impact_change(tables: dict[str, MetricTable], eligible: Sequence[int]) -> dict[str, MetricTable]:
    """Impact ratio of both arms and its change, each arm against its own most selected group."""
    private, to_private = impact_ratio(tables["selection_rate"], "impact_ratio", eligible)
    reference, to_reference = impact_ratio(
        tables["reference.selection_rate"], "reference.impact_ratio", eligible
    )
    own, other = tables["selection_rate"].covariance, tables["reference.selection_rate"].covariance
    between = (own + other - tables["change.selection_rate"].covariance) / 2
    shared = to_private @ between @ to_reference.T
    covariance = private.covariance + reference.covariance - shared - shared.T
    change = MetricTable(
        "change.impact_ratio",
        "ratio",
        private.by_seed - reference.by_seed,
        covariance,
        private.counts,
        private.reason or reference.reason,
    )
    return {table.name: table for table in (private, reference, change)}
