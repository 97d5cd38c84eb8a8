"""What the ablation of clipping shows: its direction and its magnitude, each trained alone."""

from collections.abc import Collection, Sequence

from fairaudit.analysis.explain_steps import LARGE, ExplainedMethod, cost_of
from fairaudit.analysis.explain_trained import (
    CLIPPING,
    Retrained,
    disagreement,
    is_small,
    share_of,
)
from fairaudit.methods.catalog import find
from fairaudit.metrics.registry import METRICS, costs
from fairaudit.report.decomposition import Sentence, say
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import COST, is_detected, main_gap, named_gaps, scale_of
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Estimate, Gap

CLIPPED, SHORTER, TURNED, SLOWED = "clipped", "magnitude-only", "direction-only", "sgd-slowed"
HALVES = (SHORTER, TURNED)
MOST_GROUPS = 6  # whose costs are all told
_SAME_TWO_ARMS = (
    "The paper describes these two models twice in different words; they are the two pure parts, "
    "magnitude and starred direction, which do not add up to clipping's whole cost."
)
_ALONE = {"direction": TURNED, "magnitude_effective": SHORTER}


def sentences(arms: Sequence[ArmFacts], compared: Sequence[Comparison]) -> tuple[Sentence, ...]:
    """Sentences on the arms of the ablation; none where it was not trained.

    Args:
        arms: All arms.
        compared: By the first grouping.
    """
    found = {arm.method: c for arm in arms for c in compared if c.arm == arm.key and c.reference}
    if SHORTER not in found or TURNED not in found or CLIPPED not in found:
        return ()
    told = {name: _costs(comparison, _shown(found[CLIPPED])) for name, comparison in found.items()}
    sentences = [
        say(
            "ablation",
            f"In points of accuracy, without noise: clipping costs {told[CLIPPED]}; its magnitude "
            f"alone {told[SHORTER]}; its direction alone {told[TURNED]}.",
            *(f"comparisons[{name}].by_group" for name in (CLIPPED, *HALVES)),
        ),
        _gap_sentence(found),
    ]
    if SLOWED in found:
        sentences.append(
            say(
                "ablation",
                "magnitude-only takes shorter steps, so at a fixed number of epochs it is a "
                "learning-rate experiment as well; plain SGD slowed by as much costs "
                f"{told[SLOWED]}.",
                f"comparisons[{SLOWED}].by_group",
            )
        )
    return (
        *sentences,
        say("ablation", _SAME_TWO_ARMS, f"comparisons[{SHORTER}]", f"comparisons[{TURNED}]"),
    )


def _gap_sentence(found: dict[str, Comparison]) -> Sentence:
    """Which half, if any, shows a gap between groups that points the way clipping's does.

    And its size.
    """
    gaps, sizes = {}, []
    for name in (CLIPPED, *HALVES):
        gap = _gap(found[name])
        if gap is not None and is_detected(gap):
            gaps[name] = gap
        if name != CLIPPED:  # whatever its interval says
            sizes.append(f"{name} {written(gap.size if gap else None, POINTS)}")
    places = [f"comparisons[{name}].gaps" for name in (CLIPPED, *HALVES)]
    if CLIPPED not in gaps or not gaps[CLIPPED].direction:
        told = (
            "No gap between groups is detected for clipping without noise, so there is none to "
            "take apart."
        )
        return say("ablation", told, *places)
    whole = gaps[CLIPPED].direction
    points = written(gaps[CLIPPED].absolute, POINTS)
    halves = []
    for name in HALVES:
        if name in gaps and gaps[name].direction == whole:
            halves.append(f"{name} {written(gaps[name].absolute, POINTS)}")
    told = (
        f"For clipping a gap of {points} points ({plain(whole, 80)}) is detected, for neither half "
        f"by itself ({', '.join(sizes)}): what costs is the two together, or a half of whose gap "
        "this audit cannot tell."
    )
    if halves:
        which = "one half by itself" if len(halves) == 1 else "each half by itself"
        told = (
            f"A gap of the same direction ({plain(whole, 80)}) is detected for {which}: "
            f"{' and '.join(halves)} points of clipping's {points}."
        )
    return say("ablation", told, *places)


def _gap(comparison: Comparison) -> Gap | None:
    """The gap of the pair named beforehand, else of the one for the comparison."""
    return next(iter(named_gaps(comparison)), main_gap(comparison, COST))


def _shown(comparison: Comparison) -> set[str]:
    """All groups where they are few, else those of the gaps that are told."""
    if len(comparison.by_group) <= MOST_GROUPS:
        return {group.group for group in comparison.by_group}
    gap = _gap(comparison)
    if gap:
        return {gap.a, gap.b}
    return set()


def _costs(comparison: Comparison, shown: Collection[str]) -> str:
    costs = []
    for group in comparison.by_group:
        if group.estimates and group.group in shown:
            costs.append(f"{plain(group.group)} {written(group.estimates.get(COST), POINTS)}")
    return ", ".join(costs)


def evidence(
    method: ExplainedMethod, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Retrained:
    """What clipping's two parts, each trained alone without noise, say of the method taken apart.

    Args:
        method: The arm.
        arms: All arms.
        compared: By the first grouping.
    """
    found = {arm.method: c for arm in arms for c in compared if c.arm == arm.key and c.reference}
    is_taken_apart = method.arm.method in (CLIPPED, find(CLIPPED).settings_of)
    if not is_taken_apart or method.arm.variant or not {CLIPPED, SHORTER, TURNED} <= set(found):
        return Retrained()
    worst_off = method.worst_off.group
    detected = {}
    for metric in costs():
        cost = cost_of(found[CLIPPED], worst_off, metric)
        if cost is not None and (cost.low or 0.0) > 0:
            detected[metric] = cost
    if not detected:
        return Retrained(frozenset(CLIPPING))
    doubted, sentences = set(), []
    for part, arm in _ALONE.items():
        small = []
        for metric, whole in detected.items():
            alone = cost_of(found[arm], worst_off, metric)
            if is_small(alone, whole):
                small.append((metric, alone, whole))
        if small:
            doubted.add(part)
            if share_of(method, (part,)) >= LARGE:
                sentences.append(_costs_sentence(method, arm, small))
    return Retrained(frozenset(doubted), tuple(sentences))


def _costs_sentence(
    method: ExplainedMethod, arm: str, costs: Sequence[tuple[str, Estimate | None, Estimate]]
) -> Sentence:
    sizes = []
    for metric, alone, whole in costs:
        scale, of = scale_of(metric), METRICS[metric].counted_of
        sizes.append(f"{written(alone, scale)} {of} of clipping's {written(whole, scale)}")
    group = f"by_group[{method.worst_off.group}].estimates"
    return say(
        "finding",
        f"{disagreement(method)} Trained without noise, {arm} costs {method.who} "
        f"{' and '.join(sizes)}.",
        f"comparisons[{arm}].{group}",
        f"comparisons[{CLIPPED}].{group}",
    )
