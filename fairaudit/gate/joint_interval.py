"""The interval that holds for all numbers of a rule together, from what a report holds.

Sharing the 5 % among the numbers of a rule (Bonferroni) takes both quantiles of the report's
interval, ``value +- sqrt(t^2 V_seed + z^2 V_shared)``, from 1 - 0.025 to 1 - 0.025 / numbers.
"""

from typing import NamedTuple

from fairaudit.metrics.quantiles import half_width
from fairaudit.results.estimates import Ends


class Variances(NamedTuple):
    """The two variances of an estimate's interval.

    Args:
        seeds: V_seed, of what differs between seeds.
        records: V_shared, of the test records that seeds share.
    """

    seeds: float
    records: float


def growth(variances: Variances | None, *, seeds: int, n_joint: int) -> float:
    """The factor by which half an interval grows when several numbers share its 5 %.

    That is sqrt(t'^2 V_seed + z'^2 V_shared) / sqrt(t^2 V_seed + z^2 V_shared), with t' and z' the
    quantiles at 1 - 0.025 / n_joint, t and z at 1 - 0.025. Source: docs/methods.md 6.8.

    Args:
        variances: Those of the interval; None where it is not made of one pair of variances, as
            that of the largest of several gaps. Then the factor is that of t alone, the largest
            that it can be.
        seeds: How many the estimate is over. With one the interval is over test records alone.
        n_joint: How many numbers share.
    """
    if n_joint < 2:
        return 1.0
    if seeds < 2:  # V_seed is not known, so only z counts
        variances = Variances(seeds=0.0, records=1.0)
    # Not one pair of variances: the factor of t alone. Both 0: any factor, as there is no width.
    elif variances is None or not sum(variances):
        variances = Variances(seeds=1.0, records=0.0)
    # Only the ratio counts, so above variances of 0 and 1 stand for any size.
    return half_width(*variances, seeds, n_joint) / half_width(*variances, seeds)


def widened(value: float, ends: Ends, factor: float) -> Ends:
    """The interval with both halves multiplied by the factor.

    Args:
        value: The estimate.
        ends: Its own interval.
        factor: At least 1.
    """
    return Ends(value - factor * (value - ends.low), value + factor * (ends.high - value))


def widened_largest(value: float, ends: Ends, factor: float) -> Ends:
    """The interval of the largest of several sizes with both halves multiplied by the factor.

    Its upper end is max(|D| + h) over all pairs, so it may be another pair's, whose h is not known.
    So the whole end is multiplied: factor max(|D| + h) is at least max(|D| + factor h), since the
    factor is at least 1. Source: docs/methods.md 6.5, 6.8.

    Args:
        value: The estimate.
        ends: Its own interval, which may be cut at 0 and at the largest size that there can be.
        factor: At least 1.
    """
    return Ends(max(0.0, value - factor * (value - ends.low)), factor * ends.high)
