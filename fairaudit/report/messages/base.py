"""What all findings are: messages about one arm, with numbers and a question that they answer.

A condition (``report/conditions.py``, or a study's) makes the message of numbers and names; its
class has the sentence; :func:`stored` makes it a value of the report.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

from fairaudit.messages.base import Message
from fairaudit.report.numbers import (
    DEGREES,
    GATED,
    OWN_UNIT,
    PERCENT,
    POINTS,
    interval_alone,
    value_alone,
    with_unit,
    written,
)
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.types.findings import Advice, Finding, Question, Unit
from fairaudit.results.estimates import Interval

# Unit of a finding's numbers -> how they are written, and the word for it.
_SCALES = {
    "fraction": (POINTS, " points"),
    "nats": (OWN_UNIT, " nats"),
    "degrees": (DEGREES, " degrees"),
}

# Findings of a series stand in one sentence. Series -> what stands between its first finding and
# its second; further ones follow after "; ". None: the first finding stands for all.
SERIES: Mapping[str, str | None] = {
    "detected": ". Also detected: ",
    "over all rows": ". Also over all rows: ",
    "none detected": None,
    "not certain": "; ",
    "cannot tell": None,
    "lost": "; ",
    "constant": "; ",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about; see :class:`Finding`, which stores it."""

    arm: str
    reference: str = ""
    grouping: str = ""
    groups: tuple[str, ...] = ()
    measure: str = ""
    of: str = ""
    change: str = ""
    answer: str = ""
    unit: Unit = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingMessage(Message):
    """A result of one arm. A subclass has the sentence, and a field for each of its numbers.

    Args:
        subject: Which arm, comparison, groups and measure it is about.
        reason: Why something is not known, or a name that the sentence needs.
        advice: What to do about it, None for nothing.

    Args of the class, beside those of :class:`Message`:
        sentence: Without its full stop. ``{a}`` and ``{b}`` are the groups, ``{of}`` is what is
            lost, ``{change}`` says how a rate changed, ``{answer}`` is a class, ``{reason}`` is
            above; every number stands by its name, with how it is written
            (:meth:`WrittenNumber.__format__`).
        item: The same as an item of a list: where another of its series comes first.
        series: Findings of one series stand in one sentence, the first by its ``sentence``, the
            others by their ``item``; "" for one that stands alone.
        question: The question of a reader that it answers.
        asks_why: Whether it says that there is harm, so that a reader asks where that comes from;
            then ``--twins auto`` trains what splits the arm's cost.
    """

    level = "finding"
    sentence: ClassVar[str]
    item: ClassVar[str] = ""
    series: ClassVar[str] = ""
    question: ClassVar[Question] = "beside"
    asks_why: ClassVar[bool] = False

    subject: Subject = field(kw_only=False)  # the one positional argument
    reason: str = ""
    advice: Advice | None = None

    @property
    def numbers(self) -> dict[str, Interval]:
        """Name of a field -> its number, of all fields that hold one."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Interval)}

    @property
    def text(self) -> str:
        """The sentence, with its full stop."""
        sentence = self.sentence.format(**self.words)
        if self.question != "verdict":  # a verdict's sentence follows its outcome in one line
            sentence = sentence[:1].upper() + sentence[1:]
        return f"{sentence}."

    @property
    def item_text(self) -> str:
        """The sentence as an item of a list; "" where it is none."""
        return self.item.format(**self.words)

    @property
    def fix(self) -> str:
        """The advice, in words; "" for none."""
        return self.advice.text if self.advice is not None else ""

    @property
    def about(self) -> str:
        """The arm's key."""
        return self.subject.arm

    @property
    def words(self) -> dict[str, "str | WrittenNumber"]:
        """Placeholder of a sentence -> what stands for it; names from files are made safe to show.

        ``a`` and ``b`` are the first and the second group, where there are any.
        """
        subject = self.subject
        words: dict[str, str | WrittenNumber] = {
            "of": plain(subject.of),
            "answer": plain(subject.answer, 80),
            "change": plain(subject.change, 300),
            "reason": plain(self.reason, 300),
        }
        for letter, group in zip("ab", subject.groups, strict=False):  # two groups at most
            words[letter] = group_text(subject.grouping, group)
        for name, number in self.numbers.items():
            words[name] = WrittenNumber(number, subject.unit)
        return words | self.own_words

    @property
    def own_words(self) -> dict[str, str]:
        """Placeholder -> text, of further words that the sentence of this class alone names."""
        return {}


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number of a finding, which ``str.format`` writes in the form that a sentence asks for.

    The form stands behind the colon. Of a cost of 2.9 points:

    ===================  ==================================================
    ``{size}``           ``2.9 [1.2, 4.6] points``
    ``{size:plain}``     ``2.9 [1.2, 4.6]``
    ``{size:bare}``      ``2.9``
    ``{size:ends}``      ``[1.2, 4.6]``
    ``{size:value}``     ``2.9 points``
    ``{size:rate}``      ``2.9 %``
    ``{size:percent}``   ``3 % [1, 5]``
    ``{size:degrees}``   of an angle ``2.9 degrees``, from ten on ``12``
    ``{size:number}``    the same without the unit
    ===================  ==================================================
    """

    number: Interval
    unit: str

    def __format__(self, form: str) -> str:
        """The number in a form of the table above; "" is number, interval and unit."""
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


def stored(message: FindingMessage) -> Finding:
    """The finding as a report holds it: subject and numbers, with the sentence made of them."""
    subject = message.subject
    return Finding(
        code=message.code,
        arm=subject.arm,
        reference=subject.reference,
        grouping=subject.grouping,
        groups=subject.groups,
        measure=subject.measure,
        of=subject.of,
        change=subject.change,
        unit=subject.unit,
        numbers=message.numbers,
        answer=subject.answer,
        reason=message.reason,
        question=message.question,
        text=message.text,
        short=message.item_text,
        series=message.series,
        advice=message.advice,
    )
