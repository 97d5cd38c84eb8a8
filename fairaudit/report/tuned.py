"""A search for settings as the report tells it: what was tried, what was kept, and the ways beside it."""

from typing import Literal

from fairaudit.report.facts import ArmFacts, PrivacyFacts
from fairaudit.results.estimates import Comparison
from fairaudit.results.numbers import EpsilonFigure, Figure, Part
from fairaudit.results.ways import Way as WayName


class Searched(Part):
    """Where one number of an arm was sought: between two ends, log-uniformly, or among some values."""

    default: Figure
    low: Figure
    high: Figure
    choices: tuple[Figure, ...]


class Tried(Part):
    """One candidate at one seed.

    ``settings`` are all of the arm's numbers, noise included. ``released_score`` is what the choice reads,
    noise included where the search is charged; the exact one stays with the trainings. ``weight`` is the
    probability that it is the one that is kept, ``selected`` marks the best released score. ``accuracy`` is
    on the test rows, a fraction; ``gap`` is the largest difference between two groups in the cost of privacy,
    beside the reference as it was tuned at that seed (None of a reference, or where groups are too small).
    Both describe one model on one split and have no interval.
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

    ``base_epsilon`` is that of one training by PLD, the dearest candidate's; None where nothing is charged.
    ``score_noise`` is the standard deviation of the noise on each count of a score, in records, 0 for an
    exact score; ``mean_tries`` the mean of the number of tries that is charged, None where exactly all are
    made. ``noise_multiplier`` is that of the default setting within the search,
    ``uncharged_noise_multiplier`` that of one ordinary training which spends all of epsilon.
    """

    arm: str
    searched: dict[str, Searched]
    mean_tries: Figure | None
    base_epsilon: EpsilonFigure | None
    noise_multiplier: Figure | None
    uncharged_noise_multiplier: Figure | None
    score_noise: Figure
    seeds: tuple[SearchedSeed, ...]


class Way(Part):
    """What settings cost that no search of the arm's own found.

    ``default``: every arm at its default setting. ``reused``: every arm at the setting with which its
    reference scores best at that seed. Each is an ordinary training on all training rows at all of epsilon;
    arms are named ``dpsgd:default`` and ``dpsgd:reused@3``.
    """

    name: WayName
    arms: tuple[ArmFacts, ...]
    privacy: dict[str, PrivacyFacts]
    comparisons: tuple[Comparison, ...]


class Tuning(Part):
    """The search for settings of every arm, and the ways beside it."""

    trials: int
    goal: Literal["accuracy", "worst-group"]
    is_charged: bool
    searches: tuple[ArmSearch, ...]
    ways: tuple[Way, ...]

    def search(self, arm: str) -> ArmSearch | None:
        """That arm's; None where it has none."""
        return next((search for search in self.searches if search.arm == arm), None)
