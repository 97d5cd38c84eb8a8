"""Small models on images, one for each path that a convolution and its neighbours can take."""

from collections.abc import Callable

import torch
from torch import nn

from fairaudit.engine.small_layers import ChannelsFirst

CLASSES = 3

Maker = Callable[[], nn.Module]

# name -> (H, W, C) and the layers in front of the last linear one
IMAGE_MODELS: dict[str, tuple[tuple[int, int, int], list[Maker]]] = {
    "tanh-grey": ((9, 8, 1), [lambda: nn.Conv2d(1, 8, 3), nn.Tanh, lambda: nn.Conv2d(8, 4, 3)]),
    "strided-relu": (
        (11, 9, 2),
        [
            lambda: nn.Conv2d(2, 9, (3, 2), stride=(2, 1), padding=(1, 0)),
            nn.ReLU,
            lambda: nn.Conv2d(9, 5, 2, stride=2, padding=(0, 1), bias=False),
            nn.ReLU,
        ],
    ),
    "dilated-same": (
        (11, 12, 2),
        [
            lambda: nn.Conv2d(2, 6, (3, 5), dilation=(2, 1), padding="same"),
            nn.ReLU,
            lambda: nn.Conv2d(6, 5, 3, padding=1, dilation=(1, 2)),
            nn.Sigmoid,
        ],
    ),
    "one-by-one": (
        (6, 5, 4),
        [lambda: nn.Conv2d(4, 7, 1), nn.Tanh, lambda: nn.AdaptiveAvgPool2d((2, None))],
    ),
    "many-channels": (
        (6, 6, 4),
        [
            lambda: nn.Conv2d(4, 40, 3, padding=1),
            nn.Tanh,
            lambda: nn.MaxPool2d(2),
            lambda: nn.Conv2d(40, 50, 3, padding="valid"),
            nn.Tanh,
        ],
    ),
    "normalised": (
        (8, 8, 2),
        [
            lambda: nn.Conv2d(2, 6, 3),
            lambda: nn.GroupNorm(3, 6),
            nn.ReLU,
            lambda: nn.AvgPool2d(2),
            lambda: nn.LayerNorm((6, 3, 3)),
            nn.Tanh,
        ],
    ),
    "pooled-first": (
        (9, 9, 2),
        [
            lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
            lambda: nn.Conv2d(2, 6, 1),
            nn.Tanh,
            lambda: nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
        ],
    ),
    "no-convolution": ((5, 4, 3), []),
}


def image_model(name, seed=0):
    """The model of that name on images channels last, its start drawn from ``seed``."""
    shape, makers = IMAGE_MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body = nn.Sequential(ChannelsFirst(shape), *[make() for make in makers], nn.Flatten())
        width = body(torch.zeros(1, *shape)).shape[1]
        model = nn.Sequential(body, nn.Linear(width, CLASSES))
        for module in model.modules():
            if isinstance(module, nn.GroupNorm | nn.LayerNorm):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)
    return model


def images(name, replicates, count, seed=1):
    """Random images [R, B, H, W, C] and labels [R, B] for that model."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(replicates, count, *IMAGE_MODELS[name][0], generator=generator)
    return x, torch.randint(CLASSES, (replicates, count), generator=generator)
