"""What single steps say of why a group pays, in sentences.

Only what their intervals tell from zero.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import over_seeds
from fairaudit.metrics.intervals import quantiles
from fairaudit.report.decomposition import (
    ArmCauses,
    Decomposition,
    GroupCauses,
    OverSeeds,
    Sentence,
    say,
)
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import detected_gap
from fairaudit.report.safe_names import plain
from fairaudit.report.written import PERCENT, THOUSANDTHS, written
from fairaudit.results.estimates import Comparison, Estimate

RISK = "excess_risk"  # what the parts of a step are parts of
LARGE = 0.5  # share of a group's parts from which one part is the main one
PART_NAMES: Mapping[str, str] = {
    "direction": "gradient direction",
    "magnitude_effective": "gradient shrinkage",
    "noise": "noise",
}
# Of the larger one: a statistic sets a group apart where the interval lies beyond this difference.
APART = 0.2
MOST_SHOWN = 3
# statistic -> how it is said
STATISTIC_NAMES: Mapping[str, str] = {
    "mean_gradient_norm": "gradient norm",
    "mean_input_norm": "input norm",
    "hessian_trace": "curvature (Hessian trace)",
    "mean_closeness": "boundary proximity",
    "clipped_share": "share of clipped records",
}
LABELS = {
    **STATISTIC_NAMES,
    "size": "size",
    "mean_loss": "loss",
    "excess_norm": "length clipped off",
    "angle_turned": "gradient angle",
    "eigenvalue_largest": "largest eigenvalue of the Hessian",
}


@dataclass(frozen=True, slots=True)
class ExplainedMethod:
    """One arm whose cost is to be explained.

    Args:
        arm: Its facts.
        causes: Its readings.
        comparison: Against its reference, first grouping.
        worst_off, other: Two groups whose excess risks are told apart, the larger first.
    """

    arm: ArmFacts
    causes: ArmCauses
    comparison: Comparison
    worst_off: GroupCauses
    other: GroupCauses

    @property
    def place(self) -> str:
        """Where its figures stand in the report."""
        return f"diagnostics.decomposition.arms.{self.arm.key}"

    @property
    def who(self) -> str:
        """The worst-off group's name, safe to print."""
        return plain(self.worst_off.group)

    @property
    def beside(self) -> str:
        """The other group's name, safe to print."""
        return plain(self.other.group)


def detected_pair(comparison: Comparison) -> tuple[str, str] | None:
    """Two groups whose excess risks are detected to differ, the larger first.

    None where no difference is detected, and where the first group's own excess risk is not above
    zero: then there is no cost to explain.
    """
    gap = detected_gap(comparison, RISK)
    if gap is None:
        return None
    first, second = (gap.a, gap.b) if (gap.signed.value or 0.0) > 0 else (gap.b, gap.a)
    own = cost_of(comparison, first, RISK)
    if own is not None and (own.low or 0.0) > 0:
        return (first, second)
    return None


def cost_of(comparison: Comparison, group: str, metric: str) -> Estimate | None:
    """A group's estimate of a metric; None where it was not measured."""
    for measure in comparison.by_group:
        if measure.group == group:
            return measure.estimates.get(metric)
    return None


