"""Curvature of each group's mean loss: forms v^T H v, traces and extreme eigenvalues of H.

One answer per group and one for the whole, in the last place. Raw data: never private. Nothing here
draws from a noise stream, and training does not know of it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call

from fairaudit.diagnostics.landscape import Landscape
from fairaudit.engine.isolation import split_like
from fairaudit.engine.layer import Layer
from fairaudit.engine.linear import Linear
from fairaudit.engine.small_layers import Relu, Sigmoid, Tanh
from fairaudit.privacy.streams import numpy_stream

Float64 = NDArray[np.float64]

PROBES = 64  # random vectors of a trace estimate (Hutchinson)
DENSE_LIMIT = 512  # parameters up to which a Hessian is written out for its eigenvalues
TOLERANCE, ITERATIONS = 5e-3, 100  # of an eigenvalue that is looked for by products H v
EIGEN_RECORDS = 128  # of a group, that such products are taken over
BASIS_LIMIT = 2000  # parameters up to which a trace is taken by one form per parameter
HELD_NUMBERS = 2**24  # float numbers held at once where traces of records are computed
SLICE = 16  # records in a slice of a group
EVERY = -1  # in place of a slice's number: the vector meets all records
# Input numbers, records times features, behind one autograd graph. The memory goes to the module's
# activations, of which nothing is known; so inputs are bounded in their place.
NUMBERS_AT_ONCE = 2**18


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


def quadratic_forms(
    landscape: Landscape, vectors: Tensor, places: Sequence[int] | None = None
) -> Tensor:
    """v^T H_a v for every group a and for the whole.

    Exact without ``places``, and with them where the model is one linear layer: ``places`` are then
    not read.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.
        places: Of each vector the number of the slice of about ``SLICE`` records of every group
            that it meets, modulo the group's number of slices; ``EVERY`` for all records. The mean
            over vectors with places 0, 1, .. is then one over vectors and records at once, for a
            fraction of the work. None: every vector meets all records.

    Returns:
        [V, K + 1], float64; NaN for an absent group.
    """
    records = landscape.records
    # ``records.means`` takes sums, so means are multiplied by the counts here and below.
    if is_linear(landscape):
        return records.means(forms_of_linear(landscape, vectors) * records.counts)
    if places is None:
        places = [EVERY] * len(vectors)
    means = torch.full((len(vectors), records.n_groups), torch.nan, dtype=torch.float64)
    for group, (first, end) in enumerate(itertools.pairwise(records.edges)):
        slices = max(1, math.ceil((end - first) / SLICE))
        vectors_of_slice: dict[int, list[int]] = {}  # slice, or EVERY -> indices of its vectors
        for index, place in enumerate(places):
            met = EVERY if place == EVERY else place % slices
            vectors_of_slice.setdefault(met, []).append(index)
        for met, indices in vectors_of_slice.items():
            rows = torch.arange(first, end)
            if met != EVERY:
                # Every ``slices``-th record, for neighbours in the file may be alike.
                rows = rows[met::slices]
            if len(rows):  # an absent group has none
                means[indices, group] = summed_forms(landscape, vectors[indices], rows) / len(rows)
    return records.means(means * records.counts)


def summed_forms(landscape: Landscape, vectors: Tensor, rows: Tensor) -> Tensor:
    """v^T H v of the summed loss of some rows, for each vector: [V] float64.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.
        rows: Numbers of the records.
    """
    vectors = vectors.to(landscape.theta)
    sums = torch.zeros(len(vectors), dtype=torch.float64)
    rows_at_once = max(1, NUMBERS_AT_ONCE // math.prod(landscape.records.features.shape[1:]))
    leaf = landscape.theta.clone().requires_grad_()
    for piece in torch.split(rows, rows_at_once):
        of_records = forms_of_records(landscape, vectors, piece)
        if of_records is not None:  # in closed form, without a graph
            sums += of_records.sum(1, dtype=torch.float64).cpu()
            continue
        records = landscape.records
        loss = summed_loss(landscape.module, records.features[piece], records.targets[piece])
        with torch.enable_grad():
            # One graph of the gradient serves all vectors: a pass backward through it gives H v.
            (gradient,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        for number, vector in enumerate(vectors):
            (product,) = torch.autograd.grad(gradient, leaf, vector, retain_graph=True)
            sums[number] += (product.double() @ vector.double()).cpu()
    return sums


def forms_of_records(
    landscape: Landscape, vectors: Tensor, rows: Tensor | slice = slice(None)
) -> Tensor | None:
    """v^T H_i v of each record's own loss, for each vector: [V, n].

    None where the model is no chain of linear layers and activations of ``CURVES``.

    The form is the second derivative in t of the loss at theta + t v. ``first`` and ``second`` are
    the derivatives z' and z'' of a layer's outputs z in t, carried from the first layer to the
    last. A linear layer z = W x + b, moved by the part (V, c) of v, has z' = W x' + V x + c and
    z'' = W x'' + 2 V x'. An activation a(z) has a' z' and a' z'' + a'' z'^2. The loss, with
    probabilities p and gradient delta = p - y in the last z, has <delta, z''> + Var_p(z').

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.
        rows: Numbers of the records; all by default.
    """
    layers = landscape.layers()
    if layers is None or not _is_chain(layers):
        return None
    outputs = landscape.records.features[rows]
    vectors = vectors.to(outputs)
    # [V, n, width]; None below the first linear layer, where t moves nothing.
    first: Tensor | None = None
    second: Tensor | None = None
    for layer in layers:
        inputs, outputs = outputs, layer.forward(outputs)
        if isinstance(layer, Linear):
            # The parts of every v that move this layer's weights and, below, its biases.
            weights = vectors[:, layer.start : layer.split].reshape(-1, *layer.shape)
            moved = (inputs @ weights.flatten(0, 1).T).view(len(inputs), -1, layer.shape[0])
            moved = moved.transpose(0, 1)
            if layer.has_bias:
                moved = moved + vectors[:, layer.split : layer.end].unsqueeze(1)
            if first is None or second is None:  # both are, until the first linear layer
                first, second = moved, torch.zeros_like(moved)
                continue
            second = second @ layer.weight.T + 2 * first @ weights.transpose(1, 2)
            first = first @ layer.weight.T + moved
        elif first is not None and second is not None:
            slope, bend = CURVES[type(layer)](outputs)
            second = slope * second + bend * first.square()
            first = slope * first
    assert first is not None, "a model has a linear layer"
    assert second is not None
    probabilities, delta = landscape.records.loss_gradient(outputs, rows)
    # Var_p(z') = E_p z'^2 - (E_p z')^2.
    variance = (probabilities * first.square()).sum(-1) - (probabilities * first).sum(-1).square()
    return (delta * second).sum(-1) + variance


def _is_chain(layers: Sequence[Layer]) -> bool:
    """Whether a model has linear layers and activations of ``CURVES`` alone."""
    return all(type(one) is Linear or type(one) in CURVES for one in layers)


def is_linear(landscape: Landscape) -> bool:
    """Whether the model is one linear layer."""
    layers = landscape.layers()
    return layers is not None and len(layers) == 1 and type(layers[0]) is Linear


def forms_of_linear(landscape: Landscape, vectors: Tensor) -> Tensor:
    """v^T H_a v of each group's mean loss, of one linear layer, for vectors [V, P].

    Returns:
        [V, K] float64; NaN for an absent group.
    """
    of_records = forms_of_records(landscape, vectors)
    assert of_records is not None, "one linear layer is a chain"
    return landscape.records.sums(of_records) / landscape.records.counts


def hessian_of_linear(landscape: Landscape, rows: Tensor) -> Float64:
    """The Hessian of the mean loss of some rows, [P, P], of one linear layer.

    With inputs x, ending in 1 where there is a bias, and probabilities p [C] of the C outputs, the
    Hessian is the mean over rows of (diag p - p p^T) ⊗ x x^T.
    """
    layers = landscape.layers()
    assert layers is not None
    (layer,) = layers
    assert isinstance(layer, Linear)
    features = landscape.records.features[rows]
    outputs, inputs = layer.shape
    p = layer.forward(features).double().softmax(-1)
    of_outputs = torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)  # [n, C, C]
    x = features.double()
    # Where each weight stands in theta, [C, D]: first all weights, then all biases.
    place = torch.arange(outputs * inputs).view(outputs, inputs)
    if layer.has_bias:
        x = torch.cat([x, x.new_ones(len(x), 1)], 1)
        biases = outputs * inputs + torch.arange(outputs)
        place = torch.cat([place, biases.unsqueeze(1)], 1)
    matrix = np.zeros((place.numel(), place.numel()))
    for c in range(outputs):
        for d in range(outputs):
            block = x.T @ (of_outputs[:, c, d].unsqueeze(1) * x) / len(x)
            matrix[np.ix_(place[c].numpy(), place[d].numpy())] = block.cpu().numpy()
    return matrix


def extremes(landscape: Landscape) -> tuple[Tensor, Tensor]:
    """The largest and the smallest eigenvalue of every group's Hessian, algebraically, [K] each.

    Up to ``DENSE_LIMIT`` parameters the Hessian is written out. Beyond, eigenvalues are found by
    products H v over at most ``EIGEN_RECORDS`` records of each group (Lanczos), to half a percent
    of the largest. Values found so lie inside the spectrum: a smallest one below zero proves that
    there is a direction of negative curvature.

    Returns:
        float64; NaN for an absent group, and where they were not found.

    Source: docs/methods.md 8.5.
    """
    largest, smallest = torch.full((2, landscape.records.n_groups), torch.nan, dtype=torch.float64)
    size = landscape.n_parameters
    for group, (first, end) in enumerate(itertools.pairwise(landscape.records.edges)):
        if first == end:
            continue
        rows = torch.arange(first, end)
        if size <= DENSE_LIMIT:
            matrix = _hessian(landscape, rows)
            if np.isfinite(matrix).all():  # a diverged model has none
                # Exactly symmetric, which rounding of products is not.
                values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
                largest[group], smallest[group] = values[-1], values[0]
            continue
        rows = rows[:: math.ceil(len(rows) / EIGEN_RECORDS)]
        apply = _product_with_hessian(landscape, rows)
        top = _largest_eigenvalue(apply, size)
        largest[group] = top
        # The largest eigenvalue of top I - H is top less the smallest of H; found so, its error is
        # a share of the whole spectrum, not of a smallest value near zero.
        smallest[group] = top - _largest_eigenvalue(partial(_flipped_product, apply, top), size)
    return largest, smallest


def _hessian(landscape: Landscape, rows: Tensor) -> Float64:
    """The Hessian of the mean loss of some rows, [P, P]."""
    if is_linear(landscape):
        return hessian_of_linear(landscape, rows)
    apply = _product_with_hessian(landscape, rows)
    # H is symmetric, so its columns H e_j serve as rows.
    return np.stack([apply(unit) for unit in np.eye(landscape.n_parameters)])


def _product_with_hessian(landscape: Landscape, rows: Tensor) -> Callable[[Float64], Float64]:
    """v -> H v of the mean loss of some rows, by a second pass backward through one graph."""
    pieces = []
    leaf = landscape.theta.clone().requires_grad_()
    rows_at_once = max(1, NUMBERS_AT_ONCE // math.prod(landscape.records.features.shape[1:]))
    for piece in torch.split(rows, rows_at_once):
        records = landscape.records
        loss = summed_loss(landscape.module, records.features[piece], records.targets[piece])
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        pieces.append(gradient)

    def apply(vector: Float64) -> Float64:
        """H v, [P]."""
        # The eigenvalue solver hands views, and vectors [P, 1].
        given = torch.from_numpy(np.ascontiguousarray(vector.reshape(-1))).to(leaf)
        total = torch.zeros(len(leaf), dtype=torch.float64)
        for gradient in pieces:
            (product,) = torch.autograd.grad(gradient, leaf, given, retain_graph=True)
            total += product.double().cpu()
        image: Float64 = total.numpy() / len(rows)
        return image

    return apply


def _flipped_product(apply: Callable[[Float64], Float64], top: float, vector: Float64) -> Float64:
    """(top I - H) v, [P], from ``apply``, which computes H v."""
    return top * vector.reshape(-1) - apply(vector)


def _largest_eigenvalue(apply: Callable[[Float64], Float64], size: int) -> float:
    """The algebraically largest eigenvalue of a symmetric operator v -> ``apply(v)`` on [P].

    NaN where the search did not converge. It starts from fixed signs, so equal audits read alike.
    """
    start = numpy_stream(0, "probe", "lanczos").integers(0, 2, size) * 2.0 - 1.0
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    try:
        values = eigsh(
            operator,
            k=1,
            which="LA",
            v0=start,
            tol=TOLERANCE,
            maxiter=ITERATIONS,
            return_eigenvectors=False,
        )
    except ArpackError:
        return math.nan
    return float(values[0])


def traces(landscape: Landscape, of_records: Tensor | None, *, seed: int) -> tuple[Tensor, Tensor]:
    """Tr H_a of every group and of the whole, and its standard error, [K + 1] each, float64.

    Exact, with error 0, where the traces of the records' Hessians are given; exact, too, up to
    2,000 parameters, as the sum of e_j^T H e_j over the unit vectors e_j. Else Hutchinson's
    estimate, the mean of z^T H z over ``PROBES`` vectors z of random signs, the same for all
    groups. The whole is last, an absent group NaN.

    Args:
        landscape: Model, parameters, records.
        of_records: tr H_i of every record's Hessian, [n], from :func:`traces_of_records`; None
            where that function gives None.
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
        probes = torch.from_numpy(2 * coins - 1)
        forms = quadratic_forms(landscape, probes, range(PROBES))
        return forms.mean(0), forms.std(0) / PROBES**0.5
    return value, torch.zeros_like(value)


def traces_of_records(landscape: Landscape) -> Tensor | None:
    """tr H_i of every record in group order, [n].

    None where the model is no chain of linear layers and activations of ``CURVES``.

    A linear layer's outputs z are linear in its parameters, with its input x (and 1 for the bias)
    as the coefficients. So the trace over its parameters is |x|^2 (with a bias |x|^2 + 1) times the
    trace of the Hessian in z; the record's trace is the sum over its layers.
    """
    layers = landscape.layers()
    if layers is None or not _is_chain(layers):
        return None
    widths = [layer.shape[0] for layer in layers if isinstance(layer, Linear)]  # of outputs
    # The columns [n, J, width] of _traces_of_chain take the memory. Their number J is about that of
    # the outputs of all linear layers together, and none is longer than the widest layer.
    rows_at_once = max(1, HELD_NUMBERS // (sum(widths) * max(widths)))
    traces = []
    for _, rows in landscape.records.pieces(rows_at_once):
        traces.append(_traces_of_chain(landscape, layers, rows))
    return torch.cat(traces)


def _traces_of_chain(landscape: Landscape, layers: Sequence[Layer], rows: slice) -> Tensor:
    """tr H_i of the records of a slice, [n], in one pass from the last layer to the first.

    The loss's Hessian in the outputs z of a layer is kept as sum_j w_j c_j c_j^T + diag(bend), and
    carried from the last layer down: ``weights`` w [n, J], ``columns`` c [n, J, width] and ``bend``
    [n, width], together with ``delta`` [n, width], the loss's gradient in z. If S is the Hessian in
    the outputs of an activation a, that in its inputs is diag(a') S diag(a') + diag(delta a''). If
    S is the Hessian in the outputs of a linear layer, that in its inputs is W^T S W.
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
    linear_below = sum(isinstance(layer, Linear) for layer in layers)  # not yet passed
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
        # The part W^T diag(bend) W. If one linear layer is left, only the trace of the Hessian in
        # its outputs is wanted, for which the diagonal is enough. Else the rows of W become
        # columns, with bend as their weights.
        if linear_below == 1:
            bend = bend @ layer.weight.square()
        else:
            columns = torch.cat([columns, layer.weight.expand(len(delta), -1, -1)], 1)
            weights = torch.cat([weights, bend], 1)
            bend = torch.zeros_like(delta)
    return total
