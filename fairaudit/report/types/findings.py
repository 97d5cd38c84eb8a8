"""What an audit found of an arm: the types. Conditions make findings, phrases say them."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from fairaudit.results.estimates import Interval, Part

Unit = Literal["fraction", "ratio", "nats", "degrees", "nats a step", ""]

# What an advice is about: an option, or a number of the arm's own, and whether to raise it.
Knob = Literal[
    "seeds up",
    "rows up",
    "own settings",  # inside a trainer that is code of the user's
    "own noise",  # of such a trainer: a larger epsilon, or more rows
    "search wider",
    "bound by rule",  # the clipping bound
    "bound up",
    "step by rule",  # the learning rate
    "step down",
    "epochs up",
    "teachers down",
    "penalty down",
    "epsilon up",
]
# What a finding answers, in the order in which a summary answers it.
Question = Literal[
    "verdict",  # what the rules say
    "works",  # it does not work, for them
    "unsure",  # whether it works could not be told
    "pays",  # who pays, in what
    "from",  # from what
    "beside",  # what else was asked for
]


class Advice(Part):
    """What to change, and in which direction; ``text`` says so in words, naming the option."""

    knob: Knob
    text: str


class Finding(Part):
    """One result of one arm.

    Args:
        code: Which condition holds; ``fairaudit.report.phrases`` has the sentence of each.
        arm, reference, grouping: Whose comparison; "" where it is about no comparison.
        groups: The groups that it is about, the one that pays more first.
        measure: Metric that the numbers are of, "" for none.
        of: What the numbers are a loss of, in words, as ``accuracy``.
        change: What is said of a rate that changed, or of a gap that is not certain; "" else.
        unit: What the numbers are counted in.
        numbers: By name, with their intervals.
        answer: The class that it is about, "" for none.
        reason: Why something is not known, or a name that the sentence needs.
        question: The question of a reader that it answers.
        text: The sentence.
        short: The same as an item of a list, where it does not come first; "" where it is not told.
        series: Those of one series are told together, see :class:`Phrase`.
        advice: What to do about it, None for nothing.
    """

    code: str
    arm: str
    reference: str = ""
    grouping: str = ""
    groups: tuple[str, ...] = ()
    measure: str = ""
    of: str = ""
    change: str = ""
    unit: Unit = ""
    numbers: dict[str, Interval] = Field(default_factory=dict)
    answer: str = ""
    reason: str = ""
    question: Question = "beside"
    text: str = ""
    short: str = ""
    series: str = ""
    advice: Advice | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """How the findings of one code are said.

    Args:
        when: The condition, in words.
        text: The sentence, without its full stop. ``{a}`` and ``{b}`` are the groups, ``{of}`` is
            what is lost, ``{fell}`` and ``{rose}`` say that a rate did, ``{answer}`` is a class,
            ``{reason}`` a name or why something is not known; every number stands by its name,
            with how it is written: nothing for number and interval with their unit, ``plain`` for
            no unit, ``value`` for no interval, ``bare`` for neither, ``ends`` for the interval
            alone, ``rate``, ``percent`` and ``degrees``.
        short: The same as an item of a list: how it is said where another of its series comes
            first.
        series: Findings of one series are told together: the first by its text, the others by
            their ``short``; "" for a code that stands alone.
        question: The question of a reader that it answers.
        asks_why: Whether it tells of harm, so that a reader asks where that comes from; then
            ``--twins auto`` trains what splits the arm's cost.
    """

    when: str
    text: str
    short: str = ""
    series: str = ""
    question: Question = "beside"
    asks_why: bool = False
