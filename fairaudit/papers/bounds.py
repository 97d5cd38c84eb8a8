"""The papers' lower bounds on how much more one group than another pays for one step's clipping.

Source: Esipova et al. 2023, Prop. 3; Tran et al. 2021, Thm 3 with Lemma 2 corrected (the square of
the expected norm is not the expected square).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairaudit.diagnostics.causes import StepTerms
from fairaudit.diagnostics.risk_terms import Batches, Means, Sampling, first_order


def read(steps: Sequence[StepTerms]) -> dict[str, Tensor]:
    """The bounds of a step of every replicate, [R, K, K] each."""
    bounds: dict[str, list[Tensor]] = {}
    for step in steps:
        for name, value in lower_bounds(*step).items():
            bounds.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in bounds.items()}


def lower_bounds(
    batches: Batches,
    means: Means,
    sampling: Sampling,
) -> dict[str, Tensor]:
    """Lower bounds on how much more one group than another pays for clipping, [K, K] each, nats.

    They hold for all ordered pairs of groups at once: entry [a, b] bounds R^a - R^b from below.
    They need convex group losses and eta * lambda_max <= 1. NaN where no batch is kept.

    Args:
        batches, means, sampling: Of the step.

    Returns:
        ``bound_direction`` (Prop. 3) and ``bound_clip`` (Tran et al.).
    """
    eta, keep = sampling.learning_rate, batches.kept
    square = batches.plain[keep].square().sum(1).mean()
    clipped_square = batches.clipped[keep].square().sum(1).mean()
    # The truth's own first-order terms: other batches' noise would pass for slack.
    linear = first_order(batches, means)
    direction = _differences(linear["direction"][keep, :-1].mean(0))
    clip = _differences(means.group[:-1] @ (means.plain - means.clipped))
    return {
        "bound_direction": eta * (direction - clipped_square),
        "bound_clip": eta * (clip - (square + clipped_square) / 2),
    }


def _differences(values: Tensor) -> Tensor:
    return values.unsqueeze(1) - values.unsqueeze(0)
