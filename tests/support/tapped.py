"""Modules around layers that the engine taps: each reads records of ``shape`` and has 3 outputs."""

import random
import types

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

OUTPUTS = 3


class Around(nn.Module):
    """One layer, between what brings a record into its shape and a head that weighs its numbers.

    The head is not a layer, so that the layer is all that is tapped.
    """

    def __init__(self, layer, shape, brought=lambda x: x, head=True):
        super().__init__()
        self.layer, self.shape, self.brought = layer, shape, brought
        with torch.no_grad():
            size = layer(brought(torch.zeros(1, *shape))).numel()
        weights = torch.randn(OUTPUTS, size, generator=torch.Generator().manual_seed(4))
        self.register_buffer("head", weights / size**0.5)

    def forward(self, x):
        h = torch.tanh(self.layer(self.brought(x)))
        return h.reshape(1, -1) @ self.head.mT


def codes(x):
    """Numbers as the rows of a table of nine."""
    return ((x + 2.0) * 2.0).clamp(0, 8).long()


def normed(layer):
    """A layer whose weight and bias are not ones and zeros."""
    draw = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw))
    return layer


def frozen(layer, name):
    getattr(layer, name).requires_grad_(False)
    return layer


# name -> a module of one layer; every one is tapped
LAYERS = {
    "linear": lambda: Around(nn.Linear(6, 5), (6,)),
    "linear, no bias": lambda: Around(nn.Linear(6, 5, bias=False), (6,)),
    "linear, weight frozen": lambda: Around(frozen(nn.Linear(6, 5), "weight"), (6,)),
    "linear, bias frozen": lambda: Around(frozen(nn.Linear(6, 5), "bias"), (4, 6)),
    "linear, one axis": lambda: Around(nn.Linear(6, 5), (6,), lambda x: x[0]),
    "linear, positions, written out": lambda: Around(nn.Linear(6, 5), (4, 6)),
    "linear, positions, as products": lambda: Around(nn.Linear(40, 50), (3, 40)),
    "linear, two axes of positions": lambda: Around(nn.Linear(4, 5), (2, 3, 4)),
    "linear, transposed input": lambda: Around(nn.Linear(4, 30), (30, 4), lambda x: x.mT.mT),
    "layer norm": lambda: Around(normed(nn.LayerNorm(6)), (6,)),
    "layer norm, positions": lambda: Around(normed(nn.LayerNorm(6, eps=0.1)), (4, 6)),
    "layer norm, two axes": lambda: Around(normed(nn.LayerNorm((4, 6))), (2, 4, 6)),
    "layer norm, no bias": lambda: Around(normed(nn.LayerNorm(6, bias=False)), (4, 6)),
    "group norm": lambda: Around(normed(nn.GroupNorm(2, 4, eps=0.1)), (4, 3, 5)),
    "group norm, row": lambda: Around(normed(nn.GroupNorm(2, 4)), (4,)),
    "group norm, frames": lambda: Around(
        normed(nn.GroupNorm(4, 4)), (3, 4, 5), lambda x: x.flatten(0, 1)
    ),
    "embedding": lambda: Around(nn.Embedding(9, 4), (1,), lambda x: codes(x)[:, 0]),
    "embedding, positions": lambda: Around(nn.Embedding(9, 4), (7,), codes),
    "embedding, padding": lambda: Around(nn.Embedding(9, 4, padding_idx=4), (7,), codes),
    "embedding, many rows": lambda: Around(nn.Embedding(999, 4), (7,), codes),
    "embedding, whole numbers of 32 bits": lambda: Around(
        nn.Embedding(9, 4), (7,), lambda x: codes(x).int()
    ),
    "conv1d": lambda: Around(nn.Conv1d(2, 4, 3, stride=2, padding=1), (2, 9)),
    "conv2d": lambda: Around(nn.Conv2d(2, 4, 3), (2, 7, 6)),
    "conv2d, no bias": lambda: Around(nn.Conv2d(2, 4, (1, 3), bias=False), (2, 7, 6)),
    "conv2d, all options": lambda: Around(
        nn.Conv2d(4, 6, 3, stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=2), (4, 7, 8)
    ),
    "conv2d, same": lambda: Around(nn.Conv2d(2, 4, (5, 3), padding="same"), (2, 5, 6)),
    "conv2d, circular": lambda: Around(
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), (2, 5, 6)
    ),
    "conv2d, reflect": lambda: Around(
        nn.Conv2d(2, 4, 3, padding=2, padding_mode="reflect", groups=2), (2, 5, 6)
    ),
    "conv2d, by channel": lambda: Around(nn.Conv2d(4, 4, 3, groups=4), (4, 7, 6)),
    "conv2d, channels last": lambda: Around(
        nn.Conv2d(3, 4, 3), (7, 6, 3), lambda x: x.permute(0, 3, 1, 2)
    ),
    "conv2d, windows as products": lambda: Around(nn.Conv2d(12, 40, 3), (12, 4, 4)),
    "conv2d, windows as products, groups": lambda: Around(
        nn.Conv2d(40, 80, 3, stride=2, padding=1, groups=2), (40, 3, 4)
    ),
    "conv2d, one window": lambda: Around(nn.Conv2d(2, 4, 3), (2, 3, 3)),
    "conv2d, frames": lambda: Around(nn.Conv2d(2, 4, 3), (3, 2, 5, 6), lambda x: x.flatten(0, 1)),
    "conv2d, frames, windows as products": lambda: Around(
        nn.Conv2d(20, 40, 3), (2, 20, 4, 4), lambda x: x.flatten(0, 1)
    ),
    "conv3d": lambda: Around(nn.Conv3d(2, 4, 2, padding=(1, 0, 1)), (2, 3, 4, 5)),
}


