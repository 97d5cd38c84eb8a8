"""A metric that is a plain mean over test records, made by itself.

What intervals are tested with.
"""

import numpy as np

from fairaudit.metrics.intervals import (
    Influences,
    MetricTable,
    correlation_between_seeds,
    floor_variance,
)
from fairaudit.metrics.within_model import ArmPredictions, EvaluatedSeed, SeedScores


def record_means(name, values, records, *, unit="fraction"):
    """The table of a metric that is a plain mean over test records.

    Args:
        name: Metric name.
        values: d_si of each test row, per seed ``[n_s]``, in the order of the seed's rows.
        records: The index of those rows.
        unit: ``fraction`` gets the floor, ``nats`` has none (docs/methods.md 6.3).
    """
    k = records.n_groups
    influences = Influences(records)
    for place, d in zip(records.places, values, strict=True):
        g = records.groups[place]
        n = np.bincount(g, minlength=k)
        with np.errstate(invalid="ignore"):
            m = np.bincount(g, d, k) / n
        within, whole = (d - m[g]) / n[g], (d - d.mean()) / len(d)
        everyone = np.ones(len(d), bool)
        influences.add(place, SeedScores(np.append(m, d.mean()), within, whole, everyone))
    counts = records.count()
    covariance, by_seed = influences.covariance(), influences.by_seed
    if unit == "fraction":
        rho = correlation_between_seeds(covariance, len(by_seed))
        covariance += np.diag(floor_variance(counts) * rho)
    return MetricTable(name, unit, by_seed, covariance, counts)


def seed_scores(probabilities, labels, groups, n_groups, outcome, weights=None):
    """Every metric of one arm at one seed, by name."""
    given = ArmPredictions(
        0, np.arange(len(labels)), probabilities, np.zeros(n_groups), weights=weights
    )
    seed = EvaluatedSeed.of(given, labels, groups, n_groups, outcome)
    return {metric.name: seed.score(metric) for metric in outcome.class_metrics}
