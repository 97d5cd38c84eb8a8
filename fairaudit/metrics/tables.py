"""Predictions of two arms to one :class:`MetricTable` per metric, for both and for the change."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairaudit.metrics.intervals import (
    EvaluatedRecords,
    Influences,
    MetricTable,
    floor_variance,
    steadiness,
)
from fairaudit.metrics.registry import METRICS, spec_of
from fairaudit.metrics.within_model import (
    ClassMetric,
    EvaluatedSeed,
    Float64,
    Int64,
    LabelOutcome,
    Predictions,
)

Tables = dict[str, MetricTable]


def both_tables(
    ours: Sequence[EvaluatedSeed],
    theirs: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> tuple[Tables, Tables, Tables]:
    """Three tables for each metric: of an arm, of its reference and of the change between them.

    Args:
        ours, theirs: The arm and its reference, as of :func:`evaluated`.
        records: The index of their rows.
        outcome: Which classes count.
    """
    arm_tables: Tables = {}
    reference_tables: Tables = {}
    changed: Tables = {}
    # One metric at a time: the influences of all would not fit. Those that others rest on come
    # first, for their tables are read again.
    for metric in outcome.measured:
        first, second, change = (Influences(records) for _ in range(3))
        for a, b, place in zip(ours, theirs, records.places, strict=True):
            score, beside = a.score(metric), b.score(metric)
            first.add(place, score)
            second.add(place, beside)
            change.add(place, score.minus(beside))
        # Adding up left the rows that both rest on at the same seed; the change of two means over
        # seeds rests on every row that each of them rests on at any seed.
        change.support = first.support & second.support
        _add(arm_tables, "", metric, first, outcome)
        _add(reference_tables, "reference.", metric, second, outcome)
        _add(changed, "change.", metric, change, outcome)
    return arm_tables, reference_tables, changed


def own_tables(
    seeds: Sequence[EvaluatedSeed], records: EvaluatedRecords, outcome: LabelOutcome
) -> Tables:
    """One table per metric of one arm. Arguments as of :func:`both_tables`."""
    tables: Tables = {}
    for metric in outcome.measured:
        influences = Influences(records)
        for seed, place in zip(seeds, records.places, strict=True):
            influences.add(place, seed.score(metric))
        _add(tables, "", metric, influences, outcome)
    return tables


def costs_between(
    later: Sequence[EvaluatedSeed],
    earlier: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    part: str = "",
    apart: tuple[Sequence[EvaluatedSeed], Sequence[EvaluatedSeed]] | None = None,
) -> Tables:
    """Every cost: what ``later`` does worse than ``earlier``. Source: docs/methods.md 6.1.

    Args:
        later, earlier: Seed by seed, in the order of ``records``.
        records, outcome: As of :func:`both_tables`.
        part: ``privacy_cost.PART`` is what the costs are named then.
        apart: A later and an earlier model between both, whose own difference is left out.
    """
    tables: Tables = {}
    for metric in outcome.paid:
        change = _change(metric, later, earlier, records, apart)
        counts = records.count(change.support)
        for name in metric.spec.rests_on:
            of_class = ClassMetric(name, METRICS[name], outcome.scored or 0)
            support = _change(of_class, later, earlier, records).support
            counts = np.minimum(counts, records.count(support))
        # Made as a change of the metric, which has the floor and bounds of a cost; then renamed.
        table = metric_table(f"change.{metric.spec.name}", change, counts)
        name = f"{metric.name}.{part}" if part else metric.name
        table = replace(
            table,
            name=name,
            by_seed=metric.spec.rise * table.by_seed,
        )
        if later is earlier:  # one model, so the change is 0 for whoever else is tested
            table = replace(table, covariance=np.zeros_like(table.covariance))
        tables[name] = table
    return tables


def _change(
    metric: ClassMetric,
    later: Sequence[EvaluatedSeed],
    earlier: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    apart: tuple[Sequence[EvaluatedSeed], Sequence[EvaluatedSeed]] | None = None,
) -> Influences:
    """``later`` minus ``earlier``, without what those that are ``apart`` differ by."""
    change = Influences(records)
    for seed, place in enumerate(records.places):
        score = later[seed].score(metric).minus(earlier[seed].score(metric))
        if apart is not None:
            after, before = apart
            score = score.minus(after[seed].score(metric).minus(before[seed].score(metric)))
        change.add(place, score)
    return change


def evaluated(
    predictions: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> list[EvaluatedSeed]:
    """The test rows of an arm, seed by seed.

    Args:
        predictions: In the order of ``records``.
        labels: Of the whole data set, ``[N]``.
        records: The index of these predictions' rows.
        outcome: Which classes count.
    """
    seeds = []
    for p, place in zip(predictions, records.places, strict=True):
        groups = records.groups[place]
        seeds.append(
            EvaluatedSeed.of(
                p,
                labels[p.rows],
                groups,
                records.n_groups,
                outcome,
            )
        )
    return seeds


def _add(
    tables: Tables,
    prefix: str,
    metric: ClassMetric,
    influences: Influences,
    outcome: LabelOutcome,
) -> None:
    """Add the table of one metric, named with the prefix "", ``reference.`` or ``change.``.

    A metric that is made of others (an average over rates) counts the fewest records that any of
    them rests on: of the same class where it is of one, else of the positive or scored class.
    """
    counts = influences.records.count(influences.support)
    if metric.spec.rests_on:
        suffix = "" if outcome.positive is not None else f"[{outcome.scored}]"
        if metric.target >= 0:
            suffix = metric.name.removeprefix(metric.spec.name)
        parts = [tables[prefix + name + suffix].counts for name in metric.spec.rests_on]
        counts = np.minimum.reduce(parts)
    table = metric_table(prefix + metric.name, influences, counts)
    tables[table.name] = table


def metric_table(name: str, influences: Influences, counts: Int64) -> MetricTable:
    """One metric over all seeds, with the floor of its variance and its bounds.

    Args:
        name: Of the metric, with ``change.`` for that between two arms.
        influences: Of all seeds.
        counts: Distinct records behind each value, ``[K + 1]``.
    """
    spec, covariance, by_seed = spec_of(name), influences.covariance(), influences.by_seed
    if math.isfinite(spec.width):
        floor = spec.width**2 * floor_variance(counts) * steadiness(covariance, len(by_seed))
        covariance += np.diag(floor)  # to both: of the mean over seeds, and of two seeds
    bounds = (-spec.width, spec.width) if name.startswith("change.") else spec.bounds
    return MetricTable(
        name,
        spec.unit,
        by_seed,
        covariance,
        counts,
        spec.no_interval,
        bounds=bounds,
    )


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
    # d(r_k / r_top) = (d r_k - ratio_k d r_top) / r_top: 0 for the most selected group itself.
    centre = np.nan_to_num(ratio.mean(axis=0))
    jacobian = np.eye(len(mean))
    jacobian[:, top] -= centre
    jacobian /= mean[top]
    covariance = jacobian @ selection.covariance @ jacobian.T
    table = MetricTable(
        name,
        "ratio",
        ratio,
        covariance,
        selection.counts,
        divisor=top,
        bounds=(0.0, math.inf),
    )
    return table, jacobian


def _no_ratio(
    selection: MetricTable,
    name: str,
    reason: str,
) -> tuple[MetricTable, Float64]:
    """A ratio that is undefined at every seed, with the reason, and covariances of 0."""
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
    arm, base = tables["selection_rate"].covariance, tables["reference.selection_rate"].covariance
    # Var(a - b) = Var(a) + Var(b) - 2 Cov(a, b), solved for the covariance of the two arms' rates.
    between = (arm + base - tables["change.selection_rate"].covariance) / 2
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
