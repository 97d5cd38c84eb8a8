"""What an audit of this size can find, and what size would find what it saw."""

import math
from collections.abc import Callable
from typing import NamedTuple

from fairaudit.metrics.intervals import Spread, half_width, quantiles

MOST_GROWTH = 1000.0  # an audit a thousand times larger is no advice
GROWTH_TOLERANCE = 0.02


class _Size(NamedTuple):
    """What of an audit decides which gaps it finds."""

    seed_variance: float
    shared_variance: float
    seeds: int
    n_min: int

    def detectable(self, pairs: int) -> float:
        """The gap that is found with power .80."""
        v_seed, v_shared = self.seed_variance, self.shared_variance
        variance = v_seed + v_shared
        if variance == 0:
            return 0.0
        spent = v_seed**2 / max(self.seeds - 1, 1) + v_shared**2 / max(self.n_min - 1, 1)
        # Past a million degrees t is normal; the cap also answers a vanishing denominator.
        degrees = min(variance**2 / spent, 1e6) if spent > 0 else 1e6
        half = half_width(v_seed, v_shared, self.seeds, pairs)
        return half + quantiles(0.80, degrees)[0] * math.sqrt(variance)


def minimum_detectable(spread: Spread, pairs: int = 1) -> float | None:
    """The gap that an audit of this size would find with power .80; None without an interval.

    A gap is found when it exceeds the half-width h of its interval, so this is ``h + t_.80 SE`` at
    Satterthwaite's degrees of freedom. ``t_.975 SE`` in place of h finds only .72 of such gaps at 5 seeds
    where both variances are equal; this finds .79 to .80. Source: docs/methods.md 6.7.
    """
    return None if spread.reason else _size(spread).detectable(pairs)


def _size(spread: Spread) -> _Size:
    return _Size(spread.seed_variance, spread.shared_variance, len(spread.by_seed), spread.n_min)


def rows_needed(spread: Spread, pairs: int = 1) -> int | None:
    """Distinct test records, in the smaller group, that would resolve a gap of the size seen.

    All groups grow by the same factor, and with them shrinks all that records contribute, also what
    they contribute to V_seed; training randomness stays. None where the gap is already resolved, or
    where training randomness alone hides it.
    """
    now = _size(spread)
    in_seeds = min(spread.record_variance - now.shared_variance, now.seed_variance)

    def grown(factor: float) -> _Size:
        return _Size(
            now.seed_variance - in_seeds * (1 - 1 / factor),
            now.shared_variance / factor,
            now.seeds,
            int(now.n_min * factor),
        )

    factor = _growth(grown, spread, pairs)
    return None if factor is None else math.ceil(spread.n_min * factor)


def seeds_needed(spread: Spread, pairs: int = 1) -> int | None:
    """Seeds that would resolve a gap of the size seen, with the records of this file.

    None where the gap is already resolved, or where the records alone hide it.
    """
    now = _size(spread)
    if now.seeds == 1:
        return None  # the interval is about one model

    def grown(factor: float) -> _Size:
        more = math.ceil(now.seeds * factor)
        return _Size(now.seed_variance * now.seeds / more, now.shared_variance, more, now.n_min)

    factor = _growth(grown, spread, pairs)
    return None if factor is None else max(now.seeds + 1, math.ceil(now.seeds * factor))


def _growth(grown: Callable[[float], _Size], spread: Spread, pairs: int) -> float | None:
    """The factor, right to 2 %, at which a grown audit detects the gap seen; None where none does."""
    gap = abs(spread.value)

    def detects(factor: float) -> bool:
        return grown(factor).detectable(pairs) <= gap

    is_open = not spread.reason and 0 < gap <= spread.half_width(pairs)
    if not is_open or not detects(MOST_GROWTH):
        return None
    low, high = 0.0, math.log(MOST_GROWTH)
    while high - low > GROWTH_TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if detects(math.exp(middle)) else (middle, high)
    return math.exp(high)
