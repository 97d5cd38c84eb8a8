"""Which models there are and how large they are, for modules that must not import torch.

The engine computes per-record gradients by a table of known layers; where a model has others, by
``torch.func.vmap`` over the user's own code.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairaudit.errors import ConfigError, did_you_mean

Shape = tuple[int, ...]  # of one record: (d,) or (H, W, C)

MODELS = ("logistic", "mlp", "cnn", "logistic-squashed")
LINEAR = ("logistic", "logistic-squashed")
CHOICES = MODELS[:3]  # the fourth is how a paper's scripts trained; its preset asks for it
CNN_CHANNELS = (32, 16)
CNN_KERNEL = 3
MOST_PARAMETERS = 100_000_000  # 400 MB, of which a step holds several
BY_TABLE, BY_VMAP = "the layer table", "torch.func.vmap"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model before training.

    Args:
        parameters: P, number of parameters; None where it depends on how a table is encoded.
        products: Multiplications of one record's forward pass; None where that is not known. Of a
            user's own model those of layers of known types.
        copied: How many parameters are copied for each record, to have its gradient in them.
        why_copied: Why layers of known types are copied; "" where they are not.
        gradients: What computes each record's gradient: BY_TABLE or BY_VMAP.
        why_not_in_table: Why the layer table cannot compute them; "" where it can.
        digest: Of a user's own model: its code, architecture and initial parameters; else "".
    """

    parameters: int | None = None
    products: int | None = None
    copied: int = 0
    why_copied: str = ""
    gradients: str = BY_TABLE
    why_not_in_table: str = ""
    digest: str = ""


UNENCODED = ModelFacts()  # of a model on a table: its inputs are counted when a seed is encoded


def has_linear_baseline(model: str, image_shape: Shape | None) -> bool:
    """Whether a linear model of the same inputs says how well this one should do.

    It does so of any model on a table. Of a network on images it does not: how well a linear model
    of pixels does says nothing of the network.

    Args:
        model: As :func:`resolve_model` returns it.
        image_shape: (H, W, C); None: the data are a table.
    """
    return image_shape is None or model in LINEAR


def resolve_model(name: str, image_shape: Shape | None) -> str:
    """The model that ``--model`` means: ``auto`` is cnn for images, else logistic.

    ``image_shape``: (H, W, C); None: the data are a table.

    Raises:
        ConfigError: Unknown name; a network for images on a table; images too small for it.
    """
    if name == "auto":
        if image_shape is None:
            return "logistic"
        return "cnn"
    if is_factory(name):
        return name
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}", hint=did_you_mean(name, CHOICES))
    if name == "cnn":
        if image_shape is None:
            raise ConfigError("model cnn needs images", hint="use --model logistic or mlp")
        # Each convolution takes CNN_KERNEL - 1 pixels off a side, and one must be left.
        least = len(CNN_CHANNELS) * (CNN_KERNEL - 1) + 1
        if min(image_shape[:2]) < least:
            raise ConfigError(
                f"images of {image_shape[0]} x {image_shape[1]} pixels are too small for model cnn",
                hint=f"it needs {least} x {least}; use --model mlp",
            )
    return name


def is_factory(name: str) -> bool:
    """Whether the name is a user's own ``package.module:factory``."""
    return ":" in name


def sees_images(name: str) -> bool:
    """Whether the model is given images, rather than rows of numbers."""
    return name == "cnn" or is_factory(name)


def refuse_large(name: str, shape: Shape, classes: int, hidden: tuple[int, ...]) -> None:
    """Refuse one of MODELS of so many parameters that a training of it fills the memory.

    Args:
        name: Of the model. A factory is let through: its size is not known before it is made.
        shape: Of a record, (H, W, C); of a table (d,), where d is at most its number of inputs.
        classes, hidden: As of :func:`layer_sizes`.

    Raises:
        ConfigError: The model has more than MOST_PARAMETERS.
    """
    if is_factory(name):
        return
    sizes = layer_sizes(name, shape, classes, hidden)
    parameters = sum(fan_out * (fan_in + 1) for fan_out, fan_in, _ in sizes)  # + 1: a bias
    if parameters > MOST_PARAMETERS:
        smaller = "smaller images (--resize)" if len(shape) == 3 else "fewer columns (--drop)"
        raise ConfigError(
            f"{name} has {parameters:,} parameters or more here, more than {MOST_PARAMETERS:,}",
            f"use narrower layers (--hidden), or {smaller}",
        )


def known_facts(
    name: str, image_shape: Shape | None, classes: int, hidden: tuple[int, ...]
) -> ModelFacts:
    """Size of one of MODELS; nothing is known on a table, whose inputs depend on the encoding.

    Args: as of :func:`layer_sizes`; ``image_shape``: (H, W, C), None: the data are a table.
    """
    if image_shape is None:
        return UNENCODED
    sizes = layer_sizes(name, image_shape, classes, hidden)
    return ModelFacts(
        parameters=sum(fan_out * (fan_in + 1) for fan_out, fan_in, _ in sizes),  # + 1: a bias
        products=sum(fan_out * fan_in * positions for fan_out, fan_in, positions in sizes),
    )


def layer_sizes(
    name: str, shape: Shape, classes: int, hidden: Sequence[int]
) -> tuple[tuple[int, int, int], ...]:
    """(outputs, inputs, positions) of each layer with parameters, for records of that shape.

    ``classes``: how many outputs the model has; ``hidden``: widths of the hidden layers of mlp. A
    convolution's outputs are its channels, its inputs the numbers that one output reads, its
    positions the pixels at which its weights are applied. A linear layer has one position.
    """
    if name != "cnn":
        widths = (math.prod(shape), *(hidden if name == "mlp" else ()), classes)
        return tuple((fan_out, fan_in, 1) for fan_in, fan_out in itertools.pairwise(widths))
    height, width, channels = shape
    sizes = []
    for fan_in, fan_out in itertools.pairwise((channels, *CNN_CHANNELS)):
        height, width = height - CNN_KERNEL + 1, width - CNN_KERNEL + 1
        sizes.append((fan_out, fan_in * CNN_KERNEL**2, height * width))
    return (*sizes, (classes, CNN_CHANNELS[-1] * height * width, 1))
