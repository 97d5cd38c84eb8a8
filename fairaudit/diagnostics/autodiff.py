"""Second derivatives of any module by differentiating its gradient: slower, for what has no closed form."""

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fairaudit.diagnostics.landscape import Landscape, SecondOrder

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
        """As many records as the graph's memory allows; a graph of one and of two tell what each adds."""
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
            landscape.module, landscape.records.features[:records], landscape.records.targets[:records]
        )
        with torch.autograd.graph.saved_tensors_hooks(count, lambda held: held):
            product_of(loss, landscape.theta)
        return sum(sizes)

    def _pieces(self) -> Iterator[tuple[int, Callable[[Tensor], Tensor]]]:
        """A group and ``v -> sum of H_i v`` over some of its records, until every record was in one."""
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
