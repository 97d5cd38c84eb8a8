"""A metric that is a plain mean over test records, made by itself.

What intervals are tested with.
"""

import numpy as np

from fairaudit.metrics.intervals import Influences, MetricTable, floor_variance, steadiness


def record_means(name, values, records, *, unit="fraction"):
    """The table of a metric that is a plain mean over test records.

    Args:
        name: Metric name.
        values: d_si of each test row, per seed ``[n_s]``, in the order of the seed's rows.
        records: The index of those rows.
        unit: ``fraction`` gets the floor, ``nats`` has none (docs/methods.md 6.3).
    """
    k = records.n_groups
    by_seed, influences = [], Influences(records, 1)
    for place, d in zip(records.places, values, strict=True):
        g = records.groups[place]
        n = np.bincount(g, minlength=k)
        with np.errstate(invalid="ignore"):
            m = np.bincount(g, d, k) / n
        by_seed.append(np.append(m, d.mean()))
        influences.add(place, ((d - m[g]) / n[g])[None], ((d - d.mean()) / len(d))[None])
    counts = records.count()
    covariance = influences.covariance()[:, 0]
    if unit == "fraction":
        covariance += np.diag(floor_variance(counts) * steadiness(covariance, len(by_seed)))
    return MetricTable(name, unit, np.array(by_seed), covariance, counts)
