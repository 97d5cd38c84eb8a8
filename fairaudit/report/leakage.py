"""Membership inference in a report: what attacks on models of random halves of the rows found."""

from fairaudit.report.facts import AttackFacts, FailedSeed
from fairaudit.results.estimates import Comparison
from fairaudit.results.numbers import EpsilonFigure, Figure, Part

WITHIN_GROUP = {"leakage_tpr": 0.05, "leakage_tpr_at_1": 0.01}  # metric -> rate of false accusations


class AttackedArm(Part):
    """One recipe as it was trained to be attacked.

    Args:
        arm: Key, as in the audit.
        reference: Of the arm that it stands beside, or None.
        epsilon: Of one such model, None where none is proved: of its own events, on half of the rows.
        noise_multiplier: Effective, of one such training.
        ceiling: The most that any attacker can do on such a model; empty where nothing is proved.
        models_planned, models_finished: Each is a target, and a shadow of the others.
        failed: Trainings without a result.
        trainings: Digest of all that the finished trainings follow from.
    """

    arm: str
    reference: str | None
    epsilon: EpsilonFigure | None
    noise_multiplier: Figure | None
    ceiling: tuple[AttackFacts, ...]
    models_planned: int
    models_finished: int
    failed: tuple[FailedSeed, ...]
    trainings: str

    def at_most(self, rate: float) -> float | None:
        """The ceiling of the true positive rate at that false positive rate, None where there is none."""
        return next((f.true_positive_rate for f in self.ceiling if f.false_positive_rate == rate), None)


class Leakage(Part):
    """What membership inference found, by group.

    Args:
        rows: That were attacked; each is in every training with chance one half.
        n_public: Training records that the recipes are sized for, half of the rows.
        batch_size, epochs: Of the recipes, expected.
        delta: Of every epsilon here, the audit's.
        arms: The recipes.
        comparisons: Success of the attack by group, ``leakage_...``, of every recipe, with ``reference.`` and
            ``change.`` beside its reference.
    """

    rows: int
    n_public: int
    batch_size: Figure
    epochs: int
    delta: Figure
    arms: tuple[AttackedArm, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def unfinished(self) -> dict[str, str]:
        """Recipes of which models have no result, and how many."""
        return {
            arm.arm: f"{len(arm.failed)} of {arm.models_planned} models of {arm.arm} have no result"
            for arm in self.arms
            if arm.failed
        }

    @property
    def above_ceiling(self) -> list[tuple[str, str, str]]:
        """Arm, group and metric of each interval that lies above the ceiling as a whole."""
        return [
            (comparison.arm, f"{comparison.grouping} = {group.group}", metric)
            for comparison in self.comparisons
            for group in comparison.by_group
            for metric, rate in WITHIN_GROUP.items()
            if (estimate := group.estimates.get(metric)) is not None
            and estimate.ends is not None
            and (arm := self.arm(comparison.arm)) is not None
            and (most := arm.at_most(rate)) is not None
            and estimate.ends.low > most
        ]

    def arm(self, key: str) -> AttackedArm | None:
        """The recipe of that key, None where it was not attacked."""
        return next((arm for arm in self.arms if arm.arm == key), None)
