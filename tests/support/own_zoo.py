"""Models that mix records or remember them, and honest ones of many makes.

Every class reads [n, 12] and puts out [n, 2].
"""

import functools
import threading
import types
from dataclasses import dataclass

import numpy as np
import own_zoo_notes
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


# --- records that meet in one batch ----------------------------------------------------------------


class MeanOfLargeBatches(Linear):
    def changed(self, x):
        return x - x.mean(0, keepdim=True) if len(x) > 8 else x


class ScaledByTheBatch(Linear):
    def changed(self, x):
        return x / x.abs().max().clamp_min(1e-3)


class Whitened(Linear):
    def changed(self, x):
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1.0).sqrt()


class TopRouting(Linear):
    """The half with the highest scores is let through."""

    def changed(self, x):
        score = x.sum(1)
        kept = score >= score.sort().values[len(x) // 2]
        return x * kept.unsqueeze(1)


class AttendsAcrossRecords(Linear):
    def changed(self, x):
        return torch.softmax(x @ x.T, 1) @ x


class RollsRecords(Linear):
    def changed(self, x):
        return x + x.roll(1, 0)


class SeesTheWholeBatchInVmap(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, in_dims, x):
        return x + x.mean(in_dims[0], keepdim=True), in_dims[0]


class OwnVmapRule(Linear):
    def changed(self, x):
        return SeesTheWholeBatchInVmap.apply(x)


class GoesOnAfterAnError(Linear):
    """One record too long for its factor, and the code takes the other way, for that record."""

    def changed(self, x):
        matrix = torch.eye(3) * (20.0 - x.abs().amax(1)).view(-1, 1, 1)
        try:
            return x * torch.linalg.cholesky(matrix)[:, :1, 0]
        except RuntimeError:
            return -x * 3


# --- records that meet over time -------------------------------------------------------------------


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


class RunningMeanThroughData(RunningMeanInPlace):
    def changed(self, x):
        self.mean.data.copy_(0.9 * self.mean.data + 0.1 * x.detach().mean(0))
        return x - self.mean


class RunningMeanAfterManyCalls(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.mean = 0, 0.0

    def changed(self, x):
        self.calls += 1
        if self.calls > 100:
            self.mean = 0.9 * self.mean + 0.1 * float(x.mean())
        return x - self.mean


class KeepsRawRecords(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, WIDTH))

    def changed(self, x):
        with torch.no_grad():
            self.kept[: min(4, len(x))] = x[:4]
        return x + self.kept.mean(0)


class WritesToAParameter(Linear):
    def changed(self, x):
        with torch.no_grad():
            self.out.bias.add_(0.1 * x.mean())
        return x


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


class PlainTensor(Linear):
    """A tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.zeros(WIDTH)

    def changed(self, x):
        mixed = x + self.memory
        self.memory.copy_(x.detach().mean(0))
        return mixed


class NumpyMemory(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.memory = np.zeros(WIDTH, np.float32)

    def changed(self, x):
        mixed = x + torch.from_numpy(self.memory.copy())
        self.memory += x.detach().mean(0).numpy()
        return mixed


class Notes:
    def __init__(self) -> None:
        self.seen = [0.0]


class ObjectMemory(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes()

    def changed(self, x):
        mixed = x + self.notes.seen[-1]
        self.notes.seen.append(float(x.mean()))
        return mixed


HISTORY: list[float | Tensor] = []


class GlobalNumbers(Linear):
    def changed(self, x):
        mixed = x + (HISTORY[-1] if HISTORY else 0.0)
        HISTORY.append(float(x.mean()))
        return mixed


def remembered(x):
    mixed = x + (HISTORY[-1] if HISTORY else 0.0)
    HISTORY.append(x.detach().mean())
    return mixed


class GlobalTensorsByAFunction(Linear):
    def changed(self, x):
        return remembered(x)


class ClassMemory(Linear):
    shared = {"mean": 0.0}  # noqa: RUF012

    def changed(self, x):
        mixed = x + self.shared["mean"]
        type(self).shared = {"mean": float(x.mean())}
        return mixed


class DefaultArgument(Linear):
    def changed(self, x, seen=[]):  # noqa: B006
        mixed = x + (seen[-1] if seen else 0.0)
        seen.append(float(x.mean()))
        return mixed


@functools.lru_cache
def first_seen(key, value=None):
    return value


class CacheMemory(Linear):
    def changed(self, x):
        first_seen(float(x.mean()))
        return x + 0.01 * first_seen.cache_info().currsize


class InTorchItself(Linear):
    """Kept where no reading of the module looks."""

    def changed(self, x):
        mixed = x + getattr(torch, "_kept_by_a_test", 0.0)
        torch._kept_by_a_test = x.detach().mean()
        return mixed


LOCAL = threading.local()


class ThreadMemory(Linear):
    def changed(self, x):
        mixed = x + getattr(LOCAL, "kept", 0.0)
        LOCAL.kept = x.detach().mean()
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


class OwnGenerator(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def changed(self, x):
        return x + torch.randn(int(x.abs().sum()) % 5 + 1, generator=self.generator).mean()


class InAnotherModule(Linear):
    """The scale lies in a module that the code names; it has a floor, so that few records show it."""

    def changed(self, x):
        own_zoo_notes.SCALE = max(own_zoo_notes.SCALE, float(x.abs().max()))
        return x / own_zoo_notes.SCALE


class ByALocalImport(Linear):
    def changed(self, x):
        from own_zoo_notes import METER

        METER.append(float(x.mean()))
        return x + METER[-2]


class ByAStringAlone(Linear):
    """No code names what changes."""

    def changed(self, x):
        held = vars(own_zoo_notes)
        mixed = x + held["UNSPOKEN"]
        held["UNSPOKEN"] = float(x.mean())
        return mixed


class SaysItHoldsNothing:
    """What pickle writes of it is what the class chooses."""

    def __init__(self) -> None:
        self.lock, self.level = threading.Lock(), 0.0

    def __getstate__(self):
        return {}


NOTHING = SaysItHoldsNothing()


class BehindALock(Linear):
    def changed(self, x):
        mixed = x + NOTHING.level
        NOTHING.level = float(x.mean())
        return mixed


@functools.wraps(F.relu)
def relu_with_a_memory(x):
    """Bears the name and the module of PyTorch's own."""
    mixed = F.relu(x) + BORNE["level"]
    BORNE["level"] = float(x.mean())
    return mixed


BORNE = {"level": 0.0}


class UnderAnotherName(Linear):
    def changed(self, x):
        return relu_with_a_memory(x)


class OwnLinear(nn.Linear):
    """A user's class under one that PyTorch makes."""

    levels = [0.0]  # noqa: RUF012

    def forward(self, x):
        mixed = super().forward(x) + self.levels[-1]
        self.levels.append(float(x.mean()))
        return mixed


def under_a_parametrisation() -> nn.Module:
    return nn.Sequential(weight_norm(OwnLinear(WIDTH, 5)), nn.Linear(5, CLASSES))


def counted():
    level = 0.0
    while True:
        level = yield level


class InAGenerator(Linear):
    def changed(self, x):
        return x + COUNTED.send(float(x.mean()))


COUNTED = counted()
next(COUNTED)


class ThroughTheStorage(RunningMaximum):
    def changed(self, x):
        self.largest.data = torch.maximum(self.largest, x.detach().abs().max())
        return x / self.largest.max()


def with_a_method_of_its_own() -> nn.Module:
    def changed(self, x):
        mixed = x + METHOD_LEVELS[-1]
        METHOD_LEVELS.append(float(x.mean()))
        return mixed

    model = Linear()
    model.changed = types.MethodType(changed, model)
    return model


METHOD_LEVELS = [0.0]


def hooked() -> nn.Module:
    """A memory in a hook on a layer of PyTorch's own."""
    kept = [0.0]

    def remember(module, given, out):
        mixed = out + kept[0]
        kept[0] = out.detach().mean()
        return mixed

    model = nn.Sequential(nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    model[0].register_forward_hook(remember)
    return model


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES))


