"""What sets the group that pays more apart, in sentences."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from fairaudit.metrics.intervals import quantiles
from fairaudit.report.arm_readings import over_seeds
from fairaudit.report.decomposition import OverSeeds, Sentence, say
from fairaudit.report.explained_method import ExplainedMethod

APART = (
    0.2  # of the larger one: a statistic sets a group apart where the interval lies beyond this difference
)
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


def group_statistics(method: ExplainedMethod) -> Iterator[Sentence]:
    """What sets the group that pays more apart from the other, and what goes with cost."""
    found: dict[str, list[str]] = {"apart": [], "alike": [], "unclear": []}
    sizes = {g.group: g.n_train for g in method.comparison.by_group}
    mine, theirs = sizes.get(method.worst_off.group), sizes.get(method.other.group)
    if mine and theirs:  # a count is exact
        verdict = "apart" if abs(_relative(mine, theirs)) > APART else "alike"
        found[verdict].append(f"size ({mine:,.0f} training records beside {theirs:,.0f})")
    for statistic, label in STATISTIC_NAMES.items():
        if pairs := _pairs(method.worst_off.statistics[statistic], method.other.statistics[statistic]):
            found[_verdict(pairs)].append(f"{label} ({_beside(pairs)})")
    who, other = method.who, method.beside
    place = f"{method.place}.groups[{method.worst_off.group}].statistics"
    if said := "; ".join(found["apart"]):
        yield say("statistic", f"In this file {who} is set apart from {other} by {said}.", place)
    if said := "; ".join(found["alike"]):
        yield say("statistic", f"In this file {who} and {other} hardly differ in {said}.", place)
    if said := "; ".join(found["unclear"]):
        yield say("statistic", f"Cannot tell whether {who} and {other} differ by a fifth in {said}.", place)
    yield from _over_groups(method)


def _pairs(mine: OverSeeds, theirs: OverSeeds) -> list[tuple[float, float]]:
    pairs = zip(mine.by_seed, theirs.by_seed, strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _relative(mine: float, theirs: float) -> float:
    return (mine - theirs) / (max(abs(mine), abs(theirs)) or 1.0)


def _verdict(pairs: Sequence[tuple[float, float]]) -> str:
    """By the interval over seeds that holds for all statistics together."""
    found = over_seeds([_relative(a, b) for a, b in pairs], many=len(STATISTIC_NAMES))
    if found.low is None or found.high is None:
        return "unclear"
    if found.low > APART or found.high < -APART:
        return "apart"
    return "alike" if max(abs(found.low), abs(found.high)) <= APART else "unclear"


def _beside(pairs: Sequence[tuple[float, float]]) -> str:
    if all(a > 0 and b > 0 for a, b in pairs):
        return f"{fmean(a / b for a, b in pairs):.2f} times"
    mine, theirs = (fmean(values) for values in zip(*pairs, strict=True))
    return f"{mine:.3g} beside {theirs:.3g}"


def _over_groups(method: ExplainedMethod) -> Iterator[Sentence]:
    """Which statistics go along with the excess risk: those whose correlation over groups is told from zero.

    By Fisher's z over the groups, shared among all statistics, for the sentence picks the closest: five
    groups cannot show what six can.
    """
    every = [a for a in method.causes.associations if a.correlation is not None]
    groups = len(method.causes.groups)
    if groups <= 3 or not every:
        return
    limit = quantiles(1 - 0.025 / len(every), 1)[1] / math.sqrt(groups - 3)
    known = [a for a in every if abs(a.correlation or 0.0) > math.tanh(limit)]
    known.sort(key=lambda a: -abs(a.correlation or 0.0))
    told = "; ".join(
        f"{LABELS.get(a.statistic, a.statistic)} {a.correlation:+.2f} ({a.agreement or 0.0:.0%} of pairs)"
        for a in known[:MOST_SHOWN]
    )
    if told:
        yield say(
            "statistic",
            f"Over the {groups} groups, excess risk under {method.arm.key} goes along with (correlation, and "
            f"the share of pairs of groups at which the one with more pays more): {told}.",
            f"{method.place}.associations",
        )
