"""The direction-versus-magnitude ablation: flat clipping taken apart, no noise, no guarantee.

Source: Esipova et al. 2023, sec. 6.1 and App. B.4, which describe the same two arms in different
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
    """The batch's gradient with the length or the direction that clipping gives it.

    Args:
        keeps_direction: Whether the plain gradient's direction stays and its length is the clipped
            one's, or the other way round. Where either vanishes the step is not taken.
    """

    rows: ClassVar[tuple[GradientSum, ...]] = (GradientSum.CLIPPED, GradientSum.WHOLE)

    def __init__(self, *, keeps_direction: bool) -> None:
        self.keeps_direction = keeps_direction
        self._shrinkage = torch.empty(0)

    def __call__(
        self,
        sums: Sequence[Tensor],
        sensitivity: Tensor,
        facts: PublicFacts,
        realised: Realised,
    ) -> Tensor:
        """rho g_B, or gbar_B / rho, rho = ||gbar_B|| / ||g_B||; all sums are ``[R, P]``."""
        clipped, plain = sums
        lengths = clipped.norm(dim=1, keepdim=True), plain.norm(dim=1, keepdim=True)
        usable = (lengths[0] > 0) & (lengths[1] > 0)
        rho = torch.where(usable, lengths[0] / lengths[1], 0.0)
        self._shrinkage = rho.squeeze(1)
        if self.keeps_direction:
            mean = rho * plain
        else:
            mean = torch.where(usable, clipped / rho, 0.0)
        return mean / facts.divisor

    def describe(self) -> dict[str, Tensor]:
        """rho of the last step, [R]; 0 for a step that was not taken."""
        return {"shrinkage": self._shrinkage}


class Clipped(DpSgd):
    """Flat clipping without noise."""

    def release(self, task: Task) -> ExactRelease:
        """No noise."""
        return ExactRelease()


class _Ablated(GradientMethod):
    keeps_direction: ClassVar[bool]

    def rule(self, task: Task) -> FlatClip:
        """Flat clipping, of which one half is used."""
        return FlatClip(task.settings["max_grad_norm"])

    def release(self, task: Task) -> UnprovenRelease:
        """The recombined gradient."""
        return Recombined(keeps_direction=self.keeps_direction)


class MagnitudeOnly(_Ablated):
    """Clipping's magnitude error alone: rho g_B."""

    keeps_direction = True


class DirectionOnly(_Ablated):
    """Clipping's direction error alone: gbar_B / rho."""

    keeps_direction = False


class SgdSlowed(Sgd):
    """Plain SGD at eta times the mean rho of magnitude-only's run at this seed.

    magnitude-only takes shorter steps, so at a fixed number of epochs it is a learning-rate
    experiment too; this arm is that experiment alone.
    """

    def learning_rate(self, task: Task) -> float:
        """eta * mean(rho)."""
        return task.settings["learning_rate"] * float(
            task.source["shrinkage"].astype("float64").mean()
        )
