"""What trained models say of why a group pays: the control, the ablation of clipping, twins without noise."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fairaudit.analysis.explain_steps import LARGE, RISK, ExplainedMethod, cost_of, detected_shares, shares_of
from fairaudit.methods.catalog import catalog, find
from fairaudit.metrics.registry import METRICS, costs
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.decomposition import Sentence, say
from fairaudit.report.facts import ArmFacts, Control
from fairaudit.report.main_gap import COST, is_detected, main_gap, named_gaps, scale_of
from fairaudit.report.parts import split_cost
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Estimate, Gap

_WHY = (
    "Scaling by a threshold is DP-SGD with a larger clipping bound and a smaller step, so a smaller cost "
    "than dpsgd's may come from clipping less alone."
)
CLIPPED, SHORTER, TURNED, SLOWED = "clipped", "magnitude-only", "direction-only", "sgd-slowed"
MOST_GROUPS = 6  # whose costs are all told
_SAME_TWO_ARMS = (
    "The paper describes these two models twice in different words; they are the two pure parts, magnitude "
    "and starred direction, which do not add up to clipping's whole cost."
)
CLIPPING = ("direction", "magnitude_effective")
_ALONE = {"direction": TURNED, "magnitude_effective": SHORTER}


def control_option() -> str:
    """The option that adds the control of a threshold method."""
    return f"--method {next(spec.name for spec in catalog().values() if spec.control_of)}"


def describe_control(plan: Plan, comparisons: Sequence[Comparison]) -> Control:
    """Whether the control was trained, and how it does beside the arm that it copies.

    Args:
        plan: The arms; a control is one that reads another arm's released thresholds.
        comparisons: By the first grouping.
    """
    by_arm = {comparison.arm: comparison for comparison in comparisons}
    pairs = [(arm, plan.arm(arm.source)) for arm in plan.arms if arm.source is not None]
    pairs = [(control, copied) for control, copied in pairs if _scales_by_threshold(copied)]
    if pairs:
        told = [
            _beside(by_arm[control.key], by_arm[copied.key])
            for control, copied in pairs
            if control.key in by_arm and copied.key in by_arm
        ]
        message = " ".join([*told, _WHY]) if told else f"The control has no finished seed. {_WHY}"
        return Control(status="run", message=message)
    scaled = [arm.key for arm in plan.arms if _scales_by_threshold(arm)]
    if scaled:
        return Control(
            status="not run",
            message=f"Control not run for {', '.join(scaled)}. {_WHY} "
            f"Add {control_option()} to tell the two apart.",
        )
    return Control(status="not needed", message="No method scales gradients by a threshold.")


def _scales_by_threshold(arm: Arm) -> bool:
    return find(arm.method).scales_by_threshold


def _beside(control: Comparison, copied: Comparison) -> str:
    costs = "; ".join(
        f"{plain(mine.group)} {written(mine.estimates.get(COST), POINTS)} beside "
        f"{written(theirs.estimates.get(COST), POINTS)}"
        for mine, theirs in zip(control.by_group[:6], copied.by_group[:6], strict=True)
    )
    gaps = main_gap(control), main_gap(copied)
    told = (
        f"{control.arm} is plain DP-SGD with the clipping bound and step size that {copied.arm} "
        f"settled on. Its cost in points of accuracy beside {copied.arm}'s: {costs}."
    )
    if gaps[0] is None or gaps[1] is None:
        return told
    mine, theirs = gaps[0].absolute, gaps[1].absolute
    sizes = f"{written(mine, POINTS)} beside {written(theirs, POINTS)}"
    return f"{told} Its gap is {sizes}: {_verdict(mine, theirs, copied.arm)}"


def _verdict(control: Estimate, copied: Estimate, name: str) -> str:
    if control.ends is None or copied.ends is None:
        return "without intervals, cannot tell."
    if control.ends.low > copied.ends.high:
        return f"the gap of matched DP-SGD is larger, so here {name} does more than clip less."
    if control.ends.high < copied.ends.low:
        return f"the gap of matched DP-SGD is smaller, so here {name} does worse than clipping less alone."
    return f"the intervals overlap; no advantage of {name} over matched DP-SGD detected."


def ablation(arms: Sequence[ArmFacts], compared: Sequence[Comparison]) -> tuple[Sentence, ...]:
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
            f"In points of accuracy, without noise: clipping costs {told[CLIPPED]}; its magnitude alone "
            f"{told[SHORTER]}; its direction alone {told[TURNED]}.",
            *(f"comparisons[{name}].by_group" for name in (CLIPPED, SHORTER, TURNED)),
        ),
        _gap_sentence(found),
    ]
    if SLOWED in found:
        sentences.append(
            say(
                "ablation",
                "magnitude-only takes shorter steps, so at a fixed number of epochs it is a learning-rate "
                f"experiment as well; plain SGD slowed by as much costs {told[SLOWED]}.",
                f"comparisons[{SLOWED}].by_group",
            )
        )
    return (*sentences, say("ablation", _SAME_TWO_ARMS, f"comparisons[{SHORTER}]", f"comparisons[{TURNED}]"))


def _gap_sentence(found: dict[str, Comparison]) -> Sentence:
    """Which half, if any, shows a gap between groups that points the way clipping's does, and its size."""
    gaps = {name: gap for name, c in found.items() if (gap := _gap(c)) and is_detected(gap)}
    whole = gaps[CLIPPED].direction if CLIPPED in gaps else ""
    halves = [name for name in (SHORTER, TURNED) if whole and name in gaps and gaps[name].direction == whole]
    if not whole:
        told = "No gap between groups is detected for clipping without noise, so there is none to take apart."
    elif halves:
        sizes = " and ".join(f"{name} {written(gaps[name].absolute, POINTS)}" for name in halves)
        which = "one half by itself" if len(halves) == 1 else "each half by itself"
        told = (
            f"A gap of the same direction ({plain(whole, 80)}) is detected for {which}: {sizes} points of "
            f"clipping's {written(gaps[CLIPPED].absolute, POINTS)}."
        )
    else:
        both = {name: _gap(found[name]) for name in (SHORTER, TURNED)}  # whatever their intervals say
        sizes = ", ".join(
            f"{name} {written(gap.size if gap else None, POINTS)}" for name, gap in both.items()
        )
        told = (
            f"For clipping a gap of {written(gaps[CLIPPED].absolute, POINTS)} points ({plain(whole, 80)}) is "
            f"detected, for neither half by itself ({sizes}): what costs is the two together, or a "
            "half of whose gap this audit cannot tell."
        )
    return say("ablation", told, *(f"comparisons[{name}].gaps" for name in (CLIPPED, SHORTER, TURNED)))


def _gap(comparison: Comparison) -> Gap | None:
    """The gap of the pair that was named beforehand, else the one that stands for the comparison."""
    return next(iter(named_gaps(comparison)), main_gap(comparison, COST))


def _shown(comparison: Comparison) -> set[str]:
    """All groups where they are few, else those of the gaps that are told."""
    if len(comparison.by_group) <= MOST_GROUPS:
        return {group.group for group in comparison.by_group}
    gap = _gap(comparison)
    return {gap.a, gap.b} if gap else set()


def _costs(comparison: Comparison, shown: Collection[str]) -> str:
    costs = (
        f"{plain(g.group)} {written(g.estimates.get(COST), POINTS)}"
        for g in comparison.by_group
        if g.estimates and g.group in shown
    )
    return ", ".join(costs)


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
    whole = {metric: cost_of(found[CLIPPED], method.worst_off.group, metric) for metric in costs()}
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
        f"{written(alone, scale)} {METRICS[metric].counted_of} of clipping's {written(whole, scale)}"
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
