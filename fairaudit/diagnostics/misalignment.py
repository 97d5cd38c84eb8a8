"""The angle between the gradient that training wanted and the one that clipping left it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairaudit.engine.observe import Observer, StepView
from fairaudit.engine.release import GradientSum


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine along the last axis; NaN where either vector is zero."""
    product = (a * b).sum(-1)
    value = product / (a.norm(dim=-1) * b.norm(dim=-1))
    return torch.where(value.isfinite(), value.clamp(-1.0, 1.0), torch.nan)


@dataclass(frozen=True, slots=True)
class Misalignment(Observer):
    """Cosines and norms of a step's gradients: whole batch, clipped batch, each group.

    Readings: ``cos_batch_clipped`` [R]; ``cos_group_batch``, ``cos_group_clipped`` [R, K] (group
    gradients are those of the batch, not of the whole training set; NaN for an absent group);
    ``norm_batch``, ``norm_clipped`` [R], ``norm_group`` [R, K], sums over the batch divided by qN.

    Source: Esipova et al. 2023, sec. 4; docs/methods.md 8.2.
    """

    every: int  # steps between readings

    needs: ClassVar[frozenset[GradientSum]] = frozenset(
        {GradientSum.WHOLE, GradientSum.CLIPPED, GradientSum.GROUPS}
    )

    def wants(self, step: int) -> bool:
        """Every so many steps, the first included."""
        return step % self.every == 0

    def observe(self, view: StepView) -> Mapping[str, Tensor]:
        """This step's cosines and norms."""
        batch, clipped, groups = (
            view.sums[row] for row in (GradientSum.WHOLE, GradientSum.CLIPPED, GradientSum.GROUPS)
        )
        return {
            "cos_batch_clipped": cosine(batch, clipped),
            "cos_group_batch": cosine(groups, batch.unsqueeze(1)),
            "cos_group_clipped": cosine(groups, clipped.unsqueeze(1)),
            "norm_batch": batch.norm(dim=-1),
            "norm_clipped": clipped.norm(dim=-1),
            "norm_group": groups.norm(dim=-1),
        }
