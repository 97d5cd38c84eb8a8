"""Second derivatives of any module by differentiating its gradient: slower, for what has no closed form."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp

from fairaudit.diagnostics.landscape import Landscape, SecondOrder

ROWS_AT_ONCE = 256  # the graph of a gradient is held for so many records


def summed_loss(module: nn.Module, features: Tensor, targets: Tensor) -> Callable[[Tensor], Tensor]:
    """The summed cross-entropy of records as a function of the flat parameters [P]."""
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}
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

    form_cost = product_cost = 2.0

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape

    def products(self, vectors: Tensor) -> Tensor:
        """See the base class."""
        landscape = self.landscape
        records = landscape.records
        out = landscape.theta.new_zeros(len(vectors), records.n_groups, landscape.n_parameters)
        for rows in records.chunks(ROWS_AT_ONCE):
            for group, piece in records.pieces(rows):
                features, targets = records.features[rows][piece], records.targets[rows][piece]
                gradient = grad(summed_loss(landscape.module, features, targets))
                pull = vjp(gradient, landscape.theta)[1]
                for number, vector in enumerate(vectors):
                    out[number, group] += pull(vector, retain_graph=True)[0].detach()
        return out

    def forms(self, vectors: Tensor) -> Tensor:
        """See the base class; one vector at a time, for its product is as long as the parameters."""
        found = [(self.products(v[None])[0].double() @ v.double()) for v in vectors]
        return torch.stack(found)
