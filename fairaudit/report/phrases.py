"""How each finding is said: one sentence for each code, one phrase for each advice.

Conditions decide which findings hold and name each by a code, as ``gap``; here codes become words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.errors import numbered
from fairaudit.report.measures import with_unit
from fairaudit.report.numbers import (
    DEGREES,
    GATED,
    OWN_UNIT,
    PERCENT,
    POINTS,
    interval_alone,
    value_alone,
    written,
)
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.findings import Advice, Finding, Knob, Phrase
from fairaudit.results.estimates import Interval

ALL = 0.995  # share of a cost from which a part is said to be all of it
# Unit of a finding's numbers -> how they are written, and the word for it.
_SCALES = {
    "fraction": (POINTS, " points"),
    "nats": (OWN_UNIT, " nats"),
    "degrees": (DEGREES, " degrees"),
}

# Findings of a series are told together: how the second is joined to the first, and the others to
# the second; None: the first is told alone.
SERIES: Mapping[str, str | None] = {
    "detected": ". Also detected: ",
    "over all rows": ". Also over all rows: ",
    "none detected": None,
    "not certain": "; ",
    "cannot tell": None,
    "lost": "; ",
    "constant": "; ",
}

PHRASES: Mapping[str, Phrase] = {
    "rule_failed": Phrase(
        "a rule fails for this arm", "{reason}: {value:plain}", question="verdict", asks_why=True
    ),
    "rule_open": Phrase("a rule is inconclusive", "{reason}: {value:plain}", question="verdict"),
    "rule_met": Phrase("a rule passes for this arm", "{reason}: {value:plain}", question="verdict"),
    "reference_undertrained": Phrase(
        "the reference is more than a point less accurate than a standard library's model",
        "Undertrained: it gets {own:percent} of test rows right, {reason} {other:percent}; costs "
        "against it cannot be read",
        question="works",
    ),
    "worse_than_constant": Phrase(
        "over all rows the model is worse by its estimate than the training rows' class shares",
        "{reason} than the same answer for everybody: {worse} of {of}",
        question="works",
        asks_why=True,
    ),
    "constant": Phrase(
        "a model gives every test row of a group one answer, though they are of several classes",
        "Gives every {a} the answer {answer}{reason}",
        short="{a} the answer {answer}{reason}",
        series="constant",
        question="works",
        asks_why=True,
    ),
    "nearly_constant": Phrase(
        "the same of nearly every row: each other class is shown to be predicted for less than a "
        "fifth of the rows that are of it",
        "Gives hardly any {a} another answer than {answer}: {other:rate} where {truth:rate} would "
        "be right{reason}",
        question="works",
        asks_why=True,
    ),
    "constant_reference": Phrase(
        "the same of a reference",
        "Gives {a} the answer {answer} and hardly any other: costs of accuracy and rates beside it "
        "cannot be read, excess risk can",
        question="works",
    ),
    "constant_unknown": Phrase(
        "the same by the estimate alone",
        "Cannot tell whether {a} get another answer than {answer}: {other:rate} of them do, where "
        "{truth:rate} would be right",
        question="unsure",
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
        "Cannot tell whether an answer is lost: {share:rate} of {a} are predicted {answer}, "
        "instead of {reference:rate} ({reason})",
        short="{share:rate} of {a} are predicted {answer}, instead of {reference:rate} ({reason})",
        series="lost",
        question="unsure",
    ),
    "loss_rises": Phrase(
        "the training loss ends more than a hundredth above its first half",
        "The training loss rises from {first:bare} to {last:value}: read the cost as that of this "
        "configuration",
        question="works",
        asks_why=True,
    ),
    "self_check_failed": Phrase(
        "an arm compared with itself shows a gap",
        "Compared with itself it shows a gap of {size}: its intervals may be too narrow",
        question="works",
    ),
    "gap": Phrase(
        "two groups are detected to differ in a cost, among all that is compared of the method",
        "{a} pays {cost_a:value} of {of} {cost_a:ends}, {b} {cost_b:plain}: a gap of {size:plain}",
        short="{size:value} of {of} {size:ends} more for {a} than for {b}",
        series="detected",
        question="pays",
        asks_why=True,
    ),
    "gap_gained": Phrase(
        "the same where both groups gain",
        "{b} does better by {gain_b:value} of {of} {gain_b:ends}, {a} by {gain_a:plain}: a gap of "
        "{size:plain}",
        short="{b} does better than {a} by {size:value} of {of} {size:ends}",
        series="detected",
        question="pays",
        asks_why=True,
    ),
    "rate_gap": Phrase(
        "the same in a rate of one class",
        "{change}: {a} by {cost_a:value} {cost_a:ends}, {b} by {cost_b:plain} (difference "
        "{size:plain})",
        short="{change}, {a} by {cost_a:value}, {b} by {cost_b:bare} (difference {size:plain})",
        series="detected",
        question="pays",
        asks_why=True,
    ),
    "rate_gap_risen": Phrase(
        "the same where the rate rises for both groups",
        "{change}: {b} by {gain_b:value} {gain_b:ends}, {a} by {gain_a:plain} (difference "
        "{size:plain})",
        short="{change}, {b} by {gain_b:value}, {a} by {gain_a:bare} (difference {size:plain})",
        series="detected",
        question="pays",
        asks_why=True,
    ),
    "cost": Phrase(
        "a cost over all rows is detected, among all that is compared of the method, and no two "
        "groups are detected to differ in it",
        "All rows pay {size:value} of {of} {size:ends}",
        short="{size:value} of {of} {size:ends}",
        series="over all rows",
        question="pays",
        asks_why=True,
    ),
    "rate_fell": Phrase(
        "a rate over all rows is detected to fall, and no two groups are detected to differ in it",
        "Over all rows, {change} by {size:value} {size:ends}",
        short="{change} by {size:value} {size:ends}",
        series="over all rows",
        question="pays",
        asks_why=True,
    ),
    "no_gap": Phrase(
        "no two groups are detected to differ in any cost",
        "No difference in cost between {reason} is detected; a gap of more than {most:value} of "
        "{of} is ruled out",
        series="none detected",
        question="pays",
    ),
    "not_certain": Phrase(
        "the interval of a gap excludes zero, but its test, which allows for all comparisons of "
        "the method, does not reject",
        "Not certain, one of {reason} comparisons: {change}",
        short="{change}",
        series="not certain",
        question="pays",
    ),
    "gap_unknown": Phrase(
        "the gap in a cost has no interval, or may not be judged",
        "Cannot tell whether groups differ in {of}: {reason}",
        series="cannot tell",
        question="pays",
    ),
    "ratio_falls": Phrase(
        "a group's impact ratio is above four fifths without privacy and below with it",
        "The impact ratio of {a} falls below four fifths: {after} with privacy, {before} without",
        question="pays",
    ),
    "ratio_rises": Phrase(
        "a group's impact ratio is below four fifths without privacy and above with it",
        "The impact ratio of {a} rises above four fifths: {after} with privacy, {before} without",
        question="pays",
    ),
    "ratio_unsure": Phrase(
        "the same of either by the estimates alone",
        "By the estimates the impact ratio of {a} crosses four fifths, which is not certain: "
        "{after} with privacy, {before} without",
        question="pays",
    ),
    "from_step": Phrase(
        "at least half of a cost or gap, told from zero, is from the length of the steps alone",
        "{part} from the length of the steps",
        question="from",
    ),
    "from_clipping": Phrase(
        "the same of what else the method does to gradients",
        "{part} from {reason}",
        question="from",
    ),
    "from_step_and_clipping": Phrase(
        "the same where step and clipping cannot be told apart",
        "{part} from clipping and the length of the steps, without any noise",
        question="from",
    ),
    "from_regularisation": Phrase(
        "at least half of a cost or gap, told from zero, is there without noise, of a method that "
        "penalises the parameters",
        "{part} from the penalty, without any noise",
        question="from",
    ),
    "from_partition": Phrase(
        "the same of a method that divides the records among teachers",
        "{part} from dividing the records among teachers, without any noise",
        question="from",
    ),
    "from_without_noise": Phrase(
        "the same of a trainer of the user's own",
        "{part} from the training without its noise",
        question="from",
    ),
    "from_noise": Phrase(
        "at least half of a cost or gap, told from zero, is added by the noise",
        "{part} from privacy noise",
        question="from",
    ),
    "from_step_and_noise": Phrase(
        "the same of the noise and of steps that the rule shortens for it",
        "{part} from privacy noise: {step:bare} through the shorter steps that it forces, "
        "{noise:bare} directly",
        question="from",
    ),
    "turned": Phrase(
        "clipping is told to turn the steps away from one group more than from another, by a "
        "degree at least",
        "Clipping turns training away from {a} by {turn_a:degrees}, from {b} by {turn_b:number}: "
        "{a} is trained less than its share",
        question="from",
    ),
    "turned_apart": Phrase(
        "the same where the steps are turned towards the other group",
        "Clipping turns training away from {a} by {turn_a:degrees} and towards {b} by "
        "{turn_b:number}: {a} is trained less than its share",
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
        "a gap is detected under clipping without noise, and both halves were trained alone",
        "Clipping alone has a gap of {whole}; its magnitude alone {shorter}, its direction alone "
        "{turned}: detected for {reason}",
    ),
}

# What to try. {method} and {trainer} are the arm's, {now} its value and {to} the one to try.
ADVICE: Mapping[Knob, str] = {
    "seeds up": "--seeds {to} would decide the rule",
    "rows up": "about {to} test rows would decide the rule",
    "own settings": "other settings inside {trainer}, or more of the rows that it is handed",
    "own noise": "--epsilon {to} ({now} now), or more training rows (does {trainer} use all of "
    "them?)",
    "search wider": "a wider search, around {reason}",
    "bound by rule": "--max-grad-norm {to} (the rule's; {now} now)",
    "bound up": "--max-grad-norm {to} ({reason}{now} now)",
    "step by rule": "--learning-rate {to} (the rule's; {now} now)",
    "step down": "--learning-rate {to} ({now} now)",
    "epochs up": "--epochs {to} ({now} now)",
    "teachers down": "fewer teachers, as --settings {method}.teachers={to}",
    "penalty down": "a smaller penalty, as --settings {method}.penalty={to}",
    "epsilon up": "--epsilon {to} ({now} now), or more training rows",
}


# What stands for {reason}: why something is not known, or a case that a sentence names.
NO_INTERVAL = "there is no interval"
WIDE_INTERVAL = "its interval is too wide"
LIKE_REFERENCE = "; so does the model without privacy"
WORSE, NOT_BETTER = "Worse", "Not shown to be better"
NEITHER_HALF = "neither half by itself"
OF_THE_RULE = "the rule's; "


def rows_would_tell(rows: int, group: str) -> str:
    """How many test rows of a group would tell what is not known."""
    return f"about {rows:,} test rows of {group} would tell"


def too_few_seeds(seeds: int, least: int) -> str:
    """That there are fewer seeds than the least that is judged."""
    return f"{numbered(seeds, 'seed')} are too few; use {least}"


def compared_groups(grouping: str, pair: tuple[str, str] | None, small: Sequence[str]) -> str:
    """Between which groups no difference is detected.

    Args:
        grouping: What they are groups of.
        pair: The two that were compared; None: all of them.
        small: Those that were compared with no other.
    """
    between = f"groups of {plain(grouping)}"
    if pair is not None:
        between = " and ".join(group_text(grouping, name) for name in pair)
    names = [group_text(grouping, name) for name in small]
    if len(names) > 3:
        names[3:] = [f"{len(names) - 3} more"]
    return between + (f", {', '.join(names)} aside," if names else "")


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as a sentence writes it."""

    number: Interval
    unit: str

    def __format__(self, form: str) -> str:
        """The number as a phrase asks for it, by what follows the colon, as ``{size:plain}``.

        ``{size}`` is with interval and unit, ``plain`` without the unit, ``bare`` the number alone,
        ``ends`` the interval alone, ``value`` the number with its unit; ``rate`` is the number in
        per cent, ``percent`` that without decimals, with its interval; ``degrees`` an angle in full
        degrees from ten on, ``number`` the same without the unit.
        """
        match form:
            case "percent":
                return written(self.number, PERCENT)
            case "rate":
                return f"{POINTS.digits(100 * (self.number.value or 0.0))} %"
            case "value":
                return with_unit(self.number.value, self.unit)
            case "degrees" | "number":
                degrees = self.number.value or 0.0
                shown = f"{degrees:.0f}" if abs(degrees) >= 10 else f"{degrees:.1f}"
                return shown if form == "number" else f"{shown} degrees"
        scale, unit = _SCALES.get(self.unit, (GATED, ""))
        match form:
            case "plain":
                return written(self.number, scale)
            case "bare":
                return value_alone(self.number, scale)
            case "ends":
                return interval_alone(self.number, scale)
        return written(self.number, scale) + unit


