"""What `choose` found: the part of a report that only a choice has."""

import math
from typing import Literal

from fairaudit.report.facts import Study
from fairaudit.results.estimates import Comparison, EpsilonFigure, Figure, Interval, Part

Outcome = Literal["passes", "breaks", "undecided"]
Status = Literal["recommended", "none passes", "undecided"]


class TestedNumber(Part):
    """One number that a rule was held against at one look.

    Args:
        rule: Its text.
        metric: What it is about.
        limit: Its number.
        reference, grouping, group: Where the number stands; ``group`` is "" for all rows.
        unit: ``fraction``, ``ratio``, ``nats``, or "" for an epsilon.
        value: Mean over seeds, None where it is undefined.
        bound: The one-sided limit at the test's level, on the side that fails: it must keep the
            rule.
        other_bound: The one-sided 95 % limit on the other side: where it breaks the rule, no more
            seeds are tried.
        outcome: What the rule says.
        reason: Why it says nothing, or "".
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
    """One arm at one look, in the order in which they were looked at.

    Args:
        method: With its variant.
        arm: Its key.
        target_epsilon: As asked for.
        epsilon: As reached: PLD, or RDP where the search for settings is charged.
        look: The first is 1.
        seeds: So many were trained.
        outcome: The worst of its numbers.
        numbers: All of them.
        left_out: Groups too small to be judged.
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
        """How far it is from passing: (whether it breaks a rule, half-widths beyond the limit).

        Smaller is nearer. The half-widths are those of the number that is farthest beyond, infinite
        where one has no interval.
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

    ``arm`` and ``target_epsilon`` are None where none passes.
    """

    method: str
    arm: str | None
    target_epsilon: Figure | None
    ended: str


class Choice(Study):
    """The answer of `fairaudit choose`; its trainings are the report's own.

    Args:
        rules: As they were given -> in words.
        level: Of each test, one-sided.
        looks: Seeds at each look.
        status: ``recommended``; ``none passes``: every method breaks a rule at its largest epsilon;
            ``undecided``: no method passes, and at least one might.
        arm: That is recommended, or None.
        nearest: The arm that came nearest to passing, where none does.
        answer: In one sentence.
        methods: In the order of the command.
        tests: In the order in which they were made.
        promise, conditions: What is promised, and on which conditions.
        failed: Trainings that ended without a model, by arm and seed.
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
        """The last look at the arm that is recommended, else at the nearest."""
        return self.last(self.arm or self.nearest or "")

    def last(self, arm: str) -> Tested:
        """The last look at an arm."""
        return next(test for test in reversed(self.tests) if test.arm == arm)

    def ended_at(self, method: OfMethod) -> Tested:
        """The last look at the smallest epsilon that passes, else at the one that ended it."""
        of_method = [test for test in self.tests if test.method == method.method]
        return self.last(method.arm or of_method[-1].arm)
