"""Why a group pays more, in sentences: each follows from a rule on figures of the report and names them.

A sentence about groups is written only where the audit detects that their excess risks differ.
"""

from collections.abc import Iterator, Sequence

from fairaudit.report.case import RISK, Case, cases_of, cost_of, read_arms
from fairaudit.report.decomposition import Decomposition, OverSeeds, Sentence, Why, say
from fairaudit.report.explain_ablation import ablation
from fairaudit.report.explain_levers import levers
from fairaudit.report.explain_parts import parts_sentences, shares_of
from fairaudit.report.explain_retrained import retrained
from fairaudit.report.explain_traits import traits
from fairaudit.report.facts import ArmFacts, Control
from fairaudit.report.gaps import COST, detected_gap, main_gap, reading
from fairaudit.report.names import plain
from fairaudit.report.written import OWN_UNIT, POINTS, READINGS, written
from fairaudit.results.estimates import Comparison

MOST_ARMS = 3

_AT_MOST = (
    "No difference in added loss between groups is detected (at most, in nats: {}), so none is explained."
)
_UNKNOWN = "Cannot tell whether groups differ in added loss ({}), so no difference is explained."
_NO_COST = "Groups differ in added loss, but none is detected to lose ({}), so no cost is explained."


def explain(
    decomposition: Decomposition | None,
    arms: Sequence[ArmFacts],
    compared: Sequence[Comparison],
    control: Control,
) -> Why | None:
    """The explanation; None where neither steps were read nor clipping was taken apart.

    Args:
        decomposition: What was read of kept steps.
        arms: All arms.
        compared: By the first grouping.
        control: What the control showed.
    """
    apart = ablation(arms, compared)
    if decomposition is None:
        return Why(headline="", sentences=apart) if apart else None
    every = list(cases_of(decomposition, arms, compared))
    cases = every[:MOST_ARMS]
    answers = [retrained(case, arms, compared) for case in cases]
    sentences: list[Sentence] = []
    for case, answer in zip(cases, answers, strict=True):
        sentences += [_cost(case), *answer.sentences, *parts_sentences(case)]
    sentences += _unexplained(
        [pair for pair in read_arms(decomposition, arms, compared) if pair[0] not in [c.arm for c in every]]
    )
    if cases:
        sentences += traits(cases[0])
    if control.status == "run":
        sentences.append(say("control", control.message, "control.message"))
    sentences += apart
    sentences += _limits(decomposition, cases)
    for case, answer in zip(cases, answers, strict=True):
        sentences += levers(case, answer.doubted)
    headline = _headline(cases[0], answers[0].sentences) if cases else ""
    return Why(headline=headline, sentences=tuple(sentences))


def _headline(case: Case, disagreements: Sequence[Sentence]) -> str:
    """What trained models say where they disagree with single steps, else what those say."""
    if disagreements:
        return disagreements[0].text
    if shares := shares_of(case.payer):
        return f"{case.arm.key}: per-step loss increase for {case.who}: {shares}{_turned(case)}."
    return ""


def _turned(case: Case) -> str:
    """By how much clipping turns the step from either group, where that is told from zero."""
    mine, theirs = (group.traits["angle_turned"] for group in (case.payer, case.other))
    if not mine.excludes_zero:
        return ""
    beside = f" ({case.beside}: {_degrees(theirs)})"
    return f"; clipping turns the gradient from {case.who}'s by {_degrees(mine)} degrees{beside}"


def _degrees(angle: OverSeeds) -> str:
    return written(angle, READINGS, unknown="unknown")


def _cost(case: Case) -> Sentence:
    told = [
        f"{plain(group.group)} {written(cost_of(case.comparison, group.group, RISK))}"
        for group in (case.payer, case.other)
    ]
    accuracy = main_gap(case.comparison, COST)
    points = written(None if accuracy is None else accuracy.size, POINTS)
    told_of = "" if accuracy is None else reading(accuracy)
    side = f" ({plain(told_of, 120)})" if told_of else ""
    return say(
        "finding",
        f"Under {case.arm.key} private training adds to the loss, in nats: {told[0]}, {told[1]}; this "
        f"difference is detected. The gap in accuracy is {points} points{side}.",
        f"comparisons[{case.arm.key}].by_group[{case.payer.group}].estimates.{RISK}",
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
    for text, arms in told.items():
        if arms:
            yield say(
                "finding", text.format(", ".join(arms)), *(f"comparisons[{a.key}].gaps" for a, _ in read)
            )


def _limits(decomposition: Decomposition, cases: Sequence[Case]) -> Iterator[Sentence]:
    yield say(
        "limit",
        f"Parts are second-order readings of single steps at {decomposition.steps} kept steps, each against "
        "the plain step from the same point. They say what a step does there, not what training would have "
        "become, and do not add up to the measured excess risk. Their intervals are over the seeds of this "
        "file: how steady a figure is here, not how true it is of other data.",
        "diagnostics.decomposition.steps",
    )
    if decomposition.optimizer != "sgd":
        yield say(
            "limit",
            f"The optimizer is {decomposition.optimizer}; the parts are those of a plain gradient step.",
            "config.optimizer",
        )
    failed = [f"{c.arm.key}: {b.assumption}" for c in cases for b in c.causes.bounds[:1] if b.assumption]
    if failed:
        yield say(
            "limit",
            f"The printed bounds rest on assumptions that fail here: {'; '.join(failed)}.",
            "diagnostics.decomposition.arms",
        )
    if cases and len(cases[0].causes.groups) == 2:
        yield say(
            "limit",
            "With two groups every trait that differs goes along with the cost; which of them causes it, "
            "these figures cannot say.",
            "diagnostics.decomposition.arms",
        )
