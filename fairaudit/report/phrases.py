"""How each finding is said: one sentence for each code, one phrase for each advice.

Conditions decide which findings hold and name each by a code, as ``gap``; here codes become words.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.report.facts import ArmFacts
from fairaudit.report.findings import Advice, Finding, Knob, Phrase
from fairaudit.report.main_gap import code_of_gap, with_unit
from fairaudit.report.numbers import GATED, OWN_UNIT, PERCENT, POINTS, written
from fairaudit.report.safe_names import group_text, plain
from fairaudit.results.estimates import Comparison, Gap, Interval

PHRASES: Mapping[str, Phrase] = {
    "rule_failed": Phrase(
        "a rule fails for this arm", "{reason}: {value}", question="verdict", asks_why=True
    ),
    "rule_open": Phrase("a rule is inconclusive", "{reason}: {value}", question="verdict"),
    "rules_met": Phrase(
        "every rule about this arm passes", "all rules are met", question="verdict"
    ),
    "reference_undertrained": Phrase(
        "the reference is more than a point less accurate than a standard library's model",
        "Undertrained: {own:percent} of test rows are right, by {reason} {other:percent}; costs "
        "against it cannot be read",
        question="works",
    ),
    "worse_than_constant": Phrase(
        "over all rows the model is not shown to beat the training rows' shares of the classes",
        "Not shown to be better than the same answer for everybody: {worse} of {of} worse",
        question="works",
        asks_why=True,
    ),
    "one_answer": Phrase(
        "a group is predicted as all classes but one less than a fifth as often as without privacy",
        "Hardly anybody of {a} is predicted {answer} any more: {share:rate} instead of "
        "{reference:rate}",
        question="works",
        asks_why=True,
    ),
    "class_lost": Phrase(
        "the same of one of several classes",
        "Few of {a} are predicted {answer} any more: {share:rate} instead of {reference:rate}",
        question="works",
        asks_why=True,
    ),
    "answer_unknown": Phrase(
        "the same, but by the estimate alone",
        "{share:rate} of {a} are predicted {answer}, instead of {reference:rate} ({reason})",
        opening="Cannot tell whether an answer is lost: ",
        question="unseen",
    ),
    "loss_rises": Phrase(
        "the training loss ends more than a hundredth above its first half",
        "The training loss rises from {first:value} in the first half to {last:value}",
        question="works",
        asks_why=True,
    ),
    "self_check_failed": Phrase(
        "an arm compared with itself shows a gap",
        "Compared with itself it shows a gap of {size}: its intervals may be too narrow",
        question="works",
    ),
    "gap": Phrase(
        "two groups are told apart in a cost, among all methods, costs and pairs together",
        "{size} of {of} ({a} {cost_a:bare}, {b} {cost_b:bare})",
        opening="{a} pays more than {b}: ",
        question="pays",
        asks_why=True,
    ),
    "gap_gained": Phrase(
        "the same where both groups gain",
        "{size} in {of} ({b} {gain_b:bare}, {a} {gain_a:bare})",
        opening="{b} gains more than {a}: ",
        question="pays",
        asks_why=True,
    ),
    "cost": Phrase(
        "a cost over all rows is told from zero, among all that the report judges, and no two "
        "groups are told apart in it",
        "{size} of {of}",
        opening="All rows pay ",
        question="pays",
        asks_why=True,
    ),
    "rate_gap": Phrase(
        "the same in a rate of one class",
        "{of} by {size} ({a} {cost_a:bare}, {b} {cost_b:bare})",
        opening="Falls more for {a} than for {b}: ",
        question="pays",
        asks_why=True,
    ),
    "rate_gap_risen": Phrase(
        "the same where the rate rises for both groups",
        "{of} by {size} ({b} {gain_b:bare}, {a} {gain_a:bare})",
        opening="Rises more for {b} than for {a}: ",
        question="pays",
        asks_why=True,
    ),
    "rate_fell": Phrase(
        "a rate over all rows is told to fall and no two groups are told apart in it",
        "{of} by {size}",
        opening="Falls over all rows: ",
        question="pays",
        asks_why=True,
    ),
    "no_gap": Phrase(
        "no two groups are told apart in any cost",
        "{size:high} of {of}",
        opening="No gap between groups is detected{reason}: at most ",
        question="pays",
    ),
    "least_found": Phrase(
        "the gap that this audit would have found four times out of five, where it found none, and "
        "cannot exclude",
        "{least:value} of {of}",
        opening="It would have found a gap of ",
        question="unseen",
    ),
    "gap_unknown": Phrase(
        "the gap in a cost has no interval, or may not be judged",
        "{of} ({reason})",
        opening="Cannot tell whether groups differ in ",
        question="unseen",
    ),
    "from_step": Phrase(
        "at least half of a cost or gap, told from zero, is from the length of the steps alone",
        "{step:plain} of {total:value} of {of} are from the length of the step",
        question="from",
    ),
    "from_clipping": Phrase(
        "the same of what else the method does to gradients",
        "{clipping:plain} of {total:value} of {of} are from {reason}",
        question="from",
    ),
    "from_step_and_clipping": Phrase(
        "the same where step and clipping cannot be told apart",
        "{step_and_clipping:plain} of {total:value} of {of} are there without noise, from clipping "
        "and the length of the step",
        question="from",
    ),
    "from_regularisation": Phrase(
        "at least half of a cost or gap, told from zero, is there without noise, of a method that "
        "penalises the parameters",
        "{regularisation:plain} of {total:value} of {of} are there without noise, from the penalty",
        question="from",
    ),
    "from_partition": Phrase(
        "the same of a method that divides the records among teachers",
        "{partition:plain} of {total:value} of {of} are there without noise, from dividing the "
        "records among teachers",
        question="from",
    ),
    "from_without_noise": Phrase(
        "the same of a trainer of the user's own",
        "{without_noise:plain} of {total:value} of {of} are there without noise",
        question="from",
    ),
    "from_noise": Phrase(
        "at least half of a cost or gap, told from zero, is added by the noise",
        "{noise:plain} of {total:value} of {of} are added by the noise",
        question="from",
    ),
    "from_step_and_noise": Phrase(
        "the same of the noise and of steps that the rule shortens for it",
        "{step_and_noise:plain} of {total:value} of {of} are what the noise asks: {step:bare} from "
        "the step that is shortened for it, {noise:bare} from the noise itself",
        question="from",
    ),
    "matched_worse": Phrase(
        "DP-SGD with matched clipping has the larger gap: this method does more than clip less",
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: the method "
        "helps beyond clipping less",
    ),
    "matched_alike": Phrase(
        "the intervals of the two gaps overlap",
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: no "
        "advantage over clipping less is detected",
    ),
    "matched_better": Phrase(
        "DP-SGD with matched clipping has the smaller gap",
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: worse than "
        "clipping less alone",
    ),
    "clipping_halves": Phrase(
        "a gap is told apart under clipping without noise, and both halves were trained alone",
        "Clipping alone has a gap of {whole}; its magnitude alone {shorter}, its direction alone "
        "{turned}: told apart for {reason}",
    ),
}

# What to try. {method}, {value} and {trainer} are the arm's.
ADVICE: Mapping[Knob, str] = {
    "seeds up": "more --seeds, or more test rows, to decide the rule",
    "own settings": "other settings inside {trainer}, or more of the rows that it is handed",
    "own noise": "a larger --epsilon, or more training rows (does {trainer} use all of them?)",
    "search wider": "a wider search, around {reason}",
    "bound by rule": "the clipping bound by rule, without --max-grad-norm",
    "bound up": "a larger --max-grad-norm",
    "step by rule": "the step by rule, without --learning-rate",
    "step down": "a smaller --learning-rate",
    "epochs up": "more --epochs",
    "teachers down": "fewer teachers, as --settings {method}.teachers={value:.0f}",
    "penalty down": "a smaller penalty, as --settings {method}.penalty={value:.3g}",
    "epsilon up": "a larger --epsilon, or more training rows",
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
        """The number as a phrase asks for it, by what follows the colon, as ``{size:plain}``.

        ``{size}`` is with interval and unit, ``plain`` without the unit, ``bare`` the number alone;
        ``value`` and ``high`` are the estimate and the upper end with their unit, ``rate`` is the
        estimate in per cent, ``percent`` that without decimals, with its interval.
        """
        match form:
            case "percent":
                return written(self.number, PERCENT)
            case "rate":
                return f"{POINTS.digits(100 * (self.number.value or 0.0))} %"
            case "high":
                return with_unit(self.number.high, self.unit)
            case "value":
                return with_unit(self.number.value, self.unit)
        match self.unit:
            case "fraction":
                text, unit = written(self.number, POINTS), " points"
            case "nats":
                text, unit = written(self.number, OWN_UNIT), " nats"
            case _:  # a ratio, or a number of a guarantee
                text, unit = written(self.number, GATED), ""
        match form:
            case "plain":
                return text
            case "bare":
                return text.partition(" ")[0]
        return text + unit


def phrases() -> dict[str, Phrase]:
    """Code of a finding -> its phrase: those of the core, then those of studies."""
    by_code = dict(PHRASES)
    for capability in CAPABILITIES:
        if capability.study is not None:
            by_code |= capability.study.phrases
    return by_code


def direction(comparison: Comparison, gap: Gap) -> str:
    """How the finding on two groups that are detected to differ begins: ``F pays more than M``."""
    code, first, second = code_of_gap(comparison, gap)
    a, b = (group_text(comparison.grouping, group) for group in (first, second))
    return PHRASES[code].opening.format(a=a, b=b).removesuffix(": ")


def said(finding: Finding) -> Finding:
    """The finding with its sentence and its question, both by the phrase of its code."""
    groups = [group_text(finding.grouping, group) for group in finding.groups]
    words = {"reason": plain(finding.reason, 300), "of": plain(finding.of)}
    words["answer"] = plain(finding.answer, 80)
    words |= dict(zip("ab", groups, strict=False))
    numbers = {name: _Number(number, finding.unit) for name, number in finding.numbers.items()}
    phrase = phrases()[finding.code]
    opening = phrase.opening.format(**words)
    text = f"{opening}{phrase.text.format(**words, **numbers)}."
    said_of = {"question": phrase.question, "opening": opening, "text": text}
    return finding.model_copy(update=said_of)


def advice(knob: Knob, arm: ArmFacts, reason: str = "") -> Advice:
    """The advice to turn this knob, in words that name the arm's method, trainer and numbers.

    Args:
        knob: What to change, and in which direction.
        arm: The arm that it is given for.
        reason: For ``search wider``: the setting and value around which to search.
    """
    value = 0.0
    if knob in _OWN_NUMBERS:
        name, factor = _OWN_NUMBERS[knob]
        value = arm.settings[name] * factor
    text = ADVICE[knob].format(
        method=arm.method, trainer=plain(arm.trainer, 80), value=value, reason=plain(reason)
    )
    return Advice(knob=knob, text=text)
