"""The steps of another training, taken by plain SGD: no clipping, no weights, no penalty, no noise.

Source: docs/methods.md 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import ClippingRule, PublicFacts, SideQuery
from fairaudit.methods.base import Method
from fairaudit.methods.gradient import GradientMethod

if TYPE_CHECKING:
    from torch import Tensor

    from fairaudit.engine.release import ExactRelease
    from fairaudit.methods.base import Task

FACTOR = "factor"  # series of a task's source: the factor of each step, [T, R]
SAME = 1e-6  # relative: a difference of rounding


@dataclass(frozen=True, slots=True)
class StepFactors(ClippingRule[int]):
    """Every gradient times the factor of its step; the state counts the steps."""

    factors: Tensor  # [T, R]

    def beside(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """The factors of all, side by side."""
        import torch

        factors = [self.factors]
        for other in others:
            if not isinstance(other, StepFactors):
                return None
            factors.append(other.factors)
        return replace(self, factors=torch.cat(factors, 1))

    def init(self, replicates: int, facts: PublicFacts) -> int:
        """No step taken."""
        return 0

    def step(self, released: int) -> int:
        """One more."""
        return released + 1

    def sensitivity(self, released: int) -> Tensor:
        """Unbounded."""
        return self.factors.new_full((self.factors.shape[1],), math.inf)

    def scale(self, released: int, norms: Tensor, group: Tensor) -> Tensor:
        """The step's factor for every record."""
        return self.factors[released].to(norms).unsqueeze(-1).expand_as(norms)


class StepsAlone(GradientMethod):
    """Another method's batches, rate and factors, and nothing else of it.

    Args:
        method: The other; the task is one of its own, with ``FACTOR`` in its source.
    """

    def __init__(self, method: Method) -> None:
        assert isinstance(method, GradientMethod)
        self.method = method

    def rule(self, task: Task) -> StepFactors:
        """One factor for all records of a step."""
        import torch

        return StepFactors(torch.from_numpy(task.source[FACTOR]))

    def release(self, task: Task) -> ExactRelease:
        """No noise."""
        from fairaudit.engine.release import ExactRelease

        return ExactRelease()

    def learning_rate(self, task: Task) -> float:
        """The other's."""
        return self.method.learning_rate(task)

    def takes_steps_of(self, task: Task, rate: float) -> bool:
        """Whether plain SGD at that rate takes the same steps, but for rounding."""
        from fairaudit.engine.optimizers import OPTIMIZERS

        factors = task.source[FACTOR].astype("float64")
        ratio = self.learning_rate(task) / rate
        if OPTIMIZERS[task.optimizer].is_proportional:
            return bool((abs(factors * ratio - 1.0) < SAME).all())
        return bool((abs(factors - 1.0) < SAME).all()) and abs(ratio - 1.0) < SAME
