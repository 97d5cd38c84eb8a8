"""What a search found, as a report holds it, and the findings that follow.

At each seed a search trains candidates; "best" is the one with the best released score, and a
candidate's weight is the probability that the search keeps it.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from fairaudit.report.facts import ArmFacts, Study
from fairaudit.report.findings import Finding
from fairaudit.report.model import Report
from fairaudit.report.phrases import Phrase, advice
from fairaudit.results.estimates import Comparison, EpsilonFigure, Figure, Interval, Part

# A best setting at an end of its range is a finding at more than this share of the seeds: less may
# be luck of the scores.
OFTEN = 0.5


class Searched(Part):
    """What one setting of an arm was searched in: between ``low`` and ``high``, or among choices.

    ``choices`` is empty for a range. ``default`` is None where the user's own code alone knows it.
    """

    default: Figure | None
    low: Figure
    high: Figure
    choices: tuple[Figure, ...]


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


class Tuned(Study):
    """The search for settings of every arm, and the default setting beside it.

    ``gains`` are every arm at its default setting (``dpsgd:default``) against itself as it was
    tuned (``dpsgd``), seed by seed: their ``privacy_cost`` and ``excess_risk`` are what searching
    gains.
    """

    trials: int
    goal: Literal["accuracy", "worst-group"]
    is_charged: bool
    searches: tuple[ArmSearch, ...]
    gains: tuple[Comparison, ...] = ()

    @property
    def settings_tried(self) -> int:
        """How many settings were tried in every arm at each seed."""
        return self.trials

    def gain(self, arm: str, grouping: str) -> Comparison | None:
        """An arm's default setting against it as tuned, by a grouping; None where not measured."""
        return next((c for c in self.gains if (c.reference, c.grouping) == (arm, grouping)), None)

    def search(self, arm: str) -> ArmSearch | None:
        """The search of an arm; None where it has none."""
        return next((search for search in self.searches if search.arm == arm), None)


PHRASES = {
    "at_edge": Phrase(
        "after a search: at most seeds the best value of a setting lies at an end of its range",
        "The best {reason} found lies at an end of what was searched: {nearest:value}",
    ),
    "search_raised_loss": Phrase(
        "over all rows the tuned model is told to have a higher loss than the default setting's",
        "Searching raised the loss over all rows: by {added}",
    ),
}
RISK = "excess_risk"


def findings(report: Report) -> Iterator[Finding]:
    """Findings of a search: best settings at an end of their range, and losses that it raised.

    There are none where settings were fixed.
    """
    tuned = Tuned.of(report)
    if tuned is not None:
        yield from edges(tuned, {arm.key: arm for arm in report.arms})
        yield from raised_losses(tuned)


def raised_losses(tuned: Tuned) -> Iterator[Finding]:
    """A finding for each arm whose tuned loss over all rows is higher than at the default setting.

    A search is scored by accuracy, and a higher loss may not show there. The arms share one 5 %.
    """
    from fairaudit.metrics.intervals import among  # imports numpy, which reading a report does not

    raised = set()  # arms that have a finding already, by another grouping's comparison
    n_arms = len({gain.reference for gain in tuned.gains})
    for gain in tuned.gains:
        by_loss = gain.overall.estimates.get(RISK)
        if by_loss is None or by_loss.value is None or by_loss.ends is None:
            continue
        least, most = among(by_loss, n_arms).ends or by_loss.ends
        # What searching gained in loss is below 0, with its whole interval, on enough test rows.
        if most < 0 and RISK not in gain.overall.ungated and gain.reference not in raised:
            raised.add(gain.reference)
            yield Finding(
                code="search_raised_loss",
                arm=gain.reference,
                measure=RISK,
                unit="nats",
                numbers={"added": Interval(value=-by_loss.value, low=-most, high=-least)},
            )


def edges(tuned: Tuned, arms: Mapping[str, ArmFacts]) -> Iterator[Finding]:
    """A finding for each setting whose best values lie at one end of what was searched.

    That must be so at more than ``OFTEN`` of an arm's seeds: a wider search might find better ones.

    Args:
        tuned: The searches.
        arms: Key -> facts of the arm.
    """
    for search in tuned.searches:
        for name, where in search.searched.items():
            values = []
            for seed in search.seeds:
                best = seed.best
                if best is not None and name in best.at_edge:
                    # Epochs alone stand beside the settings.
                    values.append(best.settings.get(name, float(best.epochs)))
            low, high = where.low, where.high
            if where.choices:
                low, high = min(where.choices), max(where.choices)
            for end in (low, high):
                # The values that lie nearer to this end than to the other.
                near = [v for v in values if (high - v < v - low) == (end == high)]
                is_often = len(near) > OFTEN * len(search.seeds)
                # A range that ends at its default does so because nothing is admitted beyond.
                if is_often and end != where.default:
                    nearest = min(near, key=lambda value: abs(value - end))
                    reason = f"{name.replace('_', ' ')} {nearest:.3g}"
                    arm = arms[search.arm]
                    yield Finding(
                        code="at_edge",
                        arm=arm.key,
                        numbers={"nearest": Interval(value=nearest, low=None, high=None)},
                        reason=name,
                        advice=advice("search wider", arm, reason),
                    )