def explained_methods(
    decomposition: Decomposition, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Iterator[ExplainedMethod]:
    """The arms in which a group's cost can be explained, in the plan's order.

    Controls are left out.

    Args:
        decomposition: What was read of checkpoints.
        arms: All arms.
        compared: By the first grouping.
    """
    for arm, comparison in read_arms(decomposition, arms, compared):
        causes, pair = decomposition.arms[arm.key], detected_pair(comparison)
        by_name = {group.group: group for group in causes.groups}
        if pair is not None and set(pair) <= set(by_name):
            worst_off, other = by_name[pair[0]], by_name[pair[1]]
            yield ExplainedMethod(arm, causes, comparison, worst_off, other)


def read_arms(
    decomposition: Decomposition, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Iterator[tuple[ArmFacts, Comparison]]:
    """The arms whose steps were read, each with what it costs; a control explains another arm.

    Args:
        decomposition, arms, compared: As of :func:`explained_methods`.
    """
    for arm in arms:
        causes = decomposition.arms.get(arm.key)
        own = [c for c in compared if c.arm == arm.key and c.reference == arm.reference]
        if own and causes is not None and causes.groups and arm.source is None:
            yield arm, own[0]


def detected_parts(group: GroupCauses) -> dict[str, OverSeeds]:
    """The parts of a group's steps that are told from zero."""
    return {part: group.parts[part] for part in PART_NAMES if group.parts[part].excludes_zero}


def detected_shares(group: GroupCauses) -> dict[str, OverSeeds]:
    """Shares of the increase of a group's loss in a step, of the parts that are told from zero.

    Empty where the parts together are not shown to raise the loss, or one of them lowers it: a
    share of what?
    """
    total = _total(group)
    if total.low is None or total.low <= 0:
        return {}
    shares = {}
    for part, size in detected_parts(group).items():
        if (size.value or 0.0) < 0:
            return {}
        shares[part] = group.shares[part]
    return shares


def shares_of(group: GroupCauses) -> str:
    """``81 % [70, 92] from gradient shrinkage, ..``; "" where no share can be told."""
    return ", ".join(
        f"{written(share, PERCENT)} from {PART_NAMES[part]}"
        for part, share in detected_shares(group).items()
    )


def parts_sentences(method: ExplainedMethod) -> Iterator[Sentence]:
    """Each group's parts, then which part makes the difference between them."""
    worst_off = _of_group(method, method.worst_off, method.who)
    other = _of_group(method, method.other, method.beside)
    groups = f"{method.place}.groups"
    yield say(
        "finding",
        f"{worst_off} {other}",
        f"{groups}[{method.worst_off.group}].parts",
        f"{groups}[{method.other.group}].parts",
    )
    yield say("finding", _difference(method), f"{method.place}.groups")


def _of_group(method: ExplainedMethod, group: GroupCauses, name: str) -> str:
    open_parts = [label for part, label in PART_NAMES.items() if part not in detected_parts(group)]
    unknown = f"; {' and '.join(open_parts)}: cannot tell" if open_parts else ""
    if shares := shares_of(group):
        return f"Per-step loss increase for {name} under {method.arm.key}: {shares}{unknown}."
    known = ", ".join(
        f"{written(value, THOUSANDTHS)} from {PART_NAMES[part]}"
        for part, value in detected_parts(group).items()
    )
    start = f"Per-step loss change for {name} under {method.arm.key}"
    if not known:
        return f"{start}: cannot tell which part is above zero."
    return (
        f"{start}, in thousandths of a nat: {known}{unknown}; together "
        f"{written(_total(group), THOUSANDTHS)}."
    )


def _difference(method: ExplainedMethod) -> str:
    """Which part makes the worst-off group's steps cost more than the other's."""
    whole = _minus(method, tuple(PART_NAMES))
    start = f"The difference per step, {method.who} minus {method.beside} under {method.arm.key}"
    size = f"{written(whole, THOUSANDTHS)} thousandths of a nat"
    if whole.low is None or whole.high is None or whole.low <= 0 <= whole.high:
        return f"{start}: {size} in all; cannot tell which part makes it."
    if whole.high < 0:
        return (
            f"{start}, has the other sign than the measured difference: {size}. So the parts of "
            "single steps do not explain it."
        )
    for part, label in PART_NAMES.items():
        if (_minus(method, (part,), beyond=LARGE).low or 0.0) > 0:
            return (
                f"{start}, is mostly {label}: {written(_minus(method, (part,)), THOUSANDTHS)} "
                f"of {size}."
            )
    return f"{start}: {size} in all; no part is shown to be most of it."


def _minus(method: ExplainedMethod, parts: Sequence[str], *, beyond: float = 0.0) -> OverSeeds:
    """These parts of the worst-off group's steps minus the other's, less a share of all parts.

    One part is picked out of all, so its interval holds for all of them together.
    """
    own = _summed(method.worst_off, parts) - _summed(method.other, parts)
    whole = _summed(method.worst_off, PART_NAMES) - _summed(method.other, PART_NAMES)
    many = len(PART_NAMES)
    if len(parts) == many:
        many = 1
    return over_seeds(own - beyond * whole, many=many)


def _total(group: GroupCauses) -> OverSeeds:
    return over_seeds(_summed(group, PART_NAMES))


def _summed(group: GroupCauses, parts: Iterable[str]) -> NDArray[np.float64]:
    """Sum of parts at each seed; NaN where one is not known."""
    total: NDArray[np.float64] = np.array(
        [group.parts[part].by_seed for part in parts], np.float64
    ).sum(0)
    return total


def group_statistics(method: ExplainedMethod) -> Iterator[Sentence]:
    """What sets the group that pays more apart from the other, and what goes with cost."""
    found: dict[str, list[str]] = {"apart": [], "alike": [], "unclear": []}
    sizes = {g.group: g.n_train for g in method.comparison.by_group}
    mine, theirs = sizes.get(method.worst_off.group), sizes.get(method.other.group)
    if mine and theirs:  # a count is exact
        verdict = "apart" if abs(_relative(mine, theirs)) > APART else "alike"
        found[verdict].append(f"size ({mine:,.0f} training records beside {theirs:,.0f})")
    for statistic, label in STATISTIC_NAMES.items():
        both = (group.statistics[statistic].by_seed for group in (method.worst_off, method.other))
        if pairs := [(a, b) for a, b in zip(*both, strict=True) if a is not None and b is not None]:
            found[_verdict(pairs)].append(f"{label} ({_beside(pairs)})")
    who, other = method.who, method.beside
    place = f"{method.place}.groups[{method.worst_off.group}].statistics"
    for verdict, start in (
        ("apart", f"In this file {who} is set apart from {other} by"),
        ("alike", f"In this file {who} and {other} hardly differ in"),
        ("unclear", f"Cannot tell whether {who} and {other} differ by a fifth in"),
    ):
        if found[verdict]:
            yield say("statistic", f"{start} {'; '.join(found[verdict])}.", place)
    yield from _over_groups(method)


def _relative(mine: float, theirs: float) -> float:
    return (mine - theirs) / (max(abs(mine), abs(theirs)) or 1.0)


def _verdict(pairs: Sequence[tuple[float, float]]) -> str:
    """By the interval over seeds that holds for all statistics together."""
    found = over_seeds([_relative(a, b) for a, b in pairs], many=len(STATISTIC_NAMES))
    if found.low is None or found.high is None:
        return "unclear"
    if found.low > APART or found.high < -APART:
        return "apart"
    if max(abs(found.low), abs(found.high)) <= APART:
        return "alike"
    return "unclear"


def _beside(pairs: Sequence[tuple[float, float]]) -> str:
    if all(a > 0 and b > 0 for a, b in pairs):
        return f"{fmean(a / b for a, b in pairs):.2f} times"
    mine, theirs = (fmean(values) for values in zip(*pairs, strict=True))
    return f"{mine:.3g} beside {theirs:.3g}"


def _over_groups(method: ExplainedMethod) -> Iterator[Sentence]:
    """Which statistics go along with the excess risk.

    Those whose correlation over groups is told from zero.

    By Fisher's z over the groups, shared among all statistics, for the sentence picks the closest:
    five groups cannot show what six can.
    """
    every = [a for a in method.causes.associations if a.correlation is not None]
    groups = len(method.causes.groups)
    if groups <= 3 or not every:
        return
    limit = quantiles(1 - 0.025 / len(every), 1)[1] / math.sqrt(groups - 3)
    known = [a for a in every if abs(a.correlation or 0.0) > math.tanh(limit)]
    known.sort(key=lambda a: -abs(a.correlation or 0.0))
    told = "; ".join(
        f"{LABELS.get(a.statistic, a.statistic)} {a.correlation:+.2f} ({a.agreement or 0.0:.0%} of "
        "pairs)"
        for a in known[:MOST_SHOWN]
    )
    if told:
        yield say(
            "statistic",
            f"Over the {groups} groups, excess risk under {method.arm.key} goes along with "
            "(correlation, and the share of pairs of groups at which the one with more pays "
            f"more): {told}.",
            f"{method.place}.associations",
        )
