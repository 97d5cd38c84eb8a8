"""One procedure for every interval of the report: training randomness and test records, combined.

A metric is reduced once to a :class:`MetricTable`; then every contrast (a group, a pair, a group
against everybody) is two look-ups. No bootstrap. Source: METHODS 8.3.

Coverage of the nominal 95 % interval of the gap, simulated (``tests/metrics/test_coverage.py``, slow;
1,500 rows, 5 seeds and a minority of 30 % unless said; both arms really trained)::

                                     files   accuracy  (width)   loss  (width, nats)
    logistic, 5 splits                 400     .983    .164      .980    .186
    logistic, 10 splits                300     .987    .109      .973    .120
    logistic, 5 splits, 5,000 rows     250     .960    .127      .948    .146
    logistic, fixed split              400     .983    .181      .970    .195
    logistic, balanced                 400     .983    .192      .988    .183
    logistic, minority of 5 %          400     .995    .262      .980    .322
    MLP, 5 splits                      150    1.000    .103      .993    .116
    MLP, fixed split                   100    1.000    .110      .970    .119
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairaudit.errors import numbered
from fairaudit.metrics.estimates import Estimate

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


ONE_SEED = "one seed: training randomness cannot be estimated"


@dataclass(frozen=True, slots=True)
class Records:
    """The distinct records that were tested at any seed, sorted by group.

    Args:
        groups: Group of each distinct record, ascending, ``[U]``.
        ids: Its number in the data set, ``[U]``.
        places: Per seed, where each test row lies in this order, ``[n_s]``.
        n_groups: K.
    """

    groups: Int64
    ids: Int64
    places: tuple[Int64, ...]
    n_groups: int

    @classmethod
    def of(cls, rows: Sequence[Int64], groups: Int64, n_groups: int) -> "Records":
        """Index the test rows of all seeds.

        Args:
            rows: Per seed the record numbers, ``[n_s]``; no record twice in one seed.
            groups: Group of every record of the data set, ``[N]``.
            n_groups: K, absent groups included.
        """
        tested = np.zeros(len(groups), dtype=bool)
        for r in rows:
            tested[r] = True
        ids = np.flatnonzero(tested)
        ids = np.concatenate([ids[groups[ids] == k] for k in range(n_groups)])
        place = np.empty(len(groups), dtype=np.int64)
        place[ids] = np.arange(len(ids))
        return cls(groups[ids], ids, tuple(place[r] for r in rows), n_groups)

    def count(self, wanted: NDArray[np.bool_] | None = None) -> Int64:
        """Distinct records per group and in all, ``[K + 1]``; only where ``wanted`` [U] if given."""
        groups = self.groups if wanted is None else self.groups[wanted]
        per_group = np.bincount(groups, minlength=self.n_groups)
        return np.append(per_group, len(groups)).astype(np.int64)

    def totals(self, values: Float64) -> Float64:
        """Sum of ``values`` [..., U] per group, ``[..., K]``; 0 for an absent group."""
        edges = np.searchsorted(self.groups, np.arange(self.n_groups))
        present = np.flatnonzero(np.bincount(self.groups, minlength=self.n_groups))
        out = np.zeros((*values.shape[:-1], self.n_groups))
        out[..., present] = np.add.reduceat(values, edges[present], axis=-1)
        return out


@dataclass(frozen=True, slots=True)
class MetricTable:
    """One metric of one arm, reduced to what any interval about it needs.

    Index K stands for all test rows.

    Args:
        name: Metric name. unit: Of its values.
        by_seed: ``[S, K + 1]``; NaN where undefined.
        covariance: Test-record covariance of the seed means, ``[K + 1, K + 1]``: entry (a, b) is
            sum_i psi_ia psi_ib, the floor on its diagonal. NaN where no honest one exists.
        counts: Distinct records behind each value, ``[K + 1]``.
        reason: Why there is no value or no interval, or "".
        one_model: The interval is about this one model on new people, not about its training.
        divisor: The group whose value every other is divided by, for a ratio; else None.
    """

    name: str
    unit: str
    by_seed: Float64
    covariance: Float64
    counts: Int64
    reason: str = ""
    one_model: bool = False
    divisor: int | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A contrast before any quantile: its value at each seed and its two variances.

    Args:
        by_seed: Y_s, ``[S]``; NaN where undefined.
        value: D, their mean where defined; NaN where there is none.
        seed_variance: V_seed; NaN for one seed, 0 where one model is what is measured.
        record_variance: V_rec.
        n_test: Distinct records behind it. n_min: In the smaller of its groups.
        unit: Of Y. reason: Why it is undefined or without interval, or "".
    """

    by_seed: Float64
    value: float
    seed_variance: float
    record_variance: float
    n_test: int
    n_min: int
    unit: str
    reason: str = ""

    def half_width(self, pairs: int = 1) -> float:
        """Half of the interval, Bonferroni over that many pairs; NaN where there is none.

        Source: METHODS 8.3, ``sqrt(t^2 V_seed + z^2 V_rec)``.
        """
        if self.reason:
            return math.nan
        t, z = quantiles(1 - 0.025 / pairs, max(1, len(self.by_seed) - 1))
        return math.sqrt(t**2 * self.seed_variance + z**2 * self.record_variance)


