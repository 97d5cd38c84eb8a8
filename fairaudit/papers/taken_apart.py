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
from fairaudit.report.main_gap import COST, main_gap, named_gaps, scale_of
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Estimate, Gap

CLIPPED, SHORTER, TURNED, SLOWED = "clipped", "magnitude-only", "direction-only", "sgd-slowed"
HALVES = (SHORTER, TURNED)
_ALONE = {"direction": TURNED, "magnitude_effective": SHORTER}


def sentences(arms: Sequence[ArmFacts], compared: Sequence[Comparison]) -> tuple[Sentence, ...]:
    """Sentences on the arms of the ablation; none where it was not trained.

    Args:
        arms: All arms.
        compared: By the first grouping.
    """
    trained = _by_method(arms, compared)
    if not {CLIPPED, *HALVES} <= set(trained):
        return ()
    main = _gap(trained[CLIPPED])
    groups = (main.a, main.b) if main else ()
    costs, gaps = {}, {}
    for name, comparison in trained.items():
        gap = _gap(comparison)
        costs[name] = _costs(comparison, groups)
        gaps[name] = written(gap.size if gap else None, POINTS)
    sentences = [
        say(
            "ablation",
            f"In points of accuracy, without noise: clipping costs {costs[CLIPPED]}; its magnitude "
            f"alone {costs[SHORTER]}; its direction alone {costs[TURNED]}. The largest gaps "
            f"between groups are {gaps[CLIPPED]}, {gaps[SHORTER]} and {gaps[TURNED]}.",
            *(f"comparisons[{name}]" for name in (CLIPPED, *HALVES)),
        )
    ]
    if SLOWED in trained:
        text = (
            "magnitude-only takes shorter steps, so at a fixed number of epochs it is a "
            f"learning-rate experiment as well; plain SGD slowed by as much costs {costs[SLOWED]}."
        )
        sentences.append(say("ablation", text, f"comparisons[{SLOWED}].by_group"))
    return tuple(sentences)


def _by_method(arms: Sequence[ArmFacts], compared: Sequence[Comparison]) -> dict[str, Comparison]:
    """Each method's comparison with its reference."""
    methods = {arm.key: arm.method for arm in arms}
    return {methods[c.arm]: c for c in compared if c.reference and c.arm in methods}


def _gap(comparison: Comparison) -> Gap | None:
    """The gap of the pair named beforehand, else of the one for the comparison."""
    return next(iter(named_gaps(comparison)), main_gap(comparison, COST))


def _costs(comparison: Comparison, groups: Collection[str]) -> str:
    costs = []
    for group in comparison.by_group:
        if group.group in groups and group.estimates:
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
    found = _by_method(arms, compared)
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
