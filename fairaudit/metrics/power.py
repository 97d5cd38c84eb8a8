"""What an audit of this size can find, and what size would find what it saw."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairaudit.metrics.intervals import Spread, quantiles

MOST_GROWTH = 1000.0  # an audit a thousand times larger is no advice
GROWTH_TOLERANCE = 0.02


def minimum_detectable(spread: Spread, pairs: int = 1) -> float | None:
    """The gap that an audit of this size would find with power .80; None without an interval.

    A gap is found when it exceeds the half-width h of its interval, so this is ``h + t_.80 SE`` at
    Satterthwaite's degrees of freedom. ``t_.975 SE`` in place of h finds only .72 of such gaps at 5 seeds
    where both variances are equal; this finds .79 to .80. Source: docs/methods.md 6.7.
    """
    if spread.reason:
        return None
    v_seed, v_shared = spread.seed_variance, spread.shared_variance
    variance = v_seed + v_shared
    if variance == 0:
        return 0.0
    spent = v_seed**2 / max(len(spread.by_seed) - 1, 1) + v_shared**2 / max(spread.n_min - 1, 1)
    # Past a million degrees t is normal; the cap also answers a vanishing denominator.
    degrees = min(variance**2 / spent, 1e6) if spent > 0 else 1e6
    return spread.half_width(pairs) + quantiles(0.80, degrees)[0] * math.sqrt(variance)


def rows_needed(spread: Spread, pairs: int = 1) -> int | None:
    """Distinct test records, in the smaller group, that would resolve a gap of the size seen.

    All groups grow by the same factor, and with them shrinks all that records contribute, also what
    they contribute to V_seed; training randomness stays. None where the gap is already resolved, or
    where training randomness alone hides it.
    """
    in_seeds = min(spread.record_variance - spread.shared_variance, spread.seed_variance)

    def grown(factor: float) -> Spread:
        return replace(
            spread,
            seed_variance=spread.seed_variance - in_seeds * (1 - 1 / factor),
            shared_variance=spread.shared_variance / factor,
            n_min=int(spread.n_min * factor),
        )

    factor = _growth(grown, spread, pairs)
    return None if factor is None else math.ceil(spread.n_min * factor)


def seeds_needed(spread: Spread, pairs: int = 1) -> int | None:
    """Seeds that would resolve a gap of the size seen, with the records of this file.

    None where the gap is already resolved, or where the records alone hide it.
    """
    seeds = len(spread.by_seed)
    if seeds == 1:
        return None  # the interval is about one model

    def grown(factor: float) -> Spread:
        more = math.ceil(seeds * factor)
        return replace(spread, by_seed=np.zeros(more), seed_variance=spread.seed_variance * seeds / more)

    factor = _growth(grown, spread, pairs)
    return None if factor is None else max(seeds + 1, math.ceil(seeds * factor))


def _growth(grown: Callable[[float], Spread], spread: Spread, pairs: int) -> float | None:
    """The factor, right to 2 %, at which a grown audit detects the gap seen; None where none does."""
    gap = abs(spread.value)

    def detects(factor: float) -> bool:
        least = minimum_detectable(grown(factor), pairs)
        return least is not None and least <= gap

    is_open = not spread.reason and 0 < gap <= spread.half_width(pairs)
    if not is_open or not detects(MOST_GROWTH):
        return None
    low, high = 0.0, math.log(MOST_GROWTH)
    while high - low > GROWTH_TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if detects(math.exp(middle)) else (middle, high)
    return math.exp(high)
