"""What the parts of a step hand to it: taken as plain numbers of the shape that they must have.

An objective hands over output gradients and query rows, a rule query rows, factors and a claimed
sensitivity. Each enters a sum whose guarantee must not rest on who wrote the part. So each is read
once, into memory of the engine's own (:func:`numbers`), and a record's share of a sum is limited
there. R is the number of replicates, B of a batch's records, Q of a query's cells.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fairaudit.engine.layer import HIDDEN
from fairaudit.errors import PrivacyError, said

# A norm computed in float32 may fall short of the true one by some 1e-6; rules are handed an upper
# bound, so that scale * true norm cannot exceed the sensitivity (rule R7), whoever writes the rule.
NORM_GUARD = 1.0 + 1e-5
# Room for the rounding of a rule's own arithmetic; smaller than the guard, so that what passes
# still lies within the claim.
LARGEST_SHARE = 1.0 + 1e-6


def numbers(values: object, shape: Sequence[int | None], like: Tensor, name: str) -> Tensor:
    """A copy of what a part of the step hands over, as a plain tensor of real numbers.

    The copy shares no memory with the part, and its operations are PyTorch's own: a subclass of
    Tensor may have others.

    Args:
        values: What the part returned.
        shape: The shape that it must have, None for an axis of any length; nothing is broadcast.
        like: Gives the copy's device, and its type unless it is of whole numbers itself.
        name: What it is, for an error, as "the query 'count'".

    Raises:
        PrivacyError: It is no dense tensor of real numbers of that shape.
    """
    plain: object = values
    try:
        if type(values) is not Tensor and isinstance(values, Tensor):
            # Read as a plain Tensor, past what the subclass makes of operations.
            with torch._C.DisableTorchFunctionSubclass():
                plain = values.as_subclass(Tensor)
        if isinstance(plain, Tensor) and _fits(plain, shape):
            return _copied(plain, like)
    except Exception as error:  # sparse, without storage, or of operations of its own
        raise PrivacyError(
            f"{name} cannot be read: {said(error)}", hint="return a dense tensor"
        ) from error
    kind = type(values).__name__
    if isinstance(plain, Tensor):
        kind = f"{list(plain.shape)} of {str(plain.dtype).removeprefix('torch.')}"
    wanted = ", ".join("any" if length is None else f"{length}" for length in shape)
    raise PrivacyError(
        f"{name} is {kind}, where real numbers [{wanted}] belong",
        hint="one number or row for each record of each replicate; nothing is broadcast",
    )


def _fits(values: Tensor, shape: Sequence[int | None]) -> bool:
    """Whether a tensor's numbers are real and its shape is ``shape``; None: any length."""
    if values.is_complex():
        return False
    if values.shape == shape:
        return True
    if values.dim() != len(shape):
        return False
    return all(wanted in (None, length) for wanted, length in zip(shape, values.shape, strict=True))


def _copied(values: Tensor, like: Tensor) -> Tensor:
    """A dense copy, of the type and on the device that :func:`numbers` says."""
    is_alike = values.dtype is like.dtype and values.device == like.device
    if is_alike and values.layout is torch.strided:
        return values.clone()  # half the time of what follows
    kind = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return torch.empty(values.shape, dtype=kind, device=like.device).copy_(values)


def limited_scale(scale: Tensor, upper: Tensor, sensitivity: Tensor) -> Tensor:
    """A rule's factors, cut so that no scaled gradient is longer than the claimed sensitivity.

    A factor's size is at most ``sensitivity * LARGEST_SHARE / upper``, and one that is not finite
    becomes 0. A record's limit depends on its own norm and the claim, not on other records.

    Args:
        scale: A rule's factors, [R, B].
        upper: Upper bounds of the gradients' norms, [R, B]. One below ``HIDDEN`` counts as
            ``HIDDEN``: squares below float32's range may hide so much of a norm, even of one of 0.
        sensitivity: As the rule claims it, [R].

    Raises:
        PrivacyError: A sensitivity that is negative or not finite.
    """
    claims = sensitivity.tolist()
    for claim in claims:
        if not 0.0 <= claim < math.inf:
            raise PrivacyError(
                f"the clipping rule claims a sensitivity of {claim:g}",
                hint="ClippingRule.sensitivity returns finite numbers, 0 or more",
            )
    if not scale.numel():  # an empty batch, of which ``aminmax`` takes no extremes
        return scale
    upper = upper.clamp(min=HIDDEN)
    # In the common case one test against the smallest claim of all replicates is enough. Where that
    # test fails, each replicate's own claim limits its factors; factors within it stay as they are.
    shortest, longest = torch.aminmax(scale * upper)
    largest = min(claims) * LARGEST_SHARE
    if -largest <= shortest.item() and longest.item() <= largest:  # False for NaN
        return scale
    limit = (sensitivity * LARGEST_SHARE).unsqueeze(-1) / upper
    return scale.where(scale.isfinite(), 0.0).clamp(-limit, limit)


def limited_rows(query: Tensor) -> Tensor:
    """A query's rows [R, B, Q], shortened to L2 norm ``LARGEST_SHARE`` where they are longer.

    So one record moves the sum by at most that. A row that is not finite becomes 0.
    """
    norms: Tensor = torch.linalg.vector_norm(query, dim=-1, keepdim=True)
    # Nothing to shorten; False where a norm is NaN.
    if not norms.numel() or norms.max().item() <= LARGEST_SHARE:
        return query
    shortened = query * norms.reciprocal().mul(LARGEST_SHARE).clamp(max=1.0)
    return shortened.where(norms.isfinite(), 0.0)
