"""A statistic that describes the trained models at hand and decides nothing.

It may not enter a gate, being conditional on this file (docs/methods.md 6.9).
"""

import math
from collections.abc import Sequence

import numpy as np

from fairaudit.metrics.gaps import GroupSelection
from fairaudit.metrics.intervals import EvaluatedRecords, Float64, Int64, floor_variance
from fairaudit.metrics.registry import METRICS, MetricSpec, costs
from fairaudit.metrics.within_model import EvaluatedRows, LabelOutcome, Predictions
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.estimates import Gap

SHUFFLES = 999
KINDS = 32  # classes that records are rounded into before shuffling


def with_shuffles(
    gaps: Sequence[Gap],
    names: tuple[str, str],
    private: Sequence[Predictions],
    baseline: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    cut: GroupSelection,
    outcome: LabelOutcome,
) -> list[Gap]:
    """The label-shuffle reference, on the largest gap of every cost that is a mean over all rows."""

    def outcomes(spec: MetricSpec, p: Predictions, place: Int64) -> Float64:
        """The metric of each row, ``[n]``."""
        of_rows = labels[p.rows], records.groups[place], records.n_groups, outcome
        runs = [EvaluatedRows.of(one, *of_rows) for one in p.probabilities]
        assert spec.compute is not None, "a cost is of a computed metric"
        return p.over_runs(np.array([spec.compute(rows)[0] for rows in runs]))

    out = list(gaps)
    for i, gap in enumerate(gaps):
        spec = METRICS.get(METRICS[gap.metric].cost_of) if gap.metric in costs() else None
        if spec is None or not spec.is_mean or spec.needs_a_class:
            continue
        if gap.kind != "max" or gap.absolute.value is None:
            continue
        differences = [
            spec.rise * (outcomes(spec, a, place) - outcomes(spec, b, place))
            for a, b, place in zip(private, baseline, records.places, strict=True)
        ]
        if any(np.isnan(d).any() for d in differences):
            continue
        rng = numpy_stream(private[0].seed, "probe", "label-shuffle", *names, gap.metric)
        p = shuffle_p(differences, records, cut.eligible, rng, width=spec.width)
        out[i] = gap.model_copy(update={"shuffle_p": p})
    return out


def shuffle_p(
    differences: Sequence[Float64],
    records: EvaluatedRecords,
    eligible: Sequence[int],
    rng: np.random.Generator,
    *,
    width: float,
) -> float | None:
    """Share of label shuffles whose largest studentised gap reaches the observed one.

    Labels move between test records of these trained models; a record keeps one label over all
    seeds. Records of one influence are interchangeable, so a shuffle is a draw without replacement
    of each group's make-up, out of 32 classes of like influence (narrow where influence is large).

    Args:
        differences: d_si of each test row, per seed ``[n_s]``.
        records: The index of those rows.
        eligible: Groups that take part.
        rng: A named stream.
        width: How far two outcomes can lie apart; where it is finite the variance gets the floor of
            docs/methods.md 6.3.

    Returns:
        (1 + hits) / 1000, or None with fewer than two groups.
    """
    if len(eligible) < 2:
        return None
    total, tested = np.zeros(len(records.ids)), np.zeros(len(records.ids))
    for place, d in zip(records.places, differences, strict=True):
        total[place] += d
        tested[place] += 1
    keep = np.isin(records.groups, eligible)
    total, tested, groups = total[keep], tested[keep], records.groups[keep]
    sizes = [int((groups == k).sum()) for k in eligible]
    floors = width**2 * floor_variance(np.array(sizes)) if math.isfinite(width) else np.zeros(len(sizes))
    kind_of = _kinds(total, tested)
    kinds = np.bincount(kind_of).astype(np.int64)
    features = (tested, total, total**2, total * tested, tested**2)
    sums = [np.bincount(groups, v, records.n_groups)[list(eligible)] for v in features]
    seen = _largest_gap(np.array(sums, dtype=np.float64)[:, None], floors)[0]
    means = np.stack([np.bincount(kind_of, v) / kinds for v in features], axis=1)  # of each kind, [T, 5]
    shuffled = _largest_gap(np.moveaxis(_draws(kinds, sizes, rng) @ means, -1, 0), floors)
    return float((1 + np.count_nonzero(shuffled >= seen * (1 - 1e-9))) / (1 + SHUFFLES))


def _kinds(total: Float64, tested: Float64) -> Int64:
    """Of each record its class of like influence, 0 to T - 1, none empty: within one no shuffle matters."""
    influence = total - tested * (total.sum() / tested.sum())
    ordered = np.sort(influence)
    reach = np.cumsum(np.abs(ordered) + np.abs(ordered).mean())  # half by weight, half by number
    edges = ordered[np.searchsorted(reach, reach[-1] * np.arange(1, KINDS) / KINDS)]
    # By value, never by rank: equal records must share a class, else their order, which is by
    # group, would tell the groups apart.
    kind_of = np.searchsorted(np.unique(edges), influence)
    found: Int64 = np.unique(kind_of, return_inverse=True)[1]
    return found


def _draws(size: Int64, sizes: Sequence[int], rng: np.random.Generator) -> Int64:
    """Make-up of each group in each shuffle, ``[SHUFFLES, K, T]``."""
    left = np.broadcast_to(size, (SHUFFLES, len(size))).copy()
    groups = []
    for n in sizes[:-1]:
        drawn, remaining = np.empty_like(left), left.sum(axis=1)
        wanted = np.full(len(left), n, dtype=np.int64)
        for t in range(left.shape[1]):  # without replacement, kind after kind
            remaining = remaining - left[:, t]
            drawn[:, t] = rng.hypergeometric(left[:, t], remaining, wanted)
            wanted = wanted - drawn[:, t]
        left -= drawn
        groups.append(drawn)
    return np.stack([*groups, left], axis=1)


def _largest_gap(sums: Float64, floors: Float64) -> Float64:
    """Largest studentised gap ``[B]`` of groups with these sums of c, e, e^2, e c and c^2, ``[5, B, K]``."""
    c, e, ee, ec, cc = sums
    mean = e / c
    variance = (ee - 2 * mean * ec + mean**2 * cc) / c**2 + floors
    a, b = np.triu_indices(sums.shape[2], 1)
    gap, spread = np.abs(mean[:, a] - mean[:, b]), variance[:, a] + variance[:, b]
    gap[gap < 1e-12] = 0.0  # the last bits of equal means are no gap
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(spread > 0, gap / np.sqrt(spread), np.where(gap > 0, np.inf, 0.0))
    largest: Float64 = ratio.max(axis=1)
    return largest
