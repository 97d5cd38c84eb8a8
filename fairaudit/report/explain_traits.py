"""What sets the costly group apart, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from fairaudit.report.case import Case
from fairaudit.report.decomposition import OverSeeds, Sentence, say

APART = 0.2  # of the larger one: a trait sets a group apart beyond this difference, at every seed
MOST_TOLD = 3
# trait -> how it is said
TRAIT_NAMES: Mapping[str, str] = {
    "mean_gradient_norm": "gradient norm",
    "mean_input_norm": "input norm",
    "hessian_trace": "curvature (Hessian trace)",
    "mean_closeness": "closeness to the decision boundary",
    "clipped_share": "share of clipped records",
}
SPOKEN = {
    **TRAIT_NAMES,
    "size": "size",
    "mean_loss": "loss",
    "excess_norm": "length clipped off",
    "angle_turned": "angle turned by clipping",
    "eigenvalue_largest": "largest eigenvalue of the Hessian",
}


def traits(case: Case) -> Iterator[Sentence]:
    """What sets the group that pays most apart from the one that pays least, and what goes with cost."""
    found: dict[str, list[str]] = {"apart": [], "alike": [], "unclear": []}
    sizes = {g.group: g.n_train for g in case.comparison.by_group}
    mine, theirs = sizes.get(case.payer.group), sizes.get(case.other.group)
    if mine and theirs:
        found[_verdict([(mine, theirs)])].append(f"size ({mine:,.0f} training records beside {theirs:,.0f})")
    for trait, spoken in TRAIT_NAMES.items():
        if pairs := _pairs(case.payer.traits[trait], case.other.traits[trait]):
            found[_verdict(pairs)].append(f"{spoken} ({_beside(pairs)})")
    who, other = case.who, case.beside
    place = f"{case.place}.groups[{case.payer.group}].traits"
    if said := "; ".join(found["apart"]):
        yield say("trait", f"{who} is set apart from {other} at every seed by {said}.", place)
    if said := "; ".join(found["alike"]):
        yield say("trait", f"{who} and {other} hardly differ in {said}.", place)
    if said := "; ".join(found["unclear"]):
        yield say("trait", f"Seeds disagree, or differ too little, on {said}.", place)
    yield from _over_groups(case)


def _pairs(mine: OverSeeds, theirs: OverSeeds) -> list[tuple[float, float]]:
    pairs = zip(mine.by_seed, theirs.by_seed, strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _verdict(pairs: Sequence[tuple[float, float]]) -> str:
    differences = [(a - b) / (max(abs(a), abs(b)) or 1.0) for a, b in pairs]
    if min(differences) > APART or max(differences) < -APART:
        return "apart"
    return "alike" if max(map(abs, differences)) <= APART else "unclear"


def _beside(pairs: Sequence[tuple[float, float]]) -> str:
    if all(a > 0 and b > 0 for a, b in pairs):
        return f"{fmean(a / b for a, b in pairs):.2f} times"
    mine, theirs = (fmean(values) for values in zip(*pairs, strict=True))
    return f"{mine:.3g} beside {theirs:.3g}"


def _over_groups(case: Case) -> Iterator[Sentence]:
    """With three groups or more: which traits are larger where the excess risk is."""
    known = [a for a in case.causes.associations if a.correlation is not None]
    if not known:
        return
    known.sort(key=lambda a: -abs(a.correlation or 0.0))
    told = "; ".join(
        f"{SPOKEN.get(a.trait, a.trait)} {a.correlation:+.2f} ({a.agreement or 0.0:.0%} of pairs)"
        for a in known[:MOST_TOLD]
    )
    yield say(
        "trait",
        f"Over the {len(case.causes.groups)} groups, excess risk under {case.arm.key} goes most closely with "
        f"(correlation, and the share of pairs of groups at which the one with more pays more): {told}.",
        f"{case.place}.associations",
    )