def phrases() -> dict[str, Phrase]:
    """Code of a finding -> its phrase: those of the core, then those of studies."""
    by_code = dict(PHRASES)
    for capability in CAPABILITIES:
        if capability.study is not None:
            by_code |= capability.study.phrases
    return by_code


def said(finding: Finding) -> Finding:
    """The finding with its sentence and its question, both by the phrase of its code."""
    groups = [group_text(finding.grouping, group) for group in finding.groups]
    words = {"reason": plain(finding.reason, 300), "of": plain(finding.of)}
    words["answer"] = plain(finding.answer, 80)
    words["change"] = plain(finding.change, 300)
    words |= dict(zip("ab", groups, strict=False))
    total = finding.numbers.get("total")
    if total is not None:
        part = finding.numbers[finding.code.removeprefix("from_")]
        words["part"] = _part_text(finding, part, total)
    numbers = {name: _Number(number, finding.unit) for name, number in finding.numbers.items()}
    phrase = phrases()[finding.code]
    sentence = phrase.text.format(**words, **numbers)
    if phrase.question != "verdict":  # which stands behind its outcome
        sentence = sentence[:1].upper() + sentence[1:]
    update = {
        "question": phrase.question,
        "text": f"{sentence}.",
        "short": phrase.short.format(**words, **numbers),
        "series": phrase.series,
    }
    return finding.model_copy(update=update)


