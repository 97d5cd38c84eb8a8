"""Why a group pays more, in sentences.

Each follows from a rule on figures of the report and names them.

A sentence about groups is written only where the audit detects that their excess risks differ.
"""

from collections.abc import Collection, Iterator, Sequence

from fairaudit.analysis.explain_steps import (
    LARGE,
    PART_NAMES,
    RISK,
    ExplainedMethod,
    cost_of,
    detected_shares,
    explained_methods,
    group_statistics,
    parts_sentences,
    read_arms,
    shares_of,
)
from fairaudit.analysis.explain_trained import retrained
from fairaudit.capabilities import added
from fairaudit.methods.catalog import find
from fairaudit.report.decomposition import Decomposition, Sentence, Why, say
from fairaudit.report.facts import ArmFacts, Control
from fairaudit.report.main_gap import COST, detected_gap, main_gap, reading
from fairaudit.report.safe_names import plain
from fairaudit.report.written import OWN_UNIT, PERCENT, POINTS, READINGS, written
from fairaudit.results.estimates import Comparison

MOST_ARMS = 3

_AT_MOST = (
    "No difference in added loss between groups is detected (at most, in nats: {}), so none is "
    "explained."
)
_UNKNOWN = "Cannot tell whether groups differ in added loss ({}), so no difference is explained."
_NO_COST = (
    "Groups differ in added loss, but none is detected to lose ({}), so no cost is explained."
)
SMALL = 0.1
LITTLE_CLIPPED = 0.05


def explain(
    decomposition: Decomposition | None,
    arms: Sequence[ArmFacts],
    compared: Sequence[Comparison],
    control: Control,
) -> Why | None:
    """The explanation; None where neither steps were read nor clipping was taken apart.

    Args:
        decomposition: What was read of checkpoints.
        arms: All arms.
        compared: By the first grouping.
        control: What the control showed.
    """
    apart: list[Sentence] = []
    for more in added("sentences"):
        apart += more(arms, compared)
    if decomposition is None:
        return Why(headline="", sentences=tuple(apart)) if apart else None
    every = list(explained_methods(decomposition, arms, compared))
    explained = every[:MOST_ARMS]
    answers = [retrained(method, arms, compared) for method in explained]
    sentences: list[Sentence] = []
    for method, answer in zip(explained, answers, strict=True):
        sentences += [_cost(method), *answer.sentences, *parts_sentences(method)]
    told = {method.arm.key for method in every}
    read = [pair for pair in read_arms(decomposition, arms, compared) if pair[0].key not in told]
    sentences += _unexplained(read)
    headline = ""
    if explained:
        headline = _headline(explained[0], answers[0].sentences)
        sentences += group_statistics(explained[0])
    if control.status == "run":
        sentences.append(say("control", control.message, "control.message"))
    sentences += apart
    sentences += _limits(decomposition, explained)
    for method, answer in zip(explained, answers, strict=True):
        sentences += suggestions(method, answer.doubted)
    return Why(headline=headline, sentences=tuple(sentences))


def _headline(method: ExplainedMethod, disagreements: Sequence[Sentence]) -> str:
    """What trained models say where they disagree with single steps, else what those say."""
    if disagreements:
        return disagreements[0].text
    shares = shares_of(method.worst_off)
    if not shares:
        return ""
    mine, theirs = (group.statistics["angle_turned"] for group in (method.worst_off, method.other))
    degrees = [written(angle, READINGS, unknown="unknown") for angle in (mine, theirs)]
    turned = ""
    if mine.excludes_zero:
        turned = (
            f"; clipping turns the gradient from {method.who}'s by {degrees[0]} degrees "
            f"({method.beside}: {degrees[1]})"
        )
    return f"{method.arm.key}: per-step loss increase for {method.who}: {shares}{turned}."


def _cost(method: ExplainedMethod) -> Sentence:
    told = []
    for group in (method.worst_off.group, method.other.group):
        told.append(f"{plain(group)} {written(cost_of(method.comparison, group, RISK))}")
    accuracy = main_gap(method.comparison, COST)
    points, side = written(None, POINTS), ""
    if accuracy is not None:
        points = written(accuracy.size, POINTS)
        if reading(accuracy):
            side = f" ({plain(reading(accuracy), 120)})"
    return say(
        "finding",
        f"Under {method.arm.key} private training adds to the loss, in nats: {told[0]}, "
        f"{told[1]}; this difference is detected. The gap in accuracy is {points} points{side}.",
        f"comparisons[{method.arm.key}].by_group[{method.worst_off.group}].estimates.{RISK}",
    )