@lru_cache(maxsize=4096)
def quantiles(level: float, degrees: float) -> tuple[float, float]:
    """Student's t at ``degrees`` of freedom and the standard normal, both at ``level``."""
    from scipy.special import ndtri, stdtrit  # scipy takes 0.4 s to import; `plan` never needs it

    return float(stdtrit(degrees, level)), float(ndtri(level))


def floor_variance(counts: Int64) -> Float64:
    """Variance that "no disagreement seen" still leaves, ``2 / (n + 2)^2``. For fractions only."""
    return np.asarray(2.0 / (counts + 2.0) ** 2, dtype=np.float64)


def summed_over_seeds(records: Records, influences: Sequence[NDArray[np.float64]]) -> Float64:
    """Influence of each distinct record on the mean over seeds, ``[M, U]``.

    A record tested at several seeds adds up here, before anything is squared: it is the cluster.

    Args:
        records: The index of all test rows.
        influences: Per seed, ``[M, n_s]``: for a mean ``(d_i - m_k) / n_k``.
    """
    psi = np.zeros((len(influences[0]), len(records.ids)))
    for place, influence in zip(records.places, influences, strict=True):
        add_seed(psi, place, influence)
    psi /= len(influences)
    return psi


def add_seed(psi: Float64, place: Int64, influence: Float64) -> None:
    """Add one seed's influences ``[M, n]`` to those of the distinct records, ``[M, U]``.

    Args:
        psi: Changed in place. place: Of each row among the records, ``[n]``. influence: ``[M, n]``.
    """
    for total, one in zip(psi, influence, strict=True):  # row by row: four times faster
        total[place] += one  # no record twice in one seed, so nothing is lost


def covariances(records: Records, own: Float64, every: Float64) -> Float64:
    """Test-record covariance of M metrics' means over seeds, without floors.

    Args:
        records: The index of all test rows.
        own: psi of each record for its own group's value, ``[M, U]``.
        every: psi of each record for the value over all rows, ``[M, U]``.

    Returns:
        ``[M, K + 1, K + 1]``.
    """
    k = records.n_groups
    out = np.zeros((len(own), k + 1, k + 1))
    out[:, np.arange(k), np.arange(k)] = records.totals(own * own)
    out[:, k, :k] = out[:, :k, k] = records.totals(own * every)
    out[:, k, k] = np.einsum("mu,mu->m", every, every)
    return out


def record_means(
    name: str, values: Sequence[Float64], records: Records, *, unit: str = "fraction"
) -> MetricTable:
    """The table of a metric that is a plain mean over test records.

    Args:
        name: Metric name.
        values: d_si of each test row, per seed ``[n_s]``, in the order of the seed's rows.
        records: The index of those rows.
        unit: ``fraction`` gets the floor, ``nats`` has none (METHODS 8.3).
    """
    k = records.n_groups
    by_seed, within, whole = [], [], []
    for place, d in zip(records.places, values, strict=True):
        g = records.groups[place]
        n = np.bincount(g, minlength=k)
        with np.errstate(invalid="ignore"):
            m = np.bincount(g, d, k) / n
        by_seed.append(np.append(m, d.mean()))
        within.append(((d - m[g]) / n[g])[None])
        whole.append(((d - d.mean()) / len(d))[None])
    counts = records.count()
    own, every = summed_over_seeds(records, within), summed_over_seeds(records, whole)
    covariance = covariances(records, own, every)[0]
    if unit == "fraction":
        covariance += np.diag(floor_variance(counts))
    return MetricTable(name, unit, np.array(by_seed), covariance, counts)


