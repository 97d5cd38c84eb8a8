"""What a reader must know of membership attacks."""

from dataclasses import dataclass

from fairaudit.messages.base import Message
from fairaudit.report.messages.base import FindingMessage
from fairaudit.results.estimates import Interval


@dataclass(frozen=True, slots=True)
class NotAttacked(Message):
    """Arms that could be shipped and are not attacked."""

    code = "not_attacked"
    level = "notice"
    when = "--leakage leaves out a method whose student learns from test rows"

    arms: tuple[str, ...]

    @property
    def text(self) -> str:
        return (
            f"--leakage does not attack {', '.join(self.arms)}: the student learns from half of "
            "the rows that are not members, so these are no outsiders"
        )

    @property
    def fix(self) -> str:
        return "give the student records of its own: --public-data FILE"


@dataclass(frozen=True, slots=True)
class AttackFailed(Message):
    """How many of the models of an arm could not be trained, and why the first of them."""

    code = "attack_failed"
    when = "a model that was to be attacked has no result"

    arm: str
    failed: int
    planned: int
    reason: str

    @property
    def text(self) -> str:
        return (
            f"{self.arm}: {self.failed} of {self.planned} models to be attacked could not be "
            f"trained: {self.reason}"
        )

    @property
    def fix(self) -> str:
        return "a smaller --learning-rate"

    @property
    def about(self) -> str:
        return self.arm


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveCeiling(FindingMessage):
    """The share of members that an attack finds, and the most that epsilon allows."""

    code = "above_ceiling"
    when = "an attack's success has an interval that lies above what epsilon allows"
    question = "works"
    sentence = (
        "In {a} the attack finds {found:percent} of members; epsilon allows {most:percent}: check "
        "what is fitted without noise, then the method's implementation"
    )

    found: Interval
    most: Interval
