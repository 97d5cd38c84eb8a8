"""What was measured beside comparisons.

Selection, the reference, readings, sweeps, searches, attacks.
"""

from typing import Literal

from pydantic import Field

from fairaudit.metrics.registry import UNDERTRAINED_BY
from fairaudit.report.decomposition import Curve, Decomposition
from fairaudit.report.facts import ArmFacts
from fairaudit.results.estimates import Comparison, EpsilonFigure, Estimate, Figure, Interval, Part
from fairaudit.results.estimates import Way as WayName


class SelectionRates(Part):
    """How often one arm gives the favourable outcome, and impact ratios.

    ``reference``: the group that the ratios divide by, most selected of those with enough test
        rows.
    """

    arm: str
    grouping: str
    favourable: str | None
    rate: dict[str, Figure | None]
    impact_ratio: dict[str, Figure | None]
    reference: str | None
    excluded: tuple[str, ...]
    reason: str


class ChangedGap(Part):
    """A gap within a model that private training is shown to change.

    ``change`` is by how much the difference of ``metric``, ``a`` minus ``b``, is larger than under
    the reference; its interval holds for all metrics, pairs of groups and arms of the report
    together.
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
        """Where the reference stands beside the other model, in words.

        "" where either is not known.
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

    ``level``: What was read, as it was resolved. ``misalignment``: Arm -> group -> degrees by
        which clipping turns the step from the group's gradient, mean over the checkpoints and many
        Poisson batches of each, with an interval over seeds, which share the file.
    """

    level: str
    arms: dict[str, tuple[Curve, ...]]
    readings: dict[str, tuple[Reading, ...]]
    decomposition: Decomposition | None = None
    misalignment: dict[str, dict[str, Interval]] = Field(default_factory=dict)


class SweepPoint(Part):
    """One arm of a sweep.

    Its target, the epsilon it reached, each group's cost in accuracy, and its gap.
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


class Searched(Part):
    """Where one number of an arm was sought.

    Between two ends, log-uniformly, or among some values.
    """

    default: Figure
    low: Figure
    high: Figure
    choices: tuple[Figure, ...]


class Tried(Part):
    """One candidate at one seed.

    ``settings`` are all of the arm's numbers, noise included. ``released_score`` is what the choice
    reads, noise included where the search is charged; the exact one stays with the trainings.
    ``weight`` is the probability that it is the one that is kept, ``selected`` marks the best
    released score. ``accuracy`` is on the test rows, a fraction; ``gap`` is the largest difference
    between two groups in the cost of privacy, beside the reference as it was tuned at that seed
    (None of a reference, or where groups are too small). Both describe one model on one split and
    have no interval.
    """

    number: int
    is_default: bool
    settings: dict[str, Figure]
    epochs: int
    released_score: Figure
    weight: Figure
    selected: bool
    diverged: bool
    at_edge: tuple[str, ...]
    accuracy: Figure
    gap: Figure | None


class SearchedSeed(Part):
    """One seed's search: how the training rows were divided, and every candidate."""

    seed: int
    fit_rows: int
    validation_rows: int
    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried | None:
        """The candidate with the best released score."""
        return max(self.tried, key=lambda tried: tried.released_score, default=None)


class ArmSearch(Part):
    """How one arm's settings were sought, and what that costs.

    ``base_epsilon`` is that of one training by PLD, the dearest candidate's; None where nothing is
    charged. ``score_noise`` is the standard deviation of the noise on each count of a score, in
    records, 0 for an exact score; ``mean_tries`` the mean of the number of tries that is charged,
    ``shape_tries`` the shape of its truncated negative binomial distribution (1: geometric, 0:
    logarithmic), both None where exactly all are made. ``noise_multiplier`` is that of the default
    setting within the search, ``uncharged_noise_multiplier`` that of one ordinary training which
    spends all of epsilon.
    """

    arm: str
    searched: dict[str, Searched]
    mean_tries: Figure | None
    base_epsilon: EpsilonFigure | None
    noise_multiplier: Figure | None
    uncharged_noise_multiplier: Figure | None
    score_noise: Figure
    seeds: tuple[SearchedSeed, ...]
    shape_tries: Figure | None


class Way(Part):
    """What settings cost that no search found: every arm at its default setting.

    Ordinary trainings on all training rows at all of epsilon; arms are named ``dpsgd:default`` and
    ``dpsgd:default@3``.
    """

    name: WayName
    arms: tuple[ArmFacts, ...]
    comparisons: tuple[Comparison, ...]


class Tuning(Part):
    """The search for settings of every arm, and the default setting beside it.

    ``gains`` are every arm at its default setting (``dpsgd:default``) against itself as it was
    tuned (``dpsgd``), seed by seed: their ``privacy_cost`` and ``excess_risk`` are what searching
    gains.
    """

    trials: int
    goal: Literal["accuracy", "worst-group"]
    is_charged: bool
    searches: tuple[ArmSearch, ...]
    ways: tuple[Way, ...]
    gains: tuple[Comparison, ...] = ()

    def gain(self, arm: str, grouping: str) -> Comparison | None:
        """That of a tuned arm; None where it was not measured."""
        return next((c for c in self.gains if (c.reference, c.grouping) == (arm, grouping)), None)

    def search(self, arm: str) -> ArmSearch | None:
        """That arm's; None where it has none."""
        return next((search for search in self.searches if search.arm == arm), None)
