"""What sets the group that pays more apart, in sentences."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from fairaudit.metrics.intervals import quantiles
from fairaudit.report.arm_readings import over_seeds
from fairaudit.report.case import Case
from fairaudit.report.decomposition import OverSeeds, Sentence, say

APART = 0.2  # of the larger one: a trait sets a group apart where the interval lies beyond this difference
MOST_TOLD = 3
# trait -> how it is said
TRAIT_NAMES: Mapping[str, str] = {
    "mean_gradient_norm": "gradient norm",
    "mean_input_norm": "input norm",
    "hessian_trace": "curvature (Hessian trace)",
    "mean_closeness": "boundary proximity",
    "clipped_share": "share of clipped records",
}
SPOKEN = {
    **TRAIT_NAMES,
    "size": "size",
    "mean_loss": "loss",
    "excess_norm": "length clipped off",
    "angle_turned": "gradient angle",
    "eigenvalue_largest": "largest eigenvalue of the Hessian",
}


def traits(case: Case) -> Iterator[Sentence]:
    """What sets the group that pays more apart from the other, and what goes with cost."""
    found: dict[str, list[str]] = {"apart": [], "alike": [], "unclear": []}
    sizes = {g.group: g.n_train for g in case.comparison.by_group}
    mine, theirs = sizes.get(case.payer.group), sizes.get(case.other.group)
    if mine and theirs:  # a count is exact
        verdict = "apart" if abs(_relative(mine, theirs)) > APART else "alike"
        found[verdict].append(f"size ({mine:,.0f} training records beside {theirs:,.0f})")
    for trait, spoken in TRAIT_NAMES.items():
        if pairs := _pairs(case.payer.traits[trait], case.other.traits[trait]):
            found[_verdict(pairs)].append(f"{spoken} ({_beside(pairs)})")
    who, other = case.who, case.beside
    place = f"{case.place}.groups[{case.payer.group}].traits"
    if said := "; ".join(found["apart"]):
        yield say("trait", f"In this file {who} is set apart from {other} by {said}.", place)
    if said := "; ".join(found["alike"]):
        yield say("trait", f"In this file {who} and {other} hardly differ in {said}.", place)
    if said := "; ".join(found["unclear"]):
        yield say("trait", f"Cannot tell whether {who} and {other} differ by a fifth in {said}.", place)
    yield from _over_groups(case)


def _pairs(mine: OverSeeds, theirs: OverSeeds) -> list[tuple[float, float]]:
    pairs = zip(mine.by_seed, theirs.by_seed, strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _relative(mine: float, theirs: float) -> float:
    return (mine - theirs) / (max(abs(mine), abs(theirs)) or 1.0)


def _verdict(pairs: Sequence[tuple[float, float]]) -> str:
    """By the interval over seeds that holds for all traits together."""
    found = over_seeds([_relative(a, b) for a, b in pairs], many=len(TRAIT_NAMES))
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


def _over_groups(case: Case) -> Iterator[Sentence]:
    """Which traits go along with the excess risk: those whose correlation over groups is told from zero.

    By Fisher's z over the groups, shared among all traits, for the sentence picks the closest: five groups
    cannot show what six can.
    """
    every = [a for a in case.causes.associations if a.correlation is not None]
    groups = len(case.causes.groups)
    if groups <= 3 or not every:
        return
    limit = quantiles(1 - 0.025 / len(every), 1)[1] / math.sqrt(groups - 3)
    known = [a for a in every if abs(a.correlation or 0.0) > math.tanh(limit)]
    known.sort(key=lambda a: -abs(a.correlation or 0.0))
    told = "; ".join(
        f"{SPOKEN.get(a.trait, a.trait)} {a.correlation:+.2f} ({a.agreement or 0.0:.0%} of pairs)"
        for a in known[:MOST_TOLD]
    )
    if told:
        yield say(
            "trait",
            f"Over the {groups} groups, excess risk under {case.arm.key} goes along with (correlation, and "
            f"the share of pairs of groups at which the one with more pays more): {told}.",
            f"{case.place}.associations",
        )
