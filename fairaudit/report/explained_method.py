"""One arm whose cost to a group is to be explained: where groups are detected to pay differently."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairaudit.report.decomposition import ArmCauses, Decomposition, GroupCauses
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import detected_gap
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Estimate

RISK = "excess_risk"  # what the parts of a step are parts of


@dataclass(frozen=True, slots=True)
class ExplainedMethod:
    """One arm whose cost is to be explained.

    Args:
        arm: Its facts.
        causes: Its readings.
        comparison: Against its reference, first grouping.
        worst_off, other: Two groups whose excess risks are told apart, the larger first.
    """

    arm: ArmFacts
    causes: ArmCauses
    comparison: Comparison
    worst_off: GroupCauses
    other: GroupCauses

    @property
    def place(self) -> str:
        """Where its figures stand in the report."""
        return f"diagnostics.decomposition.arms.{self.arm.key}"

    @property
    def who(self) -> str:
        """The worst-off group's name, safe to print."""
        return plain(self.worst_off.group)

    @property
    def beside(self) -> str:
        """The other group's name, safe to print."""
        return plain(self.other.group)


def detected_pair(comparison: Comparison) -> tuple[str, str] | None:
    """Two groups whose excess risks are detected to differ, the larger first.

    None where no difference is detected, and where the first group's own excess risk is not above zero: then
    there is no cost to explain.
    """
    gap = detected_gap(comparison, RISK)
    if gap is None:
        return None
    first, second = (gap.a, gap.b) if (gap.signed.value or 0.0) > 0 else (gap.b, gap.a)
    own = cost_of(comparison, first, RISK)
    return (first, second) if own is not None and (own.low or 0.0) > 0 else None


def cost_of(comparison: Comparison, group: str, metric: str) -> Estimate | None:
    """A group's estimate of a metric; None where it was not measured."""
    return next((each.estimates.get(metric) for each in comparison.by_group if each.group == group), None)


def explained_methods(
    decomposition: Decomposition, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Iterator[ExplainedMethod]:
    """The arms in which a group's cost can be explained, in the plan's order; controls are left out.

    Args:
        decomposition: What was read of checkpoints.
        arms: All arms.
        compared: By the first grouping.
    """
    for arm, comparison in read_arms(decomposition, arms, compared):
        causes, pair = decomposition.arms[arm.key], detected_pair(comparison)
        by_name = {group.group: group for group in causes.groups}
        if pair is not None and set(pair) <= set(by_name):
            yield ExplainedMethod(arm, causes, comparison, *(by_name[name] for name in pair))


def read_arms(
    decomposition: Decomposition, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Iterator[tuple[ArmFacts, Comparison]]:
    """The arms whose steps were read, each with what it costs; a control explains another arm.

    Args:
        decomposition, arms, compared: As of :func:`explained_methods`.
    """
    for arm in arms:
        causes = decomposition.arms.get(arm.key)
        own = (c for c in compared if c.arm == arm.key and c.reference == arm.reference)
        comparison = next(own, None)
        if causes is not None and causes.groups and comparison is not None and arm.source is None:
            yield arm, comparison
