"""The direction-versus-magnitude ablation: flat clipping taken apart, no noise, no guarantee.

Clipping shortens the batch's gradient and turns it. With g_B the plain and gbar_B the clipped sum
of gradients of a batch, rho = ||gbar_B|| / ||g_B|| is the shrinkage. One arm shortens only, one
turns only.

Source: Esipova et al. 2023, sec. 4 and App. B.4, which describe the same two arms in different
words: M_B g_B is (||g_B|| / ||gbar_B||) gbar_B.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from fairaudit.engine.release import ExactRelease, GradientSum, Realised, UnprovenRelease
from fairaudit.engine.rules import FlatClip, PublicFacts
from fairaudit.methods.base import Task
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.sgd import Sgd


class Recombined(UnprovenRelease):
    """The batch's gradient with either the length or the direction that clipping gives it.

    Where the plain or the clipped gradient vanishes the step is not taken.

    Args:
        keeps_direction: True: the plain gradient's direction and the clipped one's length; False:
            the clipped gradient's direction and the plain one's length.
    """

    rows: ClassVar[tuple[GradientSum, ...]] = (GradientSum.CLIPPED, GradientSum.WHOLE)

    def __init__(self, *, keeps_direction: bool) -> None:
        self.keeps_direction = keeps_direction
        self._shrinkage = torch.empty(0)

    def __call__(
        self, sums: Sequence[Tensor], sensitivity: Tensor, facts: PublicFacts, realised: Realised
    ) -> Tensor:
        """The step's gradient [R, P]: rho g_B (direction kept) or gbar_B / rho, over qN.

        The step's rho is kept for :meth:`describe`.

        Args:
            sums: gbar_B and g_B, in the order of ``rows``, ``[R, P]`` each.
            sensitivity, realised: Not read, for there is no noise.
            facts: Public numbers, for the divisor.
        """
        clipped, plain = sums
        after, before = clipped.norm(dim=1, keepdim=True), plain.norm(dim=1, keepdim=True)
        usable = (after > 0) & (before > 0)
        rho = torch.where(usable, after / before, 0.0)  # [R, 1]
        self._shrinkage = rho.squeeze(1)
        if self.keeps_direction:
            mean = rho * plain
        else:
            mean = torch.where(usable, clipped / rho, 0.0)
        return mean / facts.divisor

    def describe(self) -> dict[str, Tensor]:
        """The series for the trace: rho of the last step, [R]; 0 for a step that was not taken."""
        return {"shrinkage": self._shrinkage}


class Clipped(DpSgd):
    """Flat clipping without noise."""

    def release(self, task: Task) -> ExactRelease:
        """What closes a step: the sum of clipped gradients over qN, without noise."""
        return ExactRelease()


class _HalfOfClipping(GradientMethod):
    """Flat clipping of which only the length or only the direction enters the step."""

    keeps_direction: ClassVar[bool]  # as of Recombined: direction is plain, length clipped

    def rule(self, task: Task) -> FlatClip:
        """The clipping rule, flat clipping; the release takes only one half of its effect."""
        return FlatClip(task.settings["max_grad_norm"])

    def release(self, task: Task) -> UnprovenRelease:
        """What closes a step: the plain and the clipped gradient recombined, without noise."""
        return Recombined(keeps_direction=self.keeps_direction)


class MagnitudeOnly(_HalfOfClipping):
    """Clipping's magnitude error alone: rho g_B."""

    keeps_direction = True


class DirectionOnly(_HalfOfClipping):
    """Clipping's direction error alone: gbar_B / rho."""

    keeps_direction = False


class SgdSlowed(Sgd):
    """Plain SGD at eta times the mean rho of magnitude-only's run at this seed.

    magnitude-only takes shorter steps, so at a fixed number of epochs it is a learning-rate
    experiment too; this arm is that experiment alone.
    """

    def learning_rate(self, task: Task) -> float:
        """eta times the mean of rho, magnitude-only's shrinkage, over its steps and repeats."""
        return task.settings["learning_rate"] * float(
            task.source["shrinkage"].astype("float64").mean()
        )
