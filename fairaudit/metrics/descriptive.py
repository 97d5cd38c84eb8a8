"""A statistic that describes the trained models at hand and decides nothing.

It may not enter a gate, being conditional on this file (docs/methods.md 6.9).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairaudit.metrics.intervals import EvaluatedRecords, Float64, Int64, floor_variance

SHUFFLES = 999
KINDS = 32  # classes that records are rounded into before shuffling


class _Kinds(NamedTuple):
    """Records that a shuffle cannot tell apart, ``[T]`` kinds.

    Args:
        size: Records of each kind.
        tested, total, squares, cross: Their mean number of seeds tested c, sum of differences e, e^2 and e c;
        tested_squares: c^2.
    """

    size: Int64
    tested: Float64
    total: Float64
    squares: Float64
    cross: Float64
    tested_squares: Float64

    def sums(self, makeup: Int64) -> Float64:
        """Of each make-up's groups ``[B, K, T]``, in the order of the fields, ``[5, B, K]``."""
        features = np.stack([self.tested, self.total, self.squares, self.cross, self.tested_squares], axis=1)
        found: Float64 = np.moveaxis(makeup @ features, -1, 0)
        return found


def shuffle_p(
    differences: Sequence[Float64],
    records: EvaluatedRecords,
    eligible: Sequence[int],
    rng: np.random.Generator,
    *,
    is_fraction: bool,
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
        is_fraction: The variance gets the floor of docs/methods.md 6.3.

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
    kinds = _kinds(total, tested)
    sizes = [int((groups == k).sum()) for k in eligible]
    floors = floor_variance(np.array(sizes)) if is_fraction else np.zeros(len(sizes))
    features = (tested, total, total**2, total * tested, tested**2)
    sums = [np.bincount(groups, v, records.n_groups)[list(eligible)] for v in features]
    seen = _largest_gap(np.array(sums, dtype=np.float64)[:, None], floors)[0]
    shuffled = _largest_gap(kinds.sums(_draws(kinds.size, sizes, rng)), floors)
    return float((1 + np.count_nonzero(shuffled >= seen * (1 - 1e-9))) / (1 + SHUFFLES))


def _kinds(total: Float64, tested: Float64) -> _Kinds:
    """Classes of like influence, none empty."""
    influence = total - tested * (total.sum() / tested.sum())
    ordered = np.sort(influence)
    reach = np.cumsum(np.abs(ordered) + np.abs(ordered).mean())  # half by weight, half by number
    edges = ordered[np.searchsorted(reach, reach[-1] * np.arange(1, KINDS) / KINDS)]
    # By value, never by rank: equal records must share a class, else their order, which is by
    # group, would tell the groups apart.
    kind_of = np.searchsorted(np.unique(edges), influence)
    kind_of = np.unique(kind_of, return_inverse=True)[1]
    size = np.bincount(kind_of)
    means = [
        np.bincount(kind_of, v) / size
        for v in (tested, total, total**2, total * tested, tested**2)
    ]  # fmt: skip
    return _Kinds(size.astype(np.int64), *means)


def _draws(size: Int64, sizes: Sequence[int], rng: np.random.Generator) -> Int64:
    """Make-up of each group in each shuffle, ``[SHUFFLES, K, T]``."""
    left = np.broadcast_to(size, (SHUFFLES, len(size))).copy()
    groups = []
    for n in sizes[:-1]:
        drawn = _without_replacement(left, n, rng)
        left -= drawn
        groups.append(drawn)
    return np.stack([*groups, left], axis=1)


def _without_replacement(left: Int64, n: int, rng: np.random.Generator) -> Int64:
    """One draw of ``n`` records from each row of counts, ``[SHUFFLES, T]``, kind after kind."""
    drawn = np.empty_like(left)
    remaining = left.sum(axis=1)
    wanted = np.full(len(left), n, dtype=np.int64)
    for t in range(left.shape[1]):
        good = left[:, t]
        remaining = remaining - good
        drawn[:, t] = rng.hypergeometric(good, remaining, wanted)
        wanted = wanted - drawn[:, t]
    return drawn


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
