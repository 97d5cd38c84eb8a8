"""Curvature of each group's mean loss: forms v^T H v, products H v, traces, extreme eigenvalues.

One answer per group and one for the whole, in the last place. Raw data: never private. Nothing here
draws from a noise stream, and training does not know of it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fairaudit.diagnostics.landscape import Landscape
from fairaudit.engine.layer import Layer
from fairaudit.engine.linear import Linear
from fairaudit.engine.small_layers import Relu, Sigmoid, Tanh
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
            middle = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
            upper = torch.diag(torch.tensor(beside, dtype=torch.float64), 1)
            values, vectors = torch.linalg.eigh(middle + upper + upper.t())
            values = values[[0, -1]]  # the smallest and the largest Ritz value
            residuals = rest * vectors[-1, [0, -1]].abs()
            scale = float(values.abs().max())
            if spent or float(residuals.max()) <= tolerance * scale:
                return Extremes(float(values[1]), float(values[0]))
        if step + 1 < size:
            beside.append(rest)
            basis[step + 1] = image / rest
    return NOT_FOUND


def start_vector(like: Tensor) -> Tensor:
    """Signs from a fixed stream, [P]: the same for every group, run and machine."""
    signs = (
        numpy_stream(
            0,
            "probe",
            "lanczos",
        ).integers(
            0,
            2,
            len(like),
        )
        * 2
        - 1
    )
    return torch.from_numpy(signs).to(like)


PROBES = 100
BASIS_LIMIT = 2000  # parameters up to which a trace is taken by one form per parameter
DENSE_LIMIT = 512  # parameters up to which a Hessian is written out for its eigenvalues
COLUMN_NUMBERS = 2**24  # held at once for traces of records
NUMBERS_AT_ONCE = 2**18  # inputs of one graph: what a module's activations take is not known


# First and second derivative of an elementwise function by its output.
CURVES: dict[type[Layer], Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    Tanh: lambda y: (1.0 - y * y, -2.0 * y * (1.0 - y * y)),
    Sigmoid: lambda y: (y * (1.0 - y), y * (1.0 - y) * (1.0 - 2.0 * y)),
    Relu: lambda y: ((y > 0).to(y), torch.zeros_like(y)),
}


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


def summed_loss(
    module: nn.Module,
    features: Tensor,
    targets: Tensor,
) -> Callable[[Tensor], Tensor]:
    """The summed cross-entropy of records as a function of the flat parameters [P]."""
    shapes = {name: p.shape for name, p in module.named_parameters() if p.requires_grad}
    sizes = [math.prod(shape) for shape in shapes.values()]

    def loss(theta: Tensor) -> Tensor:
        parts = torch.split(theta, sizes)
        values = {}
        for (name, shape), part in zip(
            shapes.items(),
            parts,
            strict=True,
        ):
            values[name] = part.view(shape)
        logits = functional_call(module, values, (features,))
        return nn.functional.cross_entropy(logits, targets, reduction="sum")

    return loss


def _products(landscape: Landscape) -> Iterator[tuple[int, Callable[[Tensor], Tensor]]]:
    """A group and ``v -> sum of H_i v`` over some of its records, in turn over all records.

    The graph of their gradient is built once and serves all vectors: a second pass backward through
    it gives each product.
    """
    records = landscape.records
    rows_at_once = max(1, NUMBERS_AT_ONCE // math.prod(records.features.shape[1:]))
    leaf = landscape.theta.clone().requires_grad_()
    for group, rows in records.pieces(rows_at_once):
        loss = summed_loss(
            landscape.module,
            records.features[rows],
            records.targets[rows],
        )
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(
                loss(leaf),
                leaf,
                create_graph=True,
            )

        def product(vector: Tensor, gradient: Tensor = gradient) -> Tensor:
            return torch.autograd.grad(gradient, leaf, vector, retain_graph=True)[0]

        yield group, product


def quadratic_forms(landscape: Landscape, vectors: Tensor) -> Tensor:
    """v^T H_a v for every group a and for the whole, exact.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.

    Returns:
        [V, K + 1], float64; NaN for an absent group.
    """
    vectors = vectors.to(landscape.theta)
    sums = torch.zeros(
        len(vectors),
        landscape.records.n_groups,
        dtype=torch.float64,
    )
    for group, product in _products(landscape):
        for number, vector in enumerate(vectors):
            sums[number, group] += (product(vector).double() @ vector.double()).cpu()
    return landscape.records.means(sums)


def hessian_products(landscape: Landscape, vectors: Tensor) -> Tensor:
    """H v of the mean loss over all records, exact; [V, P] for vectors [V, P]."""
    sums = torch.zeros_like(vectors)
    for _, product in _products(landscape):
        for number, vector in enumerate(vectors):
            sums[number] += product(vector)
    return sums / len(landscape.records)


def probe_signs(
    seed: int,
    n_parameters: int,
    probes: int = PROBES,
    *,
    label: str | int = 0,
) -> Tensor:
    """Rademacher vectors of +-1, [V, P], int8, from a stream that no training draws from.

    Args:
        seed: The audit seed.
        n_parameters: P.
        probes: V.
        label: Tells sets of probes apart.
    """
    stream = numpy_stream(seed, "probe", "trace", label)
    return torch.from_numpy(
        stream.integers(
            0,
            2,
            (probes, n_parameters),
            dtype="int8",
        )
        * 2
        - 1
    )


def traces(
    landscape: Landscape,
    of_records: Tensor | None,
    *,
    seed: int,
    probes: int = PROBES,
) -> Traces:
    """Tr H_a of every group and of the whole.

    Exact where the records' own are known, and by one form per parameter up to 2,000 parameters;
    else Hutchinson's estimate with the same Rademacher probes for all groups.

    Args:
        landscape: Model, parameters, records.
        of_records: As of :func:`traces_of_records`.
        seed: The audit seed.
        probes: How many, where probes are drawn.

    Source: Hutchinson 1990.
    """
    records = landscape.records
    if of_records is not None:
        return _exact(records.means(records.sums(of_records)))
    if landscape.n_parameters <= BASIS_LIMIT:
        return _exact(quadratic_forms(landscape, torch.eye(landscape.n_parameters)).sum(0))
    return hutchinson(landscape, probe_signs(seed, landscape.n_parameters, probes))


def hutchinson(landscape: Landscape, signs: Tensor) -> Traces:
    """Estimate from given Rademacher vectors [V, P], V >= 2.

    The mean of z^T H z, SE = sd / sqrt(V).
    """
    forms = quadratic_forms(landscape, signs)
    root = len(signs) ** 0.5
    differences = forms.unsqueeze(2) - forms.unsqueeze(1)
    return Traces(
        forms.mean(0),
        forms.std(0) / root,
        differences.std(0) / root,
    )


def _exact(value: Tensor) -> Traces:
    none = value.new_zeros(len(value) + 1, len(value))
    return Traces(value, none[0], none[1:])


def traces_of_records(landscape: Landscape) -> Tensor | None:
    """tr H_i of every record in group order, [n]; None but for chains of Linear layers and curves.

    A layer's parameters move its outputs z by (x, 1) times as much: the trace over them is
    |x|^2 + 1 times the trace over z.
    """
    layers = landscape.layers()
    if layers is None or not all(type(one) is Linear or type(one) in CURVES for one in layers):
        return None
    widths = [layer.shape[0] for layer in layers if isinstance(layer, Linear)]
    rows_at_once = max(1, COLUMN_NUMBERS // (sum(widths) * max(widths)))
    traces = []
    for _, rows in landscape.records.pieces(rows_at_once):
        traces.append(_traces_of_chain(landscape, layers, rows))
    return torch.cat(traces)


def _traces_of_chain(
    landscape: Landscape,
    layers: Sequence[Layer],
    rows: slice,
) -> Tensor:
    """tr H_i of some records, [n].

    The loss's Hessian in the outputs z of a layer is kept as sum_j w_j c_j c_j^T + diag(bend), and
    carried from the last layer down.
    """
    values = [landscape.records.features[rows]]
    for layer in layers:
        values.append(layer.forward(values[-1]))
    probabilities, delta = landscape.records.loss_gradient(values[-1], rows)
    # diag p - p p^T is the covariance of a class drawn with chances p.
    weights = probabilities
    columns = torch.eye(delta.shape[1]).to(delta) - probabilities.unsqueeze(1)
    bend = torch.zeros_like(delta)
    total = torch.zeros_like(delta[:, 0])
    linear_below = sum(isinstance(layer, Linear) for layer in layers)
    for index in reversed(range(len(layers))):
        layer = layers[index]
        if not isinstance(layer, Linear):
            slope, second = CURVES[type(layer)](values[index + 1])
            bend = bend * slope.square() + delta * second
            columns = columns * slope.unsqueeze(1)
            delta = delta * slope
            continue
        linear_below -= 1
        trace = (weights * columns.square().sum(2)).sum(1) + bend.sum(1)
        squared_norms = values[index].square().sum(1) + float(layer.has_bias)
        total += squared_norms * trace
        if not linear_below:
            break
        columns = columns @ layer.weight
        delta = delta @ layer.weight
        if linear_below == 1:  # of which the trace alone is asked for
            bend = bend @ layer.weight.square()
        else:
            columns = torch.cat(
                [
                    columns,
                    layer.weight.expand(
                        len(delta),
                        -1,
                        -1,
                    ),
                ],
                1,
            )
            weights = torch.cat([weights, bend], 1)
            bend = torch.zeros_like(delta)
    return total


def extremes(landscape: Landscape) -> Extremes:
    """The largest and the smallest eigenvalue of the Hessian over all records.

    Up to 512 parameters from the whole matrix, else by Lanczos from a fixed start. NaN where there
    are no records, or they were not found.
    """
    if not len(landscape.records):
        return NOT_FOUND
    if landscape.n_parameters <= DENSE_LIMIT:
        basis = torch.eye(landscape.n_parameters).to(landscape.theta)
        return extremes_of_matrix(hessian_products(landscape, basis))
    start = start_vector(landscape.theta)
    return lanczos(lambda vector: hessian_products(landscape, vector[None])[0], start)


def extremes_of_groups(landscape: Landscape) -> list[Extremes]:
    """:func:`extremes` of every group, [K].

    Eta * lambda_max <= 1 is asked of groups, not of the whole.
    """
    return [extremes(landscape.only(group)) for group in range(landscape.records.n_groups)]
