"""R copies of one network in one flat parameter tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fairaudit.engine.devices import CPU
from fairaudit.engine.layer import Elementwise, Parametric
from fairaudit.engine.layers import bind, is_plain
from fairaudit.engine.stacked import Stacked, refuse_untrainable
from fairaudit.errors import TrainingError


def flatten(module: nn.Module) -> list[nn.Module]:
    """The chain of layers of a (nested) Sequential; one with hooks or a forward of its own is one layer."""
    is_chain = isinstance(module, nn.Sequential) and is_plain(module)
    if isinstance(module, nn.Sequential) and is_chain and type(module).forward is nn.Sequential.forward:
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


def check_table(module: nn.Module) -> None:
    """Whether :class:`Network` can hold a module.

    Raises:
        TrainingError: What stands against it.
    """
    layers = flatten(module)
    if any(is_lazy(parameter) for parameter in module.parameters()):
        raise TrainingError(
            "the model has lazy layers, whose sizes are not known yet", hint="give every layer its sizes"
        )
    _refuse_loose_parameters(module, layers)
    size = sum(p.numel() for p in module.parameters())
    bound = bind(layers, torch.empty(1, size, device="meta"))
    if not any(isinstance(layer, Parametric) for layer in bound):
        refuse_untrainable(module)


class Network(Stacked):
    """Replicates of one architecture, stacked: ``theta`` [R, P] and the layers bound to it.

    Args:
        modules: One module per replicate, of equal architecture; their parameters are copied.
        device: Where the copies lie.

    Raises:
        TrainingError: A layer is not in the table of ``engine/layers.py``, or a parameter is shared
            between layers, frozen, or of no layer.
    """

    def __init__(self, modules: Sequence[nn.Module], device: torch.device = CPU) -> None:
        layers = flatten(modules[0])
        _refuse_loose_parameters(modules[0], layers)
        rows = [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in modules]
        self.theta: Tensor = torch.stack(rows).to(device)
        self.layers = bind(layers, self.theta)
        # What a layer with parameters puts out, nobody reads again: the next may write over it.
        self._over = [
            isinstance(layer, Elementwise)
            and bool(number)
            and isinstance(self.layers[number - 1], Parametric)
            for number, layer in enumerate(self.layers)
        ]
        floats = sum(layer.floats_per_record for layer in self.layers if isinstance(layer, Parametric))
        self._bytes_per_record = 4 * self.replicates * floats

    @property
    def bytes_per_record(self) -> int:
        """Activations and their gradients."""
        return self._bytes_per_record

    def forward(self, x: Tensor) -> list[Tensor]:
        """Input and output of every layer: [(R,) B, ...] each, the logits last.

        The output of a layer with parameters is overwritten by an activation that follows it.
        """
        books = [x]
        for layer, over in zip(self.layers, self._over, strict=True):
            x = layer.forward_(x) if over and isinstance(layer, Elementwise) else layer.forward(x)
            books.append(x)
        return books

    def logits(self, x: Tensor) -> Tensor:
        """The outputs alone, [(R,) B, Y]."""
        for layer in self.layers:
            x = layer.forward(x)
        return x
