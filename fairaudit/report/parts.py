"""Each cost in two parts: what the method does without its noise, and what the noise adds."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairaudit.metrics.registry import PARTS
from fairaudit.report.facts import ArmFacts
from fairaudit.results.estimates import Comparison, Estimate, Gap, GroupMeasure

NOISE = "noise"


@dataclass(frozen=True, slots=True)
class CostSplit:
    """A number and its two parts, which sum to it.

    Args:
        metric: The cost.
        name: Of the part without noise, one of ``PARTS``.
        total, still, noise: The number, what is left of it without any noise, and what noise adds.
        is_still, is_noise: Whether the part is shown to be above zero.
    """

    metric: str
    name: str
    total: Estimate
    still: Estimate
    noise: Estimate
    is_still: bool
    is_noise: bool


def part_name(comparison: Comparison) -> str:
    """What the part without noise is called in a comparison; "" where nothing was split."""
    known = comparison.overall.estimates
    return next((part for part in PARTS if part != NOISE and f"privacy_cost.{part}" in known), "")


def split_cost(comparison: Comparison, group: GroupMeasure, metric: str) -> CostSplit | None:
    """A group's cost in its parts."""
    name, known = part_name(comparison), group.estimates
    if not name or metric not in known:
        return None
    total, still, noise = (known[metric + suffix] for suffix in ("", f".{name}", f".{NOISE}"))
    return CostSplit(metric, name, total, still, noise, _is_above(still), _is_above(noise))


def split_gap(comparison: Comparison, metric: str, pair: Gap) -> CostSplit | None:
    """A cost's gap between the two groups of ``pair`` in its parts, as a positive number.

    A part is told from zero by an interval that holds for all pairs of groups together, for which pair is
    looked at was chosen by its gap.
    """
    name = part_name(comparison)
    if not name:
        return None
    both = {pair.a, pair.b}  # in whichever order all metrics have them
    of_pair = {gap.metric: gap for gap in comparison.gaps if gap.kind == "pair" and {gap.a, gap.b} == both}
    metrics = [metric + suffix for suffix in ("", f".{name}", f".{NOISE}")]
    gaps = [of_pair[each] for each in metrics if each in of_pair]
    if len(gaps) < len(metrics) or gaps[0].signed.value is None:
        return None
    sign = -1.0 if gaps[0].signed.value < 0 else 1.0
    total, still, noise = (_times(sign, _shared(gap)) for gap in gaps)
    is_still, is_noise = (
        bool(gap.direction) and _is_above(part) for gap, part in zip(gaps[1:], (still, noise), strict=True)
    )
    return CostSplit(metric, name, total, still, noise, is_still, is_noise)


def shortened_arms(arms: Sequence[ArmFacts]) -> set[str]:
    """Arms whose step follows epsilon."""
    return {arm.key for arm in arms if arm.step_shortened}


def _shared(gap: Gap) -> Estimate:
    """The signed gap, with the interval that holds for all pairs of groups together."""
    own, shared = gap.signed, gap.simultaneous
    if own.value is None or shared.value is None or shared.low is None or shared.high is None:
        return own
    half = shared.high - shared.value
    low, high = own.value - half, own.value + half
    if shared.low == 0:  # bounds may have cut the upper end, never so that 0 is left out
        low, high = min(low, 0.0), max(high, 0.0)
    return own.model_copy(update={"low": low, "high": high})


def _times(sign: float, estimate: Estimate) -> Estimate:
    """The estimate, or its negative."""
    if sign > 0 or estimate.value is None:
        return estimate
    ends = (estimate.high, estimate.low)
    low, high = (None if end is None else -end for end in ends)
    return estimate.model_copy(update={"value": -estimate.value, "low": low, "high": high})


def _is_above(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.low > 0