def _unexplained(read: Sequence[tuple[ArmFacts, Comparison]]) -> Iterator[Sentence]:
    """Of arms without a case: how large a difference may be, and nothing more."""
    told: dict[str, list[str]] = {_AT_MOST: [], _UNKNOWN: [], _NO_COST: []}
    for arm, comparison in read:
        gap = main_gap(comparison, RISK)
        if detected_gap(comparison, RISK) is not None:
            told[_NO_COST].append(arm.key)
        elif gap is None or gap.size.high is None or not gap.gated or gap.direction:
            told[_UNKNOWN].append(arm.key)
        else:
            told[_AT_MOST].append(f"{arm.key} {OWN_UNIT.digits(gap.size.high)}")
    places = [f"comparisons[{arm.key}].gaps" for arm, _ in read]
    for text, arms in told.items():
        if arms:
            yield say("finding", text.format(", ".join(arms)), *places)


def _limits(
    decomposition: Decomposition, explained: Sequence[ExplainedMethod]
) -> Iterator[Sentence]:
    yield say(
        "limit",
        f"Parts are second-order readings of single steps at {decomposition.steps} checkpoints, "
        "each against the plain step from the same point. They say what a step does there, not "
        "what training would have become, and do not add up to the measured excess risk. Their "
        "intervals are over the seeds of this file: how steady a figure is here, not how true it "
        "is of other data.",
        "diagnostics.decomposition.steps",
    )
    if decomposition.optimizer != "sgd":
        yield say(
            "limit",
            f"The optimizer is {decomposition.optimizer}; the parts are those of a plain gradient "
            "step.",
            "config.optimizer",
        )
    failed = []
    for method in explained:
        for bound in method.causes.bounds[:1]:
            if bound.assumption:
                failed.append(f"{method.arm.key}: {bound.assumption}")
    if failed:
        yield say(
            "limit",
            f"The printed bounds rest on assumptions that fail here: {'; '.join(failed)}.",
            "diagnostics.decomposition.arms",
        )
    if explained and len(explained[0].causes.groups) == 2:
        yield say(
            "limit",
            "With two groups every statistic that differs goes along with the cost; which of them "
            "causes it, these figures cannot say.",
            "diagnostics.decomposition.arms",
        )


def suggestions(method: ExplainedMethod, doubted: Collection[str]) -> Iterator[Sentence]:
    """Expectations, none where no share is told.

    Args:
        method: The arm and its worst-off group.
        doubted: Parts that trained models do not bear out.
    """
    shares, size = {}, dict.fromkeys(PART_NAMES, 0.0)
    for part, share in detected_shares(method.worst_off).items():
        if part not in doubted:
            shares[part], size[part] = share, share.value or 0.0
    clipped = method.worst_off.statistics["clipped_share"]
    who, arm = method.who, method.arm.key
    place = f"{method.place}.groups[{method.worst_off.group}]"
    is_clipped = (clipped.low or 0.0) > LITTLE_CLIPPED
    if size["direction"] >= LARGE or (size["direction"] > SMALL and is_clipped):
        if find(method.arm.method).scales_by_threshold:
            larger = "a larger --threshold or a slower fall of it"
        else:
            larger = (
                "a larger --max-grad-norm, or a method that scales all gradients by one threshold,"
            )
        noise = (
            f"; noise, now {written(shares['noise'], PERCENT)}, grows with it"
            if "noise" in shares
            else ""
        )
        yield say(
            "suggestion",
            f"{arm}: {larger} should lower the part of gradient direction for {who}; "
            f"{written(clipped, PERCENT)} of its records are clipped{noise}.",
            f"{place}.shares",
        )
    if size["magnitude_effective"] >= LARGE:
        yield say(
            "suggestion",
            f"{arm}: clipped steps are short for {who}; more --epochs or a larger --learning-rate "
            "should lower the part of gradient shrinkage (more epochs cost epsilon or noise).",
            f"{place}.shares",
        )
    if size["noise"] >= LARGE:
        yield say(
            "suggestion",
            f"{arm}: a larger --epsilon, a larger --batch-size, a smaller --learning-rate or a "
            f"smaller --max-grad-norm should lower the part of noise for {who}, now "
            f"{written(shares['noise'], PERCENT)}.",
            f"{place}.shares",
        )
    if clipped.high is not None and clipped.high < LITTLE_CLIPPED and size["noise"] < LARGE:
        yield say(
            "suggestion",
            f"{arm}: hardly any record of {who} is clipped, so another clipping bound should "
            "change little.",
            f"{place}.statistics.clipped_share",
        )
