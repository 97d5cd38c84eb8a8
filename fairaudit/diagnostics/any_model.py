"""Second derivatives of models that are no chain of Linear layers and functions.

Of any module by differentiating its gradient: slower, for what has no closed form. Of chains with
convolutions the forms come quicker, from the same expansion as in ``second_order.py``: a layer that
is linear in its inputs and in its parameters, bound to a direction v in place of the parameters,
computes ``V x + v``.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fairaudit.diagnostics.landscape import Landscape, SecondOrder
from fairaudit.diagnostics.second_order import DERIVATIVES, CurveBook, curve_of, softmax_curvature
from fairaudit.engine.conv import GhostConv, WrittenConv
from fairaudit.engine.layer import Layer, Parametric
from fairaudit.engine.layers import bind
from fairaudit.engine.linear import ImageLinear, Linear
from fairaudit.engine.network import flatten
from fairaudit.engine.small_layers import AdaptiveAvgPool, AvgPool, Flatten, MaxPool, Unchanged

ROWS_AT_ONCE = 256
GRAPH_BYTES = 256 * 2**20  # held by the graph of one chunk's gradient


def summed_loss(module: nn.Module, features: Tensor, targets: Tensor) -> Callable[[Tensor], Tensor]:
    """The summed cross-entropy of records as a function of the flat parameters [P]."""
    shapes = {name: p.shape for name, p in module.named_parameters() if p.requires_grad}
    sizes = [math.prod(shape) for shape in shapes.values()]

    def loss(theta: Tensor) -> Tensor:
        parts = zip(shapes.items(), torch.split(theta, sizes), strict=True)
        values = {name: part.view(shape) for (name, shape), part in parts}
        logits = functional_call(module, values, (features,))
        return nn.functional.cross_entropy(logits, targets, reduction="sum")

    return loss


class AutodiffSecondOrder(SecondOrder):
    """Hessian-vector products by a second backward pass through the graph of the gradient.

    The graph is built once for each chunk of records and serves all vectors.

    Args:
        landscape: What is read; the module must be differentiable twice, and its parameters in
            ``parameters()`` order must make up ``theta``.
    """

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape

    def products(self, vectors: Tensor) -> Tensor:
        """See the base class."""
        out = vectors.new_zeros(len(vectors), self.landscape.records.n_groups, vectors.shape[1])
        for group, apply in self._pieces():
            for number, vector in enumerate(vectors):
                out[number, group] += apply(vector)
        return out

    def forms(self, vectors: Tensor) -> Tensor:
        """See the base class."""
        out = torch.zeros(len(vectors), self.landscape.records.n_groups, dtype=torch.float64)
        for group, apply in self._pieces():
            for number, vector in enumerate(vectors):
                out[number, group] += (apply(vector).double() @ vector.double()).cpu()
        return out

    @cached_property
    def _rows_at_once(self) -> int:
        """As many records as the graph's memory allows.

        A graph of one and of two tell what each adds.
        """
        if len(self.landscape.records) == 1:
            return 1
        each = self._graph_bytes(2) - self._graph_bytes(1)
        return max(1, min(ROWS_AT_ONCE, GRAPH_BYTES // max(1, each)))

    def _graph_bytes(self, records: int) -> int:
        """What the graph of the gradient of some records holds."""
        landscape, sizes = self.landscape, [0]

        def count(held: Tensor) -> Tensor:
            sizes.append(held.numel() * held.element_size())
            return held

        loss = summed_loss(
            landscape.module,
            landscape.records.features[:records],
            landscape.records.targets[:records],
        )
        with torch.autograd.graph.saved_tensors_hooks(count, lambda held: held):
            product_of(loss, landscape.theta)
        return sum(sizes)

    def _pieces(self) -> Iterator[tuple[int, Callable[[Tensor], Tensor]]]:
        """A group and ``v -> sum of H_i v`` over some of its records, in turn over all."""
        records = self.landscape.records
        for rows in records.chunks(self._rows_at_once):
            for group, piece in records.pieces(rows):
                features, targets = records.features[rows][piece], records.targets[rows][piece]
                loss = summed_loss(self.landscape.module, features, targets)
                yield group, product_of(loss, self.landscape.theta)


def product_of(loss: Callable[[Tensor], Tensor], theta: Tensor) -> Callable[[Tensor], Tensor]:
    """``v -> H v`` of a loss at ``theta`` [P], through one graph of its gradient."""
    leaf = theta.clone().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)

    def apply(vector: Tensor) -> Tensor:
        return torch.autograd.grad(gradient, leaf, vector, retain_graph=True)[0]

    return apply


CHUNK_BYTES = 8 * 2**20  # the widest activation of one chunk

BILINEAR: tuple[type[Layer], ...] = (Linear, ImageLinear, WrittenConv, GhostConv)
LINEAR: tuple[type[Layer], ...] = (Unchanged, Flatten, AvgPool, AdaptiveAvgPool)


@dataclass(frozen=True, slots=True)
class Step:
    """One layer on a chunk of records.

    Args:
        layer: The layer at the parameters.
        x: Input.
        delta: Output gradient.
        curve: Of an elementwise function, else None.
    """

    layer: Layer
    x: Tensor
    delta: Tensor
    curve: CurveBook | None


def is_expandable(layers: list[Layer] | None) -> bool:
    """Whether every layer is bilinear, linear, elementwise with known derivatives, or a maximum."""
    known = {*BILINEAR, *LINEAR, *DERIVATIVES, MaxPool}
    return layers is not None and all(type(layer) in known for layer in layers)


class TaylorSecondOrder(AutodiffSecondOrder):
    """Forms record by record, so that all groups share one pass and no graph is built.

    Products with the Hessian are left to differentiation.

    Args:
        landscape: What is read; its layers must satisfy :func:`is_expandable`.
    """

    def __init__(self, landscape: Landscape) -> None:
        super().__init__(landscape)
        layers = landscape.layers()
        assert layers is not None
        self.layers = layers
        self.modules = flatten(landscape.module)

    def forms(self, vectors: Tensor) -> Tensor:
        """See the base class."""
        return self._summed(vectors, between_layers=True)

    def trace_forms(self, signs: Tensor) -> Tensor:
        """See the base class.

        What is between layers has mean zero over signs and is not computed.
        """
        return self._summed(signs, between_layers=False)

    def _summed(self, vectors: Tensor, *, between_layers: bool) -> Tensor:
        records = self.landscape.records
        directions = [bind(self.modules, vector[None]) for vector in vectors]
        out = torch.zeros(len(vectors), records.n_groups, dtype=torch.float64)
        widest = max(value[0].numel() for value in self._values(slice(0, 1)))
        at_once = max(1, CHUNK_BYTES // (widest * self.landscape.theta.element_size()))
        for rows in records.chunks(at_once):
            steps, probabilities = self._walk(rows)
            for number, direction in enumerate(directions):
                values = _forms(steps, probabilities, direction, between_layers=between_layers)
                for group, piece in records.pieces(rows):
                    out[number, group] += values[piece].sum(dtype=torch.float64).cpu()
        return out

    def _values(self, rows: slice) -> Iterator[Tensor]:
        """The input of every layer, then the logits."""
        value = self.landscape.records.features[rows]
        yield value
        for layer in self.layers:
            value = layer.forward(value)
            yield value

    def _walk(self, rows: slice) -> tuple[list[Step], Tensor]:
        """One forward and one backward pass: a step per layer, and the softmax outputs."""
        values = list(self._values(rows))
        probabilities, delta = self.landscape.records.loss_gradient(values[-1], rows)
        steps: list[Step] = []
        for index in range(len(self.layers) - 1, -1, -1):
            layer, x, y = self.layers[index], values[index], values[index + 1]
            steps.append(Step(layer, x, delta, curve_of(layer, y, delta)))
            if index:
                delta = layer.backward(x, y, delta)
        return steps[::-1], probabilities


def _forms(
    steps: list[Step], probabilities: Tensor, directions: list[Layer], *, between_layers: bool
) -> Tensor:
    """v^T H_i v of a chunk's records, [n].

    Optionally without the part that pairs different layers' v.
    """
    tangent: Tensor | None = None
    total = torch.zeros_like(probabilities[:, 0])
    for step, direction in zip(steps, directions, strict=True):
        if isinstance(step.layer, Parametric):
            own = direction.forward(step.x)
            if tangent is not None:
                if between_layers:
                    total += 2.0 * _over_record(_without_bias(direction, tangent), step.delta)
                own += _without_bias(step.layer, tangent)
            tangent = own
        elif tangent is not None and step.curve is not None:
            if step.curve.bend is not None:
                total += _over_record(step.curve.bend, tangent.square())
            tangent = tangent * step.curve.slope
        elif tangent is not None:
            tangent = _moved(step, tangent)
    assert tangent is not None
    curved = softmax_curvature(probabilities, tangent.unsqueeze(1))[:, 0]
    return total + _over_record(curved, tangent)


def _over_record(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each record's values, [n]."""
    return (a * b).flatten(1).sum(1)


def _without_bias(layer: Layer, tangent: Tensor) -> Tensor:
    """The linear part of a layer with a bias: tangents do not move with it."""
    return layer.forward(tangent).sub_(layer.forward(torch.zeros_like(tangent[:1])))


def _moved(step: Step, tangent: Tensor) -> Tensor:
    """The tangent behind a layer without parameters that is linear, or picks the largest."""
    if not isinstance(step.layer, MaxPool):
        return step.layer.forward(tangent)
    pick: Callable[..., tuple[Tensor, Tensor]] = torch.ops.aten.max_pool2d_with_indices
    where = pick(step.x.permute(0, 3, 1, 2), *step.layer.options)[1]
    values = tangent.permute(0, 3, 1, 2).flatten(2)
    return values.gather(2, where.flatten(2)).view(where.shape).permute(0, 2, 3, 1).contiguous()
