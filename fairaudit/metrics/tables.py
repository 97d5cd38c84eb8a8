"""Predictions of two arms to one :class:`MetricTable` per metric, for both and for the change."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairaudit.metrics.intervals import (
    EvaluatedRecords,
    Float64,
    Influences,
    Int64,
    MetricTable,
    floor_variance,
    steadiness,
)
from fairaudit.metrics.registry import METRICS, base_metric, costs, spec_of
from fairaudit.metrics.within_model import LabelOutcome, Predictions, SeedScores, seed_scores

INFLUENCE_BYTES = 2**28  # that the influences of all records on some metrics may take
BYTES_PER_INFLUENCE = (
    2 * 3 * 17
)  # at one seed and over all, of two arms and their change: own, every, behind


class ArmScores:
    """M within-model metrics of one arm, or of the change between two, over all seeds.

    Args:
        records: The index of all test rows.
        metrics: M.

    Attributes:
        influences: Of the records on them. behind: Records that each rests on at any seed,
            ``[M, U]``.
    """

    def __init__(self, records: EvaluatedRecords, metrics: int) -> None:
        self.influences = Influences(records, metrics)
        self.behind = np.zeros((metrics, len(records.ids)), dtype=bool)
        self._values: list[Float64] = []

    def add(self, place: Int64, score: SeedScores) -> None:
        """Add the next seed; ``place`` of each row among the records, ``[n]``."""
        self._values.append(score.values)
        self.influences.add(place, score.within, score.whole)
        for known, now in zip(self.behind, score.behind, strict=True):
            known[place] |= now

    @property
    def values(self) -> Float64:
        """``[S, M, K + 1]``."""
        return np.array(self._values)


def both_tables(
    private: Sequence[Predictions],
    baseline: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> tuple[dict[str, MetricTable], dict[str, MetricTable], dict[str, MetricTable]]:
    """One table per metric of an arm, of its reference and of the change between them.

    Args:
        private, baseline: Seed by seed, in the order of ``records``.
        labels: Of the whole data set, ``[N]``.
        records: The index of these predictions' rows.
        outcome: Which classes count.
    """
    own: dict[str, MetricTable] = {}
    other: dict[str, MetricTable] = {}
    changed: dict[str, MetricTable] = {}
    for metrics in _some_at_a_time(outcome, records):
        ours, theirs, change = (ArmScores(records, len(metrics)) for _ in range(3))
        for p, q, place in zip(private, baseline, records.places, strict=True):
            score = _seed_scores(p, labels, records, place, outcome, metrics)
            beside = _seed_scores(q, labels, records, place, outcome, metrics)
            ours.add(place, score)
            theirs.add(place, beside)
            change.add(place, score.minus(beside))
        change.behind = ours.behind & theirs.behind
        add_tables(own, ours, records, outcome, metrics, "")
        add_tables(other, theirs, records, outcome, metrics, "reference.")
        add_tables(changed, change, records, outcome, metrics, "change.")
    return own, other, changed


def own_tables(
    predictions: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> dict[str, MetricTable]:
    """One table per metric of one arm. Arguments as of :func:`both_tables`."""
    tables: dict[str, MetricTable] = {}
    for metrics in _some_at_a_time(outcome, records):
        scores = ArmScores(records, len(metrics))
        for p, place in zip(predictions, records.places, strict=True):
            scores.add(place, _seed_scores(p, labels, records, place, outcome, metrics))
        add_tables(tables, scores, records, outcome, metrics, "")
    return tables


def _seed_scores(
    predictions: Predictions,
    labels: Int64,
    records: EvaluatedRecords,
    place: Int64,
    outcome: LabelOutcome,
    metrics: Sequence[str],
) -> SeedScores:
    """Some metrics at one seed, whose rows lie at ``place`` among the records."""
    truth, groups = labels[predictions.rows], records.groups[place]
    probabilities, weights = predictions.probabilities, predictions.weights
    return seed_scores(probabilities, truth, groups, records.n_groups, outcome, metrics, weights)


def _some_at_a_time(outcome: LabelOutcome, records: EvaluatedRecords) -> list[tuple[str, ...]]:
    """All metrics at once, or as many as the influences of so many records leave memory for."""
    size = max(1, INFLUENCE_BYTES // (BYTES_PER_INFLUENCE * max(1, len(records.ids))))
    names = outcome.metrics
    return [names[first : first + size] for first in range(0, len(names), size)]


def add_tables(
    tables: dict[str, MetricTable],
    scores: ArmScores,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    metrics: Sequence[str],
    prefix: str,
) -> None:
    """Add one table per metric, named with the prefix "", ``reference.`` or ``change.``.

    Args:
        tables: By name, to add to.
        scores: Of all seeds.
        records: The index of their rows.
        outcome: Which class ranks the rows.
        metrics: Names, in the order of the scores.
        prefix: Whose they are.
    """
    covariance, values = scores.influences.covariance(), scores.values
    for m, metric in enumerate(metrics):
        spec, count = spec_of(metric), records.count(scores.behind[m])
        if spec.rests_on:
            own, scored = metric.removeprefix(spec.name), f"[{outcome.scored}]"
            suffix = own or ("" if outcome.positive is not None else scored)
            count = np.minimum.reduce(
                [tables[prefix + name + suffix].counts for name in spec.rests_on]
            )
        (low, high), width = spec.bounds, spec.width
        floor = np.zeros(len(count))
        if math.isfinite(width):
            steady = steadiness(covariance[:, m], len(values))
            floor = width**2 * floor_variance(count) * steady
        bounds = (-width, width) if prefix == "change." else (low, high)
        tables[prefix + metric] = MetricTable(
            prefix + metric,
            spec.unit,
            values[:, m],
            covariance[:, m] + np.diag(floor),
            count,
            spec.no_interval,
            bounds=bounds,
        )


def cost_tables(change: dict[str, MetricTable]) -> dict[str, MetricTable]:
    """Every cost: accuracy that was lost, loss that was gained. Source: docs/methods.md 6.1."""
    found = {}
    for cost in costs():
        spec = METRICS[METRICS[cost].cost_of]
        for name, table in change.items():
            if base_metric(name) == spec.name:
                of_class = name.removeprefix(f"change.{spec.name}")  # as [2], or ""
                own = cost + of_class
                found[own] = replace(table, name=own, by_seed=spec.rise * table.by_seed)
    return found


def costs_between(
    after: Sequence[Predictions],
    before: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    part: str,
) -> dict[str, MetricTable]:
    """``privacy_cost.PART`` and every other cost's: what ``after`` does worse than ``before``.

    Args:
        after, before: Seed by seed, in the order of ``records``.
        labels, records, outcome: As of :func:`both_tables`.
        part: What is named so.
    """
    behind = {METRICS[cost].cost_of for cost in costs()}
    behind |= {name for metric in behind for name in METRICS[metric].rests_on}
    metrics = [name for name in outcome.metrics if base_metric(name) in behind]
    change = ArmScores(records, len(metrics))
    for p, q, place in zip(after, before, records.places, strict=True):
        later = _seed_scores(p, labels, records, place, outcome, metrics)
        earlier = _seed_scores(q, labels, records, place, outcome, metrics)
        change.add(place, later.minus(earlier))
    changed: dict[str, MetricTable] = {}
    add_tables(changed, change, records, outcome, metrics, "change.")
    found = {}
    for cost, table in cost_tables(changed).items():
        name = f"{cost}.{part}"
        found[name] = replace(table, name=name)
    return found


def impact_ratio(
    selection: MetricTable, name: str, eligible: Sequence[int]
) -> tuple[MetricTable, Float64]:
    """Selection rate over that of the most selected group, with the delta method's Jacobian.

    The most selected group is chosen once, on the mean over seeds, among the eligible groups.
    Taking the largest biases the ratio downward where groups are nearly equal.

    Args:
        selection: Selection rate of one arm.
        name: Name of the ratio.
        eligible: Groups that may be what the others are compared with.

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
    table = MetricTable(
        name, "ratio", ratio, covariance, selection.counts, divisor=top, bounds=(0.0, math.inf)
    )
    return table, jacobian


