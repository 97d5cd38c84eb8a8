"""One arm's search: what its candidates are, and the probability that each is the one released.

A candidate is one draw of an arm's settings from a public prior: the default setting, or each
coordinate, a number that is searched, from its range or its choices. At each seed an audit trains n
candidates; a charged search tries a random number K of them, so each has a probability of being the
best that was tried. Nothing here reads a record: candidates follow from the seed and the method's
ranges, and what is done with scores is the same whatever they were computed from.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fairaudit.methods.spec import Guarantee
from fairaudit.planning.arms import Arm
from fairaudit.planning.search import CandidateSearch
from fairaudit.privacy.accounting import epsilon
from fairaudit.privacy.events import PrivacyEvent, shown_up
from fairaudit.privacy.selection import Selection, SelectionEvent
from fairaudit.privacy.streams import numpy_stream
from fairaudit.report.types.facts import ArmPrivacy, Epsilon
from fairaudit.tuning.validation import VALIDATION_SHARE

# What a score is, over validation rows: the accuracy of all, or the smallest of any group.
Goal = Literal["accuracy", "worst-group"]
Choice = tuple[float, ...]  # one value for each coordinate that has choices, in their order

NAME = "tuning"  # of the capability
EPOCHS = "epochs"  # the coordinate that is no setting of a method: how long a candidate trains
DEFAULT_SHARE = 0.5  # probability that a candidate is the default setting
EDGE = 0.05  # share of a range on its log scale: a setting so near to an end is at the edge


@dataclass(frozen=True, slots=True)
class Coordinate:
    """What one number of a candidate, a setting or the epochs, is drawn from.

    Args:
        default: Its value in the default setting.
        low, high: Ends of a range, in which it is drawn log-uniformly.
        choices: Values that are drawn in place of the range, each as likely; or empty.
        whole: Whether it is a whole number.
    """

    default: float
    low: float
    high: float
    choices: tuple[float, ...] = ()
    whole: bool = False

    def at(self, share: float) -> float:
        """The value at a share of the range on its log scale, or of the list of choices.

        With a share drawn uniformly it is a draw from the prior.

        Args:
            share: In [0, 1).
        """
        if self.choices:
            return self.choices[int(share * len(self.choices))]
        value = self.low * (self.high / self.low) ** share
        return float(round(value)) if self.whole else value

    def is_at_edge(self, value: float) -> bool:
        """Whether a value lies so near to an end that a wider search might find better."""
        if self.choices:
            return value in (min(self.choices), max(self.choices))
        if self.high <= self.low:  # a single value: there is no range to lie at the edge of
            return False
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return not EDGE < share < 1.0 - EDGE


def names_of_choices(coordinates: Mapping[str, Coordinate]) -> tuple[str, ...]:
    """Names of the coordinates that have choices, in their order, as a ``Choice`` has them."""
    return tuple(name for name, coordinate in coordinates.items() if coordinate.choices)


def combinations(
    coordinates: Mapping[str, Coordinate], epochs: int
) -> Iterator[tuple[Choice, dict[str, float], int]]:
    """Every combination of one value for each coordinate with choices, the default's first.

    Without such coordinates there is one combination, the empty one.

    Args:
        coordinates: What is searched, by name.
        epochs: Those of the default setting, for a search that does not vary them.

    Yields:
        The combination as the tuple that is its key in ``Tuning.forms``, as settings by name
        without the epochs, and its epochs.
    """
    choices = {name: c.choices for name, c in coordinates.items() if c.choices}
    default = tuple(coordinates[name].default for name in choices)
    # dict.fromkeys keeps the first of equal ones: the default's comes once more in the product.
    for chosen in dict.fromkeys([default, *product(*choices.values())]):
        values = dict(zip(choices, chosen, strict=True))
        length = int(values.pop(EPOCHS, epochs))
        yield chosen, values, length


@dataclass(frozen=True, slots=True)
class Form:
    """What follows from a combination of choices: a training's epochs, noise and release.

    Args:
        epochs: Passes over the fit rows.
        noise_multiplier: Of the training; None where the method has no noise.
        event: What the training releases; None where no guarantee is claimed.
    """

    epochs: int
    noise_multiplier: float | None
    event: PrivacyEvent | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One draw of an arm's settings from the prior, at one seed.

    Args:
        number: From 0 to n - 1; candidates of one number in all arms of a seed share their draws.
        is_default: Whether the coin fell on the default setting.
        settings: The arm's numbers, its noise included.
        form: Epochs, noise, and what the training releases.
    """

    number: int
    is_default: bool
    settings: Mapping[str, float]
    form: Form


