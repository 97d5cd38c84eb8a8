"""Findings on rules, and on whether a model works for the groups at all."""

import re
from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.report.messages.base import FindingMessage, WrittenNumber
from fairaudit.report.safe_names import group_text
from fairaudit.results.estimates import Interval

# What stands for {reason}: why something is not known, or a case that a sentence names.
NO_INTERVAL = "there is no interval"
WIDE_INTERVAL = "its interval is too wide"
LIKE_REFERENCE = "; so does the model without privacy"
WORSE, NOT_BETTER = "Worse", "Not shown to be better"


def rows_would_tell(rows: int, group: str) -> str:
    """How many test rows of a group would tell what is not known."""
    return f"about {rows:,} test rows of {group} would tell"


def too_few_seeds(seeds: int, least: int) -> str:
    """That there are fewer seeds than the least that is judged."""
    return f"{numbered(seeds, 'seed')} are too few; use {least}"


def _has_word(text: str, name: str) -> bool:
    """Whether a name stands in a text by itself, and not as a part of another word."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnRule(FindingMessage):
    """What a rule says of an arm, with the number that decides it.

    Args:
        value: The number.
        reason: What must hold by the rule, as ``gap of privacy cost at most 2 points``.
        is_one_of_many: Whether other groups could have decided, so that those that do are named.
        rests_on: Of a rate, how many test rows of each of these groups it is about.
        before: The same gap without privacy, where that breaks the rule, too.
    """

    value: Interval
    reason: str
    is_one_of_many: bool = False
    rests_on: tuple[int, ...] = ()
    before: Interval | None = None

    question = "verdict"
    sentence = "{reason}: {value:plain}{place}"

    @property
    def own_words(self) -> dict[str, str]:
        """``place``: which groups decide, from how many rows, and what it was without privacy."""
        place = ""
        if self.is_one_of_many:
            names = [group_text(self.subject.grouping, name) for name in self.subject.groups]
            if not all(_has_word(self.reason, name) for name in names):  # else the rule names them
                place = f", {' and '.join(names)}"
        if self.rests_on:
            place += f", from {' and '.join(map(str, self.rests_on))} rows"
        if self.before is not None:
            place += f"; {WrittenNumber(self.before, self.subject.unit):bare} without privacy"
        return {"place": place}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailed(_OnRule):
    """A rule that fails."""

    code = "rule_failed"
    when = "a rule fails for this arm"
    asks_why = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOpen(_OnRule):
    """A rule that is inconclusive."""

    code = "rule_open"
    when = "a rule is inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePassed(_OnRule):
    """A rule that passes, with the number nearest to failing."""

    code = "rule_met"
    when = "a rule passes for this arm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceUndertrained(FindingMessage):
    """Accuracy of the reference, and of a library's model, which ``reason`` names."""

    code = "reference_undertrained"
    when = "the reference is more than a point less accurate than a standard library's model"
    question = "works"
    sentence = (
        "Undertrained: it gets {own:percent} of test rows right, {reason} {other:percent}; costs "
        "against it cannot be read"
    )

    own: Interval
    other: Interval
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseThanConstant(FindingMessage):
    """How much worse than one answer for everybody; ``reason``: :data:`WORSE` or not."""

    code = "worse_than_constant"
    when = "over all rows the model is worse by its estimate than the training rows' class shares"
    question = "works"
    asks_why = True
    sentence = "{reason} than the same answer for everybody: {worse} of {of}"

    worse: Interval
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantFinding(FindingMessage):
    """A model gives a group one answer.

    Args:
        other: Share of the group that is predicted as the most frequent other class.
        truth: Share of the group that is of that class.
    """

    other: Interval
    truth: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantAnswers(ConstantFinding):
    """Every row of the group gets that one answer."""

    code = "constant"
    when = "a model gives every test row of a group one answer, though they are of several classes"
    question = "works"
    series = "constant"
    asks_why = True
    sentence = "Gives every {a} the answer {answer}{reason}"
    item = "{a} the answer {answer}{reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NearlyConstant(ConstantFinding):
    """Hardly a row of the group gets another answer."""

    code = "nearly_constant"
    when = (
        "a model is shown to predict each class but one for less than a fifth of a group's rows "
        "that are of it"
    )
    question = "works"
    asks_why = True
    sentence = (
        "Gives hardly any {a} another answer than {answer}: {other:rate} where {truth:rate} would "
        "be right{reason}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantReference(ConstantFinding):
    """The model is a reference, with which others are compared."""

    code = "constant_reference"
    when = "a reference gives every or nearly every test row of a group one answer"
    question = "works"
    sentence = (
        "Gives {a} the answer {answer} and hardly any other: costs of accuracy and rates beside "
        "it cannot be read, excess risk can"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantUnknown(ConstantFinding):
    """By the estimates a group seems to get one answer, which is not certain."""

    code = "constant_unknown"
    when = "a model seems to give a group one answer, by its estimate, and that is not certain"
    question = "unsure"
    sentence = (
        "Cannot tell whether {a} get another answer than {answer}: {other:rate} of them do, where "
        "{truth:rate} would be right"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAnswerLeft(FindingMessage):
    """The share of a group that is predicted a class, now and by the reference."""

    code = "one_answer"
    when = (
        "a group is predicted as all classes but one less than a fifth as often as without privacy"
    )
    question = "works"
    asks_why = True
    sentence = (
        "Hardly anybody of {a} is predicted {answer} any more: {share:rate} instead of "
        "{reference:rate}"
    )

    share: Interval
    reference: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLost(FindingMessage):
    """The share of a group that is predicted one of several classes, now and by the reference."""

    code = "class_lost"
    when = (
        "a group is predicted one of several classes less than a fifth as often as without privacy"
    )
    question = "works"
    asks_why = True
    sentence = (
        "Few of {a} are predicted {answer} any more: {share:rate} instead of {reference:rate}"
    )

    share: Interval
    reference: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LossUnknown(FindingMessage):
    """A group that may have lost an answer: the share predicted it, now and by the reference.

    ``rows``: How many test rows would tell; None where that is not known.
    """

    code = "answer_unknown"
    when = "a group seems to lose an answer, by the estimate, and that is not certain"
    question = "unsure"
    series = "lost"
    sentence = (
        "Cannot tell whether an answer is lost: {share:rate} of {a} are predicted {answer}, "
        "instead of {reference:rate} ({reason})"
    )
    item = "{share:rate} of {a} are predicted {answer}, instead of {reference:rate} ({reason})"

    share: Interval
    reference: Interval
    rows: Interval | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRises(FindingMessage):
    """Mean training loss at first and at last."""

    code = "loss_rises"
    when = "the training loss ends more than a hundredth above its first half"
    question = "works"
    asks_why = True
    sentence = (
        "The training loss rises from {first:bare} to {last:value}: read the cost as that of this "
        "configuration"
    )

    first: Interval
    last: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheckFailed(FindingMessage):
    """The gap of an arm against itself."""

    code = "self_check_failed"
    when = "an arm compared with itself shows a gap"
    question = "works"
    sentence = "Compared with itself it shows a gap of {size}: its intervals may be too narrow"

    size: Interval
