"""What an audit found of an arm: the types. Conditions make findings, phrases say them."""

from typing import Literal

from pydantic import Field

from fairaudit.results.estimates import Interval, Part

Unit = Literal["fraction", "ratio", "nats", ""]

Knob = Literal[
    "seeds up",
    "own settings",
    "own noise",
    "search wider",
    "bound by rule",
    "bound up",
    "step by rule",
    "step down",
    "epochs up",
    "teachers down",
    "penalty down",
    "epsilon up",
]
# What a finding answers, in the order in which a summary answers it.
Question = Literal[
    "verdict",  # what the rules say
    "works",  # does it still work, for them
    "pays",  # who pays, in what
    "unseen",  # what could not have been seen
    "from",  # from what
    "beside",  # what else was asked for
]


class Advice(Part):
    """What to change, and in which direction; ``text`` names the option."""

    knob: Knob
    text: str


class Finding(Part):
    """One result of one arm.

    Args:
        code: Which condition holds; ``fairaudit.report.phrases`` has the sentence of each.
        arm, reference, grouping: Whose comparison; "" where it is about no comparison.
        groups: It is about, the one that pays more first.
        measure: Metric that the numbers are of, "" for none.
        of: What is lost of, in words, as ``accuracy``.
        unit: What they are counted in.
        numbers: By name, with their intervals.
        answer: The class that it is about, "" for none.
        reason: Why something is not known, or a name that the sentence needs.
        question: That it answers.
        opening: How the sentence begins, which findings of one code about the same groups share.
        text: The sentence.
        advice: What to do about it, None for nothing.
    """

    code: str
    arm: str
    reference: str = ""
    grouping: str = ""
    groups: tuple[str, ...] = ()
    measure: str = ""
    of: str = ""
    unit: Unit = ""
    numbers: dict[str, Interval] = Field(default_factory=dict)
    answer: str = ""
    reason: str = ""
    question: Question = "beside"
    opening: str = ""
    text: str = ""
    advice: Advice | None = None
