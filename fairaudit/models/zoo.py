"""Model factories; they know nothing of privacy, and draw their start from one named stream."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn

from fairaudit.config.model_names import CNN_CHANNELS, CNN_KERNEL, MODELS, Shape
from fairaudit.errors import ConfigError, did_you_mean

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


def make_model(
    name: str, inputs: int | Shape, classes: int, *, hidden: Sequence[int], activation: str, seed: int
) -> nn.Sequential:
    """A model with PyTorch's usual start, drawn from the stream of ``seed``.

    ``logistic`` is softmax regression. ``mlp`` has the given hidden widths. ``cnn`` has two convolutions
    of 32 and 16 channels, 3 x 3, no padding, no pooling, as the code behind Esipova et al. 2023; it
    reads images channels first. ``logistic-squashed`` feeds sigmoids of the logits into the
    cross-entropy, as that code does on Dutch: a loss that cannot fall below 0.31 nats, offered for
    reproduction only.

    Args:
        name: One of MODELS.
        inputs: d, or (H, W, C) for cnn.
        classes: Y.
        hidden: Widths of the mlp.
        activation: ``tanh`` or ``relu``.
        seed: Of the init stream.

    Raises:
        ConfigError: Unknown name.
    """
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}", hint=did_you_mean(name, MODELS))
    shape = (inputs,) if isinstance(inputs, int) else inputs
    act = ACTIVATIONS[activation]
    with torch.device("meta"):  # nothing is drawn from the global generator
        layers = (
            _convolutions(shape, classes, act)
            if name == "cnn"
            else _linears((math.prod(shape), *(hidden if name == "mlp" else ()), classes), act)
        )
    if name == "logistic-squashed":
        layers.append(nn.Sigmoid())
    model = nn.Sequential(*layers).to_empty(device="cpu")
    start(model, torch.Generator().manual_seed(seed))
    return model


def _linears(widths: Sequence[int], activation: type[nn.Module]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for number, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        if number:
            layers.append(activation())
        layers.append(nn.Linear(fan_in, fan_out))
    return layers


def _convolutions(shape: Shape, classes: int, activation: type[nn.Module]) -> list[nn.Module]:
    height, width, channels = shape
    layers: list[nn.Module] = []
    for out in CNN_CHANNELS:
        layers += [nn.Conv2d(channels, out, CNN_KERNEL), activation()]
        height, width, channels = height - CNN_KERNEL + 1, width - CNN_KERNEL + 1, out
    return [*layers, nn.Flatten(), nn.Linear(height * width * channels, classes)]


def start(model: nn.Module, generator: torch.Generator) -> None:
    """Draw every layer as PyTorch does, U(-1/sqrt(fan_in), 1/sqrt(fan_in)), from ``generator``."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(module.weight[0].numel())
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
