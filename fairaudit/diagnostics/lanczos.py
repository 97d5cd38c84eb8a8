"""The largest and the smallest eigenvalue of a symmetric operator from its products with vectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.privacy.streams import numpy_stream

NOT_FINITE = "the Hessian is not finite"
ITERATIONS = 100
FEWEST = 20  # an early residual can be small beside an inner eigenvalue
TOLERANCE = 5e-3
CHECK_EVERY = 5


@dataclass(frozen=True, slots=True)
class Extremes:
    """The ends of a spectrum.

    Found by Lanczos, they lie inside it: a smallest value below zero proves that there is a
    direction of negative curvature.

    Args:
        largest, smallest: Algebraic, NaN where they were not found.
        within: Each is so close to an eigenvalue; 0 for a whole matrix.
        products: Products with the operator that were taken.
        reason: Why there is no value, or "".
    """

    largest: float
    smallest: float
    within: float
    products: int
    reason: str = ""

    @classmethod
    def missing(cls, reason: str, products: int = 0) -> "Extremes":
        """No values, and why."""
        return cls(math.nan, math.nan, math.nan, products, reason)


def extremes_of_matrix(matrix: Tensor) -> Extremes:
    """The ends of a dense symmetric matrix [P, P]."""
    if not bool(matrix.isfinite().all()):
        return Extremes.missing(NOT_FINITE, len(matrix))
    values = torch.linalg.eigvalsh(matrix.double())
    return Extremes(float(values[-1]), float(values[0]), 0.0, len(matrix))


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
        tolerance: See above.
        iterations: At most so many products.

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
        if not rest < math.inf:
            return Extremes.missing(NOT_FINITE, step + 1)
        # The space holds all that the start has a part in: what is left over is rounding.
        spent = rest <= 100 * torch.finfo(start.dtype).eps * max(map(abs, (*diagonal, *beside)))
        due = step + 1 >= FEWEST and (step + 1) % CHECK_EVERY == 0
        if spent or due or step + 1 == size:
            values, residuals = _ritz(diagonal, beside, rest)
            scale = float(values.abs().max())
            if spent or float(residuals.max()) <= tolerance * scale:
                return Extremes(float(values[1]), float(values[0]), float(residuals.max()), step + 1)
        if step + 1 < size:
            beside.append(rest)
            basis[step + 1] = image / rest
    return Extremes.missing(f"not found to {tolerance:g} of the largest in {size} products", size)


def _ritz(diagonal: list[float], beside: list[float], rest: float) -> tuple[Tensor, Tensor]:
    """The smallest and the largest Ritz value, [2], and their residuals, [2]."""
    middle = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    entries = torch.tensor(beside, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(middle + torch.diag(entries, 1) + torch.diag(entries, -1))
    return values[[0, -1]], rest * vectors[-1, [0, -1]].abs()


def start_vector(like: Tensor) -> Tensor:
    """Signs from a fixed stream, [P]: the same for every group, run and machine."""
    signs = numpy_stream(0, "probe", "lanczos").integers(0, 2, len(like)) * 2 - 1
    return torch.from_numpy(signs).to(like)
