"""What an audit of this size can find, and what size would find what it saw."""

import math
from collections.abc import Callable

from fairaudit.metrics.intervals import Spread, quantiles

MOST_GROWTH = 1000.0  # an audit a thousand times larger is no advice
GROWTH_TOLERANCE = 0.02


def minimum_detectable(spread: Spread, pairs: int = 1) -> float | None:
    """The gap that an audit of this size would find with power .80; None without an interval.

    A gap is found when it exceeds the half-width h of its interval, so this is ``h + t_.80 SE`` at
    Satterthwaite's degrees of freedom. Source: METHODS 8.3, but for h in place of ``t_.975 SE``,
    which finds only .72 of such gaps at 5 seeds where both variances are equal; this finds .79 to .80.
    """
    if spread.reason:
        return None
    return _detectable(spread.seed_variance, spread.record_variance, len(spread.by_seed), spread.n_min, pairs)


def _detectable(v_seed: float, v_rec: float, seeds: int, n_min: int, pairs: int) -> float:
    from scipy.special import stdtrit  # lazily, as in quantiles

    variance = v_seed + v_rec
    if variance == 0:
        return 0.0
    spent = v_seed**2 / max(seeds - 1, 1) + v_rec**2 / max(n_min - 1, 1)
    # Past a million degrees t is normal; the cap also answers a vanishing denominator.
    degrees = min(variance**2 / spent, 1e6) if spent > 0 else 1e6
    t, z = quantiles(1 - 0.025 / pairs, max(1, seeds - 1))
    half_width = math.sqrt(t**2 * v_seed + z**2 * v_rec)
    return half_width + float(stdtrit(degrees, 0.80)) * math.sqrt(variance)


def rows_needed(spread: Spread, pairs: int = 1) -> int | None:
    """Distinct test records, in the smaller group, that would resolve a gap of the size seen.

    All groups grow by the same factor; training randomness stays. None where the gap is already
    resolved, or where training randomness alone hides it.
    """

    def needs(factor: float) -> float:
        n, v_rec = int(spread.n_min * factor), spread.record_variance / factor
        return _detectable(spread.seed_variance, v_rec, len(spread.by_seed), n, pairs)

    factor = _growth(needs, spread, pairs)
    return None if factor is None else math.ceil(spread.n_min * factor)


def seeds_needed(spread: Spread, pairs: int = 1) -> int | None:
    """Seeds that would resolve a gap of the size seen, with the test records as they are.

    Conservative: seeds with splits of their own also test new records. None where the gap is
    already resolved, or where the test records alone hide it.
    """
    seeds = len(spread.by_seed)
    if seeds == 1:
        return None  # the interval is about one model

    def needs(factor: float) -> float:
        more = math.ceil(seeds * factor)
        v_seed = spread.seed_variance * seeds / more
        return _detectable(v_seed, spread.record_variance, more, spread.n_min, pairs)

    factor = _growth(needs, spread, pairs)
    return None if factor is None else max(seeds + 1, math.ceil(seeds * factor))


def _growth(needs: Callable[[float], float], spread: Spread, pairs: int) -> float | None:
    """The factor, right to 2 %, at which ``needs`` falls to the gap seen; None where it never does."""
    gap = abs(spread.value)
    is_open = not spread.reason and 0 < gap <= spread.half_width(pairs)
    if not is_open or needs(MOST_GROWTH) > gap:
        return None
    low, high = 0.0, math.log(MOST_GROWTH)
    while high - low > GROWTH_TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if needs(math.exp(middle)) <= gap else (middle, high)
    return math.exp(high)
