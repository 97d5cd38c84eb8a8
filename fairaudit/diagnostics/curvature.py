"""Curvature of each group's mean loss: forms v^T H v, products H v, traces, extreme eigenvalues.

One answer per group and one for the whole, in the last place. Raw data: never private. Nothing here
draws from a noise stream, and training does not know of it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.diagnostics.any_model import AutodiffSecondOrder, TaylorSecondOrder, is_expandable
from fairaudit.diagnostics.exact_trace import traces_of_records, work_of
from fairaudit.diagnostics.landscape import Landscape, SecondOrder
from fairaudit.diagnostics.second_order import ChainSecondOrder, is_chain
from fairaudit.privacy.streams import numpy_stream

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
    """

    largest: float
    smallest: float


NOT_FOUND = Extremes(math.nan, math.nan)


def extremes_of_matrix(matrix: Tensor) -> Extremes:
    """The ends of a dense symmetric matrix [P, P]."""
    if not bool(matrix.isfinite().all()):
        return NOT_FOUND
    values = torch.linalg.eigvalsh(matrix.double())
    return Extremes(float(values[-1]), float(values[0]))


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
        NaN where the residuals did not fall in time, or a product was not finite.
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
            return NOT_FOUND
        # The space holds all that the start has a part in: what is left over is rounding.
        spent = rest <= 100 * torch.finfo(start.dtype).eps * max(map(abs, (*diagonal, *beside)))
        due = step + 1 >= FEWEST and (step + 1) % CHECK_EVERY == 0
        if spent or due or step + 1 == size:
            values, residuals = _ritz(diagonal, beside, rest)
            scale = float(values.abs().max())
            if spent or float(residuals.max()) <= tolerance * scale:
                return Extremes(float(values[1]), float(values[0]))
        if step + 1 < size:
            beside.append(rest)
            basis[step + 1] = image / rest
    return NOT_FOUND


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