def _part_text(finding: Finding, part: Interval, total: Interval) -> str:
    """How much of a cost or gap a part is, in words that a sentence begins with."""
    whole = f"{_Number(total, finding.unit):value} of {plain(finding.of)}"
    whole = f"the gap of {whole}" if finding.groups else f"the {whole}"
    if (part.value or 0.0) >= ALL * (total.value or 0.0):
        return f"All of {whole} comes"
    return f"{_Number(part, finding.unit):plain} of {whole} come"


def advice(
    knob: Knob, arm: ArmFacts, reason: str = "", *, now: float = 0.0, to: float | str = ""
) -> Advice:
    """The advice to turn this knob, in words that name the arm's method, trainer and numbers.

    Args:
        knob: What to change, and in which direction.
        arm: The arm that it is given for.
        reason: For ``search wider``: the setting and value around which to search; for ``bound
            up``: whose value it is.
        now: The value of the option that it is about.
        to: The value to try, or what would be needed, in words.
    """
    shown = to if isinstance(to, str) else f"{to:.3g}"
    text = ADVICE[knob].format(
        method=arm.method,
        trainer=plain(arm.trainer, 80),
        now=f"{now:.3g}",
        to=shown,
        reason=plain(reason),
    )
    return Advice(knob=knob, text=text)