class Mixed(nn.Module):
    """A tapped layer, and what the others do with another one."""

    shape = (4, 6)

    def __init__(self):
        super().__init__()
        self.first, self.other = nn.Linear(6, 6), nn.Linear(6, 6)
        self.out = nn.Linear(6, OUTPUTS)
        self.change()

    def change(self):
        """Change the layer before anything is run."""

    def forward(self, x):
        return self.out(torch.tanh(self.through(torch.tanh(self.first(x)))).mean(1))

    def through(self, h):
        return self.other(h)


class CalledTwice(Mixed):
    def through(self, h):
        return self.other(torch.tanh(self.other(h)))


class ByAFunction(Mixed):
    def through(self, h):
        return F.linear(h, self.other.weight, self.other.bias)


class AlsoByAFunction(Mixed):
    """The layer is called, and its weight is used once more: here a penalty on the outputs."""

    def through(self, h):
        return self.other(h) * self.other.weight.square().mean()


class Hooked(Mixed):
    def change(self):
        self.other.register_forward_hook(lambda layer, given, out: out * 3.0)


class HookedBefore(Mixed):
    def change(self):
        self.other.register_forward_pre_hook(lambda layer, given: (given[0] * 3.0,))


class Reparametrised(Mixed):
    def change(self):
        parametrizations.weight_norm(self.other)


class OfATypeOfItsOwn(Mixed):
    def change(self):
        class Doubled(nn.Linear):
            def forward(self, x):
                return 2.0 * super().forward(x)

        self.other = Doubled(6, 6)


class ForwardReplaced(Mixed):
    def change(self):
        def doubled(layer, x):
            return 2.0 * F.linear(x, layer.weight, layer.bias)

        self.other.forward = types.MethodType(doubled, self.other)


class BareParameter(Mixed):
    def change(self):
        self.other = nn.ParameterDict({"weight": torch.randn(6, 6), "scale": torch.tensor(0.7)})

    def through(self, h):
        return h @ self.other["weight"] * self.other["scale"]


class TiedToAnother(Mixed):
    def change(self):
        self.third = nn.Linear(6, 6)
        self.third.weight = self.other.weight

    def through(self, h):
        return self.third(torch.tanh(self.other(h)))


class KnownByTwoNames(Mixed):
    """One layer at two places, called from each."""

    def change(self):
        self.third = self.other

    def through(self, h):
        return self.third(torch.tanh(self.other(h)))


