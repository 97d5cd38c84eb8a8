"""Models that mix records or remember them, and honest ones of many makes.

Every class reads [n, 12] and puts out [n, 2].
"""

import numpy as np
import torch
from opacus.layers import DPLSTM
from torch import nn
from torch.nn import functional as F

WIDTH, CLASSES = 12, 2


class Linear(nn.Module):
    """What the others change: the input on its way to one layer."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.out(self.changed(x))

    def changed(self, x):
        return x


# --- records that meet in one batch
# ----------------------------------------------------------------


class TopRouting(Linear):
    """The half with the highest scores is let through."""

    def changed(self, x):
        score = x.sum(1)
        kept = score >= score.sort().values[len(x) // 2]
        return x * kept.unsqueeze(1)


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


class HooksOnSavedTensors(Linear):
    """In the backward pass all records' numbers stand in one tensor."""

    def changed(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept.exp()):
            return torch.tanh(x * self.out.weight.sum())


# --- records that meet over time
# -------------------------------------------------------------------


class RunningMaximum(Linear):
    """The innocent scaler: a buffer of what has been seen, raised by assignment."""

    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.full((8,), 1e-3))

    def changed(self, x):
        self.largest = torch.maximum(self.largest, x.detach().abs().max())
        return x / self.largest.max()


class CountsItsPasses(Linear):
    """No tensor is kept, so that vmap has nothing to refuse."""

    passes = 0

    def changed(self, x):
        self.passes += 1
        return x * self.passes


class NumpyMemory(Linear):
    def __init__(self):
        super().__init__()
        self.memory = np.zeros(WIDTH, np.float32)

    def changed(self, x):
        mixed = x + torch.from_numpy(self.memory.copy())
        self.memory += x.detach().mean(0).numpy()
        return mixed


class KeepsWhatALayerRead(Linear):
    """A plain layer inside, and a list of what it was given."""

    def __init__(self):
        super().__init__()
        self.inner, self.read = nn.Linear(WIDTH, WIDTH), []

    def changed(self, x):
        self.read.append(x.detach())
        return self.inner(x + sum(one.mean(0) for one in self.read[:-1]))


class ReplacesALayersForward(Linear):
    def changed(self, x):
        self.out.forward = lambda given: nn.functional.linear(given, self.out.weight)
        return x


class ParameterAlias(Linear):
    """Parameters in a list: functional calls do not see them."""

    def __init__(self):
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


def batch_norm():
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES))


def fixed_statistics():
    """A batch normalisation in evaluation mode: an affine layer, whose scale is trained."""
    model = batch_norm()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2.0)
    model[1].eval()
    return model


# A rule for many records at once is the module's own, or one record's error is met by all.
SEEN = [OwnVmapRule, HooksOnSavedTensors]
MIXING = [TopRouting, SeedsTheGenerator, *SEEN]
STATEFUL = [
    RunningMaximum,
    CountsItsPasses,
    NumpyMemory,
    KeepsWhatALayerRead,
    ReplacesALayersForward,
    ParameterAlias,
    batch_norm,
]


# --- honest ones
# -----------------------------------------------------------------------------------


class Transformer(nn.Module):
    """Twelve numbers as a sequence of three vectors of four, and a layer for the end."""

    def __init__(self):
        super().__init__()
        self.body = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.out = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.out(self.body(x.view(len(x), 3, 4)).mean(1))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.bag = nn.Embedding(9, 4), nn.EmbeddingBag(9, 4)
        self.norm, self.out = nn.LayerNorm(4), nn.Linear(8, CLASSES)

    def forward(self, x):
        words = ((x + 2.0) * 2.0).clamp(0, 8).long()
        return self.out(torch.cat([self.norm(self.words(words)).mean(1), self.bag(words)], 1))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, CLASSES)
        self.down.weight = self.up.weight

    def forward(self, x):
        return self.out(self.down(torch.tanh(self.up(x))))


class Words(nn.Module):
    """Twelve words of nine, some of them padding; ``table`` gives a vector for each."""

    def __init__(self, table):
        super().__init__()
        self.table, self.out = table, nn.Linear(4, CLASSES)

    def forward(self, x):
        words = ((x + 2.0) * 2.0).clamp(0, 8).long()
        return self.out(torch.tanh(self.read(words)))

    def read(self, words):
        return self.table(words).mean(1)


def padded():
    return Words(nn.Embedding(9, 4, padding_idx=4))


def padded_from_the_end():
    return Words(nn.Embedding(9, 4, padding_idx=-9))


def pretrained():
    vectors = torch.arange(36.0).view(9, 4).sin()
    return Words(nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0))


def frozen_vectors():
    return Words(nn.Embedding.from_pretrained(torch.arange(36.0).view(9, 4).cos(), padding_idx=3))


def sparse():
    return Words(nn.Embedding(9, 4, sparse=True, padding_idx=8))


def scaled_by_frequency():
    return Words(nn.Embedding(9, 4, scale_grad_by_freq=True, padding_idx=1))


class PaddedByFunction(Words):
    def __init__(self):
        super().__init__(nn.Embedding(9, 4))

    def read(self, words):
        first = F.embedding(words, self.table.weight, padding_idx=5)
        return (first + torch.embedding(self.table.weight, words, 2)).mean(1)


class PaddedBag(Words):
    def __init__(self):
        super().__init__(nn.EmbeddingBag(9, 4, padding_idx=4, mode="sum"))

    def read(self, words):
        return self.table(words)


class PaddedLstm(Words):
    """As classifiers of sentences are: padded words, Opacus' LSTM, the last state."""

    def __init__(self):
        super().__init__(nn.Embedding(9, 4, padding_idx=0))
        self.reads = DPLSTM(4, 2, batch_first=True, num_layers=2, bidirectional=True)

    def read(self, words):
        return self.reads(self.table(words))[0][:, -1]


class StaysFrozen(nn.Module):
    """As fine-tuning is often written: its ``train`` leaves the normalisation alone."""

    def __init__(self):
        super().__init__()
        self.body = batch_norm()
        self.body[1].requires_grad_(False)
        self.body[1].running_mean.fill_(0.5)
        self.train()

    def train(self, mode=True):
        super().train(mode)
        self.body[1].eval()
        return self

    def forward(self, x):
        return self.body(x)


def frozen_instance_norm():
    norm = nn.InstanceNorm1d(3, affine=True, track_running_stats=True)
    norm.running_mean.fill_(0.2)
    return nn.Sequential(
        nn.Unflatten(1, (3, 4)), norm.eval(), nn.Flatten(), nn.Linear(WIDTH, CLASSES)
    )


class WritesToItsInput(Linear):
    def changed(self, x):
        return x.clamp_(-1, 1).mul_(2.0)


HONEST = [
    Transformer,
    Embedded,
    Tied,
    WritesToItsInput,
    padded,
    padded_from_the_end,
    pretrained,
    frozen_vectors,
    sparse,
    scaled_by_frequency,
    PaddedByFunction,
    PaddedBag,
    PaddedLstm,
    fixed_statistics,
    StaysFrozen,
    frozen_instance_norm,
]
BEYOND_VMAP = [SeedsTheGenerator, NumpyMemory]


class Dropped(Linear):
    def changed(self, x):
        return F.dropout(x, 0.5)


class Noisy(Linear):
    """Normal draws of 16 or more numbers are made by sixteens, the last of which reaches back."""

    def changed(self, x):
        return x + torch.randn_like(x)
