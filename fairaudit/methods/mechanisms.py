"""What each kind of method releases, and the noise with which it meets a target: all before training."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fairaudit.errors import PrivacyError
from fairaudit.privacy.accounting import calibrate, calibrate_gaussian
from fairaudit.privacy.events import Gaussian, NoisyRelease, PrivacyEvent, SampledGaussian

Settings = Mapping[str, float]


class Mechanism(Protocol):
    """How a method's numbers turn into an event, and a target epsilon into its noise multiplier."""

    def event(self, settings: Settings, steps_per_epoch: int, epochs: int) -> PrivacyEvent:
        """What one run releases; no data argument, so epsilon is known before training."""

    def calibrated(
        self, settings: Settings, steps_per_epoch: int, epochs: int, *, delta: float, target: float
    ) -> float:
        """The noise multiplier with which one run costs at most ``target``.

        Raises:
            PrivacyError: No noise meets it.
        """


@dataclass(frozen=True, slots=True)
class SampledMechanism:
    """A gradient and side queries on each step's Poisson sample.

    Args:
        side_queries: Query name -> the setting that holds its noise multiplier.
        relative_queries: Query name -> the setting that holds its noise multiplier over the gradient's.
    """

    side_queries: Mapping[str, str]
    relative_queries: Mapping[str, str]

    def event(self, settings: Settings, steps_per_epoch: int, epochs: int) -> SampledGaussian:
        """One joint release per step. Source: docs/methods.md 2.1."""
        sigma = settings["noise_multiplier"]
        side = [
            *(NoisyRelease(query, settings[name] * sigma) for query, name in self.relative_queries.items()),
            *(NoisyRelease(query, settings[name]) for query, name in self.side_queries.items()),
        ]
        gradient = NoisyRelease("gradient", sigma)
        return SampledGaussian(steps_per_epoch, steps_per_epoch * epochs, (gradient, *side))

    def calibrated(
        self, settings: Settings, steps_per_epoch: int, epochs: int, *, delta: float, target: float
    ) -> float:
        """The gradient's noise multiplier, beside the queries' own."""
        side = tuple(settings[name] for name in self.side_queries.values())
        together = calibrate(steps_per_epoch, steps_per_epoch * epochs, delta, target, side)
        # Queries in proportion to the gradient's noise take a fixed part of what is left: 1 / sigma^2 of
        # the step is (1 + sum 1 / ratio^2) / sigma_gradient^2.
        parts = [_ratio(name, settings[name]) ** -2 for name in self.relative_queries.values()]
        return together * math.sqrt(1.0 + sum(parts))


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """Gaussian releases about all records at once.

    Args:
        released: What is released.
        count: The setting that holds how often, or None for once.
    """

    released: str
    count: str | None = None

    def event(self, settings: Settings, steps_per_epoch: int, epochs: int) -> Gaussian:
        """Nothing is sampled, so the schedule does not enter. Source: docs/methods.md 2.4."""
        return Gaussian(self.released, settings["noise_multiplier"], self._count(settings))

    def calibrated(
        self, settings: Settings, steps_per_epoch: int, epochs: int, *, delta: float, target: float
    ) -> float:
        """Noise over sensitivity, of each release."""
        return calibrate_gaussian(self._count(settings), delta, target)

    def _count(self, settings: Settings) -> int:
        return 1 if self.count is None else int(settings[self.count])


def _ratio(name: str, value: float) -> float:
    if value <= 0.0:
        raise PrivacyError(
            f"{name} {value:g} releases statistics of the records without noise",
            hint=f"use a {name} above 0",
        )
    return value
