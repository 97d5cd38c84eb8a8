"""Each cost in two parts: what the method does without its noise, and what the noise adds."""

from dataclasses import dataclass

from fairaudit.metrics.registry import PARTS
from fairaudit.results.estimates import (
    Comparison,
    Estimate,
    Gap,
    GroupMeasure,
    Interval,
    interval_of,
)

NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Split:
    """A cost over some rows, or a gap between two groups, in two parts that sum to it.

    Args:
        metric: Which cost.
        a, b: The groups of a gap, the one that pays more first; "" for a cost.
        name: What the part without noise is from: clipping, regularisation or partition.
        total, still, noise: The number, what is there without noise, and what the noise adds.
        is_still, is_noise: Whether the part is told from zero, and above it.
    """

    metric: str
    a: str
    b: str
    name: str
    total: Interval
    still: Interval
    noise: Interval
    is_still: bool
    is_noise: bool


def part_name(comparison: Comparison) -> str:
    """What the part without noise is called in a comparison; "" where nothing was split."""
    known = comparison.overall.estimates
    return next((part for part in PARTS if part != NOISE and f"privacy_cost.{part}" in known), "")


def split_cost(comparison: Comparison, group: GroupMeasure, metric: str) -> Split | None:
    """A group's cost in its parts."""
    name, known = part_name(comparison), group.estimates
    if not name or metric not in known:
        return None
    total, still, noise = (known[metric + suffix] for suffix in ("", f".{name}", f".{NOISE}"))
    return Split(
        metric,
        "",
        "",
        name,
        interval_of(total),
        interval_of(still),
        interval_of(noise),
        _is_above(still),
        _is_above(noise),
    )


def split_gap(comparison: Comparison, metric: str, pair: Gap) -> Split | None:
    """A cost's gap between the two groups of ``pair`` in its parts, as a positive number.

    A part is told from zero by an interval that holds for all pairs of groups together, for which
    pair is looked at was chosen by its gap.
    """
    name = part_name(comparison)
    if not name:
        return None
    both = {pair.a, pair.b}  # in whichever order the metrics have them
    pairs = {
        gap.metric: gap for gap in comparison.gaps if gap.kind == "pair" and {gap.a, gap.b} == both
    }
    of_total, of_still, of_noise = (
        pairs.get(metric + suffix) for suffix in ("", f".{name}", f".{NOISE}")
    )
    if of_total is None or of_still is None or of_noise is None or of_total.signed.value is None:
        return None
    is_negative = of_total.signed.value < 0
    total = _shared(of_total, is_negative=is_negative)
    still = _shared(of_still, is_negative=is_negative)
    noise = _shared(of_noise, is_negative=is_negative)
    is_still = bool(of_still.direction) and _is_above(still)
    is_noise = bool(of_noise.direction) and _is_above(noise)
    payer, other = of_total.a, of_total.b
    if is_negative:
        payer, other = other, payer
    return Split(
        metric,
        payer,
        other,
        name,
        interval_of(total),
        interval_of(still),
        interval_of(noise),
        is_still,
        is_noise,
    )


def _shared(gap: Gap, *, is_negative: bool) -> Estimate:
    """The signed gap, or its negative, with the interval that holds for all pairs of groups."""
    estimate, shared = gap.signed, gap.simultaneous
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None:
        return estimate
    if shared.value is not None and shared.low is not None and shared.high is not None:
        half = shared.high - shared.value
        low, high = value - half, value + half
        if shared.low == 0:  # bounds may have cut the upper end, never so that 0 is left out
            low, high = min(low, 0.0), max(high, 0.0)
    if is_negative:
        value = -value
        low, high = (None if end is None else -end for end in (high, low))
    return estimate.model_copy(update={"value": value, "low": low, "high": high})


def _is_above(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.low > 0
