"""From which trainings a report's disagreement is, and how it is told."""

from collections.abc import Iterator
from typing import Literal

from fairaudit.disagreement.messages import AgainFailed, ChanceAdded, ChanceGap, lacking_text
from fairaudit.disagreement.section import said_source, section, unmeasured
from fairaudit.messages.base import Message
from fairaudit.metrics.registry import DISAGREEMENT, DISAGREEMENT_COST
from fairaudit.report.conditions import usable_arms
from fairaudit.report.document import Section
from fairaudit.report.measures import is_detected, main_gap
from fairaudit.report.messages.base import FindingMessage, Subject
from fairaudit.report.model import Report, Study
from fairaudit.report.types.facts import FailedSeed
from fairaudit.results.estimates import Comparison, GroupMeasure, Interval, Part, interval_of


class RetrainedArm(Part):
    """One arm's trainings on the same rows.

    Args:
        arm: Its key.
        finished: How many have a result.
        failed: Those without a result.
        trainings: Digest of all that the finished ones follow from.
    """

    arm: str
    finished: int
    failed: tuple[FailedSeed, ...]
    trainings: str


class Disagreement(Study):
    """From which trainings a report's disagreement is.

    The numbers themselves stand in the report's comparisons, as ``disagreement``,
    ``reference.disagreement`` and ``disagreement_cost``.

    Args:
        source: ``seeds``: the audit's own, on a given split; ``again``: further ones on the first
            seed's split; ``given``: given predictions of several seeds.
        reason: Why it was not measured; "" where it was.
        advice: What measures it, in words; "" where nothing is to be said.
        planned: How many trainings of each arm were planned.
        arms: The arms that were trained.
    """

    source: Literal["seeds", "again", "given"]
    reason: str = ""
    advice: str = ""
    planned: int
    arms: tuple[RetrainedArm, ...]

    @property
    def trainings(self) -> dict[str, str]:
        """Key of each arm -> digest of all that its finished trainings follow from."""
        return {arm.arm: arm.trainings for arm in self.arms}

    @property
    def unfinished(self) -> dict[str, str]:
        """Key of an arm -> how many of the further trainings of it have no result, in words.

        Those of the audit's own seeds are the audit's to name.
        """
        lacking = {}
        for arm in self.arms:
            if arm.failed and self.source == "again":
                lacking[arm.arm] = lacking_text(arm.arm, len(arm.failed), self.planned)
        return lacking

    def warnings(self) -> Iterator[Message]:
        """A warning for every arm of which a further training failed."""
        lacking = self.unfinished
        for arm in self.arms:
            if arm.arm in lacking:
                failed = len(arm.failed)
                yield AgainFailed(arm.arm, failed, self.planned, reason=arm.failed[0].message)

    def findings(self, report: Report) -> Iterator[FindingMessage]:
        """A finding where chance is detected to decide more of one group, or privacy adds to it.

        Of what is detected over all rows it is made once, by the first grouping.
        """
        first = report.data.groupings[0].name
        for _, comparison in usable_arms(report):
            finding = _gap_finding(comparison)
            if finding is None and comparison.grouping == first:
                finding = _added_finding(comparison)
            if finding is not None:
                yield finding

    def sections(self, report: Report) -> dict[str, Section]:
        """Who is decided by chance, by group, or why that was not measured; before the rules."""
        made: Section | None
        if self.reason:
            made = unmeasured(self.reason, self.advice)
        else:
            # Of given predictions no arms are named: all that were given count.
            trainings = max((arm.finished for arm in self.arms), default=self.planned)
            made = section(report, said_source(self.source, trainings))
        return {} if made is None else {"metrics.within": made}


def _gap_finding(comparison: Comparison) -> FindingMessage | None:
    """The finding that chance decides more of one group than of another; None where none is."""
    gap = main_gap(comparison, DISAGREEMENT)
    if gap is None or not is_detected(gap):
        return None
    gap = gap.larger_first
    of_group = {group.group: group for group in comparison.by_group}
    a, b = of_group[gap.a], of_group[gap.b]
    return ChanceGap(
        _subject(comparison, DISAGREEMENT, (gap.a, gap.b)),
        first=_private_share(a),
        first_before=_share_without_privacy(a),
        second=_private_share(b),
        second_before=_share_without_privacy(b),
    )


def _added_finding(comparison: Comparison) -> FindingMessage | None:
    """The finding that privacy adds to what chance decides of all people; None where it is not."""
    if DISAGREEMENT_COST not in comparison.paid:
        return None
    return ChanceAdded(
        _subject(comparison, DISAGREEMENT_COST),
        now=_private_share(comparison.overall),
        before=_share_without_privacy(comparison.overall),
    )


def _private_share(group: GroupMeasure) -> Interval:
    """The share of the group with privacy."""
    return interval_of(group.estimates.get(DISAGREEMENT))


def _share_without_privacy(group: GroupMeasure) -> Interval:
    """The share of the group without privacy."""
    return interval_of(group.estimates.get(f"reference.{DISAGREEMENT}"))


def _subject(comparison: Comparison, measure: str, groups: tuple[str, ...] = ()) -> Subject:
    """One measure of one comparison, as a finding is about it."""
    return Subject(
        arm=comparison.arm,
        grouping=comparison.grouping,
        groups=groups,
        measure=measure,
        unit="fraction",
    )
