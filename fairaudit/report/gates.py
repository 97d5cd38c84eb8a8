"""What the gates said, as it stands in a report."""

from typing import Literal

from fairaudit.results.estimates import Interval
from fairaudit.results.numbers import HighEnd, LowEnd, Part

Outcome = Literal["pass", "fail", "inconclusive"]


class GateTarget(Interval):
    """One number that a rule was held against.

    ``low`` and ``high`` are the ends of the 95 % interval, ``shared_low`` and ``shared_high`` those
    of the wider one that holds for all numbers of the rule together; None where there is none.
    ``reason`` says why the target is inconclusive.
    """

    arm: str
    reference: str
    grouping: str
    group: str
    outcome: Outcome
    shared_low: LowEnd | None
    shared_high: HighEnd | None
    reason: str

    @property
    def shared(self) -> Interval:
        """The number with the wider interval."""
        return Interval(value=self.value, low=self.shared_low, high=self.shared_high)


class GateRecord(Part):
    """One rule: as it was given, in words, and what it said of each of its targets.

    ``left_out`` names the groups that a rule without selector does not judge, with the reason.
    """

    rule: str
    words: str
    outcome: Outcome
    reason: str
    targets: tuple[GateTarget, ...]
    left_out: tuple[str, ...]
