"""The papers' lower bounds on how much more one group than another pays for one step's clipping.

Source: Esipova et al. 2023, Prop. 3 and 3* (the last term of 3* corrected to a square); Tran et al.
2021, Thm 3 with Lemma 2 corrected (the square of the expected norm is not the expected square).
"""

from collections.abc import Mapping

from torch import Tensor

from fairaudit.diagnostics.risk_terms import Batches, Means, Sampling, Spectrum, first_order


def lower_bounds(
    batches: Batches, means: Means, spectrum: Spectrum, sampling: Sampling, bound: float
) -> Mapping[str, Tensor]:
    """Lower bounds on how much more one group than another pays for clipping, [K, K] each, nats.

    Every bound holds for all ordered pairs of groups at once: entry [a, b] bounds R^a - R^b from
    below. The sharp forms need convex group losses alone; the printed ones also eta * lambda_max <=
    1. NaN where no batch is kept.

    Args:
        batches, means, sampling: Of the step.
        spectrum: Of the groups' Hessians.
        bound: C, the largest norm of a processed gradient.

    Returns:
        ``bound_direction`` (Prop. 3), ``bound_direction_star`` (Prop. 3*), ``bound_clip`` (Tran et
        al.), as printed but for the corrections, and the same with ``_convex``, which need no small
        step; ``bound_clip_printed`` with ||g_D||^2 and C^2, which bound nothing.
    """
    eta, keep = sampling.learning_rate, batches.kept
    groups = means.group[:-1]
    square, clipped_square = (
        v[keep].square().sum(1).mean() for v in (batches.plain, batches.clipped)
    )
    linear = first_order(
        batches, means
    )  # the truth's own, or noise of batches would pass for slack
    direction, star = (
        _differences(linear[f"direction{s}"][keep, :-1].mean(0)) for s in ("", "_star")
    )
    clip = _differences(groups @ (means.plain - means.clipped))
    row, column = (spectrum.largest.clamp_min(0.0).unsqueeze(i) for i in (1, 0))
    half = eta / 2
    printed = (means.plain.square().sum() + bound**2) / 2
    found = {
        "bound_clip_printed": clip - printed,
        "bound_direction": direction - clipped_square,
        "bound_direction_convex": direction - half * (row + column) * clipped_square,
        "bound_direction_star": star - square,
        "bound_direction_star_convex": star - half * (row + column) * square,
        "bound_clip": clip - (square + clipped_square) / 2,
        "bound_clip_convex": clip - half * (row * square + column * clipped_square),
    }
    return {name: eta * value for name, value in found.items()}


def sufficient_condition(group_norms: Tensor, shares: Tensor, max_grad_norm: float) -> Tensor:
    """Whether Thm 3 of Tran et al. says that a pays more than b for clipping, [2, 2] of 0 and 1.

    For two groups; sufficient for full batches only.

    Args:
        group_norms: ||g_a||, [2].
        shares: p_a, [2].
        max_grad_norm: C.
    """
    assert len(shares) == 2
    left = group_norms * (shares - shares.square() / 2)
    right = 2.5 * max_grad_norm + group_norms * (1 + shares + shares.square() / 2)
    fires = (left.unsqueeze(1) >= right.unsqueeze(0)).double()
    return fires.fill_diagonal_(0.0)


def _differences(values: Tensor) -> Tensor:
    return values.unsqueeze(1) - values.unsqueeze(0)
