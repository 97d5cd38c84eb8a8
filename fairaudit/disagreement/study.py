"""From which trainings a report's disagreement is, and how it is told."""

from typing import Literal

from fairaudit.report.facts import FailedSeed
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