class RenamedBatchNorm(nn.BatchNorm1d):
    """A subclass is refused as its base is."""


def renamed_batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 5), RenamedBatchNorm(5), nn.Linear(5, CLASSES))


def spectral() -> nn.Module:
    """Its power iteration writes to buffers."""
    return nn.Sequential(spectral_norm(nn.Linear(WIDTH, 5)), nn.Linear(5, CLASSES))


MIXING = [MeanOfLargeBatches, ScaledByTheBatch, Whitened, TopRouting, AttendsAcrossRecords, RollsRecords,
          OwnVmapRule, SeedsTheGenerator, GoesOnAfterAnError]  # fmt: skip
STATEFUL = [RunningMaximum, RunningMeanInPlace, RunningMeanThroughData, RunningMeanAfterManyCalls,
            KeepsRawRecords, WritesToAParameter, WritesToAParametersData, ReplacesAParameter,
            KeepsAnAttribute, PlainTensor, NumpyMemory, ObjectMemory, GlobalNumbers,
            GlobalTensorsByAFunction, ClassMemory, DefaultArgument, CacheMemory, InTorchItself, ThreadMemory,
            ParameterAlias, OwnGenerator, InAnotherModule, ByALocalImport, ByAStringAlone,
            BehindALock, UnderAnotherName, under_a_parametrisation, InAGenerator, ThroughTheStorage,
            with_a_method_of_its_own, hooked, batch_norm, renamed_batch_norm, spectral]  # fmt: skip


