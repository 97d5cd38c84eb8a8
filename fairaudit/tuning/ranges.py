"""A search for settings of a trainer of the user's own, which declares their ranges.

The search is not charged. The first candidate is the default, which the code alone knows; the
others are drawn from the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING  # noqa: TID251 - a plan loads no PyTorch

from fairaudit.config.options import AuditConfig
from fairaudit.planning.arms import Arm
from fairaudit.planning.search import DeclaredRange, TrainAt
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.jobs import JobContent
from fairaudit.tuning.search import EDGE, Candidate, Coordinate, Form, Tuning

if TYPE_CHECKING:
    from fairaudit.execution.seed_data import SeedData

# The form of every candidate: how long the code trains and what it releases is not seen.
_UNSEEN = Form(epochs=0, noise_multiplier=None, event=None)


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
        """The mean length of a training over that of the default: not known, and taken for 1."""
        return 1.0

    def train_own(self, arm: Arm, seed: int, prepared: SeedData, train_at: TrainAt) -> JobContent:
        """Train every candidate by the user's code, and keep the best by an exact score."""
        from fairaudit.tuning.trials import search_own

        return search_own(arm, seed, prepared, train_at)

    def to_json(self) -> dict[str, object]:
        """What its candidates follow from, for a job's id.

        The ranges are left out: they are in the code, whose digest is in the id, too.
        """
        return {"trials": self.trials, "goal": self.goal}

    def candidate(self, seed: int, number: int) -> Candidate:
        """The candidate of that number at a seed: number 0 is the default, with no settings.

        Others are drawn from streams that the seed, the number and the setting name, so arms with a
        setting of one name share its draws.
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


def search_ranges(config: AuditConfig, ranges: Mapping[str, DeclaredRange]) -> Tuning | None:
    """The search over the settings that code declares, uncharged; None without ``--tune``.

    Args:
        config: The options.
        ranges: Name of a setting -> its range.
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
    return RangeTuning(
        config.tune,
        config.tune_for,
        settings={},  # the default setting is not known
        coordinates=coordinates,
        forms={},  # nothing is drawn among choices; every candidate has the form _UNSEEN
        score_noise=0.0,
        selection=None,
    )