class CalledByItsOtherName(Mixed):
    """One layer at two places, called once, from the second."""

    def change(self):
        self.third = self.other

    def through(self, h):
        return self.third(h)


class InAVmapOfItsOwn(Mixed):
    def through(self, h):
        return torch.vmap(self.other, in_dims=1, out_dims=1)(h)


class InADerivative(Mixed):
    """The layer's output, and how fast it changes with its input."""

    def through(self, h):
        out, back = torch.func.vjp(self.other, h)
        return out + back(torch.ones_like(out))[0].square()


class ByName(Mixed):
    def through(self, h):
        return self.other(input=h)


class InHalfTheBits(Mixed):
    def through(self, h):
        with torch.autocast("cpu", torch.bfloat16):
            return self.other(h).float()


class LazyAtFirst(Mixed):
    def change(self):
        self.other = nn.LazyLinear(6)
        self.other(torch.zeros(1, 6))  # from here on of a plain type


class ScaledByCount(Mixed):
    def change(self):
        self.other = nn.Embedding(9, 6, scale_grad_by_freq=True)

    def through(self, h):
        return h + self.other(codes(h.detach() * 2.0)).mean(2)


class Attention(Mixed):
    """PyTorch's own attention reads weights by functions, and calls one layer of a hidden type."""

    def change(self):
        self.other = nn.MultiheadAttention(6, 2, batch_first=True)

    def through(self, h):
        return self.other(h, h, h, need_weights=False)[0]


# what keeps ``other`` from being tapped, in all of its parameters
COPIED = [
    CalledTwice,
    ByAFunction,
    Hooked,
    HookedBefore,
    Reparametrised,
    OfATypeOfItsOwn,
    ForwardReplaced,
    BareParameter,
    KnownByTwoNames,
    InAVmapOfItsOwn,
    InADerivative,
    ByName,
    InHalfTheBits,
    ScaledByCount,
    Attention,
]
# and where a part of it is
PARTLY = [AlsoByAFunction, TiedToAnother]


class ImagesOfPatches(nn.Module):
    """A small vision transformer: patches, a token of its own for the class, positions, blocks."""

    shape = (1, 8, 8)

    def __init__(self):
        super().__init__()
        width = 8
        self.patches = nn.Conv2d(1, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 5, width))
        self.block = nn.TransformerEncoderLayer(
            width, 2, 16, dropout=0.0, batch_first=True, norm_first=True
        )
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, OUTPUTS)

    def forward(self, x):
        h = self.patches(x).flatten(2).mT
        h = torch.cat([self.token.expand(len(x), -1, -1), h], 1) + self.places
        return self.out(self.norm(self.block(h))[:, 0])


class Tabular(nn.Module):
    """Categories by tables, numbers beside them, blocks with normalisation and a way around."""

    shape = (5,)

    def __init__(self):
        super().__init__()
        self.colour, self.town = nn.Embedding(9, 3), nn.Embedding(9, 4)
        self.first, self.out = nn.Linear(3 + 4 + 3, 8), nn.Linear(8, OUTPUTS)
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 12), nn.ReLU(inplace=True), nn.Linear(12, 8))
            for _ in range(2)
        )

    def forward(self, x):
        tables = self.colour(codes(x[:, 0])), self.town(codes(x[:, 1]))
        h = self.first(torch.cat([*tables, x[:, 2:]], 1))
        for norm, block in zip(self.norms, self.blocks, strict=True):
            h = h + block(norm(h))
        return self.out(h)


class NotAlwaysCalled(nn.Module):
    """A layer that is left out by chance, of Python's generator."""

    shape = (6,)

    def __init__(self):
        super().__init__()
        self.maybe, self.out = nn.Linear(6, 6), nn.Linear(6, OUTPUTS)

    def forward(self, x):
        return self.out(self.maybe(x) if random.random() < 0.8 else x)


class NotAlwaysInOneWay(NotAlwaysCalled):
    """A weight that is used by a function, once in a while."""

    def forward(self, x):
        h = self.maybe(x)
        return self.out(h @ self.maybe.weight if random.random() < 0.1 else h)
