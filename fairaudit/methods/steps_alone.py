"""The twin that takes an arm's steps alone: plain SGD with the lengths of the arm's steps.

A private method's cost is split into what the length of its steps, its clipping and its noise do.
For the first part plain SGD trains with the arm's batches and learning rate, without clipping,
weights, penalty or noise, and multiplies all gradients of a step by the factor that the arm's rule
gives a gradient that it does not clip. The factors [T, R], of T steps and R replicates, are a
series of the arm's training without noise.

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

FACTOR = "factor"  # name of that series in a task's source
SAME = 1e-6  # relative: a smaller difference is one of rounding


@dataclass(frozen=True, slots=True)
class StepFactors(ClippingRule[int]):
    """Every gradient times the factor of its step; the state counts the steps."""

    factors: Tensor  # [T, R]

    def stacked_with(self, others: Sequence[SideQuery[Any]]) -> Self | None:
        """One rule for the replicates of this and of all others; None where one is of another kind.

        The factors of all stand side by side.
        """
        import torch

        factors = [self.factors]
        for other in others:
            if not isinstance(other, StepFactors):
                return None
            factors.append(other.factors)
        return replace(self, factors=torch.cat(factors, 1))

    def init(self, replicates: int, facts: PublicFacts) -> int:
        """The state at the start: 0 steps taken."""
        return 0

    def step(self, released: int) -> int:
        """The next state: one step more."""
        return released + 1

    def sensitivity(self, released: int) -> Tensor:
        """Infinite for every replicate, [R]: nothing is clipped, and nothing private is claimed."""
        return self.factors.new_full((self.factors.shape[1],), math.inf)

    def scale(self, released: int, norms: Tensor, group: Tensor) -> Tensor:
        """Each record's factor, [R, B]: the step's own for all records."""
        return self.factors[released].to(norms).unsqueeze(-1).expand_as(norms)


class StepsAlone(GradientMethod):
    """Plain SGD with another method's batches, learning rate and factors.

    Args:
        method: That method. The task to fit is one of its own, with ``FACTOR`` in its source.
    """

    def __init__(self, method: Method) -> None:
        assert isinstance(method, GradientMethod)
        self.method = method

    def rule(self, task: Task) -> StepFactors:
        """The rule that multiplies all gradients of a step by the step's factor."""
        import torch

        return StepFactors(torch.from_numpy(task.source[FACTOR]))

    def release(self, task: Task) -> ExactRelease:
        """What closes a step: the sum of gradients over qN, without noise."""
        from fairaudit.engine.release import ExactRelease

        return ExactRelease()

    def learning_rate(self, task: Task) -> float:
        """The learning rate that the other method uses in this task."""
        return self.method.learning_rate(task)

    def takes_steps_of(self, task: Task, rate: float) -> bool:
        """Whether plain SGD at learning rate ``rate``, without factors, takes the same steps.

        Rounding is no difference. On the reference's batches the twin would then be the reference,
        so it need not be trained.
        """
        from fairaudit.engine.optimizers import OPTIMIZERS

        factors = task.source[FACTOR].astype("float64")
        ratio = self.learning_rate(task) / rate
        # Where steps are proportional to gradients, factor and rate may make up for each other.
        if OPTIMIZERS[task.optimizer].is_proportional:
            return bool((abs(factors * ratio - 1.0) < SAME).all())
        return bool((abs(factors - 1.0) < SAME).all()) and abs(ratio - 1.0) < SAME
