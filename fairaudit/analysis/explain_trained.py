"""What trained models say of why a group pays.

The control, and twins without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairaudit.analysis.explain_steps import (
    LARGE,
    RISK,
    ExplainedMethod,
    detected_shares,
    shares_of,
)
from fairaudit.capabilities import added
from fairaudit.methods.catalog import catalog, find
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.decomposition import Sentence, say
from fairaudit.report.facts import ArmFacts, Control
from fairaudit.report.main_gap import COST, main_gap
from fairaudit.report.parts import split_cost
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Interval

_WHY = "A smaller cost than dpsgd's may come from clipping less alone."
CLIPPING = ("direction", "magnitude_effective")


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
        if told:
            message = " ".join([*told, _WHY])
        else:
            message = f"The control has no finished seed. {_WHY}"
        return Control(status="run", message=message)
    scaled = [arm.key for arm in plan.arms if _scales_by_threshold(arm)]
    if scaled:
        return Control(
            status="not run",
            message=f"Control not run for {', '.join(scaled)}. {_WHY} Add {control_option()}.",
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
    verdict = f"the intervals overlap; no advantage of {copied.arm} over matched DP-SGD detected."
    if mine.ends is None or theirs.ends is None:
        verdict = "without intervals, cannot tell."
    elif mine.ends.low > theirs.ends.high:
        verdict = (
            f"the gap of matched DP-SGD is larger, so here {copied.arm} does more than clip less."
        )
    elif mine.ends.high < theirs.ends.low:
        verdict = (
            f"the gap of matched DP-SGD is smaller, so here {copied.arm} does worse than clipping "
            "less alone."
        )
    return f"{told} Its gap is {sizes}: {verdict}"


@dataclass(frozen=True, slots=True)
class Retrained:
    """What trained models say of a group's parts.

    Args:
        doubted: Parts that no model bears out: nothing is suggested against them.
        sentences: The disagreements with single steps, each with what the models show.
    """

    doubted: frozenset[str] = frozenset()
    sentences: tuple[Sentence, ...] = field(default=())


def retrained(
    method: ExplainedMethod, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Retrained:
    """What the twin without noise, and other trained models, say of the worst-off group's parts.

    Args:
        method: The arm.
        arms: All arms.
        compared: By the first grouping.
    """
    found = [_by_twin(method)]
    found += [evidence(method, arms, compared) for evidence in added("evidence")]
    return Retrained(
        doubted=frozenset().union(*(each.doubted for each in found)),
        sentences=tuple(sentence for each in found for sentence in each.sentences),
    )


def _by_twin(method: ExplainedMethod) -> Retrained:
    """The same training without its noise.

    How much of the cost is left, and how much the noise adds.
    """
    group = next(g for g in method.comparison.by_group if g.group == method.worst_off.group)
    split = split_cost(method.comparison, group, RISK)
    if split is None or split.total.value is None:
        return Retrained()
    halves = {CLIPPING: (split.still, split.is_still), ("noise",): (split.noise, split.is_noise)}
    doubted = {part for parts, (_, is_shown) in halves.items() if not is_shown for part in parts}
    for parts, (alone, _) in halves.items():
        if share_of(method, parts) >= LARGE and is_small(alone, split.total):
            told = (
                f"{disagreement(method)} Of {written(split.total)} nats of added loss "
                f"{written(split.still)} are there when it is trained without its noise, and the "
                f"noise adds {written(split.noise)}."
            )
            place = f"comparisons[{method.arm.key}].by_group[{method.worst_off.group}].estimates"
            return Retrained(frozenset(doubted), (say("finding", told, f"{place}.{RISK}.noise"),))
    return Retrained(frozenset(doubted))


def disagreement(method: ExplainedMethod) -> str:
    """How a sentence begins that sets trained models against single steps."""
    return (
        f"Single steps and trained models disagree on {method.who} under {method.arm.key}; the "
        f"trained models lead. By step: {shares_of(method.worst_off)}."
    )


def share_of(method: ExplainedMethod, parts: Sequence[str]) -> float:
    """Of these parts together, as far as they are told."""
    return sum(
        share.value or 0.0
        for part, share in detected_shares(method.worst_off).items()
        if part in parts
    )


def is_small(part: Interval | None, whole: Interval) -> bool:
    """Whether the interval of a part lies below half of the whole."""
    if part is None or part.high is None or whole.value is None:
        return False
    return part.high < LARGE * whole.value
