"""What the gates of a report said."""

from collections.abc import Iterable, Sequence
from typing import Literal

from fairaudit.results.estimates import Comparison, Figure, Interval, Part

Outcome = Literal["pass", "fail", "inconclusive"]
Unit = Literal["fraction", "ratio", "nats", "degrees", "nats a step", ""]
_SEVERITY: tuple[Outcome, ...] = ("pass", "inconclusive", "fail")


def severity(outcome: Outcome) -> int:
    """The rank of an outcome: 0 for pass, 1 for inconclusive, 2 for fail, which is the worst."""
    return _SEVERITY.index(outcome)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst outcome; of none it is inconclusive, so that a rule about nothing cannot pass."""
    return max(outcomes, key=severity, default="inconclusive")


class GateTarget(Interval):
    """One number that a rule was held against.

    ``low`` and ``high`` are the ends of its own 95 % interval, None where there is none. ``groups``
    is a group, or the two of a gap, whose value is the first less the second; () for all rows and
    for a number of a guarantee.
    ``reason`` says why the target does not pass, with the interval that all numbers of the rule
    share where that decided.
    """

    arm: str
    reference: str
    grouping: str
    groups: tuple[str, ...]
    outcome: Outcome
    reason: str

    @property
    def group(self) -> str:
        """The groups' names as one text, "" for none."""
        return ", ".join(self.groups)

    def stands_in(self, comparison: Comparison) -> bool:
        """Whether this comparison holds the number; of a guarantee's number none does.

        A number of the arm itself, whose ``reference`` is "", is the same beside any reference.
        """
        is_here = (comparison.arm, comparison.grouping) == (self.arm, self.grouping)
        return is_here and self.reference in ("", comparison.reference)


class GateRecord(Part):
    """One rule: as it was given, in words, and what it said of each of its targets.

    ``targets``: The worst first. ``left_out`` names the groups that a rule without selector does
    not judge, with the reason.
    ``unit``: Of its numbers; "" for those of a guarantee. ``limit``: What they are held against.
    ``metric`` is the key under which a report holds these numbers, ``kind`` whose they are; of a
    rule about a change since another report both are "", for no number of this report is judged.
    ``promise`` is what must hold, in words.
    """

    rule: str
    words: str
    outcome: Outcome
    reason: str
    targets: tuple[GateTarget, ...]
    left_out: tuple[str, ...]
    unit: Unit
    limit: Figure
    metric: str = ""
    kind: Literal["arm", "group", "gap", ""] = ""
    promise: str = ""


def verdicts(gates: Sequence[GateRecord]) -> dict[str, Outcome]:
    """Key of an arm -> the worst outcome of all rules about it; an arm without a rule is missing.

    The arms stand in the order in which the rules first name them.
    """
    outcomes_of: dict[str, list[Outcome]] = {}
    for gate in gates:
        for target in gate.targets:
            outcomes_of.setdefault(target.arm, []).append(target.outcome)
    return {arm: worst(outcomes) for arm, outcomes in outcomes_of.items()}
