"""How each finding is said: one sentence for each code, one phrase for each advice."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairaudit.capabilities import added
from fairaudit.metrics.registry import METRICS, spec_of
from fairaudit.report.facts import ArmFacts
from fairaudit.report.findings import Advice, Finding, Knob
from fairaudit.report.main_gap import with_unit
from fairaudit.report.numbers import GATED, OWN_UNIT, PERCENT, POINTS, gated, value_alone, written
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Interval


@dataclass(frozen=True, slots=True)
class Phrase:
    """One code.

    Args:
        when: The condition, in words.
        text: The sentence. ``{a}`` and ``{b}`` are the groups, ``{of}`` is what is lost, ``{what}``
            the gap or the cost over all rows, ``{reason}`` the finding's; every number stands by
            its name, with how it is written: nothing for number and interval with their unit,
            ``plain`` for no unit, ``value``, ``high`` and ``percent``.
    """

    when: str
    text: str


PHRASES: Mapping[str, Phrase] = {
    "reference_undertrained": Phrase(
        "the reference is more than a point less accurate than a standard library's model",
        "Undertrained: {own:percent} of test rows are right, by {reason} {other:percent}; costs "
        "against it cannot be read.",
    ),
    "worse_than_constant": Phrase(
        "over all rows the model is not shown to beat the training rows' shares of the classes",
        "Not shown to be better than the same answer for everybody: {worse} of {of} worse.",
    ),
    "one_answer": Phrase(
        "a group is predicted as all classes but one less than a fifth as often as without privacy",
        "{a} gets one answer: {share:percent} is predicted {answer}, instead of "
        "{reference:percent}.",
    ),
    "class_lost": Phrase(
        "the same of one of several classes",
        "{a} is hardly predicted {answer} any more: {share:percent} instead of "
        "{reference:percent}.",
    ),
    "answer_unknown": Phrase(
        "the same, but by the estimate alone",
        "Whether {a} is still predicted {answer} cannot be told: {share:percent} instead of "
        "{reference:percent}; {reason}.",
    ),
    "loss_rises": Phrase(
        "the training loss ends more than a hundredth above its first half",
        "The training loss rises: {first:value} in the first half, {last:value} at the end.",
    ),
    "cost_not_falling": Phrase(
        "the loss added at the largest epsilon is not below that at the smallest, and could be",
        "The added loss is not shown to fall as epsilon grows: {first} at the smallest, {last} at "
        "the largest.",
    ),
    "self_check_failed": Phrase(
        "an arm compared with itself shows a gap",
        "Compared with itself it shows a gap of {size}: its intervals may be too narrow.",
    ),
    "rule_failed": Phrase("a rule fails for this arm", "{reason}: FAIL at {value}."),
    "rule_open": Phrase("a rule is inconclusive", "{reason}: INCONCLUSIVE at {value}."),
    "rules_met": Phrase("every rule about this arm passes", "All rules are met."),
    "gap": Phrase(
        "two groups are told apart in a cost, among all methods, costs and pairs together",
        "{a} pays more than {b}: {size} of {of} ({a} {cost_a:plain}, {b} {cost_b:plain}).",
    ),
    "no_gap": Phrase(
        "no two groups are told apart in a cost",
        "No gap in {of} is detected: at most {size:high}; one of {found_from:value} would "
        "have been found. All rows pay {overall}.",
    ),
    "gap_unknown": Phrase(
        "the gap in a cost has no interval, or may not be judged",
        "Whether groups differ in {of} cannot be told: {reason}.",
    ),
    "from_clipping": Phrase(
        "at least half of a cost or gap, told from zero, is there without noise",
        "Of {what}, {total} of {of}, {still:plain} is there without noise, from clipping and the "
        "length of the step.",
    ),
    "from_regularisation": Phrase(
        "the same of a method that penalises the parameters",
        "Of {what}, {total} of {of}, {still:plain} is there without noise, from the penalty.",
    ),
    "from_partition": Phrase(
        "the same of a method that divides the records among teachers",
        "Of {what}, {total} of {of}, {still:plain} is there without noise, from dividing the "
        "records among teachers.",
    ),
    "from_noise": Phrase(
        "at least half of a cost or gap, told from zero, is added by the noise",
        "Of {what}, {total} of {of}, {noise:plain} is added by the noise.",
    ),
    "step_direction": Phrase(
        "groups differ in loss, and most of what a step costs the worse-off one is its direction",
        "Single steps raise the loss of {a} mostly because clipping turns them ({share:percent}).",
    ),
    "step_magnitude_effective": Phrase(
        "the same of its length",
        "Single steps raise the loss of {a} mostly because clipping shortens them "
        "({share:percent}).",
    ),
    "step_noise": Phrase(
        "the same of the noise", "Single steps raise the loss of {a} mostly by noise "
        "({share:percent}).",
    ),
    "matched_worse": Phrase(
        "DP-SGD with matched clipping has the larger gap: this method does more than clip less",
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: the method "
        "helps beyond clipping less.",
    ),
    "matched_alike": Phrase(
        "the intervals of the two gaps overlap",
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: no "
        "advantage over clipping less is detected.",
    ),
    "matched_better": Phrase(
        "DP-SGD with matched clipping has the smaller gap",
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: worse than "
        "clipping less alone.",
    ),
}  # fmt: skip

# What to try. {method}, {value} and {trainer} are the arm's.
ADVICE: Mapping[Knob, str] = {
    "epsilon up": "a larger --epsilon, or more training rows",
    "bound up": "a larger --max-grad-norm",
    "bound by rule": "the clipping bound by rule, without --max-grad-norm",
    "step by rule": "the step by rule, without --learning-rate",
    "step down": "a smaller --learning-rate",
    "epochs up": "more --epochs",
    "seeds up": "more --seeds, or more test rows",
    "teachers down": "fewer teachers, as --settings {method}.teachers={value:.0f}",
    "penalty down": "a smaller penalty, as --settings {method}.penalty={value:.3g}",
    "search wider": "a wider search, around {reason}",
    "own settings": "other settings inside {trainer}",
}
# Advice on a number of the method's own -> its name, and the factor that is proposed.
_OWN_NUMBERS: Mapping[Knob, tuple[str, float]] = {
    "teachers down": ("teachers", 0.5),
    "penalty down": ("penalty", 0.1),
}


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as a sentence writes it."""

    number: Interval
    unit: str

    def __format__(self, form: str) -> str:
        match form:
            case "percent":
                return written(self.number, PERCENT)
            case "high":
                return with_unit(self.number.high, self.unit)
            case "value":
                return value_alone(self.number, gated(self.unit, 1))
        match self.unit:
            case "fraction":
                text, unit = written(self.number, POINTS), " points"
            case "nats":
                text, unit = written(self.number, OWN_UNIT), " nats"
            case _:
                text, unit = written(self.number, GATED), ""
        if form == "plain":
            return text
        return text + unit


