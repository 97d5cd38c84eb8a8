"""Exact second derivatives of a chain of Linear layers and elementwise functions, without a graph.

The loss of one record along ``theta + t v`` is followed to second order in t. With x a layer's
input, x' its derivative in t and d the loss gradient at a layer's output, v^T H v is

    x'_L^T (diag p - p p^T) x'_L  +  sum over functions of d f''(x) x'^2  +  2 sum over Linears of d
    V x'

so that one forward pass per vector suffices once d is known, and no second derivative is carried.
Source: Pearlmutter 1994 (the product), with the second-order terms collected at the output
gradients.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from fairaudit.diagnostics.landscape import Landscape, SecondOrder
from fairaudit.engine.layer import Layer
from fairaudit.engine.linear import Linear
from fairaudit.engine.small_layers import Relu, Sigmoid, Tanh

ROWS_AT_ONCE = 512
TANGENT_BYTES = 2**20  # the widest tangent of one chunk of vectors: stays in cache
BOOK_BYTES = 256 * 2**20  # books kept for a further call; recomputed beyond

Derivatives = tuple[Tensor, Tensor | None]  # f' and f'' (None: zero almost everywhere)


def _tanh(y: Tensor) -> Derivatives:
    slope = 1.0 - y * y
    return slope, -2.0 * y * slope


def _sigmoid(y: Tensor) -> Derivatives:
    slope = y * (1.0 - y)
    return slope, slope * (1.0 - 2.0 * y)


def _relu(y: Tensor) -> Derivatives:
    return (y > 0).to(y.dtype), None


# From the output of the function alone; f'' is zero but at the kink for pieces of lines.
DERIVATIVES: dict[type[Layer], Callable[[Tensor], Derivatives]] = {
    Tanh: _tanh,
    Sigmoid: _sigmoid,
    Relu: _relu,
}


@dataclass(frozen=True, slots=True)
class LinearBook:
    """A Linear layer on a chunk of records: input [n, in] and output gradient [n, out]."""

    layer: Linear
    x: Tensor
    delta: Tensor


@dataclass(frozen=True, slots=True)
class CurveBook:
    """An elementwise function on a chunk of records, [n, h] each.

    Args:
        slope: f'(x).
        bend: f''(x) times the output gradient, None where f'' is zero.
    """

    slope: Tensor
    bend: Tensor | None


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward and one backward pass over a chunk of records, with what second order needs.

    Args:
        rows: Which records.
        steps: A book per layer, in the order of the forward pass.
        probabilities: Softmax outputs, [n, Y].
    """

    rows: slice
    steps: list[LinearBook | CurveBook]
    probabilities: Tensor


def is_chain(layers: list[Layer] | None) -> bool:
    """Whether every layer is a Linear or a function with known derivatives."""
    return layers is not None and all(
        type(layer) is Linear or type(layer) in DERIVATIVES for layer in layers
    )


def curve_of(layer: Layer, y: Tensor, delta: Tensor) -> CurveBook | None:
    """The book of an elementwise function by its output and output gradient.

    None for another layer.
    """
    if type(layer) not in DERIVATIVES:
        return None
    slope, second = DERIVATIVES[type(layer)](y)
    return CurveBook(slope, None if second is None else second.mul_(delta))


def walk(landscape: Landscape, layers: list[Layer], rows: slice) -> Pass:
    """The forward and the backward pass over some records."""
    values = [landscape.records.features[rows]]
    for layer in layers:
        values.append(layer.forward(values[-1]))
    probabilities, delta = landscape.records.loss_gradient(values[-1], rows)
    steps: list[LinearBook | CurveBook] = []
    for index in range(len(layers) - 1, -1, -1):
        layer, x, y = layers[index], values[index], values[index + 1]
        if isinstance(layer, Linear):
            steps.append(LinearBook(layer, x, delta))
            if index:
                delta = layer.backward(x, y, delta)
        else:
            curve = curve_of(layer, y, delta)
            assert curve is not None
            steps.append(curve)
            delta = delta * curve.slope
    return Pass(rows, steps[::-1], probabilities)


@dataclass(frozen=True, slots=True)
class Direction:
    """The part of V parameter vectors that belongs to one Linear layer.

    Args:
        flat: [V * out, in], a matrix for ``x -> V x``.
        turned: [out, V * in], for ``d -> d V``.
        bias: [V, out], None without one.
    """

    flat: Tensor
    turned: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, layer: Linear, vectors: Tensor) -> "Direction":
        """Cut the layer's part out of vectors [V, P]."""
        weight = vectors[:, layer.start : layer.split].reshape(-1, *layer.shape)
        outputs, inputs = layer.shape
        turned = weight.transpose(0, 1).reshape(outputs, -1)
        bias = None
        if layer.has_bias:
            bias = vectors[:, layer.split : layer.end]
        return cls(weight.reshape(-1, inputs), turned, bias)

    def apply(self, x: Tensor) -> Tensor:
        """``V x + v`` of records [n, in], [n, V, out]."""
        image = (x @ self.flat.t()).view(len(x), -1, self.turned.shape[0])
        if self.bias is None:
            return image
        return image.add_(self.bias)

    def apply_back(self, delta: Tensor) -> Tensor:
        """``d V`` of output gradients [n, out], [n, V, in]."""
        return (delta @ self.turned).view(len(delta), -1, self.flat.shape[1])


