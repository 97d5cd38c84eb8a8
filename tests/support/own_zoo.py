"""Models that mix records or remember them, and honest ones of many makes.

Every class reads [n, 12] and puts out [n, 2].
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

WIDTH, CLASSES = 12, 2


class Linear(nn.Module):
    """What the others change: the input on its way to one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.changed(x))

    def changed(self, x: Tensor) -> Tensor:
        return x


# --- records that meet in one batch
# ----------------------------------------------------------------


class TopRouting(Linear):
    """The half with the highest scores is let through."""

    def changed(self, x):
        score = x.sum(1)
        kept = score >= score.sort().values[len(x) // 2]
        return x * kept.unsqueeze(1)


class RollsRecords(Linear):
    def changed(self, x):
        return x + x.roll(1, 0)


class Copies(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class SeesTheWholeBatchInVmap(Copies):
    @staticmethod
    def vmap(info, in_dims, x):
        return x + x.mean(in_dims[0], keepdim=True), in_dims[0]


class OwnVmapRule(Linear):
    def changed(self, x):
        return SeesTheWholeBatchInVmap.apply(x)


@torch.library.custom_op("own_zoo::centred", mutates_args=())
def centred(x: Tensor) -> Tensor:
    return x.clone()


@centred.register_vmap
def centred_in_vmap(info, in_dims, x):
    return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


class OwnOperator(Linear):
    """Its author hides the refusal."""

    def changed(self, x):
        try:
            return centred(x.detach()) + x
        except Exception:
            return x


class HooksOnSavedTensors(Linear):
    """In the backward pass all records' numbers stand in one tensor."""

    def changed(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept.exp()):
            return torch.tanh(x * self.out.weight.sum())


class GradientHook(Linear):
    """A usual way to bound a layer's gradient, by the norm over the batch."""

    def changed(self, x):
        h = x * self.out.weight.sum()
        if h.requires_grad:
            h.register_hook(lambda gradient: gradient / gradient.norm())
        return h


class GoesOnAfterAnError(Linear):
    """One record too long for its factor, and the code takes the other way, for that record."""

    def changed(self, x):
        matrix = torch.eye(3) * (20.0 - x.abs().amax(1)).view(-1, 1, 1)
        try:
            return x * torch.linalg.cholesky(matrix)[:, :1, 0]
        except RuntimeError:
            return -x * 3


# --- records that meet over time
# -------------------------------------------------------------------


class RunningMaximum(Linear):
    """The innocent scaler: a buffer of what has been seen, raised by assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("largest", torch.full((8,), 1e-3))

    def changed(self, x):
        self.largest = torch.maximum(self.largest, x.detach().abs().max())
        return x / self.largest.max()


class RunningMeanInPlace(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def changed(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x - self.mean


class KeepsRawRecords(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, WIDTH))

    def changed(self, x):
        with torch.no_grad():
            self.kept[: min(4, len(x))] = x[:4]
        return x + self.kept.mean(0)


class WritesToAParametersData(Linear):
    def changed(self, x):
        self.out.weight.data += 0.1 * x.detach().mean()
        return x


class ReplacesAParameter(Linear):
    def changed(self, x):
        self.out.bias = nn.Parameter(self.out.bias.detach() + 0.1 * x.detach().mean())
        return x


class KeepsAnAttribute(Linear):
    last: Tensor | float = 0.0

    def changed(self, x):
        mixed = x + self.last
        self.last = x.detach().mean()
        return mixed


class CountsItsPasses(Linear):
    """No tensor is kept, so that vmap has nothing to refuse."""

    passes = 0

    def changed(self, x):
        self.passes += 1
        return x * self.passes


class NumpyMemory(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.memory = np.zeros(WIDTH, np.float32)

    def changed(self, x):
        mixed = x + torch.from_numpy(self.memory.copy())
        self.memory += x.detach().mean(0).numpy()
        return mixed


class ParameterAlias(Linear):
    """Parameters in a list: functional calls do not see them."""

    def __init__(self) -> None:
        super().__init__()
        self.aliases = [self.out.bias]

    def changed(self, x):
        self.aliases[0].data.add_(0.1 * float(x.mean()))
        return x


class SeedsTheGenerator(Linear):
    """One record says what the next one draws."""

    def changed(self, x):
        mixed = x + torch.randn(WIDTH)
        torch.manual_seed(int(x.abs().sum() * 1000))
        return mixed


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES))


def spectral() -> nn.Module:
    """Its power iteration writes to buffers."""
    return nn.Sequential(spectral_norm(nn.Linear(WIDTH, 5)), nn.Linear(5, CLASSES))


# A rule for many records at once is the module's own, or one record's error is met by all.
SEEN = [
    OwnVmapRule,
    OwnOperator,
    HooksOnSavedTensors,
    GoesOnAfterAnError,
]
MIXING = [
    TopRouting,
    RollsRecords,
    SeedsTheGenerator,
    GradientHook,
    *SEEN,
]
STATEFUL = [
    RunningMaximum,
    RunningMeanInPlace,
    KeepsRawRecords,
    WritesToAParametersData,
    ReplacesAParameter,
    KeepsAnAttribute,
    CountsItsPasses,
    NumpyMemory,
    ParameterAlias,
    batch_norm,
    spectral,
]


# --- honest ones
# -----------------------------------------------------------------------------------


class Tokens(nn.Module):
    """Twelve numbers as a sequence of three vectors of four, and a layer for the end."""

    def __init__(self, body: nn.Module, width: int = 4) -> None:
        super().__init__()
        self.body, self.out = body, nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.out(self.read(x.view(len(x), 3, 4)))

    def read(self, h):
        return self.body(h).mean(1)


class Recurrent(Tokens):
    def read(self, h):
        return self.body(h)[0][:, -1]


def transformer(dropout=0.0):
    return Tokens(nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True))


def gru():
    return Recurrent(nn.GRU(4, 5, batch_first=True), 5)


def convolution():
    """Grouped, dilated and transposed."""
    return nn.Sequential(
        nn.Unflatten(1, (2, 6)),
        nn.Conv1d(2, 4, 2, dilation=3, groups=2),
        nn.SiLU(),
        nn.ConvTranspose1d(4, 2, 2),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.bag = nn.Embedding(9, 4), nn.EmbeddingBag(9, 4)
        self.norm, self.out = nn.LayerNorm(4), nn.Linear(8, CLASSES)

    def forward(self, x):
        words = ((x + 2.0) * 2.0).clamp(0, 8).long()
        return self.out(torch.cat([self.norm(self.words(words)).mean(1), self.bag(words)], 1))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, CLASSES)
        self.down.weight = self.up.weight

    def forward(self, x):
        return self.out(self.down(torch.tanh(self.up(x))))


class WritesToItsInput(Linear):
    def changed(self, x):
        return x.clamp_(-1, 1).mul_(2.0)


def normed_weight():
    return nn.Sequential(weight_norm(nn.Linear(WIDTH, 5)), nn.Tanh(), nn.Linear(5, CLASSES))


class OnePartTwice(nn.Module):
    """The same part under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second, self.out = self.first, nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.out(self.second(torch.tanh(self.first(x))))


HONEST = [
    transformer,
    convolution,
    Embedded,
    Tied,
    WritesToItsInput,
    normed_weight,
    OnePartTwice,
]
BEYOND_VMAP = [gru, SeedsTheGenerator, KeepsRawRecords, NumpyMemory]


class Dropped(Linear):
    def changed(self, x):
        return F.dropout(x, 0.5)


class Noisy(Linear):
    """Normal draws of 16 or more numbers are made by sixteens, the last of which reaches back."""

    def changed(self, x):
        return x + torch.randn_like(x)
