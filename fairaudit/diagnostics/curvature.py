"""Curvature of each group's mean loss: forms v^T H v and traces of its Hessian H.

One answer per group and one for the whole, in the last place. Raw data: never private. Nothing here
draws from a noise stream, and training does not know of it.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fairaudit.diagnostics.landscape import Landscape
from fairaudit.engine.isolation import split_like
from fairaudit.engine.layer import Layer
from fairaudit.engine.linear import Linear
from fairaudit.engine.small_layers import Relu, Sigmoid, Tanh
from fairaudit.privacy.streams import numpy_stream

PROBES = 100  # random vectors of a trace estimate (Hutchinson)
BASIS_LIMIT = 2000  # parameters up to which a trace is taken by one form per parameter
COLUMN_NUMBERS = 2**24  # numbers held at once for traces of records
NUMBERS_AT_ONCE = 2**18  # inputs of one graph: what a module's activations take is not known


# First and second derivative of an activation, as functions of its output y.
CURVES: dict[type[Layer], Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    Tanh: lambda y: (1.0 - y * y, -2.0 * y * (1.0 - y * y)),
    Sigmoid: lambda y: (y * (1.0 - y), y * (1.0 - y) * (1.0 - 2.0 * y)),
    Relu: lambda y: ((y > 0).to(y), torch.zeros_like(y)),
}


def summed_loss(module: nn.Module, features: Tensor, targets: Tensor) -> Callable[[Tensor], Tensor]:
    """The summed cross-entropy of records as a function of the flat parameters [P]."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}

    def loss(theta: Tensor) -> Tensor:
        """Summed cross-entropy of the records at flat parameters ``theta [P]``."""
        values = dict(zip(trained, split_like(theta, trained.values()), strict=True))
        logits = functional_call(module, values, (features,))
        return nn.functional.cross_entropy(logits, targets, reduction="sum")

    return loss


def quadratic_forms(landscape: Landscape, vectors: Tensor) -> Tensor:
    """v^T H_a v for every group a and for the whole, exact.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.

    Returns:
        [V, K + 1], float64; NaN for an absent group.
    """
    vectors = vectors.to(landscape.theta)
    records = landscape.records
    sums = torch.zeros(len(vectors), records.n_groups, dtype=torch.float64)
    rows_at_once = max(1, NUMBERS_AT_ONCE // math.prod(records.features.shape[1:]))
    leaf = landscape.theta.clone().requires_grad_()
    for group, rows in records.pieces(rows_at_once):
        loss = summed_loss(landscape.module, records.features[rows], records.targets[rows])
        # One graph of the gradient serves all vectors: a pass backward through it gives H v.
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        for number, vector in enumerate(vectors):
            (product,) = torch.autograd.grad(gradient, leaf, vector, retain_graph=True)
            sums[number, group] += (product.double() @ vector.double()).cpu()
    return records.means(sums)


def traces(landscape: Landscape, of_records: Tensor | None, *, seed: int) -> tuple[Tensor, Tensor]:
    """Tr H_a of every group and of the whole, and its standard error, [K + 1] each, float64.

    Exact where the records' own are known, and by one form per parameter up to 2,000 parameters;
    else Hutchinson's estimate with the same Rademacher probes for all groups. The whole is last, an
    absent group NaN.

    Args:
        landscape: Model, parameters, records.
        of_records: tr H_i of every record, [n], as of :func:`traces_of_records`; None where they
            are not known.
        seed: The audit seed; no training draws from the probes' stream.

    Source: Hutchinson 1990.
    """
    records = landscape.records
    if of_records is not None:
        value = records.means(records.sums(of_records))
    elif landscape.n_parameters <= BASIS_LIMIT:
        value = quadratic_forms(landscape, torch.eye(landscape.n_parameters)).sum(0)
    else:
        stream = numpy_stream(seed, "probe", "trace", 0)
        coins = stream.integers(0, 2, (PROBES, landscape.n_parameters), dtype="int8")
        forms = quadratic_forms(landscape, torch.from_numpy(2 * coins - 1))
        return forms.mean(0), forms.std(0) / PROBES**0.5
    return value, torch.zeros_like(value)


def traces_of_records(landscape: Landscape) -> Tensor | None:
    """tr H_i of every record in group order, [n].

    None where the model is no chain of linear layers and activations of ``CURVES``.

    A linear layer's outputs z are linear in its parameters, with its input x (and 1 for the bias)
    as the coefficients: the trace over the parameters is |x|^2 + 1 times the trace over z.
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


def _traces_of_chain(landscape: Landscape, layers: Sequence[Layer], rows: slice) -> Tensor:
    """tr H_i of the records of a slice, [n], in one pass from the last layer to the first.

    The loss's Hessian in the outputs z of a layer is kept as sum_j w_j c_j c_j^T + diag(bend), and
    carried from the last layer down: ``weights`` [n, J], ``columns`` [n, J, width] and ``bend``
    [n, width], beside ``delta`` [n, width], the loss's gradient in z.
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
        if not linear_below:  # nothing is trained further down
            break
        columns = columns @ layer.weight
        delta = delta @ layer.weight
        # W^T diag(bend) W: below the last linear layer only traces are asked for, and its diagonal
        # does; above, the rows of W become columns of weight bend.
        if linear_below == 1:
            bend = bend @ layer.weight.square()
        else:
            columns = torch.cat([columns, layer.weight.expand(len(delta), -1, -1)], 1)
            weights = torch.cat([weights, bend], 1)
            bend = torch.zeros_like(delta)
    return total
