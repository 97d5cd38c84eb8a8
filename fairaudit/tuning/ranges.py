"""A search for settings of a trainer of the user's own, which declares their ranges.

It is not charged. The first candidate is the default, which the code alone knows; the others are
drawn from the ranges.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.errors import OwnCodeError
from fairaudit.execution.outcomes import training_counts
from fairaudit.execution.seed_data import SeedData
from fairaudit.metrics.within_model import record_correct
from fairaudit.planning.arms import Arm
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.jobs import Array
from fairaudit.tuning.search import EDGE, Candidate, Coordinate, Form, Tuning, tuning_of
from fairaudit.tuning.trials import divide, judged

# Of every candidate: how long the code trains and what it releases is not seen.
_UNSEEN = Form(epochs=0, noise_multiplier=None, event=None)


class Ends(Protocol):
    """A range as the code declares it; ``log``: values are drawn evenly on a log scale."""

    low: float
    high: float
    log: bool


class Trained(Protocol):
    """What one training predicts: ``test`` of the test and then the validation rows, [n, Y]."""

    test: NDArray[np.float32]


Places = NDArray[np.int64]
# (candidate's number, settings, places of fit and of validation rows among the training rows) ->
# what the trained model predicts.
Train = Callable[[int, Mapping[str, float], Places, Places], Trained]


@dataclass(frozen=True, slots=True)
class RangeCoordinate(Coordinate):
    """The declared range of one setting; its default is NaN, for the code alone knows it."""

    is_log: bool = False

    def at(self, share: float) -> float:
        """The value at that share of the range, in [0, 1)."""
        if self.is_log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share

    def is_at_edge(self, value: float) -> bool:
        """Whether a value lies so near to an end that a wider search might find better."""
        return not self.at(EDGE) < value < self.at(1.0 - EDGE)


@dataclass(frozen=True, slots=True)
class RangeTuning(Tuning):
    """The search over declared ranges, all of them coordinates; nothing of it is charged.

    The first candidate is the default, at which the code is handed no settings.
    """

    @property
    def mean_length(self) -> float:
        """How long a candidate trains beside the default: not known, so taken for as long."""
        return 1.0

    def to_json(self) -> dict[str, object]:
        """What its candidates follow from, for a job's id, which has a digest of the code too.

        The ranges are in that code.
        """
        return {"trials": self.trials, "goal": self.goal}

    def candidate(self, seed: int, number: int) -> Candidate:
        """The candidate of that number at a seed: number 0 is the default, with no settings.

        Others are drawn from streams of the seed and the number, which all arms share.
        """
        settings = {}
        if number:
            for name, coordinate in self.coordinates.items():
                share = numpy_stream(seed, "candidates", number, name).random()
                settings[name] = coordinate.at(share)
        return Candidate(number, number == 0, settings, _UNSEEN)

    def at_edge(self, candidate: Candidate) -> tuple[str, ...]:
        """Names of the settings that lie at the edge of their range in a candidate."""
        names = []
        for name, value in candidate.settings.items():
            if self.coordinates[name].is_at_edge(value):
                names.append(name)
        return tuple(names)


def search_ranges(config: AuditConfig, ranges: Mapping[str, Ends]) -> Tuning | None:
    """The search over the settings that code declares, name -> range; None without ``--tune``.

    It is not charged.
    """
    if config.tune is None:
        return None
    coordinates = {}
    for name, ends in ranges.items():
        coordinates[name] = RangeCoordinate(
            math.nan,  # the default, which the code alone knows
            ends.low,
            ends.high,
            is_log=ends.log,
        )
    return RangeTuning(config.tune, config.tune_for, {}, coordinates, {}, 0.0, None)


def try_ranges(
    arm: Arm, seed: int, prepared: SeedData, train: Train
) -> tuple[dict[str, Array], dict[str, object]]:
    """Train every candidate on the fit rows, and score it on the validation rows.

    A candidate at which the code fails is taken for a model that predicts the same for everybody.

    Args:
        arm, seed: The arm and the seed whose candidates are tried.
        prepared: The seed's data.
        train: Trains the code at one setting.

    Returns:
        Arrays and facts, as of :func:`fairaudit.tuning.trials.search`.

    Raises:
        OwnCodeError: The code fails at its default.
    """
    split, n_classes = prepared.encoded.split, len(prepared.dataset.classes)
    division, candidates = divide(prepared, prepared.pool), tuning_of(arm).candidates(seed)
    n, n_test = len(candidates), len(split.test)
    test = np.full((n, n_test, n_classes), 1.0 / n_classes, np.float32)
    # What each candidate predicts of the validation rows.
    beside = np.full((n, len(division.validation), n_classes), 1.0 / n_classes, np.float32)
    failed = []
    for number, candidate in enumerate(candidates):
        try:
            run = train(number, candidate.settings, division.fit, division.validation)
        except OwnCodeError:
            if candidate.is_default:
                raise
            failed.append(number)
            continue
        test[number], beside[number] = run.test[:n_test], run.test[n_test:]
    correct = record_correct(beside, prepared.dataset.labels[split.train[division.validation]]) == 1
    weights, tuned = judged(arm, seed, candidates, failed, correct, prepared, division)
    arrays: dict[str, Array] = {
        "weights": weights,
        "probabilities": test,
        **training_counts(prepared, division.fit),
    }
    return arrays, {"tuning": tuned}
