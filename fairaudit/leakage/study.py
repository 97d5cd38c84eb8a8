"""What membership inference found, as a report holds it.

A recipe is an arm of the audit, trained anew on random halves of its rows, with settings and noise
for that many. The ceiling is what its epsilon allows any attack to find.
"""

from collections.abc import Iterator
from functools import partial

from fairaudit.metrics.registry import WITHIN
from fairaudit.report.facts import AttackFacts, FailedSeed, ReportWarning, Study
from fairaudit.report.findings import Finding
from fairaudit.report.model import Report
from fairaudit.report.phrases import Phrase
from fairaudit.results.estimates import EpsilonFigure, Figure, Interval, Part, interval_of

_warning = partial(ReportWarning, level="warning")


class AttackedArm(Part):
    """One recipe as it was trained to be attacked.

    Args:
        arm: Key, as in the audit.
        reference: Of the arm that it stands beside, or None.
        epsilon: Of one such model, None where none is proved: of its own events, on half of the
            rows.
        ceiling: The most that any attacker can find, at each rate of false accusations that is
            measured within a group; empty where nothing is proved.
        models_planned, models_finished: Each is a target, and a shadow of the others.
        failed: Trainings without a result.
        trainings: Digest of all that the finished trainings follow from.
    """

    arm: str
    reference: str | None
    epsilon: EpsilonFigure | None
    ceiling: tuple[AttackFacts, ...]
    models_planned: int
    models_finished: int
    failed: tuple[FailedSeed, ...]
    trainings: str

    def at_most(self, rate: float) -> float | None:
        """The share of members that any attack finds at most, at that rate of false accusations.

        None where nothing is proved, or the ceiling is not known at this rate.
        """
        return next(
            (f.true_positive_rate for f in self.ceiling if f.false_positive_rate == rate), None
        )


class Leakage(Study):
    """What membership inference found, by group.

    Args:
        rows: That were attacked; each is in every training with chance one half.
        n_public: Training records that the recipes are sized for, half of the rows.
        delta: Of every epsilon here, the audit's.
        arms: The recipes.
        comparisons: Success of the attack by group, ``leakage_...``, of every recipe, with
            ``reference.`` and ``change.`` beside its reference.
    """

    rows: int
    n_public: int
    delta: Figure
    arms: tuple[AttackedArm, ...]

    @property
    def trainings(self) -> dict[str, str]:
        """Key of each recipe -> digest of all that its finished models follow from.

        Where it is equal in two reports, the same models were attacked.
        """
        return {arm.arm: arm.trainings for arm in self.arms}

    @property
    def unfinished(self) -> dict[str, str]:
        """Key of each recipe that lacks models -> words that say how many have no result."""
        unfinished = {}
        for arm in self.arms:
            if arm.failed:
                models = f"{len(arm.failed)} of {arm.models_planned} models of {arm.arm}"
                unfinished[arm.arm] = f"{models} have no result"
        return unfinished

    def arm(self, key: str) -> AttackedArm | None:
        """The recipe of that arm's key; None where the arm was not attacked."""
        return next((arm for arm in self.arms if arm.arm == key), None)


PHRASES = {
    "above_ceiling": Phrase(
        "an attack's success has an interval that lies above what epsilon allows",
        "In {a} the attack finds {found:percent} of members; epsilon allows {most:percent}: check "
        "what is fitted without noise, then the method's implementation",
        question="works",  # it stands where the report says whether a model works at all
    )
}


def findings(report: Report) -> Iterator[Finding]:
    """A finding for every rate whose whole interval lies above what the arm's epsilon allows.

    Such a rate says that the method or its inputs leak more than is proved. Only the rates within a
    group have a ceiling, and only where epsilon is proved.
    """
    leakage = Leakage.of(report)
    if leakage is None:
        return
    for comparison in leakage.comparisons:
        arm = leakage.arm(comparison.arm)
        for group in comparison.by_group:
            for metric, rate in WITHIN.items():
                estimate = group.estimates.get(metric)
                most = arm.at_most(rate) if arm else None
                if estimate is None or estimate.low is None or most is None:
                    continue
                if estimate.low > most:
                    ceiling = Interval(value=most, low=None, high=None)
                    yield Finding(
                        code="above_ceiling",
                        arm=comparison.arm,
                        grouping=comparison.grouping,
                        groups=(group.group,),
                        measure=metric,
                        unit="fraction",
                        numbers={"found": interval_of(estimate), "most": ceiling},
                    )


def warnings(leakage: Leakage) -> Iterator[ReportWarning]:
    """A warning for every arm of which a model to be attacked could not be trained."""
    for arm in leakage.arms:
        if arm.failed:
            yield _warning(
                code="attack_failed",
                arm=arm.arm,
                message=f"{arm.arm}: {len(arm.failed)} of {arm.models_planned} models to be "
                f"attacked could not be trained: {arm.failed[0].message}",
                fix="a smaller --learning-rate",
            )