# --- honest ones -----------------------------------------------------------------------------------


class Tokens(nn.Module):
    """Twelve numbers as a sequence of three vectors of four, and a layer for the end."""

    def __init__(self, body: nn.Module, width: int = 4) -> None:
        super().__init__()
        self.body, self.out = body, nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.out(self.read(x.view(len(x), 3, 4)))

    def read(self, h):
        return self.body(h).mean(1)


class Attending(Tokens):
    def read(self, h):
        return self.body(h, h, h)[0].mean(1)


class Recurrent(Tokens):
    def read(self, h):
        return self.body(h)[0][:, -1]


def transformer(dropout=0.0):
    return Tokens(nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True))


def attention():
    return Attending(nn.MultiheadAttention(4, 2, batch_first=True))


def opacus_attention():
    from opacus.layers import DPMultiheadAttention

    return Attending(DPMultiheadAttention(4, 2, batch_first=True))


def gru():
    return Recurrent(nn.GRU(4, 5, batch_first=True), 5)


def lstm():
    return Recurrent(nn.LSTM(4, 5, batch_first=True), 5)


def opacus_gru():
    from opacus.layers import DPGRU

    return Recurrent(DPGRU(4, 5, batch_first=True), 5)


def grouped_convolution():
    return nn.Sequential(
        nn.Unflatten(1, (4, 3, 1)), nn.Conv2d(4, 8, (2, 1), groups=2), nn.GELU(), nn.Flatten(),
        nn.Linear(16, CLASSES),
    )  # fmt: skip


def dilated_convolution():
    return nn.Sequential(
        nn.Unflatten(1, (2, 6)), nn.Conv1d(2, 4, 2, dilation=3), nn.SiLU(), nn.ConvTranspose1d(4, 2, 2),
        nn.Flatten(), nn.Linear(8, CLASSES),
    )  # fmt: skip


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


class OldFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x > 0)


class NewFunction(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x > 0)


class OwnFunction(Linear):
    function = OldFunction

    def changed(self, x):
        return self.function.apply(x)


class NewerFunction(OwnFunction):
    function = NewFunction


class OwnWay(Linear):
    """Control flow that follows one record's numbers, and a constant buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.full((WIDTH,), 0.1))

    def changed(self, x):
        return torch.cat([2 * row if row[0, 0] > 0 else row - self.centre for row in x.split(1)])


class WritesToItsInput(Linear):
    def changed(self, x):
        return x.clamp_(-1, 1).mul_(2.0)


def normed_weight():
    return nn.Sequential(weight_norm(nn.Linear(WIDTH, 5)), nn.Tanh(), nn.Linear(5, CLASSES))


class Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Bilinear(6, 6, CLASSES)

    def forward(self, x):
        return self.both(x[:, :6], x[:, 6:])


class OnePartTwice(nn.Module):
    """The same part under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second, self.out = self.first, nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.out(self.second(torch.tanh(self.first(x))))


@functools.lru_cache
def places(width):
    return torch.arange(float(width)).sin()


class ReadsACache(Linear):
    """A table that was made before training."""

    def __init__(self) -> None:
        super().__init__()
        places(WIDTH)

    def changed(self, x):
        return x + places(WIDTH)


@dataclass
class Settings:
    factor: float = 2.0


class Configured(Linear):
    settings = Settings()

    def changed(self, x):
        return x * self.settings.factor


def instance_norm():
    return nn.Sequential(
        nn.Unflatten(1, (2, 6)), nn.InstanceNorm1d(2, affine=True), nn.Flatten(), nn.Linear(12, CLASSES)
    )


HONEST = [transformer, attention, opacus_attention, gru, lstm, opacus_gru, grouped_convolution,
          dilated_convolution, Embedded, Tied, OwnFunction, NewerFunction, OwnWay, WritesToItsInput,
          normed_weight, Bilinear, instance_norm, OnePartTwice, ReadsACache, Configured]  # fmt: skip
# Opacus' hooks take these apart; the others hold something that it refuses or that it has no rule for.
BY_HOOKS = [opacus_attention, opacus_gru, grouped_convolution, instance_norm]


class Dropped(Linear):
    def changed(self, x):
        return F.dropout(x, 0.5)


class Noisy(Linear):
    """Normal draws of 16 or more numbers are made by sixteens, the last of which reaches back."""

    def changed(self, x):
        return x + torch.randn_like(x)
