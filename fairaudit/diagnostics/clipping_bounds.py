"""The papers' lower bounds on how much more one group than another pays for one step's clipping.

Source: Esipova et al. 2023, Prop. 3; Tran et al. 2021, Thm 3 with Lemma 2 corrected (the square of
the expected norm is not the expected square).
"""

from torch import Tensor

from fairaudit.diagnostics.risk_terms import Batches, Means, Sampling, first_order


def lower_bounds(batches: Batches, means: Means, sampling: Sampling) -> dict[str, Tensor]:
    """Lower bounds on how much more one group than another pays for clipping, [K, K] each, nats.

    Entry [a, b] bounds from below how much more of the loss group a pays than group b. The bounds
    hold for convex group losses and eta * lambda_max <= 1, lambda_max the largest eigenvalue of a
    group's Hessian. They are means over the batches at which every term is defined (``kept``), and
    NaN where there is none.

    Args:
        batches: Gradients of Poisson batches of the step, plain and clipped.
        means: Gradients over all records and of every group; the last row is of everybody.
        sampling: The learning rate eta.

    Returns:
        ``bound_direction``, on the part that clipping's direction has (Esipova et al., Prop. 3),
        and ``bound_clip``, on all of clipping (Tran et al., Thm 3).
    """
    eta, keep = sampling.learning_rate, batches.kept
    square = batches.plain[keep].square().sum(1).mean()
    clipped_square = batches.clipped[keep].square().sum(1).mean()
    # First-order terms of the same batches as in the readings that the bounds are compared with, so
    # that sampling noise does not look like a distance between reading and bound.
    linear = first_order(batches, means)
    direction = _pair_differences(linear["direction"][keep, :-1].mean(0))
    clip = _pair_differences(means.group[:-1] @ (means.plain - means.clipped))
    return {
        "bound_direction": eta * (direction - clipped_square),
        "bound_clip": eta * (clip - (square + clipped_square) / 2),
    }


def _pair_differences(values: Tensor) -> Tensor:
    """Every group's value less every other's, [K] -> [K, K]: entry [a, b] is value a less b."""
    return values.unsqueeze(1) - values.unsqueeze(0)
