"""What `choose` tests: every number at every look at an arm, and what became of a method.

A choice tests arms: an arm is a method at an epsilon. Each test is one look, at a number of seeds;
an arm that stays undecided gets another look, with more of them.
"""

import math
from typing import Literal

from fairaudit.report.numbers import number as decimal
from fairaudit.results.estimates import EpsilonFigure, Figure, Interval, Part

Outcome = Literal["passes", "breaks", "undecided"]
Status = Literal["recommended", "none passes", "undecided"]


class TestedNumber(Part):
    """One number that was tested against a rule at one look.

    Args:
        rule: The rule's text.
        metric: Name of what the rule is about.
        limit: The number that the rule names.
        reference, grouping, group: Whose number it is: against which reference, of which group, for
            a gap as ``F less M``; ``group`` is "" for all rows.
        unit: ``fraction``, ``ratio``, ``nats``, or "" for an epsilon.
        is_size: Whether the rule is about the number's size, whichever sign it has: it is a gap.
        value: Mean over seeds with its sign, None where it is undefined.
        bound: The one-sided limit of the number, or of its size, at the test's level, on the side
            where the rule fails: it must keep the rule for a pass. None where there is no interval.
        other_bound: The one-sided 95 % limit on the other side: where it breaks the rule, no more
            seeds are tried. None where there is no interval.
        outcome: Whether the number passes, breaks the rule, or neither yet.
        reason: Why the number cannot be judged, or "".
    """

    rule: str
    metric: str
    limit: Figure
    reference: str
    grouping: str
    group: str
    unit: str
    is_size: bool
    value: Figure | None
    bound: Figure | None
    other_bound: Figure | None
    outcome: Outcome
    reason: str

    @property
    def held(self) -> float | None:
        """What the limit is held against: the number, or its size; None where it is undefined."""
        if self.value is None or not self.is_size:
            return self.value
        return abs(self.value)


class Tested(Part):
    """What one look at one arm found.

    Args:
        method: Name of the method, with its variant.
        arm: Key of the arm.
        target_epsilon: As asked for.
        epsilon: As reached: by PLD, or by RDP where the search for settings is charged.
        look: Number of the look at this arm; the first is 1.
        seeds: How many were trained.
        outcome: The worst outcome of its numbers.
        numbers: Every number that a rule is about.
        left_out: Groups too small to be judged, with the reason.
        gap, cost, accuracy: With 95 % intervals, for readers; ``cost`` is that of the group that
            pays most, ``cost_group``.
        trainings: A digest of all that the trainings follow from.
    """

    method: str
    arm: str
    target_epsilon: Figure
    epsilon: EpsilonFigure | None
    look: int
    seeds: int
    outcome: Outcome
    numbers: tuple[TestedNumber, ...]
    left_out: tuple[str, ...]
    gap: Interval
    cost: Interval
    cost_group: str
    accuracy: Interval
    trainings: str

    @property
    def distance(self) -> tuple[bool, float]:
        """How far the arm is from passing, to find the nearest of several: smaller is nearer.

        First whether it breaks a rule. Then how far the bound of a number that does not pass lies
        from the rule's limit, in half-widths of the number's interval: the farthest of them, and
        infinite where one has no interval.
        """
        far = 0.0
        for number in self.numbers:
            if number.outcome == "passes":
                continue
            if number.bound is None or number.held is None:
                return self.outcome == "breaks", math.inf
            half = max(abs(number.bound - number.held), 1e-12)  # an exact number's is 0
            far = max(far, abs(number.bound - number.limit) / half)
        return self.outcome == "breaks", far


class OfMethod(Part):
    """What became of one method: its arm of the smallest epsilon that passes, and why it ended.

    ``arm`` and ``target_epsilon`` are None where none passes. ``ended`` says in words why no
    smaller epsilon was tested.
    """

    method: str
    arm: str | None
    target_epsilon: Figure | None
    ended: str


def number_text(number: TestedNumber) -> str:
    """One tested number in words: its value, the one-sided limit that decides, the rule's limit.

    What decides is the limit at the test's level; where the rule is broken, the 95 % limit on the
    other side. A gap is written with its sign, and its limit is that of its size.
    """
    where = ""
    if number.group:
        where = f" ({number.group})"
    if number.held is None or number.bound is None or number.other_bound is None:
        return f"{number.metric}{where} has no value to judge: {number.reason}"
    value, limit = shown(number, number.value or 0.0), shown(number, number.limit)
    is_broken = number.outcome == "breaks"
    bound = number.other_bound if is_broken else number.bound
    # ``bound`` is the limit on the side where the rule fails; the other limit lies opposite.
    fails_above = number.bound >= number.held
    is_upper = not fails_above if is_broken else fails_above  # of the limit that is written
    side = "at most" if is_upper else "at least"
    if number.is_size:
        side = f"its size {side}"
    return f"{number.metric}{where} is {value}, {side} {shown(number, bound)}, limit {limit}"


def shown(number: TestedNumber, value: float) -> str:
    """A value of a tested number, or its limit, in the unit in which people read it."""
    if number.unit == "nats":
        return f"{value:.3g} nats"
    if number.unit != "fraction":
        return f"{value:.3g}"
    share = decimal(100 * value, decimals=1)
    if number.metric.endswith("_gap") or "privacy_cost" in number.metric:
        return f"{share} points"
    return f"{share} %"
