"""The interval that holds for all numbers of a rule together, from what a report holds.

Sharing the 5 % among the numbers of a rule (Bonferroni) takes both quantiles of the report's
interval, ``value +- sqrt(t^2 V_seed + z^2 V_shared)``, from 1 - 0.025 to 1 - 0.025 / numbers.
"""

from typing import NamedTuple

from fairaudit.results.estimates import Ends


class Variances(NamedTuple):
    """Of one estimate: of what differs between seeds, and of the test records that seeds share."""

    seeds: float
    records: float


def growth(
    variances: Variances | None,
    *,
    seeds: int,
    among: int,
) -> float:
    """The factor by which half an interval grows when several numbers share its 5 %.

    Args:
        variances: None where they are not those of the interval (the largest of several gaps);
            then the growth of t alone, which is the most that it can be.
        seeds: Behind the estimate; of one the interval is over test records alone.
        among: How many numbers share.
    """
    if among < 2:
        return 1.0
    from fairaudit.metrics.intervals import half_width  # imports numpy; few gates need it

    if seeds < 2:
        variances = Variances(seeds=0.0, records=1.0)
    elif variances is None or not sum(variances):  # of no width any factor does
        variances = Variances(seeds=1.0, records=0.0)
    shared = half_width(*variances, seeds, among)
    return shared / half_width(*variances, seeds)


def widened(value: float, ends: Ends, factor: float) -> Ends:
    """The interval with both halves grown.

    Args:
        value: The estimate.
        ends: Its own interval.
        factor: At least 1.
    """
    return Ends(value - factor * (value - ends.low), value + factor * (ends.high - value))


def widened_size(
    value: float,
    ends: Ends,
    factor: float,
    *,
    is_largest: bool,
) -> Ends:
    """The interval of an absolute value with both halves grown; it ends at 0.

    Args:
        value: The estimate.
        ends: Its own interval, cut at 0 and, above, at the largest size that there can be: of its
            two halves the longer is the whole one, or reaches to 0.
        factor: At least 1.
        is_largest: The value is the largest of several. Its ends may be those of others among them,
            so what is grown is more than the upper half: an upper end that is never too low.
    """
    upper = factor * ends.high if is_largest else value + factor * (ends.high - value)
    return Ends(max(0.0, value - factor * (value - ends.low)), upper)