class ChainSecondOrder(SecondOrder):
    """Forms and products of a chain, per record and without a graph.

    Tangents have shape [n, V, h], which makes every product with a weight one plain matmul.

    Args:
        landscape: What is read; its layers must satisfy :func:`is_chain`.
    """

    def __init__(self, landscape: Landscape) -> None:
        layers = landscape.layers()
        assert layers is not None
        self.landscape = landscape
        self.layers = layers
        linears = [layer for layer in layers if isinstance(layer, Linear)]
        self.width = max(max(layer.shape) for layer in linears)
        floats = 3 * sum(sum(layer.shape) for layer in linears) * len(landscape.records)
        self._keeps = floats * landscape.theta.element_size() <= BOOK_BYTES
        self._kept: list[Pass] = []

    def passes(self) -> Iterator[Pass]:
        """Every chunk of records with its books; kept for the next call while they are small."""
        if self._kept:
            yield from self._kept
            return
        made = []
        for rows in self.landscape.records.chunks(ROWS_AT_ONCE):
            book = walk(self.landscape, self.layers, rows)
            if self._keeps:
                made.append(book)
            yield book
        self._kept = made

    def forms(self, vectors: Tensor) -> Tensor:
        """See the base class."""
        of_records = vectors.new_empty(len(vectors), len(self.landscape.records))
        for book in self.passes():
            for part in self._parts(len(vectors)):
                of_records[part, book.rows] = _forms(book, vectors[part]).t()
        return self.landscape.records.sums(of_records)

    def products(self, vectors: Tensor) -> Tensor:
        """See the base class."""
        records = self.landscape.records
        out = vectors.new_zeros(len(vectors), records.n_groups, vectors.shape[1])
        for book in self.passes():
            pieces = list(records.pieces(book.rows))
            for part in self._parts(len(vectors)):
                _add_products(book, vectors[part], pieces, out[part])
        return out

    def _parts(self, vectors: int) -> Iterator[slice]:
        """Slices of the vectors whose tangents stay in cache."""
        rows = min(ROWS_AT_ONCE, len(self.landscape.records))
        at_once = max(1, TANGENT_BYTES // (rows * self.width * self.landscape.theta.element_size()))
        for start in range(0, vectors, at_once):
            yield slice(start, min(start + at_once, vectors))


def softmax_curvature(probabilities: Tensor, tangent: Tensor) -> Tensor:
    """``(diag p - p p^T) t`` for p [n, Y] and t [n, V, Y]."""
    weighted = probabilities.unsqueeze(1) * tangent
    return weighted - probabilities.unsqueeze(1) * weighted.sum(-1, keepdim=True)


def _forms(book: Pass, vectors: Tensor) -> Tensor:
    """v^T H_i v of a chunk's records, [n, V]."""
    tangent: Tensor | None = None
    total: Tensor | float = 0.0
    for step in book.steps:
        if isinstance(step, CurveBook):
            if tangent is None:
                continue
            if step.bend is not None:
                total = total + (tangent * tangent).mul_(step.bend.unsqueeze(1)).sum(-1)
            tangent.mul_(step.slope.unsqueeze(1))
            continue
        direction = Direction.of(step.layer, vectors)
        own = direction.apply(step.x)
        if tangent is not None:
            total = total + 2.0 * direction.apply_back(step.delta).mul_(tangent).sum(-1)
            own.flatten(0, 1).addmm_(tangent.flatten(0, 1), step.layer.weight.t())
        tangent = own
    assert tangent is not None
    return total + (softmax_curvature(book.probabilities, tangent) * tangent).sum(-1)


def _add_products(
    book: Pass, vectors: Tensor, pieces: list[tuple[int, slice]], out: Tensor
) -> None:
    """Add H_i v of a chunk's records to each group's sum, ``out`` [V, K, P]."""
    directions = [
        Direction.of(s.layer, vectors) if isinstance(s, LinearBook) else None for s in book.steps
    ]
    tangents: list[Tensor | None] = [None]
    for step, direction in zip(book.steps, directions, strict=True):
        before = tangents[-1]
        if isinstance(step, LinearBook):
            assert direction is not None
            own = direction.apply(step.x)
            if before is not None:
                own.flatten(0, 1).addmm_(before.flatten(0, 1), step.layer.weight.t())
            tangents.append(own)
        else:
            tangents.append(None if before is None else before * step.slope.unsqueeze(1))
    last = tangents[-1]
    assert last is not None
    change = softmax_curvature(book.probabilities, last)  # d' = derivative of the output gradient
    for index in range(len(book.steps) - 1, -1, -1):
        step, direction, before = book.steps[index], directions[index], tangents[index]
        if isinstance(step, LinearBook):
            assert direction is not None
            for group, rows in pieces:
                _add_layer(step, change, before, rows, out[:, group])
            if before is None:
                return
            back = direction.apply_back(step.delta)
            back.flatten(0, 1).addmm_(change.flatten(0, 1), step.layer.weight)
            change = back
        elif before is not None:
            change.mul_(step.slope.unsqueeze(1))
            if step.bend is not None:
                change.addcmul_(step.bend.unsqueeze(1), before)


def _add_layer(
    step: LinearBook, change: Tensor, tangent: Tensor | None, rows: slice, out: Tensor
) -> None:
    """Add one layer's part, sum_i d'_i x_i^T + d_i x'_i^T.

    Of one group's records to ``out`` [V, P].
    """
    layer, vectors = step.layer, len(out)
    x, own = step.x[rows], change[rows]
    outputs, inputs = layer.shape
    weight = (own.flatten(1).t() @ x).view(vectors, outputs, inputs)
    if tangent is not None:
        crossed = step.delta[rows].t() @ tangent[rows].flatten(1)
        weight += crossed.view(outputs, vectors, inputs).transpose(0, 1)
    out[:, layer.start : layer.split] += weight.flatten(1)
    if layer.has_bias:
        out[:, layer.split : layer.end] += own.sum(0)
