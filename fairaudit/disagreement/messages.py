"""What a reader must know of trainings that are repeated on the same rows."""

from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.report.messages.base import FindingMessage
from fairaudit.results.estimates import Interval


@dataclass(frozen=True, slots=True)
class AgainFailed(Message):
    """How many further trainings of an arm have no result, and why the first of them."""

    code = "again_failed"
    when = "a further training of --again has no result"

    arm: str
    failed: int
    planned: int
    reason: str

    @property
    def text(self) -> str:
        return f"{lacking_text(self.arm, self.failed, self.planned)}: {self.reason}"

    @property
    def fix(self) -> str:
        return "finished trainings are kept; the same command tries the others again"

    @property
    def about(self) -> str:
        return self.arm


def lacking_text(arm: str, failed: int, planned: int) -> str:
    """How many of an arm's further trainings have no result."""
    return f"{failed} of {numbered(planned, 'further training')} of {arm} have no result"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChanceGap(FindingMessage):
    """Shares decided by chance in both groups, and without privacy."""

    code = "chance_gap"
    when = (
        "another training would decide more of one group differently than of another, beside all "
        "other comparisons of the method"
    )
    sentence = (
        "Another training would decide {first:rate} {first:ends} of {a} and {second:rate} "
        "{second:ends} of {b} differently; without privacy {first_before:rate} and "
        "{second_before:rate}"
    )

    first: Interval
    first_before: Interval
    second: Interval
    second_before: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ChanceAdded(FindingMessage):
    """The share decided by chance, and without privacy."""

    code = "chance_added"
    when = (
        "private training adds to the share of all people whom another training would decide "
        "differently, and no gap between groups in it is detected"
    )
    sentence = (
        "Another training would decide {now:rate} {now:ends} of all people differently; without "
        "privacy {before:rate}"
    )

    now: Interval
    before: Interval
