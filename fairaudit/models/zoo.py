"""Model factories; they know nothing of privacy, and draw their start from one named stream."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn

from fairaudit.errors import ConfigError, did_you_mean

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
MODELS = ("logistic", "mlp", "logistic-squashed")


def make_model(
    name: str, inputs: int, classes: int, *, hidden: Sequence[int], activation: str, seed: int
) -> nn.Sequential:
    """A model with PyTorch's usual start, drawn from the stream of ``seed``.

    ``logistic`` is softmax regression. ``mlp`` has the given hidden widths. ``logistic-squashed``
    feeds sigmoids of the logits into the cross-entropy, as the code behind Esipova et al. 2023 does
    on Dutch: a loss that cannot fall below 0.31 nats, offered for reproduction only.

    Args:
        name: One of MODELS. inputs: d. classes: Y.
        hidden: Widths of the mlp. activation: ``tanh`` or ``relu``. seed: Of the init stream.

    Raises:
        ConfigError: Unknown name.
    """
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}", hint=did_you_mean(name, MODELS))
    widths = (inputs, *(hidden if name == "mlp" else ()), classes)
    layers: list[nn.Module] = []
    for number, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        if number:
            layers.append(ACTIVATIONS[activation]())
        layers.append(nn.Linear(fan_in, fan_out, device="meta").to_empty(device="cpu"))
    if name == "logistic-squashed":
        layers.append(nn.Sigmoid())
    model = nn.Sequential(*layers)
    start(model, torch.Generator().manual_seed(seed))
    return model


def start(model: nn.Module, generator: torch.Generator) -> None:
    """Draw every Linear as PyTorch does, U(-1/sqrt(fan_in), 1/sqrt(fan_in)), from ``generator``."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            bound = 1.0 / math.sqrt(module.in_features)
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
