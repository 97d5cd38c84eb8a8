"""From which trainings a report's disagreement is, and how it is told."""

from collections.abc import Iterator
from typing import Literal

from fairaudit.errors import numbered
from fairaudit.report.facts import FailedSeed, ReportWarning
from fairaudit.report.model import Study
from fairaudit.results.estimates import Part


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
                trainings = numbered(self.planned, "further training")
                lacking[arm.arm] = f"{len(arm.failed)} of {trainings} of {arm.arm} have no result"
        return lacking

    def warnings(self) -> Iterator[ReportWarning]:
        """A warning for every arm of which a further training failed."""
        lacking = self.unfinished
        for arm in self.arms:
            if arm.arm in lacking:
                yield ReportWarning(
                    code="again_failed",
                    level="warning",
                    arm=arm.arm,
                    message=f"{lacking[arm.arm]}: {arm.failed[0].message}",
                    fix="finished trainings are kept; the same command tries the others again",
                )
