"""The papers' lower bounds on how much more one group than another pays for one step's clipping.

Each bound is a difference of first orders less what the second order can take from it at most. With
convex group losses (Hessians without negative eigenvalues) the second order of a part lies between
-eta^2 / 2 lambda_a S and + eta^2 / 2 lambda_b S', lambda the largest eigenvalue of a group's
Hessian, S and S' expected squares of the batch's gradient, before or after clipping. The papers ask
for eta lambda <= 1, which leaves eta / 2 (S + S'); the form with the eigenvalues holds for a step
of any length.

Source: Esipova et al. 2023, Prop. 3 and 3* (the last term of 3* corrected to a square); Tran et al.
2021, Thm 3 with Lemma 2 corrected (the square of the expected norm is not the expected square).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.diagnostics.risk_terms import Batches, Means, Sampling, first_order

NOT_CONVEX = 1e-3  # of the largest eigenvalue: a smallest one further below zero is not rounding


@dataclass(frozen=True, slots=True)
class Spectra:
    """Ends of the spectrum of each group's Hessian.

    Args:
        largest, smallest: Algebraic, [K] float64; NaN where they were not found.
    """

    largest: Tensor
    smallest: Tensor

    @classmethod
    def unknown(cls, n_groups: int) -> "Spectra":
        """Nothing was found, for so many groups."""
        nothing = torch.full((n_groups,), torch.nan, dtype=torch.float64)
        return cls(nothing, nothing)

    def series(self, learning_rate: float) -> dict[str, Tensor]:
        """What is kept of a step of that length.

        Returns:
            ``eigenvalue_largest``, ``eigenvalue_smallest`` and ``eta_lambda``, [K] each;
            ``is_short_step`` and ``is_convex``, [1] each.
        """
        return {
            "eigenvalue_largest": self.largest,
            "eigenvalue_smallest": self.smallest,
            "eta_lambda": learning_rate * self.largest,
            "is_short_step": self.is_short_step(learning_rate).view(1),
            "is_convex": self.is_convex().view(1),
        }

    def is_short_step(self, learning_rate: float) -> Tensor:
        """Whether eta lambda <= 1 in every group, as 0 or 1, []; NaN where it is not known."""
        lengths = learning_rate * self.largest
        return (lengths <= 1).all().double().where(~lengths.isnan().any(), torch.nan)

    def is_convex(self) -> Tensor:
        """Whether no group's loss is clearly not convex, as 0 or 1, []; NaN if not known."""
        margin = self.smallest + NOT_CONVEX * self.largest.abs()
        return (margin >= 0).all().double().where(~margin.isnan().any(), torch.nan)


def lower_bounds(
    batches: Batches, means: Means, sampling: Sampling, spectra: Spectra, bound: float
) -> dict[str, Tensor]:
    """Lower bounds on how much more one group than another pays for clipping, [K, K] each, nats.

    Entry [a, b] bounds from below how much more of the loss group a pays than group b: eta times
    the difference of their first orders less eta / 2 (S + S'), or with ``_curved`` less eta^2 / 2
    (lambda_a S + lambda_b S'), where S and S' are mean squares of the batch's gradient, before or
    after clipping, and lambda is a group's largest eigenvalue (docs/methods.md 8.4). The bounds
    hold for convex group losses; those without ``_curved`` only if eta lambda <= 1 as well. They
    are means over the batches at which every term is defined (``kept``), and NaN where there is
    none; the first order of ``bound_clip`` is its exact expectation.

    Args:
        batches: Gradients of Poisson batches of the step, plain and clipped.
        means: Gradients over all records and of every group; the last row is of everybody.
        sampling: The learning rate eta.
        spectra: Eigenvalues of the groups' Hessians.
        bound: C, the longest contribution of a record.

    Returns:
        ``bound_direction``, on the part that clipping's direction has (Esipova et al., Prop. 3),
        ``bound_direction_star``, on the direction that turns first (Prop. 3*), and ``bound_clip``,
        on all of clipping (Tran et al., Thm 3); the same with ``_curved``, with the eigenvalues
        themselves; ``bound_direction_star_printed`` and ``bound_clip_printed``, with the last term
        as it stands in the papers, which need not hold.
    """
    eta, keep = sampling.learning_rate, batches.kept
    squares = batches.plain[keep].square().sum(1)
    plain, clipped = squares.mean(), batches.clipped[keep].square().sum(1).mean()
    # First-order terms of the same batches as in the readings that the bounds are compared with, so
    # that sampling noise does not look like a distance between reading and bound.
    linear = first_order(batches, means)
    direction = _pair_differences(linear["direction"][keep, :-1].mean(0))
    star = _pair_differences(linear["direction_star"][keep, :-1].mean(0))
    clip = _pair_differences(means.group[:-1] @ (means.plain - means.clipped))
    bounds = {}
    for name, first, of_a, of_b in (  # the bound, its first orders, S and S'
        ("direction", direction, clipped, clipped),
        ("direction_star", star, plain, plain),
        ("clip", clip, plain, clipped),
    ):
        bounds[f"bound_{name}"] = eta * (first - (of_a + of_b) / 2)
        second = of_a * spectra.largest.unsqueeze(1) + of_b * spectra.largest
        bounds[f"bound_{name}_curved"] = eta * first - eta**2 / 2 * second
    length = squares.sqrt().mean()
    bounds["bound_direction_star_printed"] = eta * (star - length)
    printed = (means.plain.square().sum() + bound**2) / 2
    bounds["bound_clip_printed"] = eta * (clip - printed)
    return bounds


def _pair_differences(values: Tensor) -> Tensor:
    """Every group's value less every other's, [K] -> [K, K]: entry [a, b] is value a less b."""
    return values.unsqueeze(1) - values.unsqueeze(0)
