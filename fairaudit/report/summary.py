"""What a report is read for first: what its gates said, and its summary."""

from collections.abc import Iterable, Sequence
from typing import Literal

from fairaudit.results.estimates import (
    EpsilonFigure,
    Figure,
    HighEnd,
    Interval,
    LowEnd,
    Part,
    Reading,
)

Outcome = Literal["pass", "fail", "inconclusive"]
Unit = Literal["fraction", "ratio", "nats", ""]
_SEVERITY: tuple[Outcome, ...] = ("pass", "inconclusive", "fail")
Cost = Literal["privacy_cost", "excess_risk"]
Topic = Literal["who pays", "gap", "misalignment", "clipping or noise", "verdict", "next"]


def severity(outcome: Outcome) -> int:
    """How bad an outcome is: a failure is worse than what cannot be told."""
    return _SEVERITY.index(outcome)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst outcome; none at all is inconclusive."""
    return max(outcomes, key=severity, default="inconclusive")


class GateTarget(Interval):
    """One number that a rule was held against.

    ``low`` and ``high`` are the ends of the 95 % interval, ``shared_low`` and ``shared_high`` those
    of the wider one that holds for all numbers of the rule about that arm together; None where
    there is none.
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

    ``targets``: The worst first. ``left_out`` names the groups that a rule without selector does
    not judge, with the reason.
    ``unit``: Of its numbers; "" for those of a guarantee. ``limit``: What they are held against.
    """

    rule: str
    words: str
    outcome: Outcome
    reason: str
    targets: tuple[GateTarget, ...]
    left_out: tuple[str, ...]
    unit: Unit
    limit: Figure


def verdicts(gates: Sequence[GateRecord]) -> dict[str, Outcome]:
    """What all rules together say of each arm that they judge.

    In the order in which they are met.
    """
    found: dict[str, list[Outcome]] = {}
    for gate in gates:
        for target in gate.targets:
            found.setdefault(target.arm, []).append(target.outcome)
    return {arm: worst(outcomes) for arm, outcomes in found.items()}


class GroupCost(Interval):
    """What private training costs one group; a fraction of accuracy or nats of loss."""

    group: str


class GapSummary(Part):
    """The gap that stands for one cost of one arm, and who pays more.

    Args:
        metric: Which cost.
        size: The largest gap, with the interval that holds for all pairs of groups together.
        a, b: The groups that it lies between, the one that pays more first; "" where there is no
        gap.
        reading: What its interval says.
        limit: The largest size that a rule allows, or None.
        worst_off: Groups that are shown to pay more than another and not to pay less than any; ()
            where nothing is shown.
        groups: What every group that takes part pays, the most first.
        overall: What all rows together pay.
        minimum_detectable: Gap that this audit would find with power .80.
        reason: Why it is not gated, or "".
    """

    metric: Cost
    size: Interval
    a: str
    b: str
    reading: Reading
    limit: Figure | None
    worst_off: tuple[str, ...]
    groups: tuple[GroupCost, ...]
    overall: Interval
    minimum_detectable: Figure | None
    reason: str

    @property
    def is_detected(self) -> bool:
        """Whether there is a gap at all."""
        return self.reading == "difference detected"

    @property
    def limit_met(self) -> bool | None:
        """Whether the gap lies inside its limit, or beyond it; None where neither is shown."""
        if self.limit is None or self.size.ends is None:
            return None
        low, high = self.size.ends
        if high <= self.limit:
            return True
        if low > self.limit:
            return False
        return None


class MisalignmentSummary(Part):
    """How far clipping turns the step from each group's gradient, in degrees.

    Means over the checkpoints and many Poisson batches of each; intervals are over seeds, which
    share the file. ``most`` is the group of the largest turn where that is larger than every other
    group's at the level of the interval that all pairs share, else ""; in a summary also "" where
    no group is shown to pay more, since the rows of this file alone tell any two groups apart.
    """

    groups: dict[str, Interval]
    most: str


class PartsSummary(Part):
    """A number in what is left of it without noise and what noise adds.

    Args:
        of: What was split: the gap between ``a`` and ``b``, or the cost over all rows.
        name: What the part without noise is from: clipping, regularisation or partition.
        total, still, noise: The number and its parts, which sum to it.
        is_still, is_noise: Whether the interval of the part lies above zero.
        noise_at_most: Upper end of the noise part as a share of the total; None where it has none.
        step_follows_epsilon: A larger epsilon comes with a longer step, so it changes more than the
            noise.
    """

    of: Literal["gap", "cost"]
    metric: Cost
    a: str
    b: str
    name: str
    total: Interval
    still: Interval
    noise: Interval
    is_still: bool
    is_noise: bool
    noise_at_most: HighEnd | None
    step_follows_epsilon: bool


class SummaryLine(Part):
    """One sentence of the summary, and what it is about."""

    topic: Topic
    text: str


class MethodSummary(Part):
    """One method that could be shipped, by one grouping.

    Args:
        arm, reference, grouping: Whose comparison.
        epsilon: Of one model, None where none is proved.
        accuracy, excess_risk: What each costs whom; the risk is None where no loss was measured.
        misalignment: None where it was not read.
        parts: None where no noise-free twin was trained, or nothing is detected that could be
            split.
        verdict: What all rules together say of this arm by this grouping; None where no rule judges
            it.
        headline: The answer in one sentence.
        lines: In a few more, by topic.
    """

    arm: str
    reference: str
    grouping: str
    epsilon: EpsilonFigure | None
    accuracy: GapSummary
    excess_risk: GapSummary | None
    misalignment: MisalignmentSummary | None
    parts: PartsSummary | None
    verdict: Outcome | None
    headline: str
    lines: tuple[SummaryLine, ...]

    @property
    def is_detected(self) -> bool:
        """Whether there is a gap in either cost."""
        return self.accuracy.is_detected or (
            self.excess_risk is not None and self.excess_risk.is_detected
        )

    def line(self, topic: Topic) -> str:
        """The sentence on that topic, or ""."""
        return next((line.text for line in self.lines if line.topic == topic), "")


class Summary(Part):
    """The answer of an audit.

    ``verdicts`` is what the rules say of each arm that they judge, those of controls included; the
    report's own verdict is the worst of them.
    """

    methods: tuple[MethodSummary, ...]
    verdicts: dict[str, Outcome]
