"""One procedure for every interval of the report: training randomness and test records, combined.

A metric is reduced once to a :class:`MetricTable`; then every contrast (a group, a pair, a group
against everybody) is a few look-ups. No bootstrap. Source: docs/methods.md 6.3.

Y_s is the contrast at seed s, of S, and D their mean. Seeds are exchangeable, so E var_s(Y_s) =
Var(Y_s) - Cov(Y_s, Y_t) and therefore

    Var(D) = E V_seed + Cov(Y_s, Y_t),   V_seed = var_s(Y_s) / S.

Two seeds covary through the records that both tested. With psi_si the influence of record i on Y_s,
(d_si - m_s) / n_s for the mean of its group and 0 where s did not test it, the estimate of that is

    V_shared = mean over pairs s != t of sum_i psi_si psi_ti   (plus the floor; cut at 0)
             = (S V_rec - mean_s sum_i psi_si^2) / (S - 1),    V_rec = sum_i (mean_s psi_si)^2,

    interval: D +- sqrt(t^2_{S-1} V_seed + z^2 V_shared).

On one split V_shared is what a record does at every seed alike; with a split for each seed also
only as far as both tested it. V_rec in its place counts V_rec - V_shared twice, for V_seed holds as
much in expectation (``conservative``, used for a group alone, where skewed seeds have nothing that
makes up for them); V_rec taken off V_seed takes off too much. Where Y_s is normal the interval
holds at least its level (Banerjee 1960, Sankhya 22, for t and z as for several t). It is about
models trained on rows of one file: what a new file adds has no unbiased estimate (Bengio and
Grandvalet 2004). How often it holds: ``benchmarks/coverage.py``, ``benchmarks/trainings.py``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.errors import numbered
from fairaudit.metrics.quantiles import half_width
from fairaudit.metrics.within_model import Float64, Int64, SeedScores
from fairaudit.results.estimates import Estimate, estimated, undefined

ONE_SEED = "one seed: training randomness cannot be estimated"


@dataclass(frozen=True, slots=True)
class EvaluatedRecords:
    """The distinct records that were tested at any seed, sorted by group.

    Args:
        groups: Group of each distinct record, ascending, ``[U]``.
        ids: Number of each of these records in the data set, ``[U]``.
        places: Per seed, where each test row lies in this order, ``[n_s]``.
        n_groups: K.

    Example:
        >>> import numpy as np
        >>> tested = [np.array([0, 3]), np.array([1, 3])]  # rows of two seeds
        >>> records = EvaluatedRecords.of(tested, groups=np.array([1, 0, 0, 1]), n_groups=2)
        >>> records.ids.tolist(), records.count().tolist()
        ([1, 0, 3], [1, 2, 3])
    """

    groups: Int64
    ids: Int64
    places: tuple[Int64, ...]
    n_groups: int

    @classmethod
    def of(cls, rows: Sequence[Int64], groups: Int64, n_groups: int) -> "EvaluatedRecords":
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
        ids = np.concatenate([ids[groups[ids] == k] for k in range(n_groups)])  # by group, then id
        # Record number -> its place in ``ids``, [N]; set, and read, at tested records alone.
        place = np.empty(len(groups), dtype=np.int64)
        place[ids] = np.arange(len(ids))
        return cls(groups[ids], ids, tuple(place[r] for r in rows), n_groups)

    def count(self, mask: NDArray[np.bool_] | None = None) -> Int64:
        """How many distinct records each group has and, last, how many there are, ``[K + 1]``.

        Args:
            mask: Which records to count, ``[U]``; None: all.
        """
        groups = self.groups if mask is None else self.groups[mask]
        per_group = np.bincount(groups, minlength=self.n_groups)
        return np.append(per_group, len(groups)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class MetricTable:
    """One metric of one arm, reduced to what any interval about it needs.

    Index K stands for all test rows.

    Args:
        name: Metric name.
        unit: Of its values.
        by_seed: ``[S, K + 1]``; NaN where undefined.
        covariance: Test-record covariances ``[2, K + 1, K + 1]``, the floor on their diagonals:
            that of the mean over seeds, and that of two seeds. NaN where no honest ones exist.
        counts: Distinct records that each value rests on, ``[K + 1]``.
        reason: Why there is no value or no interval, or "".
        one_model: The interval is about this one model on new people, not about its training.
        divisor: Index of the group whose value every other is divided by, for an impact ratio;
            None for any other metric.
        bounds: Where every value lies. Intervals end there: nothing beyond it could be true.
    """

    name: str
    unit: str
    by_seed: Float64
    covariance: Float64
    counts: Int64
    reason: str = ""
    one_model: bool = False
    divisor: int | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Spread:
    """A contrast before any quantile: its value at each seed and its variances.

    Args:
        by_seed: Y_s, ``[S]``; NaN where undefined.
        value: D, the mean of the Y_s that are defined; NaN where none is.
        seed_variance: V_seed; NaN for one seed, 0 where one model is what is measured.
        shared_variance: V_shared, of the test records that seeds share; V_rec for a group alone.
        record_variance: V_rec, of all that test records contribute.
        n_test: Distinct records that it rests on.
        n_min: Those in the smaller of its groups.
        unit: Of Y.
        bounds: Where D lies.
        reason: Why it is undefined or without interval, or "".
        own_variance: V_own, what V_seed holds of test records in expectation: V_rec less what seeds
            share.
    """

    by_seed: Float64
    value: float
    seed_variance: float
    shared_variance: float
    record_variance: float
    n_test: int
    n_min: int
    unit: str
    reason: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    own_variance: float = 0.0

    def half_width(self, pairs: int = 1, *, conservative: bool = False) -> float:
        """Half of the interval, ``sqrt(t^2 V_seed + z^2 V_shared)``; NaN where there is none.

        Args:
            pairs: How many contrasts share the 5 % (Bonferroni).
            conservative: V_rec in place of V_shared, so that what V_seed holds of test records
                counts twice: for decisions that should err on one side where seeds are skewed.
        """
        if self.reason:
            return math.nan
        records = self.record_variance if conservative else self.shared_variance
        return half_width(self.seed_variance, records, len(self.by_seed), pairs)


def floor_variance(counts: Int64) -> Float64:
    """The floor of a fraction's variance over test records, ``2 / (n + 2)^2``.

    Models that answer all n records alike would else have variance 0, as if no other record could
    be answered differently. Elementwise over ``counts``, the n, ``[K + 1]``. Source:
    docs/methods.md 6.3.

    Example:
        >>> import numpy as np
        >>> floor_variance(np.array([8, 98])).tolist()
        [0.02, 0.0002]
    """
    return np.asarray(2.0 / (counts + 2.0) ** 2, dtype=np.float64)


def correlation_between_seeds(covariance: Float64, seeds: int) -> Float64:
    """Correlation of a record's influences at two seeds on each value, ``[K + 1]``, from 0 to 1.

    rho = V_shared / (S V_rec - (S - 1) V_shared); the denominator is the mean over seeds of the sum
    of squared influences at one seed. Only the part that seeds share gets a floor of its variance:
    what differs between seeds is in V_seed. rho is 1 where no record contributes, for then nothing
    says that seeds differ. Source: docs/methods.md 6.3.

    Args:
        covariance: ``[2, K + 1, K + 1]``, as of :meth:`Influences.covariance`.
        seeds: S.

    Example:
        >>> import numpy as np
        >>> of_mean, of_two_seeds = np.diag([0.02, 0.02]), np.diag([0.02, 0.0])
        >>> correlation_between_seeds(np.array([of_mean, of_two_seeds]), seeds=5).round(3).tolist()
        [1.0, 0.0]
    """
    of_mean, of_two_seeds = np.diagonal(covariance, axis1=1, axis2=2)
    of_one_seed = seeds * of_mean - (seeds - 1) * of_two_seeds
    correlation = np.ones(len(of_mean))
    np.divide(of_two_seeds, of_one_seed, out=correlation, where=of_one_seed > 0)
    clipped: Float64 = np.clip(correlation, 0.0, 1.0)
    return clipped


class Influences:
    """One metric of one arm over seeds, and what each test record contributes to it.

    Args:
        records: The index of all test rows.

    Attributes:
        support: Whether the metric rests on each record at any seed, ``[U]``.
    """

    def __init__(self, records: EvaluatedRecords) -> None:
        self.records = records
        self.support = np.zeros(len(records.ids), dtype=bool)
        self._values: list[Float64] = []
        self._own = np.zeros(len(records.ids))  # sum over seeds: influence on the own group's value
        self._every = np.zeros(len(records.ids))  # the same on the value over all rows
        # Sum over seeds s of sum_i psi_si^2: the pairs (s, s), which `covariance` takes away from
        # all S^2 pairs to leave those of two different seeds.
        self._same_seed = np.zeros((records.n_groups + 1, records.n_groups + 1))

    def add(self, place: Int64, score: SeedScores) -> None:
        """Add one seed's values and influences; for a mean the latter are ``(d_i - m_k) / n_k``.

        The influences of a record that several seeds tested are summed here, before anything is
        squared: the record is the cluster.

        Args:
            place: Where each test row lies among the records, ``[n]``; no record twice.
            score: The metric on these rows.
        """
        self._values.append(score.values)
        self._own[place] += score.within
        self._every[place] += score.whole
        self.support[place] |= score.support
        groups = self.records.groups[place]
        self._same_seed += _products(score.within, score.whole, groups, self.records.n_groups)

    @property
    def by_seed(self) -> Float64:
        """The metric at each seed for every group and, last, for all rows, ``[S, K + 1]``."""
        return np.array(self._values)

    def covariance(self) -> Float64:
        """Two covariance matrices of the K + 1 values, from test records: ``[2, K + 1, K + 1]``.

        The first is of the mean over seeds (its diagonal is V_rec), the second between two seeds
        (V_shared), both without floors. Both are means over pairs of seeds (s, t) of
        sum_i psi_si psi_ti: the first over all S^2 pairs, the second over the S (S - 1) pairs of
        two different seeds. One seed has no second to share with; there both are that seed's own.
        """
        seeds = len(self._values)
        # Of sums over seeds: so it holds the products of all S^2 pairs of seeds.
        all_pairs = _products(self._own, self._every, self.records.groups, self.records.n_groups)
        between_seeds = all_pairs
        if seeds > 1:
            between_seeds = (all_pairs - self._same_seed) / (seeds * (seeds - 1))
        return np.stack([all_pairs / seeds**2, between_seeds])


def _products(within: Float64, overall: Float64, groups: Int64, n_groups: int) -> Float64:
    """Sums over records of the products of their influences, ``[K + 1, K + 1]``.

    Two groups share no record, so their entries are 0; the last row and column are of all rows.

    Args:
        within: Of each record on its own group's value, ``[n]``.
        overall: On the value over all rows, ``[n]``.
        groups: Of each record, ``[n]``.
        n_groups: K.
    """
    products = np.zeros((n_groups + 1, n_groups + 1))
    k = np.arange(n_groups)
    products[k, k] = np.bincount(groups, within * within, n_groups)
    products[-1, :-1] = products[:-1, -1] = np.bincount(groups, within * overall, n_groups)
    products[-1, -1] = overall @ overall
    return products


def contrast(table: MetricTable, a: int, b: int | None = None) -> Spread:
    """The value of group a, or that of a minus that of b, with its variances.

    V_rec and V_shared of the difference are the sums ``C[a, a] - 2 C[a, b] + C[b, b]`` of the
    table's two covariance matrices C. Source: docs/methods.md 6.3; 6.4 for one group.

    Args:
        table: The metric.
        a: Group index; K for all test rows.
        b: Group index, K for all test rows, or None for the value of a alone.

    Example:
        >>> import numpy as np
        >>> by_seed = np.array([[0.9, 0.8, 0.85], [0.8, 0.8, 0.8]])  # of two groups, of all rows
        >>> covariance = np.array([np.diag([1e-4, 1e-4, 5e-5])] * 2)
        >>> counts = np.array([40, 60, 100])
        >>> table = MetricTable("accuracy", "fraction", by_seed, covariance, counts)
        >>> gap = contrast(table, 0, 1)
        >>> round(gap.value, 3), gap.n_test, gap.n_min
        (0.05, 100, 40)
    """
    covariance, counts = table.covariance, table.counts
    least, most = table.bounds
    if b is None:
        values = table.by_seed[:, a]
        record_variances = covariance[:, a, a]  # [2]: V_rec, V_shared
        n_test = n_min = counts[a]
    else:
        whole = len(counts) - 1  # index K, of all rows, which include the other group's
        values = table.by_seed[:, a] - table.by_seed[:, b]
        record_variances = covariance[:, a, a] - 2 * covariance[:, a, b] + covariance[:, b, b]
        n_test = counts[whole] if whole in (a, b) else counts[a] + counts[b]
        n_min = min(counts[a], counts[b])
    seeds = values.tolist()
    defined = [value for value in seeds if not math.isnan(value)]
    mean = math.fsum(defined) / len(defined) if defined else math.nan
    # Rounding may leave a variance just below 0; a NaN must stay, which max() would not promise.
    v_rec, v_shared = (
        math.nan if math.isnan(variance) else max(float(variance), 0.0)
        for variance in record_variances
    )
    v_own = max(0.0, v_rec - v_shared)
    if b is None:
        # A difference of groups evens out skewed effects of seeds; a group alone does not.
        v_shared = v_rec
    reason = table.reason
    if not reason:
        missing = len(seeds) - len(defined)
        reason = _why_undefined(missing, len(seeds), v_rec, table.one_model)
    return Spread(
        by_seed=values,
        value=mean,
        seed_variance=0.0 if table.one_model else _seed_variance(seeds, mean),
        shared_variance=v_shared,
        record_variance=v_rec,
        n_test=int(n_test),
        n_min=int(n_min),
        unit=table.unit,
        reason=reason,
        bounds=table.bounds if b is None else (least - most, most - least),
        own_variance=v_own,
    )


def _seed_variance(values: list[float], mean: float) -> float:
    """V_seed = var_s(Y_s) / S, the variance of the mean of ``values``; NaN for a single seed.

    fsum makes it independent of the seeds' order.

    Args:
        values: Y_s, one a seed; one NaN makes the variance NaN.
        mean: Their mean.
    """
    seeds = len(values)
    if seeds < 2:
        return math.nan
    return math.fsum((value - mean) ** 2 for value in values) / (seeds - 1) / seeds


def _why_undefined(missing: int, seeds: int, record_variance: float, one_model: bool) -> str:
    """Why a number has no value or no interval; "" where it has both.

    Args:
        missing: At how many seeds it is undefined.
        seeds: How many seeds there are.
        record_variance: V_rec, NaN where there is none.
        one_model: The interval is about this one model, so one seed is enough.
    """
    if missing == seeds:
        return "undefined at every seed"
    if missing:
        return f"undefined at {missing} of {numbered(seeds, 'seed')}"
    if seeds == 1 and not one_model:
        return ONE_SEED
    return "no variance over test records" if math.isnan(record_variance) else ""


def estimate(spread: Spread, pairs: int = 1) -> Estimate:
    """The contrast D with its 95 % interval, or with the reason why it has none.

    ``pairs``: how many contrasts share the 5 %.

    Example:
        >>> import numpy as np
        >>> still = Spread(np.full(5, 0.05), 0.05, 0.0, 1e-4, 1e-4, 100, 40, "fraction")
        >>> one = estimate(still)  # 1.96 standard errors of 0.01 on either side
        >>> round(one.low, 4), one.value, round(one.high, 4)
        (0.0304, 0.05, 0.0696)
    """
    return _around(spread, spread.value, spread.half_width(pairs), signed=True)


def largest(spreads: Sequence[Spread], pairs: int) -> Estimate:
    """The largest |D| of several pairs, with an interval that allows for the choice among them.

    With h half of a pair's signed interval, the interval runs from the highest |D| - h, or 0 if
    that is below, to the highest |D| + h. Source: docs/methods.md 6.5.

    If any pair has no interval, the result is the pair with the largest |D| by itself; the caller
    then takes its interval away.

    Args:
        spreads: Every pair, each with a value.
        pairs: How many pairs share the 5 % (Bonferroni).

    Example:
        >>> import numpy as np
        >>> small = Spread(np.full(5, 0.02), 0.02, 0.0, 1e-4, 1e-4, 100, 40, "fraction")
        >>> large = Spread(np.full(5, -0.05), -0.05, 0.0, 1e-4, 1e-4, 100, 40, "fraction")
        >>> largest([small, large], pairs=2).value
        0.05
    """
    sizes = np.array([abs(spread.value) for spread in spreads])
    halves = np.array([spread.half_width(pairs) for spread in spreads])
    top = spreads[int(sizes.argmax())]
    estimate_of_top = _around(top, abs(top.value), top.half_width(pairs), signed=False)
    if np.isnan(halves).any():
        return estimate_of_top
    bounds = 0.0, max(map(abs, spreads[0].bounds))  # of a size; one metric, so all have the same
    # The ends may come from other pairs than the largest: another may have a wider interval.
    low, high = _within((sizes - halves).max(), float(sizes.max()), (sizes + halves).max(), bounds)
    return estimate_of_top.model_copy(update={"low": low, "high": high})


def _around(spread: Spread, value: float, half: float, *, signed: bool) -> Estimate:
    """The estimate ``value +- half`` of a contrast, cut at the bounds of the metric.

    Args:
        spread: The contrast, for all else that an estimate holds.
        value: D or |D|; NaN makes the estimate undefined.
        half: Half of its interval; NaN where there is none.
        signed: Whether ``value`` is D; else it is |D|, which lies between 0 and the largest bound.
    """
    if math.isnan(value):
        return undefined(spread.reason, spread.unit, n_test=spread.n_test)
    bounds = spread.bounds if signed else (0.0, max(map(abs, spread.bounds)))
    low, high = _within(value - half, value, value + half, bounds)
    by_seed = spread.by_seed.tolist()
    return estimated(
        value,
        low,
        high,
        training_sd=math.sqrt(spread.seed_variance) if len(spread.by_seed) > 1 else None,
        records_sd=math.sqrt(spread.shared_variance),
        n_seeds=sum(map(math.isfinite, by_seed)),
        n_test=spread.n_test,
        unit=spread.unit,
        reason=spread.reason,
        by_seed=by_seed,
        conservative_sd=math.sqrt(spread.record_variance),
        own_records_sd=math.sqrt(spread.own_variance),
    )


def _within(
    low: float, value: float, high: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Cut the ends of an interval at the bounds, but never so far that they leave out the value.

    Rounding can put a value just beyond a bound. An end that is NaN stays NaN, because max and min
    keep their first argument where a comparison with it is false. So the order of arguments counts.
    """
    return max(float(low), min(bounds[0], value)), min(float(high), max(bounds[1], value))
