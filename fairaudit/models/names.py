"""Which models there are and how large they are, for those who must not import torch."""

import itertools
import math

from fairaudit.errors import ConfigError, did_you_mean

Shape = tuple[int, ...]  # of one record: (d,) or (H, W, C)

MODELS = ("logistic", "mlp", "cnn", "logistic-squashed")
CNN_CHANNELS = (32, 16)
CNN_KERNEL = 3


def resolve_model(name: str, image_shape: Shape | None) -> str:
    """The model meant: ``auto`` is cnn for images, else logistic.

    Raises:
        ConfigError: Unknown name; a network for images on a table; images too small for it.
    """
    if name == "auto":
        return "logistic" if image_shape is None else "cnn"
    if is_factory(name):
        return name
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}", hint=did_you_mean(name, MODELS))
    if name == "cnn":
        if image_shape is None:
            raise ConfigError("model cnn needs images", hint="use --model logistic or mlp")
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


def parameter_count(name: str, shape: Shape, classes: int, hidden: tuple[int, ...]) -> int:
    """P of one of MODELS for records of that shape."""
    if name == "cnn":
        height, width, channels = shape
        sizes = itertools.pairwise((channels, *CNN_CHANNELS))
        kernels = sum(out * (into * CNN_KERNEL**2 + 1) for into, out in sizes)
        shrunk = len(CNN_CHANNELS) * (CNN_KERNEL - 1)
        flat = CNN_CHANNELS[-1] * (height - shrunk) * (width - shrunk)
        return kernels + classes * (flat + 1)
    widths = (math.prod(shape), *(hidden if name == "mlp" else ()), classes)
    return sum(out * (into + 1) for into, out in itertools.pairwise(widths))
