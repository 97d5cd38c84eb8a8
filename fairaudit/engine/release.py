"""How a step closes: what becomes of the sum of scaled gradients.

A release makes the gradient of R replicates, [R, P], from one or more such sums. A private one
knows the batch only by these sums. qN, the expected batch size, is ``facts.divisor``, [R, 1]. Rules
R3 and R5 are in docs/methods.md 1.3.
"""

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
    """Closes a step without knowing the batch: sums in, gradient out.

    ``rows`` names the sums that it is handed, in their order.
    """

    rows: ClassVar[tuple[GradientSum, ...]] = (GradientSum.CLIPPED,)

    @abstractmethod
    def __call__(self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts) -> Tensor:
        """The gradient [R, P] from the sums of ``rows``, [R, P] each, and the sensitivity [R]."""

    @abstractmethod
    def event(self) -> NoisyRelease | None:
        """What one call releases under a guarantee; None: no guarantee is claimed."""

    def stacked_with(self, others: Sequence["Release"]) -> "Release | None":
        """One release for the replicates of this and of all others, so that they train as one.

        None, as here by default, where one cannot do what they all do.
        """
        return None


class GaussianRelease(Release):
    """Sum plus noise of std noise_multiplier * sensitivity, over qN: the only private release.

    Args:
        noise_multiplier: sigma.
        noise: The source of noise, a stream for each replicate; one draw per step.
    """

    def __init__(self, noise_multiplier: float, noise: GaussianNoise) -> None:
        self.noise_multiplier = noise_multiplier
        self.noise = noise
        self._buffer: Tensor | None = None

    def __call__(self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts) -> Tensor:
        """``(sum + sigma * sensitivity * N(0, 1)) / qN``, ``[R, P]``, in the memory of the sum.

        Noise is drawn for every step, the empty batch included (rule R5).
        """
        if self._buffer is None:  # memory for the noise of every step
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

    def stacked_with(self, others: Sequence[Release]) -> "GaussianRelease | None":
        """One release for the replicates of all; None where types or noise multipliers differ.

        Each replicate keeps its own stream of noise.
        """
        noise = [self.noise]
        for other in others:
            if type(other) is not type(self) or other.noise_multiplier != self.noise_multiplier:
                return None
            noise.append(other.noise)
        return type(self)(self.noise_multiplier, GaussianNoise.of_all(noise))


class ExactRelease(Release):
    """Sum over qN, no noise: the non-private reference."""

    def __call__(self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts) -> Tensor:
        """``sum / qN``, ``[R, P]``, in the memory of the sum.

        The divisor is qN here too, so that reference and private arm differ in nothing else.
        """
        return sums[0].div_(facts.divisor)

    def event(self) -> None:
        """None: without noise no guarantee is claimed."""
        return None

    def stacked_with(self, others: Sequence[Release]) -> "ExactRelease | None":
        """This one itself, for it keeps nothing of a replicate; None where types differ."""
        if all(type(other) is type(self) for other in others):
            return self
        return None


@dataclass(frozen=True, slots=True)
class Realised:
    """The batch as it was drawn, which only an unproven release is told.

    Args:
        size: Number of records in the batch, [R].
        groups: Number of records of each group in the batch, [R, K].
        described: What the rule's ``describe`` gives of this step's released state, by name.
    """

    size: Tensor
    groups: Tensor
    described: Mapping[str, Tensor]


class UnprovenRelease(ABC):
    """Closes a step with the batch in view, so nothing can be proved of it; it has no event.

    For methods as they were published, where they divide by the size of the batch, for instance.
    """

    rows: ClassVar[tuple[GradientSum, ...]] = (GradientSum.CLIPPED,)

    @abstractmethod
    def __call__(
        self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts, realised: Realised
    ) -> Tensor:
        """The gradient [R, P] from the sums of ``rows``, [R, P] each, and facts of the batch."""

    def describe(self) -> dict[str, Tensor]:
        """Values to record of the step it just closed, [R, ...] each, by name; empty: none."""
        return {}
