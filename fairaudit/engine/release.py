"""How a step closes: what becomes of the sum of scaled gradients."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

import torch
from torch import Tensor

from fairaudit.engine.rules import PublicFacts
from fairaudit.privacy.events import NoisyRelease
from fairaudit.privacy.noise import GaussianNoise


class GradientSum(Enum):
    """Sums of gradients that a step can be asked for; each costs one weighted sum."""

    CLIPPED = auto()  # the whole batch, as scaled by the rule: [R, P]
    WHOLE = auto()  # the whole batch, unscaled: [R, P]


class Release(ABC):
    """Closes a step without knowing the batch: sums in, gradient out."""

    rows: ClassVar[tuple[GradientSum, ...]] = (GradientSum.CLIPPED,)

    @abstractmethod
    def __call__(
        self,
        sums: Sequence[Tensor],
        sensitivity: Tensor,
        facts: PublicFacts,
    ) -> Tensor:
        """The gradient [R, P] from the sums of ``rows``, [R, P] each, and the sensitivity [R]."""

    @abstractmethod
    def event(self) -> NoisyRelease | None:
        """What one call releases under a guarantee, or None."""

    def beside(self, others: Sequence["Release"]) -> "Release | None":
        """One release for the replicates of this and of all others; None where none can be."""
        return None


class GaussianRelease(Release):
    """Sum plus noise of std noise_multiplier * sensitivity, over qN: the only private release.

    Args:
        noise_multiplier: sigma.
        noise: Where the noise comes from; one draw per step.
    """

    def __init__(self, noise_multiplier: float, noise: GaussianNoise) -> None:
        self.noise_multiplier = noise_multiplier
        self.noise = noise
        self._buffer: Tensor | None = None

    def __call__(
        self,
        sums: Sequence[Tensor],
        sensitivity: Tensor,
        facts: PublicFacts,
    ) -> Tensor:
        """``(sum + sigma * sensitivity * N(0, 1)) / qN``, ``[R, P]``; in place.

        Noise is drawn for every step, the empty batch included (rule R5).
        """
        if self._buffer is None:
            self._buffer = torch.empty(sums[0].shape)
        gradient = sums[0]
        if self.noise_multiplier > 0:  # 0 is the noise-free twin, which claims nothing
            drawn = self.noise.fill(self._buffer)
            # The std is set by the claimed sensitivity, a function of released values (rule R3).
            gradient.addcmul_(drawn, sensitivity.unsqueeze(1), value=self.noise_multiplier)
        return gradient.div_(facts.divisor)

    def event(self) -> NoisyRelease | None:
        """The Gaussian release of the gradient; None at sigma = 0."""
        if self.noise_multiplier > 0:
            return NoisyRelease("gradient", self.noise_multiplier)
        return None

    def beside(self, others: Sequence[Release]) -> "GaussianRelease | None":
        """One release where all have the same noise multiplier, else None.

        Each replicate keeps the stream that it has.
        """
        noise = [self.noise]
        for other in others:
            if type(other) is not type(self) or other.noise_multiplier != self.noise_multiplier:
                return None
            noise.append(other.noise)
        return type(self)(self.noise_multiplier, GaussianNoise.of_all(noise))


class ExactRelease(Release):
    """Sum over qN, no noise: the non-private reference."""

    def __call__(
        self,
        sums: Sequence[Tensor],
        sensitivity: Tensor,
        facts: PublicFacts,
    ) -> Tensor:
        """``sum / qN``, ``[R, P]``; in place.

        The divisor is qN here too, so that reference and private arm differ in nothing else.
        """
        return sums[0].div_(facts.divisor)

    def event(self) -> None:
        """Nothing is claimed."""
        return None

    def beside(self, others: Sequence[Release]) -> "ExactRelease | None":
        """Itself: it keeps nothing of any replicate. None where another is of another kind."""
        if all(type(other) is type(self) for other in others):
            return self
        return None


@dataclass(frozen=True, slots=True)
class Realised:
    """What only an unproven release is told: the batch as it was drawn.

    Args:
        size: Records in the batch, [R].
        groups: Those of each group, [R, K].
        described: What the rule describes of this step's released state.
    """

    size: Tensor
    groups: Tensor
    described: Mapping[str, Tensor]


class UnprovenRelease(ABC):
    """Closes a step with the batch in view, so nothing can be proved of it; it has no event."""

    rows: ClassVar[tuple[GradientSum, ...]] = (GradientSum.CLIPPED,)

    @abstractmethod
    def __call__(
        self,
        sums: Sequence[Tensor],
        sensitivity: Tensor,
        facts: PublicFacts,
        realised: Realised,
    ) -> Tensor:
        """The gradient [R, P], from whatever the published form reads of the batch."""

    def describe(self) -> dict[str, Tensor]:
        """What it says of the step it just closed, [R, ...] each, for the trace."""
        return {}
