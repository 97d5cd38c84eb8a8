"""R copies of one network in one flat parameter tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairaudit.engine.layers import bind
from fairaudit.errors import TrainingError


def flatten(module: nn.Module) -> list[nn.Module]:
    """The chain of layers of a (nested) Sequential."""
    if isinstance(module, nn.Sequential):
        return [leaf for child in module for leaf in flatten(child)]
    return [module]


def _refuse_loose_parameters(module: nn.Module, layers: Sequence[nn.Module]) -> None:
    """A parameter that is not one layer's own would be trained twice, or not as the norms say."""
    owned = [id(parameter) for layer in layers for parameter in layer.parameters()]
    if owned != [id(parameter) for parameter in module.parameters()]:
        raise TrainingError(
            "the model shares parameters between layers, or has some outside them",
            hint="give every layer parameters of its own",
        )
    if not all(parameter.requires_grad for parameter in module.parameters()):
        raise TrainingError("the model has frozen parameters", hint="train all of them")


class Network:
    """Replicates of one architecture, stacked: ``theta`` [R, P] and the layers bound to it.

    Args:
        modules: One module per replicate, of equal architecture; their parameters are copied.

    Raises:
        TrainingError: A layer is not in the table of ``engine/layers.py``, or a parameter is shared
            between layers, frozen, or of no layer.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        layers = flatten(modules[0])
        _refuse_loose_parameters(modules[0], layers)
        rows = [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in modules]
        self.theta: Tensor = torch.stack(rows)
        self.layers = bind(layers, self.theta)

    @property
    def replicates(self) -> int:
        """R."""
        return len(self.theta)

    @property
    def n_parameters(self) -> int:
        """P."""
        return self.theta.shape[1]

    def forward(self, x: Tensor) -> list[Tensor]:
        """Input and output of every layer: [(R,) B, ...] each, the logits last."""
        books = [x]
        for layer in self.layers:
            books.append(layer.forward(books[-1]))
        return books

    def probabilities(self, features: Tensor, rows_at_once: int = 4096) -> Tensor:
        """Softmax outputs of all replicates on ``features`` [n, d] -> [R, n, Y], in chunks."""
        parts = []
        for chunk in torch.split(features, rows_at_once):
            single = self.replicates == 1
            x = chunk if single else chunk.expand(self.replicates, *chunk.shape)
            logits = self.forward(x)[-1]
            parts.append(torch.softmax(logits.unsqueeze(0) if single else logits, -1))
        return torch.cat(parts, 1)
