"""Quadratic forms of chains with convolutions, by following the loss to second order along a direction.

The same expansion as in ``second_order.py``, for whatever the engine's table holds of layers that are
linear in their inputs and in their parameters: such a layer bound to a direction v in place of the
parameters computes ``V x + v``. Records stay apart, so that all groups
share one pass; no graph is built. Products with the Hessian are left to differentiation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.diagnostics.autodiff import AutodiffSecondOrder
from fairaudit.diagnostics.landscape import Landscape
from fairaudit.diagnostics.second_order import DERIVATIVES, CurveBook, curve_of, softmax_curvature
from fairaudit.engine.conv import GhostConv, WrittenConv
from fairaudit.engine.layer import Layer, Parametric
from fairaudit.engine.layers import Linear, bind
from fairaudit.engine.linear import ImageLinear
from fairaudit.engine.network import flatten
from fairaudit.engine.pooling import AdaptiveAvgPool, AvgPool, Flatten, MaxPool, Unchanged

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
    """Forms record by record; products as of the base class.

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
        """See the base class; what is between layers has mean zero over signs and is not computed."""
        return self._summed(signs, between_layers=False)

    def _summed(self, vectors: Tensor, *, between_layers: bool) -> Tensor:
        records = self.landscape.records
        directions = [bind(self.modules, vector[None]) for vector in vectors]
        out = torch.zeros(len(vectors), records.n_groups, dtype=torch.float64)
        for rows in records.chunks(self._rows_per_pass()):
            steps, probabilities = self._walk(rows)
            for number, direction in enumerate(directions):
                values = _forms(steps, probabilities, direction, between_layers=between_layers)
                for group, piece in records.pieces(rows):
                    out[number, group] += values[piece].sum(dtype=torch.float64).cpu()
        return out

    def _rows_per_pass(self) -> int:
        widest = max(value[0].numel() for value in self._values(slice(0, 1)))
        return max(1, CHUNK_BYTES // (widest * self.landscape.theta.element_size()))

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
        probabilities = torch.softmax(values[-1], -1)
        delta = probabilities.clone()
        delta[torch.arange(len(delta)), self.landscape.records.targets[rows]] -= 1.0
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
    """v^T H_i v of a chunk's records, [n]; optionally without the part that pairs different layers' v."""
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
