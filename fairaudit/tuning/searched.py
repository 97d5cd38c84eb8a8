"""The search for one arm's settings as a report holds it: what was searched, and what was tried.

At each seed a search trains candidates; "best" is the one with the best released score, and a
candidate's weight is the probability that the search keeps it.
"""

from fairaudit.results.estimates import EpsilonFigure, Figure, Part


class Searched(Part):
    """Where one setting of an arm was searched: between ``low`` and ``high``, or among choices.

    ``choices`` is empty for a range. ``default`` is None where the user's own code alone knows it.
    """

    default: Figure | None
    low: Figure
    high: Figure
    choices: tuple[Figure, ...]


class SearchedForm(Part):
    """One combination of what is searched among choices, and the noise that trains with it.

    Both are exact, not rounded: a release computes epsilon from them and trains with them.
    ``choices`` has the value of each such setting, or of ``epochs``, by name; it is empty in the
    one form of a search without choices. ``noise_multiplier`` is None of a method without noise.
    """

    choices: dict[str, float]
    noise_multiplier: float | None


class Tried(Part):
    """One candidate at one seed.

    ``settings`` are all of the arm's numbers, noise included. ``released_score`` is what the choice
    reads, with its noise where the search is charged; the exact one stays with the trainings.
    ``weight`` is the probability that the search keeps this candidate, ``selected`` marks the one
    with the best released score, ``at_edge`` names the settings that lie at an end of their range.
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


class SearchedSeed(Part):
    """One seed's search: how the training rows were divided, and every candidate."""

    seed: int
    fit_rows: int
    validation_rows: int
    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried | None:
        """The candidate with the best released score; None where none was tried."""
        return max(self.tried, key=lambda tried: tried.released_score, default=None)


class ArmSearch(Part):
    """The search for one arm's settings: what was searched, its charge, and what each seed tried.

    ``base_epsilon`` is that of one training by PLD, the dearest candidate's; None where nothing is
    charged. ``score_noise`` is the standard deviation of the noise on each count of a score, in
    records, 0 for an exact score; ``mean_tries`` the mean of the number of tries that is charged,
    ``shape_tries`` the shape of its truncated negative binomial distribution (1: geometric, 0:
    logarithmic), both None where exactly all are made. ``noise_multiplier`` is that of the default
    setting within the search, ``uncharged_noise_multiplier`` that of one ordinary training which
    spends all of epsilon. ``forms`` are all combinations of choices; there are none of a trainer of
    the user's own, nor in reports of versions that did not store them.
    ``score_noise_multiplier`` is ``score_noise`` over the sensitivity of the counts, exact; None
    where scores are exact.
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
    forms: tuple[SearchedForm, ...] = ()
    score_noise_multiplier: float | None = None
