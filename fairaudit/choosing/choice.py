"""What `choose` found: the part of a report that only a choice has.

A choice tests arms: an arm is a method at an epsilon. Each test is one look, at a number of seeds;
an arm that stays undecided gets another look, with more of them.
"""

import math
from typing import Literal

from fairaudit.report.facts import Study
from fairaudit.results.estimates import Comparison, EpsilonFigure, Figure, Interval, Part

Outcome = Literal["passes", "breaks", "undecided"]
Status = Literal["recommended", "none passes", "undecided"]


class TestedNumber(Part):
    """One number that was tested against a rule at one look.

    Args:
        rule: The rule's text.
        metric: Name of what the rule is about.
        limit: The number that the rule names.
        reference, grouping, group: Whose number it is: against which reference, of which group;
            ``group`` is "" for all rows.
        unit: ``fraction``, ``ratio``, ``nats``, or "" for an epsilon.
        value: Mean over seeds, None where it is undefined.
        bound: The one-sided limit of the number at the test's level, on the side where the rule
            fails: it must keep the rule for a pass. None where there is no interval.
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
    value: Figure | None
    bound: Figure | None
    other_bound: Figure | None
    outcome: Outcome
    reason: str


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

        First whether it breaks a rule, then how far beyond a rule's limit its farthest number has
        its bound, in half-widths of that number's interval; infinite where one has no interval.
        """
        far = 0.0
        for number in self.numbers:
            if number.outcome == "passes":
                continue
            if number.bound is None or number.value is None:
                return self.outcome == "breaks", math.inf
            half = max(abs(number.bound - number.value), 1e-12)
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


class Choice(Study):
    """The answer of `fairaudit choose`; its trainings are the report's own.

    Args:
        rules: The rules as they were given -> in words.
        level: One-sided level of each test.
        looks: Seeds at each look.
        status: ``recommended``; ``none passes``: every method breaks a rule at its largest epsilon;
            ``undecided``: no method passes, and at least one might.
        arm: Key of the arm that is recommended, or None.
        nearest: Key of the arm that came nearest to passing, where none does; else None.
        answer: In one sentence.
        methods: In the order of the command.
        tests: In the order in which they were made.
        promise, conditions: What is promised, and on which conditions.
        failed: Trainings that ended without a model: arm, seed and message of each.
    """

    name: str = "choosing"
    comparisons: tuple[Comparison, ...] = ()
    rules: dict[str, str]
    level: Figure
    looks: tuple[int, ...]
    status: Status
    arm: str | None
    nearest: str | None
    answer: str
    methods: tuple[OfMethod, ...]
    tests: tuple[Tested, ...]
    promise: str
    conditions: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def told(self) -> "Tested":
        """The last look at the arm that the answer is about: recommended, else the nearest."""
        return self.last(self.arm or self.nearest or "")

    def last(self, arm: str) -> Tested:
        """The last look at the arm of that key, which was tested."""
        return next(test for test in reversed(self.tests) if test.arm == arm)

    def ended_at(self, method: OfMethod) -> Tested:
        """The last look at a method's smallest epsilon that passes; if none, at its last epsilon.

        Where none passes, its last epsilon is the one that ended the method.
        """
        of_method = [test for test in self.tests if test.method == method.method]
        return self.last(method.arm or of_method[-1].arm)
