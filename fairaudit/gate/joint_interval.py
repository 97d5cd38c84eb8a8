"""The interval that holds for all numbers of a rule together, from what a report holds.

Sharing the 5 % among the numbers of a rule (Bonferroni) takes both quantiles of the report's interval,
``value +- sqrt(t^2 V_seed + z^2 V_shared)``, from 1 - 0.025 to 1 - 0.025 / numbers.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from fairaudit.results.estimates import Ends

LEVEL = 0.975


class Variances(NamedTuple):
    """Of one estimate: of what differs between seeds, and of the test records that seeds share."""

    seeds: float
    records: float


def growth(variances: Variances | None, *, seeds: int, among: int) -> float:
    """The factor by which half an interval grows when several numbers share its 5 %.

    Args:
        variances: None where they are not those of the interval (the largest of several gaps);
            then the growth of t alone, which is the most that it can be.
        seeds: Behind the estimate; of one the interval is over test records alone.
        among: How many numbers share.
    """
    if among < 2:
        return 1.0
    level = 1 - (1 - LEVEL) / among
    if seeds < 2:
        return NormalDist().inv_cdf(level) / NormalDist().inv_cdf(LEVEL)
    t = student_quantile(LEVEL, seeds - 1), student_quantile(level, seeds - 1)
    if variances is None or not sum(variances):
        return t[1] / t[0]
    z = NormalDist().inv_cdf(LEVEL), NormalDist().inv_cdf(level)
    before, after = (t[i] ** 2 * variances.seeds + z[i] ** 2 * variances.records for i in (0, 1))
    return math.sqrt(after / before)


def widened(value: float, ends: Ends, factor: float) -> Ends:
    """The interval with both halves grown.

    Args:
        value: The estimate.
        ends: Its own interval.
        factor: At least 1.
    """
    return Ends(value - factor * (value - ends.low), value + factor * (ends.high - value))


def widened_size(value: float, ends: Ends, factor: float, *, is_largest: bool) -> Ends:
    """The interval of an absolute value with both halves grown; it ends at 0.

    Args:
        value: The estimate.
        ends: Its own interval, cut at 0 and, above, at the largest size that there can be: of its two halves
            the longer is the whole one, or reaches to 0.
        factor: At least 1.
        is_largest: The value is the largest of several. Its ends may be those of others among them, so what
            is grown is more than the upper half: an upper end that is never too low.
    """
    upper = factor * ends.high if is_largest else value + factor * (ends.high - value)
    lower = ends.low if is_largest else min(ends.low, 2 * value - ends.high)
    return Ends(max(0.0, value - factor * (value - lower)), upper)


@lru_cache(maxsize=1024)
def student_quantile(level: float, degrees: int) -> float:
    """Student's t at a whole number of degrees of freedom, right to 1e-11 relative.

    Written out because a gate that waited for scipy would take twice as long.

    Args:
        level: Above one half.
        degrees: At least 1.
    """
    low, high = 0.0, 1.0
    while _student_cdf(high, degrees) < level:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _student_cdf(middle, degrees) < level else (low, middle)
    return (low + high) / 2


def _student_cdf(t: float, degrees: int) -> float:
    """P(T <= t) for t >= 0. Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4 (finite sums)."""
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2 == 1
    term = cosine if is_odd else 1.0
    total = 0.0 if degrees == 1 else term
    for k in range(3 if is_odd else 2, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    central = 2 / math.pi * (angle + sine * total) if is_odd else sine * total
    return 0.5 + central / 2
