"""What an audit found of an arm, as a report holds it; ``report/messages`` has the sentences."""

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
        code: Which condition holds; a class of ``fairaudit.report.messages`` has its sentence.
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
        short: The same as an item of a list, where another finding of the series comes first; ""
            where it is never such an item.
        series: Findings of one series stand in one sentence; "" for one that stands alone.
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
