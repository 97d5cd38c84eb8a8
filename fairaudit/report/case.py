"""One arm whose cost to a group is to be explained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairaudit.report.decomposition import ArmCauses, Decomposition, GroupCauses
from fairaudit.report.facts import ArmFacts
from fairaudit.report.names import plain
from fairaudit.results.estimates import Comparison


@dataclass(frozen=True, slots=True)
class Case:
    """One arm whose cost is to be explained.

    Args:
        arm: Its facts. causes: Its readings. comparison: Against its reference, first grouping.
        payer, other: The groups of the largest and the smallest excess risk.
    """

    arm: ArmFacts
    causes: ArmCauses
    comparison: Comparison
    payer: GroupCauses
    other: GroupCauses

    @property
    def place(self) -> str:
        """Where its figures stand in the report."""
        return f"diagnostics.decomposition.arms.{self.arm.key}"

    @property
    def who(self) -> str:
        """The payer's name, safe to print."""
        return plain(self.payer.group)

    @property
    def beside(self) -> str:
        """The other group's name, safe to print."""
        return plain(self.other.group)


def cases_of(
    decomposition: Decomposition, arms: Sequence[ArmFacts], compared: Sequence[Comparison]
) -> Iterator[Case]:
    """The arms in which a group's cost can be explained, in the plan's order; controls are left out.

    Args:
        decomposition: What was read of kept steps. arms: All arms. compared: By the first grouping.
    """
    for arm in arms:
        causes = decomposition.arms.get(arm.key)
        comparison = next((c for c in compared if c.arm == arm.key and c.reference == arm.reference), None)
        if causes is None or not causes.groups or comparison is None or arm.source is not None:
            continue  # a control explains another arm
        risks = {
            g.group: e.value
            for g in comparison.by_group
            if (e := g.estimates.get("excess_risk")) and e.value is not None
        }
        groups = sorted((g for g in causes.groups if g.group in risks), key=lambda g: -risks[g.group])
        if len(groups) > 1:
            yield Case(arm, causes, comparison, groups[0], groups[-1])
