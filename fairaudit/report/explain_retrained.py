"""Where trained models answer what single steps suggest: they lead, and a disagreement is told."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairaudit.methods.catalog import find
from fairaudit.metrics.metric_names import COSTS
from fairaudit.report.decomposition import Sentence, say
from fairaudit.report.explain_ablation import CLIPPED, SHORTER, TURNED
from fairaudit.report.explain_parts import LARGE, detected_shares, shares_of
from fairaudit.report.explained_method import RISK, ExplainedMethod, cost_of
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import scale_of
from fairaudit.report.parts import split_cost
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison, Estimate

CLIPPING = ("direction", "magnitude_effective")
_ALONE = {"direction": TURNED, "magnitude_effective": SHORTER}
_UNITS = dict(zip(COSTS, ("points of accuracy", "nats of loss"), strict=True))


@dataclass(frozen=True, slots=True)
class Retrained:
    """What trained models say of a group's parts.

    Args:
        doubted: Parts that no model bears out: nothing is suggested against them.
        sentences: The disagreements with single steps, each with what the models show.
    """

    doubted: frozenset[str] = frozenset()
    sentences: tuple[Sentence, ...] = field(default=())


def retrained(method: ExplainedMethod, arms: Sequence[ArmFacts], compared: Sequence[Comparison]) -> Retrained:
    """What the twin without noise and the ablation of clipping say of the worst-off group's parts.

    Args:
        method: The arm.
        arms: All arms.
        compared: By the first grouping.
    """
    found = (_by_twin(method), _by_ablation(method, arms, compared))
    return Retrained(
        doubted=frozenset().union(*(each.doubted for each in found)),
        sentences=tuple(sentence for each in found for sentence in each.sentences),
    )


def _by_twin(method: ExplainedMethod) -> Retrained:
    """The same training without its noise: how much of the cost is left, and how much the noise adds."""
    group = next(g for g in method.comparison.by_group if g.group == method.worst_off.group)
    split = split_cost(method.comparison, group, RISK)
    if split is None or split.total.value is None:
        return Retrained()
    halves = {CLIPPING: (split.still, split.is_still), ("noise",): (split.noise, split.is_noise)}
    doubted = {part for parts, (_, is_shown) in halves.items() if not is_shown for part in parts}
    for parts, (alone, _) in halves.items():
        if _share(method, parts) >= LARGE and _is_small(alone, split.total):
            told = (
                f"{_start(method)} Of {written(split.total)} nats of added loss {written(split.still)} are "
                f"there when it is trained without its noise, and the noise adds {written(split.noise)}."
            )
            place = f"comparisons[{method.arm.key}].by_group[{method.worst_off.group}].estimates"
            return Retrained(frozenset(doubted), (say("finding", told, f"{place}.{RISK}.noise"),))
    return Retrained(frozenset(doubted))


def _by_ablation(
    method: ExplainedMethod, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Retrained:
    """Clipping's two parts, each trained alone without noise; of the method that is taken apart."""
    found = {arm.method: c for arm in arms for c in compared if c.arm == arm.key and c.reference}
    is_taken_apart = method.arm.method in (CLIPPED, find(CLIPPED).settings_of)
    if not is_taken_apart or method.arm.variant or not {CLIPPED, SHORTER, TURNED} <= set(found):
        return Retrained()
    whole = {metric: cost_of(found[CLIPPED], method.worst_off.group, metric) for metric in COSTS}
    detected = {metric: cost for metric, cost in whole.items() if cost and (cost.low or 0.0) > 0}
    if not detected:
        return Retrained(frozenset(CLIPPING))
    doubted, sentences = set(), []
    for part, arm in _ALONE.items():
        alone = {metric: cost_of(found[arm], method.worst_off.group, metric) for metric in detected}
        small = [metric for metric, cost in alone.items() if _is_small(cost, detected[metric])]
        doubted |= {part for _ in small}
        if small and _share(method, (part,)) >= LARGE:
            sentences.append(_costs_sentence(method, arm, [(m, alone[m], detected[m]) for m in small]))
    return Retrained(frozenset(doubted), tuple(sentences))


def _costs_sentence(
    method: ExplainedMethod, arm: str, costs: Sequence[tuple[str, Estimate | None, Estimate]]
) -> Sentence:
    sizes = " and ".join(
        f"{written(alone, scale)} {_UNITS[metric]} of clipping's {written(whole, scale)}"
        for metric, alone, whole in costs
        for scale in (scale_of(metric),)
    )
    return say(
        "finding",
        f"{_start(method)} Trained without noise, {arm} costs {method.who} {sizes}.",
        *(f"comparisons[{name}].by_group[{method.worst_off.group}].estimates" for name in (arm, CLIPPED)),
    )


def _start(method: ExplainedMethod) -> str:
    return (
        f"Single steps and trained models disagree on {method.who} under {method.arm.key}; the trained "
        f"models lead. By step: {shares_of(method.worst_off)}."
    )


def _share(method: ExplainedMethod, parts: Sequence[str]) -> float:
    """Of these parts together, as far as they are told."""
    return sum(
        share.value or 0.0 for part, share in detected_shares(method.worst_off).items() if part in parts
    )


def _is_small(part: Estimate | None, whole: Estimate) -> bool:
    """Whether the interval of a part lies below half of the whole."""
    if part is None or part.high is None or whole.value is None:
        return False
    return part.high < LARGE * whole.value
