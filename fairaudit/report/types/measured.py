"""What was measured beside comparisons.

Selection, the reference, readings, sweeps.
"""

from fairaudit.metrics.registry import UNDERTRAINED_BY
from fairaudit.report.misalignment import StepReadings
from fairaudit.report.types.decomposition import Curve, Decomposition
from fairaudit.results.estimates import EpsilonFigure, Estimate, Figure, Interval, Part


class ChangedGap(Part):
    """A gap within a model that private training is shown to change.

    ``change`` is by how much the difference of ``metric``, ``a`` minus ``b``, is larger than under
    the reference, with its own interval. The change is detected beside everything that is judged of
    the arm.
    """

    arm: str
    reference: str
    grouping: str
    metric: str
    a: str
    b: str
    change: Estimate


class SklearnBaseline(Part):
    """Whether the non-private reference learned what a standard library's model learns.

    Accuracies are fractions on the test rows, means over seeds.
    """

    arm: str
    reference_accuracy: Figure | None
    baseline: str
    baseline_accuracy: Figure | None
    undertrained: bool | None
    n_seeds: int
    reason: str

    @property
    def reading(self) -> str:
        """How the reference's accuracy compares with the baseline's, in words.

        "" where either accuracy is not known.
        """
        if self.reference_accuracy is None or self.baseline_accuracy is None:
            return ""
        if self.undertrained:
            return "reference undertrained, costs cannot be read"
        above = self.reference_accuracy - self.baseline_accuracy
        if above > UNDERTRAINED_BY:
            return f"{100 * above:.1f} points above it"
        return "within one point"


class Reading(Part):
    """What a method's own diagnostic found after training: mean over seeds, ``values[column]``.

    ``columns`` are groups, or say what each value is; one empty name for a single number.
    """

    name: str
    meaning: str
    columns: tuple[str, ...]
    values: tuple[Figure | None, ...]
    by_seed: tuple[tuple[Figure | None, ...], ...]


class Diagnostics(Part):
    """Readings of the training itself, by arm; exact functions of raw data, not private.

    Args:
        level: What was read, as it was resolved.
        arms: Key of an arm -> its curves over training.
        readings: Key of an arm -> what its method's own diagnostic found.
        steps: How the steps of every private arm were read, for each grouping, and the readings
            over training. Their means stand in the comparisons (``registry.of_steps``).
        decomposition: What ``--diagnostics full`` reads beside them.
    """

    level: str
    arms: dict[str, tuple[Curve, ...]]
    readings: dict[str, tuple[Reading, ...]]
    steps: tuple[StepReadings, ...] = ()
    decomposition: Decomposition | None = None


class SweepPoint(Part):
    """One arm of a sweep: its target epsilon, the epsilon reached, costs in accuracy, their gap.

    ``cost``: Name of a group -> its cost. ``gap``: The main gap in that cost
    (:func:`fairaudit.report.measures.main_gap`); None without one.
    """

    arm: str
    target_epsilon: Figure
    epsilon: EpsilonFigure | None
    cost: dict[str, Interval]
    gap: Interval | None


class Sweep(Part):
    """One method (and variant) at two epsilons or more, by rising epsilon, cut by one grouping."""

    method: str
    reference: str
    grouping: str
    points: tuple[SweepPoint, ...]