def _no_ratio(selection: MetricTable, name: str, reason: str) -> tuple[MetricTable, Float64]:
    table = replace(
        selection,
        name=name,
        unit="ratio",
        by_seed=np.full_like(selection.by_seed, np.nan),
        reason=reason,
    )
    return table, np.zeros(selection.covariance.shape[1:])


def impact_change(
    tables: dict[str, MetricTable], eligible: Sequence[int]
) -> dict[str, MetricTable]:
    """Impact ratio of both arms and its change, each arm against its own most selected group."""
    private, to_private = impact_ratio(tables["selection_rate"], "impact_ratio", eligible)
    reference, to_reference = impact_ratio(
        tables["reference.selection_rate"], "reference.impact_ratio", eligible
    )
    own, other = tables["selection_rate"].covariance, tables["reference.selection_rate"].covariance
    between = (own + other - tables["change.selection_rate"].covariance) / 2
    shared = to_private @ between @ to_reference.T
    covariance = private.covariance + reference.covariance - shared - shared.swapaxes(1, 2)
    change = MetricTable(
        "change.impact_ratio",
        "ratio",
        private.by_seed - reference.by_seed,
        covariance,
        private.counts,
        private.reason or reference.reason,
    )
    return {table.name: table for table in (private, reference, change)}
