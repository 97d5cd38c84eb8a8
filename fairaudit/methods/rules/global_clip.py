"""Global scaling with a fixed threshold."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.engine.rules import ClippingRule, PublicFacts


@dataclass(frozen=True, slots=True)
class GlobalClip(ClippingRule[Tensor]):
    """Scale every gradient by C/Z; drop those longer than Z.

    Source: Bu et al. 2021; docs/methods.md 3.2. Guarantee: scale * norm <= max_grad_norm for every norm.
    """

    max_grad_norm: float  # C
    threshold: float  # Z >= C, public

    def init(self, replicates: int, facts: PublicFacts) -> Tensor:
        """C, constant over steps."""
        return torch.full((replicates,), self.max_grad_norm)

    def sensitivity(self, released: Tensor) -> Tensor:
        """C."""
        return released

    def scale(self, released: Tensor, norms: Tensor, group: Tensor) -> Tensor:
        """C/Z within Z, else 0."""
        return (norms <= self.threshold).to(norms.dtype).mul_(self.max_grad_norm / self.threshold)
