"""The largest and the smallest eigenvalue of a symmetric operator from its products with vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.privacy.streams import numpy_stream

ITERATIONS = 100
TOLERANCE = 1e-3
CHECK_EVERY = 5


@dataclass(frozen=True, slots=True)
class Extremes:
    """The ends of a spectrum.

    Args:
        largest, smallest: Algebraic, NaN where they were not found.
        products: Products with the operator that were taken.
        reason: Why there is no value, or "".
    """

    largest: float
    smallest: float
    products: int
    reason: str = ""


def extremes_of_matrix(matrix: Tensor) -> Extremes:
    """The ends of a dense symmetric matrix [P, P]."""
    if not bool(matrix.isfinite().all()):
        return Extremes(float("nan"), float("nan"), len(matrix), "the Hessian is not finite")
    values = torch.linalg.eigvalsh(matrix.double())
    return Extremes(float(values[-1]), float(values[0]), len(matrix))


def lanczos(
    apply: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
) -> Extremes:
    """Both ends from one Krylov space, with full reorthogonalisation.

    A Ritz value is within its residual of an eigenvalue. Both residuals must fall below
    ``tolerance`` times the largest eigenvalue in absolute value: a small end is not asked for
    digits that the convexity check, which compares it with the large one, has no use for.

    Args:
        apply: The operator, [P] -> [P].
        start: A vector with a part along every eigenvector, [P].
        tolerance: See above. iterations: At most so many products.

    Returns:
        NaN with a reason where the residuals did not fall in time, or a product was not finite.
    """
    size = min(iterations, len(start))
    basis = start.new_empty(size, len(start))
    basis[0] = start / start.norm()
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(size):
        image = apply(basis[step])
        diagonal.append(float(basis[step] @ image))
        known = basis[: step + 1]
        for _ in range(2):  # once is not enough in floating point
            image = image - known.t() @ (known @ image)
        rest = float(image.norm())
        if not (rest < float("inf")):
            return Extremes(float("nan"), float("nan"), step + 1, "the Hessian is not finite")
        last = step + 1 == size
        if last or step % CHECK_EVERY == CHECK_EVERY - 1 or rest < tolerance * _scale(diagonal, beside):
            found = _ends(diagonal, beside, rest, tolerance)
            if found is not None:
                return Extremes(*found, step + 1)
        if last:
            break
        beside.append(rest)
        basis[step + 1] = image / rest
    reason = f"Lanczos did not converge to {tolerance:g} of the largest in {size} products"
    return Extremes(float("nan"), float("nan"), size, reason)


def _tridiagonal(diagonal: list[float], beside: list[float]) -> Tensor:
    entries = torch.tensor(beside, dtype=torch.float64)
    middle = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    return middle + torch.diag(entries, 1) + torch.diag(entries, -1)


def _scale(diagonal: list[float], beside: list[float]) -> float:
    return max(map(abs, (*diagonal, *beside)), default=0.0)


def _ends(
    diagonal: list[float], beside: list[float], rest: float, tolerance: float
) -> tuple[float, float] | None:
    """The largest and the smallest Ritz value if both are within tolerance."""
    values, vectors = torch.linalg.eigh(_tridiagonal(diagonal, beside))
    residuals = rest * vectors[-1, [-1, 0]].abs()
    scale = float(values.abs().max())
    if bool((residuals <= tolerance * scale).all()):
        return float(values[-1]), float(values[0])
    return None


def start_vector(like: Tensor) -> Tensor:
    """Signs from a fixed stream, [P]: the same for every group, run and machine."""
    signs = numpy_stream(0, "probe", "lanczos").integers(0, 2, len(like)) * 2 - 1
    return torch.from_numpy(signs).to(like)
