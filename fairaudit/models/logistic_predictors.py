"""Logistic regressions as predictors, and the inputs that a proof about them needs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.models.convex import scores

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class BoundedInputs:
    """Inputs of norm at most ``sqrt(norm^2 + intercept^2)``: clipped first, then the constant appended.

    Appending first would scale each record's constant by its own norm; clipping to the norm and then
    claiming it of the longer row would under-noise by up to 41 %. Source: docs/methods.md 4.2.

    Args:
        norm: R, or infinity for no clipping.
        intercept: b, the constant; 0 for none.
        means, deviations: Per group [K, d], subtracted and divided by before clipping, or None.
    """

    norm: float
    intercept: float = 1.0
    means: Tensor | None = None
    deviations: Tensor | None = None

    def __call__(self, features: Tensor, groups: Tensor) -> Tensor:
        """[n, d] of records of those groups -> [n, d (+ 1)] float64; what is not finite becomes 0."""
        width, constant = features.shape[1], self.intercept != 0.0
        out = features.new_full((len(features), width + constant), self.intercept, dtype=torch.float64)
        for start in range(0, len(features), _ROWS_AT_ONCE):
            piece = slice(start, start + _ROWS_AT_ONCE)
            out[piece, :width] = features[piece]
            self._clip(out[piece, :width], groups[piece])
        return out

    def _clip(self, x: Tensor, groups: Tensor) -> None:
        """In place, float64."""
        lengths = x.norm(dim=1, keepdim=True)  # finite where the row is
        spoilt = ~torch.isfinite(lengths[:, 0])
        if spoilt.any():
            x[spoilt] = 0.0
            lengths[spoilt] = 0.0
        if self.means is not None and self.deviations is not None:
            x -= self.means[groups]
            x /= self.deviations[groups]
            lengths = x.norm(dim=1, keepdim=True)
        # The guard keeps the rounded row within the bound (rule R7).
        x *= torch.clamp(self.norm / (lengths * (1.0 + 1e-12)), max=1.0)


@dataclass(frozen=True, slots=True)
class LogisticModels:
    """R logistic regressions.

    Args:
        weights: [R, H, d] float64; H is 1 for two classes.
        inputs: What they see of a record.
    """

    weights: Tensor
    inputs: BoundedInputs

    @property
    def theta(self) -> Tensor:
        """[R, P]."""
        return self.weights.flatten(1)

    @property
    def n_parameters(self) -> int:
        """P."""
        return self.theta.shape[1]

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """[n, d] of records of those groups -> [R, n, Y] float32, in chunks."""
        parts = [
            torch.softmax(scores(self.inputs(x, g), self.weights), -1).float()
            for x, g in zip(
                torch.split(features, _ROWS_AT_ONCE), torch.split(groups, _ROWS_AT_ONCE), strict=True
            )
        ]
        return torch.cat(parts, 1)