PROBES = 100
BASIS_LIMIT = 2000  # parameters up to which a trace is taken by one form per parameter
DENSE_LIMIT = 512  # parameters up to which a Hessian is written out for its eigenvalues
BASIS_AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces of the groups' Hessians.

    Args:
        value: [K + 1], float64, the whole last; NaN for an absent group.
        standard_error: [K + 1]; 0 where exact.
        difference_error: Standard error of ``value[a] - value[b]``, [K + 1, K + 1]: the probes are
            the same for all groups, so it is far below that of independent estimates.
    """

    value: Tensor
    standard_error: Tensor
    difference_error: Tensor


def second_order(landscape: Landscape) -> SecondOrder:
    """The quickest exact way to second derivatives that the model allows."""
    layers = landscape.layers()
    if is_chain(layers):
        return ChainSecondOrder(landscape)
    if is_expandable(layers):
        return TaylorSecondOrder(landscape)
    return AutodiffSecondOrder(landscape)


def quadratic_forms(landscape: Landscape, vectors: Tensor) -> Tensor:
    """v^T H_a v for every group a and for the whole, exact.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.

    Returns:
        [V, K + 1], float64; NaN for an absent group.
    """
    records = landscape.records
    return records.means(second_order(landscape).forms(vectors.to(landscape.theta)))


def hvp(landscape: Landscape, vectors: Tensor) -> Tensor:
    """H_a v for every group a and for the whole, exact.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P].

    Returns:
        [V, K + 1, P], in the landscape's type; NaN for an absent group.
    """
    sums = second_order(landscape).products(vectors.to(landscape.theta))
    return landscape.records.means(sums)


def probe_signs(
    seed: int, n_parameters: int, probes: int = PROBES, *, label: str | int = 0
) -> Tensor:
    """Rademacher vectors of +-1, [V, P], int8, from a stream that no training draws from.

    Args:
        seed: The audit seed.
        n_parameters: P.
        probes: V.
        label: Tells sets of probes apart.
    """
    stream = numpy_stream(seed, "probe", "trace", label)
    return torch.from_numpy(stream.integers(0, 2, (probes, n_parameters), dtype="int8") * 2 - 1)


def traces(landscape: Landscape, *, seed: int, probes: int = PROBES) -> Traces:
    """Tr H_a of every group and of the whole.

    Exact in closed form for chains of Linear layers, where that costs less than the probes would;
    exact by one form per parameter up to 2,000 parameters; else Hutchinson's estimate with the
    same Rademacher probes for all groups.

    Args:
        landscape: Model, parameters, records.
        seed: The audit seed.
        probes: How many, where probes are drawn.

    Source: Hutchinson 1990; the closed form is in ``exact_trace.py``.
    """
    records, layers = landscape.records, landscape.layers()
    if layers is not None and is_chain(layers) and work_of(layers).gradients <= probes:
        value = records.means(records.sums(traces_of_records(landscape, layers)))
        return _exact(value)
    if landscape.n_parameters <= BASIS_LIMIT:
        ways, total = second_order(landscape), torch.zeros(records.n_groups, dtype=torch.float64)
        for start in range(0, landscape.n_parameters, BASIS_AT_ONCE):
            total += ways.forms(_basis(landscape, start)).sum(0)  # of e_j^T H e_j
        return _exact(records.means(total))
    signs = probe_signs(seed, landscape.n_parameters, probes)
    return hutchinson(landscape, signs)


def hutchinson(landscape: Landscape, signs: Tensor) -> Traces:
    """Estimate from given Rademacher vectors [V, P], V >= 2.

    The mean of z^T H z, SE = sd / sqrt(V).
    """
    forms = landscape.records.means(second_order(landscape).trace_forms(signs.to(landscape.theta)))
    root = len(signs) ** 0.5
    differences = forms.unsqueeze(2) - forms.unsqueeze(1)
    return Traces(forms.mean(0), forms.std(0) / root, differences.std(0) / root)


def _exact(value: Tensor) -> Traces:
    none = value.new_zeros(len(value) + 1, len(value))
    return Traces(value, none[0], none[1:])


def _basis(landscape: Landscape, start: int) -> Tensor:
    """Some unit vectors, [V, P]."""
    count = min(BASIS_AT_ONCE, landscape.n_parameters - start)
    out = landscape.theta.new_zeros(count, landscape.n_parameters)
    out[torch.arange(count), torch.arange(start, start + count)] = 1.0
    return out


def traces_of_each_record(landscape: Landscape) -> Tensor | None:
    """tr H_i of every record, in group order, [n]; None where no closed form exists."""
    layers = landscape.layers()
    if layers is None or not is_chain(layers):
        return None
    return traces_of_records(landscape, layers)


def extremes(landscape: Landscape) -> Extremes:
    """The largest and the smallest eigenvalue of the Hessian over all records.

    Up to 512 parameters from the whole matrix, else by Lanczos from a fixed start.

    Args:
        landscape: Model, parameters, records.

    Returns:
        NaN where there are no records, or they were not found.
    """
    records = landscape.records
    if not len(records):
        return NOT_FOUND
    ways = second_order(landscape)

    def apply(vectors: Tensor) -> Tensor:
        return records.means(ways.products(vectors))[:, -1]

    if landscape.n_parameters <= DENSE_LIMIT:
        starts = range(0, landscape.n_parameters, BASIS_AT_ONCE)
        return extremes_of_matrix(torch.cat([apply(_basis(landscape, start)) for start in starts]))
    return lanczos(lambda vector: apply(vector[None])[0], start_vector(landscape.theta))


def extremes_of_groups(landscape: Landscape) -> list[Extremes]:
    """:func:`extremes` of every group, [K].

    Eta * lambda_max <= 1 is asked of groups, not of the whole.
    """
    return [extremes(landscape.only(group)) for group in range(landscape.records.n_groups)]
