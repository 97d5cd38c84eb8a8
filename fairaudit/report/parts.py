"""Each cost in two parts: what the method does without its noise, and what the noise adds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairaudit.metrics.metric_names import COSTS, PARTS
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import detected_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison, Estimate, Gap, GroupMeasure

NOISE = "noise"
# What may lower the part that stays without noise.
_REMEDIES = {
    "clipping": "a larger clipping bound or more steps may",
    "regularisation": "a smaller penalty may",
    "partition": "fewer teachers may",
}


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
    return next((part for part in PARTS if part != NOISE and f"{COSTS[0]}.{part}" in known), "")


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
    found = [_between(comparison, metric + suffix, pair) for suffix in ("", f".{name}", f".{NOISE}")]
    gaps = [gap for gap in found if gap is not None]
    if len(gaps) < len(found) or gaps[0].signed.value is None:
        return None
    sign = -1.0 if gaps[0].signed.value < 0 else 1.0
    total, still, noise = (_times(sign, _shared(gap)) for gap in gaps)
    is_still, is_noise = (
        bool(gap.direction) and _is_above(part) for gap, part in zip(gaps[1:], (still, noise), strict=True)
    )
    return CostSplit(metric, name, total, still, noise, is_still, is_noise)


def part_sentences(report: Report) -> Iterator[str]:
    """For each method: would a larger epsilon remove its gap? Nothing where no gap is detected."""
    for comparison in report.costs:
        for metric in COSTS:
            gap = detected_gap(comparison, metric)
            split = None if gap is None else split_gap(comparison, metric, gap)
            if gap is not None and split is not None:
                shortened = comparison.arm in shortened_arms(report.arms)
                yield f"{_who(comparison, gap, report)}: {_answer(split, shortened=shortened)}"
                break


def shortened_arms(arms: Sequence[ArmFacts]) -> set[str]:
    """Arms whose step follows epsilon."""
    return {arm.key for arm in arms if arm.step_shortened}


def _answer(split: CostSplit, *, shortened: bool) -> str:
    """Would a larger epsilon remove the gap?"""
    unit = "points of accuracy" if split.metric == COSTS[0] else "nats of loss"
    total, still, noise = (
        written(part, scale_of(split.metric)) for part in (split.total, split.still, split.noise)
    )
    remedy, limit = _REMEDIES[split.name], "no epsilon removes{} at these settings"
    if shortened:  # by a rule, so a larger epsilon comes with other settings
        remedy = f"{remedy}, and so may a larger epsilon, at which the default step is longer"
        limit = "less noise alone does not remove{}"
    if split.is_still and split.is_noise:
        return (
            f"of the gap of {total} {unit}, {still} are there without any noise, which {limit.format('')} "
            f"({remedy}); {noise} come from the noise and fall as epsilon grows"
        )
    if split.is_still:
        return (
            f"without any noise the gap is {still}, of {total} {unit}: {limit.format(' that')}; "
            f"{remedy}. What the noise adds, {noise}, is not told from zero"
        )
    if split.is_noise:
        return (
            f"the noise adds {noise} to the gap of {total} {unit}, which falls as epsilon grows. Without "
            f"noise it is {still}, not shown to be there"
        )
    return (
        f"of the gap of {total} {unit}, {still} are there without noise and {noise} come from it: neither "
        "is told from zero, so cannot tell whether a larger epsilon removes it"
    )


def _who(comparison: Comparison, gap: Gap, report: Report) -> str:
    several = len({other.grouping for other in report.costs}) > 1
    who = f"{comparison.arm}, {comparison.grouping}" if several else comparison.arm
    return f"{who}, {gap.a} against {gap.b}" if len(comparison.by_group) > 2 else who


def _between(comparison: Comparison, metric: str, pair: Gap) -> Gap | None:
    """The gap of that metric between the two groups of ``pair``, in whichever order all metrics have it."""
    return next(
        (
            g
            for g in comparison.gaps
            if g.metric == metric and g.kind == "pair" and {g.a, g.b} == {pair.a, pair.b}
        ),
        None,
    )


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