@dataclass(frozen=True, slots=True)
class Tuning(CandidateSearch):
    """How one arm's settings are sought.

    Args:
        trials: n, the candidates that are trained at each seed.
        goal: What a score is.
        settings: The default setting.
        coordinates: Name of a setting, or ``epochs`` -> what it is searched in.
        forms: Every combination of choices -> the form of its trainings.
        score_noise: Standard deviation of the noise on each count of a score, in records; 0: exact.
        selection: The random number of tries of which the best is released; None: exactly all n.
        charge: What the search releases, from which its epsilon follows. For an uncharged search it
            is what the search would release with noised scores and a random number of tries:
            readers are told the epsilon of that. None where a training has no guarantee.
        scales_by_threshold: Whether the method scales gradients by C/Z, Z its threshold: a larger
            threshold then takes a longer step, as the method's defaults do.
    """

    uncovered: ClassVar[str] = "choice of the method, of what is searched and of what is not"

    trials: int
    goal: Goal
    settings: Mapping[str, float]
    coordinates: Mapping[str, Coordinate]
    forms: Mapping[Choice, Form]
    score_noise: float
    selection: Selection | None
    charge: SelectionEvent | None = None
    scales_by_threshold: bool = False

    def candidates(self, seed: int) -> tuple[Candidate, ...]:
        """The n candidates of a seed, independent draws from the same prior."""
        return tuple(self.candidate(seed, number) for number in range(self.trials))

    def weights(self, scores: Sequence[float]) -> NDArray[np.float64]:
        """The probability that each candidate is the one released, ``[n]``, sum 1.

        Means over candidates with these weights are expectations over the search. Equal scores are
        ranked in the order of the candidates, which says nothing about them.

        Args:
            scores: Each candidate's released score, ``[n]``; higher is better.

        Raises:
            ValueError: There are not n scores, or one is not finite.
        """
        if len(scores) != self.trials or not np.isfinite(scores).all():
            raise ValueError(f"{self.trials} candidates need as many finite scores: {list(scores)}")
        n = self.trials
        # The probabilities by rank: of the best score, the second best and so on.
        if self.selection is None:  # the best is kept for certain
            chances = np.eye(n)[0]
        else:
            chances = self.selection.chances(n)
        best_first = np.argsort(-np.asarray(scores), kind="stable")
        weights = np.empty(n)
        weights[best_first] = chances
        return weights

    @property
    def names_of_choices(self) -> tuple[str, ...]:
        """Names of the coordinates that have choices, in the order of a key of ``forms``."""
        return names_of_choices(self.coordinates)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """All that a candidate's training may release, each event once; empty without noise."""
        return tuple(
            dict.fromkeys(form.event for form in self.forms.values() if form.event is not None)
        )

    @property
    def mean_length(self) -> float:
        """The mean length of a candidate's training over that of the default, to estimate time."""
        searched = self.coordinates.get(EPOCHS)
        if searched is None:
            return 1.0
        # Of a draw that is not the default; epochs are always searched among choices.
        mean_drawn = sum(searched.choices) / len(searched.choices) / searched.default
        return DEFAULT_SHARE + (1.0 - DEFAULT_SHARE) * mean_drawn

    def guarantee(self, one: ArmPrivacy, delta: float) -> ArmPrivacy:
        """What an arm whose settings are searched guarantees.

        Args:
            one: What one of its trainings guarantees, at the default setting.
            delta: In (0, 1).

        Returns:
            Of a charged search ``one`` with the epsilon of the whole search; of an uncharged one no
            established guarantee, and why; of a method without noise ``one`` itself.
        """
        charge = self.charge
        if one.event is None or charge is None:  # no guarantee that a search could weaken
            return one
        cost = charge.epsilon(delta)
        if self.selection is None:  # uncharged: ``cost`` is what the search would cost if charged
            proof = one.guarantee.value if one.guarantee.is_proved else "claimed by its author"
            # ``headline`` is known of what has an event; 0.0 is for mypy alone.
            reason = (
                f"{proof} for one training (epsilon {shown_up(one.headline or 0.0)}); the search "
                f"over {self.trials} settings is not charged, and charged it costs "
                f"{shown_up(cost)}"
            )
            return ArmPrivacy(
                guarantee=Guarantee.NOT_ESTABLISHED,
                reason=reason,
                target_epsilon=one.target_epsilon,
            )
        base = max(epsilon(event, delta, "pld") for event in charge.trainings)
        reason = (
            f"the search is charged: the best of {self.selection}, by a score with noise of "
            f"{self.score_noise:.3g} records on each count; one training costs "
            f"{shown_up(base)}; figures of a step are those of the default setting"
        )
        spent = Epsilon(pld=None, rdp=cost)
        return one.model_copy(update={"reason": reason, "epsilon": spent, "base_epsilon": base})

    def to_json(self) -> dict[str, object]:
        """All that its candidates and their weights follow from, JSON-ready, for a job's id."""
        return {
            "trials": self.trials,
            "goal": self.goal,
            "settings": dict(self.settings),
            "coordinates": {
                name: [c.default, c.low, c.high, list(c.choices), c.whole]
                for name, c in self.coordinates.items()
            },
            "forms": [[list(k), f.epochs, f.noise_multiplier] for k, f in self.forms.items()],
            "score_noise": self.score_noise,
            "selection": None
            if self.selection is None
            else [self.selection.mean, self.selection.shape],
            "scales_by_threshold": self.scales_by_threshold,
            "validation_share": VALIDATION_SHARE,
        }

    def at_edge(self, candidate: Candidate) -> tuple[str, ...]:
        """Names of the coordinates in which a candidate lies at the edge of what is searched."""
        values = {**candidate.settings, EPOCHS: float(candidate.form.epochs)}
        if self.scales_by_threshold and "learning_rate" in self.coordinates:
            # The learning rate as it was drawn from its range: `candidate` multiplied it by the
            # threshold over the default threshold.
            product = values["learning_rate"] * self.settings["threshold"]
            values["learning_rate"] = product / values["threshold"]
        return tuple(name for name, c in self.coordinates.items() if c.is_at_edge(values[name]))

    def candidate(self, seed: int, number: int) -> Candidate:
        """The candidate of that number at a seed: one draw from the prior.

        Its random streams are named by the seed and the number.
        """
        is_default = numpy_stream(seed, "candidates", number).random() < DEFAULT_SHARE
        values = {}
        for name, coordinate in self.coordinates.items():
            if is_default:
                values[name] = coordinate.default
            else:
                # A stream for each coordinate: arms that have other coordinates share its draw.
                share = numpy_stream(seed, "candidates", number, name).random()
                values[name] = coordinate.at(share)
        choice = tuple(values[name] for name in self.names_of_choices)
        form = self.forms[choice]
        settings = dict(self.settings)
        settings |= {name: value for name, value in values.items() if name != EPOCHS}
        # The method scales gradients by C/Z: under a larger threshold Z a step is longer by the
        # same factor, so that the parameters move as far.
        if self.scales_by_threshold and "threshold" in values:
            settings["learning_rate"] *= values["threshold"] / self.settings["threshold"]
        if form.noise_multiplier is not None:
            settings["noise_multiplier"] = form.noise_multiplier
        return Candidate(number, is_default, settings, form)


def tuning_of(arm: Arm) -> Tuning:
    """The search of an arm, which must have one."""
    assert isinstance(arm.search, Tuning), f"{arm.key} has no search"
    return arm.search


def best_of(weights: Sequence[float]) -> int:
    """The number of the candidate with the largest weight: that of the best released score."""
    return max(range(len(weights)), key=lambda number: weights[number])