def phrases() -> dict[str, Phrase]:
    """Those of the core, then those of capabilities."""
    known = dict(PHRASES)
    for more in added("phrases"):
        known |= more
    return known


def said(finding: Finding) -> Finding:
    """The finding with its sentence."""
    groups = [plain(group) for group in finding.groups]
    words = {"reason": plain(finding.reason, 300), "of": "", "what": "the cost over all rows"}
    words["answer"] = plain(finding.answer)
    if finding.measure:
        metric = spec_of(finding.measure)
        words["of"] = METRICS[metric.cost_of or metric.name].title
    words |= dict(zip("ab", groups, strict=False))
    if len(groups) == 2:
        words["what"] = f"the gap between {groups[0]} and {groups[1]}"
    numbers = {name: _Number(number, finding.unit) for name, number in finding.numbers.items()}
    text = phrases()[finding.code].text.format(**words, **numbers)
    return finding.model_copy(update={"text": text})


def advice(knob: Knob, arm: ArmFacts, reason: str = "") -> Advice:
    """What to do, with the names of the arm's own settings."""
    value = 0.0
    if knob in _OWN_NUMBERS:
        name, factor = _OWN_NUMBERS[knob]
        value = arm.settings[name] * factor
    text = ADVICE[knob].format(
        method=arm.method, trainer=plain(arm.trainer, 80), value=value, reason=plain(reason)
    )
    return Advice(knob=knob, text=text)
