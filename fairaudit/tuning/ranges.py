"""A search for settings of code that is not of this program, which declares their ranges."""

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

_UNSEEN = Form(epochs=0, noise_multiplier=None, event=None)  # the code does not say


class Ends(Protocol):
    """A range as it is declared."""

    low: float
    high: float
    log: bool


class Trained(Protocol):
    """What one training predicts: ``test`` of the test and then the validation rows, [n, Y]."""

    test: NDArray[np.float32]


Places = NDArray[np.int64]
# Number, settings, places of fit and of validation rows among the training rows -> what comes out.
Train = Callable[
    [
        int,
        Mapping[str, float],
        Places,
        Places,
    ],
    Trained,
]


@dataclass(frozen=True, slots=True)
class RangeCoordinate(Coordinate):
    """A declared range; its default is known to the code alone."""

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
    """The first candidate is the default, at which the code is handed no settings."""

    @property
    def mean_length(self) -> float:
        """How long a candidate trains is not known."""
        return 1.0

    def to_json(self) -> dict[str, object]:
        """What its candidates follow from; the ranges are in the code, which has a digest."""
        return {"trials": self.trials, "goal": self.goal}

    def candidate(self, seed: int, number: int) -> Candidate:
        """One draw, by the streams of its seed and number, which all arms share."""
        settings = {}
        if number:
            for name, coordinate in self.coordinates.items():
                share = numpy_stream(seed, "candidates", number, name).random()
                settings[name] = coordinate.at(share)
        return Candidate(number, number == 0, settings, _UNSEEN)

    def at_edge(self, candidate: Candidate) -> tuple[str, ...]:
        """The settings in which a candidate lies at the edge of what is searched."""
        names = []
        for name, value in candidate.settings.items():
            if self.coordinates[name].is_at_edge(value):
                names.append(name)
        return tuple(names)


def search_ranges(config: AuditConfig, ranges: Mapping[str, Ends]) -> Tuning | None:
    """The search over these settings, which is not charged; None without ``--tune``."""
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
    return RangeTuning(
        config.tune,
        config.tune_for,
        {},
        coordinates,
        {},
        0.0,
        None,
    )


def try_ranges(
    arm: Arm, seed: int, prepared: SeedData, train: Train
) -> tuple[dict[str, Array], dict[str, object]]:
    """Train every candidate on the fit rows, and score it on the validation rows.

    A setting at which the code fails predicts the same for everybody, unless it is the default:
    then the error is raised.

    Args:
        arm, seed: The arm and the seed whose candidates are tried.
        prepared: The seed's data.
        train: Trains the code at one setting.

    Returns:
        Arrays and facts, as of :func:`fairaudit.tuning.trials.search`.
    """
    split, n_classes = prepared.encoded.split, len(prepared.dataset.classes)
    division, candidates = divide(prepared, prepared.pool), tuning_of(arm).candidates(seed)
    n, n_test = len(candidates), len(split.test)
    test = np.full(
        (
            n,
            n_test,
            n_classes,
        ),
        1.0 / n_classes,
        np.float32,
    )
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
    weights, tuned = judged(
        arm,
        seed,
        candidates,
        failed,
        correct,
        prepared,
        division,
    )
    arrays: dict[str, Array] = {
        "weights": weights,
        "probabilities": test,
        **training_counts(prepared, division.fit),
    }
    return arrays, {"tuning": tuned}
