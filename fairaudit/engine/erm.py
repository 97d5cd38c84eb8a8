"""The plain loss."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from fairaudit.engine.rules import Objective, PublicFacts, SideQuery

_DIFFERENCE = torch.tensor([-1.0, 1.0])


class Erm(Objective[None]):
    """The plain mean cross-entropy of the softmax."""

    def init(self, replicates: int, facts: PublicFacts) -> None:
        """No state."""
        return None

    def beside(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """It has no numbers; what inherits from it may have some."""
        return self if all(type(part) is Erm for part in (self, *others)) else None

    def output_gradient(self, released: None, logits: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        """softmax(logits) - target."""
        if logits.shape[-1] == 2:
            # The softmax of two is a sigmoid of their difference, which costs a fraction of ATen's
            # softmax over two columns.
            first, second = logits.unbind(-1)
            error = torch.sub(second, first).sigmoid_().sub_(targets.select(-1, 1))
            return error.unsqueeze(-1).mul(_DIFFERENCE.to(error.device))
        return torch.softmax(logits, -1).sub_(targets)
