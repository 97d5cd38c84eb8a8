"""Predictions of two arms to one :class:`MetricTable` per metric, for both and for the change."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairaudit.metrics.intervals import (
    EvaluatedRecords,
    Influences,
    MetricTable,
    correlation_between_seeds,
    floor_variance,
)
from fairaudit.metrics.registry import METRICS, spec_of
from fairaudit.metrics.within_model import (
    ArmPredictions,
    ClassMetric,
    EvaluatedSeed,
    Float64,
    Int64,
    LabelOutcome,
)

Tables = dict[str, MetricTable]


def both_tables(
    ours: Sequence[EvaluatedSeed],
    theirs: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> tuple[Tables, Tables, Tables]:
    """Three tables for each metric M: of an arm, of its reference and of the change between them.

    Args:
        ours, theirs: The arm and its reference, seed by seed, as of :func:`evaluated`.
        records: The index of their test rows.
        outcome: Which classes count.

    Returns:
        Three dictionaries by name: ``M``, ``reference.M``, ``change.M`` (arm minus reference).

    Example:
        >>> import numpy as np
        >>> labels, sex, rows = np.tile([0, 1], 4), np.repeat([0, 1], 4), np.arange(8)
        >>> right = np.eye(2, dtype=np.float32)[labels]
        >>> wrong_of_f = np.where((sex == 0)[:, None], 1 - right, right)
        >>> records, outcome = EvaluatedRecords.of([rows], sex, 2), LabelOutcome(2, positive=1)
        >>> def of(model):
        ...     one = ArmPredictions(0, rows, model[None], np.array([9, 9]))
        ...     return evaluated([one], labels, records, outcome)
        >>> arm, reference, change = both_tables(of(wrong_of_f), of(right), records, outcome)
        >>> arm["accuracy"].by_seed.tolist(), change["change.accuracy"].by_seed.tolist()
        ([[0.0, 1.0, 0.5]], [[-1.0, 0.0, -0.5]])
    """
    arm_tables: Tables = {}
    reference_tables: Tables = {}
    changed: Tables = {}
    # One metric at a time: the influences of all would not fit into memory. Metrics that others
    # rest on come first, for `_add_table` reads their tables.
    for metric in outcome.class_metrics:
        first, second, change = (Influences(records) for _ in range(3))
        for a, b, place in zip(ours, theirs, records.places, strict=True):
            score, other = a.score(metric), b.score(metric)
            first.add(place, score)
            second.add(place, other)
            change.add(place, score.minus(other))
        # `minus` keeps the rows on which both scores rest at the same seed; but the change of two
        # means over seeds rests on every row on which each mean rests at any seed.
        change.support = first.support & second.support
        _add_table(arm_tables, "", metric, first, outcome)
        _add_table(reference_tables, "reference.", metric, second, outcome)
        _add_table(changed, "change.", metric, change, outcome)
    return arm_tables, reference_tables, changed


def own_tables(
    seeds: Sequence[EvaluatedSeed], records: EvaluatedRecords, outcome: LabelOutcome
) -> Tables:
    """Tables of one arm by itself, by metric. Arguments as of :func:`both_tables`.

    Example:
        >>> import numpy as np
        >>> labels, sex, rows = np.tile([0, 1], 4), np.repeat([0, 1], 4), np.arange(8)
        >>> right = np.eye(2, dtype=np.float32)[labels]
        >>> records, outcome = EvaluatedRecords.of([rows], sex, 2), LabelOutcome(2, positive=1)
        >>> one = ArmPredictions(0, rows, right[None], np.array([9, 9]))
        >>> tables = own_tables(evaluated([one], labels, records, outcome), records, outcome)
        >>> tables["tpr"].by_seed.tolist(), tables["tpr"].counts.tolist()  # groups, then all rows
        ([[1.0, 1.0, 1.0]], [2, 2, 4])
    """
    tables: Tables = {}
    for metric in outcome.class_metrics:
        influences = Influences(records)
        for seed, place in zip(seeds, records.places, strict=True):
            influences.add(place, seed.score(metric))
        _add_table(tables, "", metric, influences, outcome)
    return tables


def costs_between(
    later: Sequence[EvaluatedSeed],
    earlier: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    part: str = "",
    subtracted: tuple[Sequence[EvaluatedSeed], Sequence[EvaluatedSeed]] | None = None,
) -> Tables:
    """Tables of every cost by name: by how much ``later`` is worse than ``earlier``.

    Source: docs/methods.md 6.1.

    Args:
        later, earlier: Two models seed by seed, in the order of ``records``: an arm and its
            reference, or two neighbours among arm, twins and reference.
        records, outcome: As of :func:`both_tables`.
        part: Ends the names of the costs, as ``privacy_cost.PART``; "" for whole costs.
        subtracted: Two further models (later, earlier), whose difference is taken off at each seed:
            those between which the part lies that is not to be counted.

    Example:
        >>> import numpy as np
        >>> labels, sex, rows = np.tile([0, 1], 4), np.repeat([0, 1], 4), np.arange(8)
        >>> right = np.eye(2, dtype=np.float32)[labels]
        >>> wrong_of_f = np.where((sex == 0)[:, None], 1 - right, right)
        >>> records, outcome = EvaluatedRecords.of([rows], sex, 2), LabelOutcome(2, positive=1)
        >>> def of(model):
        ...     one = ArmPredictions(0, rows, model[None], np.array([9, 9]))
        ...     return evaluated([one], labels, records, outcome)
        >>> cost = costs_between(of(wrong_of_f), of(right), records, outcome)["privacy_cost"]
        >>> cost.by_seed[0, [0, 2]].tolist()  # of F and of all rows
        [1.0, 0.5]
    """
    tables: Tables = {}
    for metric in outcome.cost_metrics:
        change = _influences_of_change(metric, later, earlier, records, subtracted)
        counts = records.count(change.support)
        # The metrics that this one rests on (auc: on both rates) are about the same class as this
        # one; if it is about none, about the scored class, which auc has: `or 0` is for mypy. The
        # count is the fewest records that any of them rests on.
        target = metric.target if metric.target >= 0 else outcome.scored or 0
        for name in metric.spec.rests_on:
            of_class = ClassMetric(name, METRICS[name], target)
            support = _influences_of_change(of_class, later, earlier, records).support
            counts = np.minimum(counts, records.count(support))
        # Made under the name of a change of the metric, for which `metric_table` has the floor and
        # bounds of a cost; then renamed, with the sign by which worse is positive; a sign
        # changes no variance.
        table = metric_table(f"change.{metric.spec.name}", change, counts)
        name = f"{metric.name}.{part}" if part else metric.name
        table = replace(table, name=name, by_seed=metric.spec.rise * table.by_seed)
        if later is earlier:  # the same model, so the change is 0 for any other test records too
            table = replace(table, covariance=np.zeros_like(table.covariance))
        tables[name] = table
    return tables


def _influences_of_change(
    metric: ClassMetric,
    later: Sequence[EvaluatedSeed],
    earlier: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    subtracted: tuple[Sequence[EvaluatedSeed], Sequence[EvaluatedSeed]] | None = None,
) -> Influences:
    """What each test record contributes to a metric's change from ``earlier`` to ``later``.

    ``subtracted``: two further models (later, earlier) whose difference is subtracted, or None.
    """
    change = Influences(records)
    for seed, place in enumerate(records.places):
        score = later[seed].score(metric).minus(earlier[seed].score(metric))
        if subtracted is not None:
            after, before = subtracted
            score = score.minus(after[seed].score(metric).minus(before[seed].score(metric)))
        change.add(place, score)
    return change


def evaluated(
    predictions: Sequence[ArmPredictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> list[EvaluatedSeed]:
    """Join an arm's predictions with the labels and groups of its test rows, seed by seed.

    Args:
        predictions: One for each seed, in the order of ``records``.
        labels: Of the whole data set, ``[N]``.
        records: The index of these predictions' rows.
        outcome: Which classes count.

    Example:
        >>> import numpy as np
        >>> labels, sex, rows = np.tile([0, 1], 4), np.repeat([0, 1], 4), np.array([0, 1, 4])
        >>> right = np.eye(2, dtype=np.float32)[labels[rows]]
        >>> records, outcome = EvaluatedRecords.of([rows], sex, 2), LabelOutcome(2, positive=1)
        >>> one = ArmPredictions(0, rows, right[None], np.array([9, 9]))
        >>> (seed,) = evaluated([one], labels, records, outcome)
        >>> seed.runs[0].groups.tolist(), seed.runs[0].correct.tolist()
        ([0, 0, 1], [1.0, 1.0, 1.0])
    """
    seeds = []
    for p, place in zip(predictions, records.places, strict=True):
        groups = records.groups[place]
        seeds.append(EvaluatedSeed.of(p, labels[p.rows], groups, records.n_groups, outcome))
    return seeds


def _add_table(
    tables: Tables, prefix: str, metric: ClassMetric, influences: Influences, outcome: LabelOutcome
) -> None:
    """Make the table of one metric and put it into ``tables`` under its name with the prefix.

    A metric that ``rests_on`` others (as AUC on both rates) counts the fewest records that any of
    them rests on. Those others are about the class of the metric where it is about one, else about
    the positive or scored class.

    Args:
        tables: Are added to; they hold already those of the metrics that ``metric`` rests on.
        prefix: "", ``reference.`` or ``change.``.
        metric: The metric and its class.
        influences: Of all seeds.
        outcome: Which class is positive or scored.
    """
    counts = influences.records.count(influences.support)
    if metric.spec.rests_on:
        # Names end in their class, as ``tpr[2]``, where no class is positive.
        suffix = "" if outcome.positive is not None else f"[{outcome.scored}]"
        if metric.target >= 0:
            suffix = metric.name.removeprefix(metric.spec.name)
        of_others = [tables[prefix + name + suffix].counts for name in metric.spec.rests_on]
        counts = np.minimum.reduce(of_others)
    table = metric_table(prefix + metric.name, influences, counts)
    tables[table.name] = table


def metric_table(name: str, influences: Influences, counts: Int64) -> MetricTable:
    """One metric over all seeds, with the floor of its variance and its bounds.

    The floor is ``width^2 * 2 / (n + 2)^2 * rho``, with the width of the metric's range
    (:func:`floor_variance`, :func:`correlation_between_seeds`). A metric whose range is infinite,
    as a loss, has none. Source: docs/methods.md 6.3.

    Args:
        name: Of the metric; that of a difference between two models begins with ``change.``, which
            gives it the bounds of a difference.
        influences: Of all seeds.
        counts: Distinct records behind each value, ``[K + 1]``.

    Example:
        >>> import numpy as np
        >>> from fairaudit.metrics.within_model import SeedScores
        >>> records = EvaluatedRecords.of([np.arange(4)], np.array([0, 0, 1, 1]), 2)
        >>> influences, nothing = Influences(records), np.zeros(4)
        >>> everybody_right = SeedScores(np.ones(3), nothing, nothing, np.ones(4, bool))
        >>> influences.add(records.places[0], everybody_right)
        >>> table = metric_table("accuracy", influences, records.count())
        >>> table.covariance[0].diagonal().tolist()  # the floor alone, 2 / (n + 2)^2
        [0.125, 0.125, 0.05555555555555555]
    """
    spec, covariance, by_seed = spec_of(name), influences.covariance(), influences.by_seed
    if math.isfinite(spec.width):
        # Only the part that seeds share gets a floor: what differs between seeds is in V_seed.
        rho = correlation_between_seeds(covariance, len(by_seed))
        floor = spec.width**2 * floor_variance(counts) * rho
        covariance += np.diag(floor)  # to both matrices, [2, K + 1, K + 1]
    bounds = (-spec.width, spec.width) if name.startswith("change.") else spec.bounds
    return MetricTable(
        name, spec.unit, by_seed, covariance, counts, spec.no_interval, bounds=bounds
    )


def impact_ratio(
    selection: MetricTable, name: str, eligible: Sequence[int]
) -> tuple[MetricTable, Float64]:
    """Each group's selection rate divided by that of the most selected group (four-fifths rule).

    Its variances follow by the delta method (docs/methods.md 6.5). The most selected group is
    chosen once, on the mean over seeds, among the eligible groups. Taking the largest biases the
    ratio downward where groups are nearly equal.

    Args:
        selection: Selection rate of one arm.
        name: Name of the ratio.
        eligible: Indices of the groups that are large enough to be the most selected one.

    Returns:
        The table, undefined with a reason where there is no ratio; and the delta method's Jacobian
        d(ratio) / d(rate), ``[K + 1, K + 1]``, for :func:`impact_change`.

    Example:
        >>> import numpy as np
        >>> rates, counts = np.array([[0.4, 0.5, 0.45]]), np.array([50, 50, 100])
        >>> nothing = np.zeros((2, 3, 3))
        >>> selection = MetricTable("selection_rate", "fraction", rates, nothing, counts)
        >>> table, _ = impact_ratio(selection, "impact_ratio", eligible=[0, 1])
        >>> table.by_seed.tolist()  # against the most selected group; all rows have none
        [[0.8, 1.0, nan]]
    """
    rates = selection.by_seed
    usable = [k for k in eligible if np.isfinite(rates[:, k]).all()]  # known at every seed
    if len(usable) < 2:
        return _no_ratio(selection, name, "impact ratio needs two groups that are large enough")
    mean = rates.mean(axis=0)
    top = max(usable, key=lambda k: mean[k])
    if (rates[:, top] == 0).any():
        return _no_ratio(selection, name, "nobody is selected at some seed")
    ratio = rates / rates[:, [top]]
    ratio[:, -1] = np.nan  # "all rows" has no impact ratio
    # d(r_k / r_top) = (d r_k - ratio_k d r_top) / r_top: 0 for the most selected group itself. An
    # undefined ratio (of all rows, an absent group) counts as 0, so that the covariance matrix
    # has no NaN.
    mean_ratio = np.nan_to_num(ratio.mean(axis=0))
    jacobian = np.eye(len(mean))
    jacobian[:, top] -= mean_ratio
    jacobian /= mean[top]
    covariance = jacobian @ selection.covariance @ jacobian.T
    table = MetricTable(
        name, "ratio", ratio, covariance, selection.counts, divisor=top, bounds=(0.0, math.inf)
    )
    return table, jacobian


def _no_ratio(selection: MetricTable, name: str, reason: str) -> tuple[MetricTable, Float64]:
    """A table of ratios that are undefined at every seed, with the reason, and a Jacobian of 0."""
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
    """Tables of the impact ratio of an arm, of its reference and of the change, by name.

    Each arm's rates are divided by that of its own most selected group.

    Args:
        tables: Those of the selection rate: plain, ``reference.`` and ``change.``.
        eligible: Indices of the groups that are large enough to be the most selected one.

    Example:
        >>> import numpy as np
        >>> def rates(name, *values):
        ...     counts, nothing = np.array([50, 50, 100]), np.zeros((2, 3, 3))
        ...     return MetricTable(name, "fraction", np.array([values]), nothing, counts)
        >>> tables = {
        ...     "selection_rate": rates("selection_rate", 0.2, 0.5, 0.35),
        ...     "reference.selection_rate": rates("reference.selection_rate", 0.5, 0.5, 0.5),
        ...     "change.selection_rate": rates("change.selection_rate", -0.3, 0.0, -0.15),
        ... }
        >>> changed = impact_change(tables, eligible=[0, 1])
        >>> changed["change.impact_ratio"].by_seed.round(3).tolist()
        [[-0.6, 0.0, nan]]
    """
    arm_rates, reference_rates = tables["selection_rate"], tables["reference.selection_rate"]
    private, private_jacobian = impact_ratio(arm_rates, "impact_ratio", eligible)
    reference, reference_jacobian = impact_ratio(
        reference_rates, "reference.impact_ratio", eligible
    )
    # Var(a - b) = Var(a) + Var(b) - 2 Cov(a, b), solved for the covariance of the two arms' rates,
    # [2, K + 1, K + 1]; by the delta method that of their ratios follows.
    of_change = tables["change.selection_rate"].covariance
    between_rates = (arm_rates.covariance + reference_rates.covariance - of_change) / 2
    between = private_jacobian @ between_rates @ reference_jacobian.T
    covariance = private.covariance + reference.covariance - between - between.swapaxes(1, 2)
    change = MetricTable(
        "change.impact_ratio",
        "ratio",
        private.by_seed - reference.by_seed,
        covariance,
        private.counts,
        private.reason or reference.reason,
    )
    return {table.name: table for table in (private, reference, change)}