def contrast(table: MetricTable, a: int, b: int | None = None) -> Spread:
    """Value a, or value a minus value b, with its two variances.

    Args:
        table: The metric.
        a: Group index; K for all test rows.
        b: Group index, K for all test rows, or None for value a alone.
    """
    y, cov, n = table.by_seed, table.covariance, table.counts
    if b is None:
        values, records, n_test, n_min = y[:, a], cov[a, a], n[a], n[a]
    else:
        whole = len(n) - 1
        values = y[:, a] - y[:, b]
        records = cov[a, a] - 2 * cov[a, b] + cov[b, b]
        n_test = n[whole] if whole in (a, b) else n[a] + n[b]
        n_min = min(n[a], n[b])
    seeds = values.tolist()
    defined = [v for v in seeds if v == v]
    mean = math.fsum(defined) / len(defined) if defined else math.nan
    v_rec = float(records)
    return Spread(
        by_seed=values,
        value=mean,
        seed_variance=0.0 if table.one_model else _seed_variance(seeds, mean),
        record_variance=max(v_rec, 0.0),
        n_test=int(n_test),
        n_min=int(n_min),
        unit=table.unit,
        reason=table.reason or _why_undefined(len(seeds) - len(defined), len(seeds), v_rec, table.one_model),
    )


def _seed_variance(values: list[float], mean: float) -> float:
    """V_seed, the variance of a mean over seeds; fsum makes it independent of the seeds' order."""
    s = len(values)
    if s < 2:
        return math.nan
    return math.fsum((v - mean) ** 2 for v in values) / (s - 1) / s


def _why_undefined(missing: int, seeds: int, record_variance: float, one_model: bool) -> str:
    if missing == seeds:
        return "undefined at every seed"
    if missing:
        return f"undefined at {missing} of {numbered(seeds, 'seed')}"
    if seeds == 1 and not one_model:
        return ONE_SEED
    return "no variance over test records" if math.isnan(record_variance) else ""


def estimate(spread: Spread, pairs: int = 1) -> Estimate:
    """D with its interval, or with the reason why it has none."""
    return _around(spread, spread.value, spread.half_width(pairs), signed=True)


def absolute(spread: Spread, pairs: int = 1) -> Estimate:
    """|D|, taken after averaging over seeds, with its interval.

    Equals METHODS 8.3's two cases: |D| - h where the signed interval excludes 0, else 0.
    """
    return _around(spread, abs(spread.value), spread.half_width(pairs), signed=False)


def largest(spreads: Sequence[Spread], pairs: int) -> Estimate:
    """The largest |D| of several pairs, with an interval that allows for having looked at all.

    Args:
        spreads: Every pair, all with intervals.
        pairs: K(K-1)/2, the number of quantiles that Bonferroni shares the 5 % among.
    """
    values = np.array([abs(s.value) for s in spreads])
    halves = np.array([s.half_width(pairs) for s in spreads])
    top = absolute(spreads[int(values.argmax())], pairs)
    if np.isnan(halves).any():
        return top
    low, high = max(0.0, float((values - halves).max())), float((values + halves).max())
    return Estimate(
        top.value, low, high, top.training_sd, top.records_sd, top.n_seeds, top.n_test, top.unit,
        by_seed=top.by_seed,
    )  # fmt: skip


def _around(spread: Spread, value: float, half: float, *, signed: bool) -> Estimate:
    if math.isnan(value):
        return undefined(spread.reason, spread.unit, n_test=spread.n_test)
    bounded = not math.isnan(half)
    low = value - half if signed else max(0.0, value - half)
    by_seed = tuple(v for v in spread.by_seed.tolist() if v == v)
    return Estimate(
        value=value,
        low=low if bounded else None,
        high=value + half if bounded else None,
        training_sd=_root(spread.seed_variance) if len(spread.by_seed) > 1 else None,
        records_sd=_root(spread.record_variance),
        n_seeds=len(by_seed),
        n_test=spread.n_test,
        unit=spread.unit,
        reason=spread.reason,
        by_seed=by_seed,
    )


def undefined(reason: str, unit: str, n_test: int = 0) -> Estimate:
    """A number that does not exist, and why."""
    return Estimate(None, None, None, None, None, 0, n_test, unit, reason)


def _root(variance: float) -> float | None:
    return None if math.isnan(variance) else math.sqrt(variance)
