"""Global scaling whose threshold follows a noised count."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fairaudit.engine.rules import ClippingRule, PublicFacts


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """Threshold Z, its last noised exceedance share, and qN; all [R], all released or public."""

    threshold: Tensor
    exceeding: Tensor
    expected_batch_size: Tensor


@dataclass(frozen=True, slots=True)
class GlobalAdaptiveClip(ClippingRule[ThresholdState]):
    """Scale every gradient by C/Z, or down to C if longer than Z; Z follows the noised count.

    Equal to flat clipping at Z with the step times C/Z, which is why `dpsgd-matched` is its control.
    The count is divided by qN, not by the realised batch size as published.

    Source: Esipova et al. 2023, Alg. 2; docs/methods.md 3.3. Guarantee: scale * norm <= max_grad_norm for
    every norm and every Z > 0; one record moves the count by at most 1.
    """

    max_grad_norm: float  # C
    threshold: float  # Z at step 0
    tolerance: float  # tau: a norm above tau * Z counts as exceeding
    threshold_learning_rate: float  # shrinkage of log Z per step
    count_noise_multiplier: float  # sigma_c, in records
    ceiling: float  # largest Z; bounds what exp() can do

    query_name: ClassVar[str] = "count"

    @property
    def query_noise_multiplier(self) -> float:
        """sigma_c."""
        return self.count_noise_multiplier

    def init(self, replicates: int, facts: PublicFacts) -> ThresholdState:
        """Z at its start; it never falls below C, the precondition of the published algorithm."""
        start = max(self.threshold, self.max_grad_norm)
        nothing = torch.zeros(replicates)
        return ThresholdState(torch.full((replicates,), start), nothing, facts.expected_batch_size)

    def query(self, state: ThresholdState, norms: Tensor, group: Tensor) -> Tensor:
        """1 for a record whose norm exceeds tau Z, [R, B, 1]."""
        return (norms > self.tolerance * state.threshold.unsqueeze(-1)).to(norms.dtype).unsqueeze(-1)

    def absorb(self, state: ThresholdState, answer: Tensor) -> ThresholdState:
        """Keep the noised share of exceeding records."""
        return replace(state, exceeding=answer[:, 0] / state.expected_batch_size)

    def sensitivity(self, released: ThresholdState) -> Tensor:
        """C, whatever Z is."""
        return torch.full_like(released.threshold, self.max_grad_norm)

    def scale(self, released: ThresholdState, norms: Tensor, group: Tensor) -> Tensor:
        """C / max(norm, Z)."""
        return self.max_grad_norm / torch.maximum(norms, released.threshold.unsqueeze(-1))

    def advance(self, released: ThresholdState) -> ThresholdState:
        """Z exp(-eta_Z + share), within [C, ceiling]."""
        moved = released.threshold * torch.exp(released.exceeding - self.threshold_learning_rate)
        return replace(released, threshold=moved.clamp(self.max_grad_norm, self.ceiling))

    def describe(self, released: ThresholdState) -> dict[str, Tensor]:
        """Z of this step."""
        return {"threshold": released.threshold}
