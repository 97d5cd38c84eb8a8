"""Models of users' own, as factories: ``--model own_models:NAME`` finds them."""

import warnings

import torch
from torch import nn

WORDS = 12


def seeded_module(make, seed=0):
    """The module that ``make()`` gives with that seed; PyTorch's generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


class Residual(nn.Module):
    """A skip connection, which no chain of layers is."""

    def __init__(self, width, classes):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.outer(x + torch.tanh(self.inner(x)))


class Attention(nn.Module):
    """Self-attention over tokens: embeddings, layer norms, positions, dropout.

    Numbers are cut into words.
    """

    def __init__(self, length, classes, width=8, dropout=0.1):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.wide = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout, self.out = nn.Dropout(dropout), nn.Linear(width, classes)
        self.register_buffer("order", torch.arange(length), persistent=False)

    def forward(self, x):
        tokens = ((x + 3.0) * 2.0).clamp(0, WORDS - 1).long()
        h = self.words(tokens) + self.places(self.order.expand(len(x), -1))
        query, key, value = self.mixed(self.first(h)).chunk(3, -1)
        weight = torch.softmax(query @ key.mT / key.shape[-1] ** 0.5, -1)
        h = h + self.dropout(weight @ value)
        h = h + torch.relu(self.wide(self.second(h)))
        return self.out(h.mean(1))


class OwnParameter(nn.Module):
    """A parameter that no layer of PyTorch owns, and an output that one parameter never reaches."""

    def __init__(self, width, classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.out = nn.Linear(width, classes)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.out(x * self.scale)


def chain(shape, classes):
    """Layers of the table alone."""
    return nn.Sequential(nn.Linear(shape[0], 5), nn.Tanh(), nn.Linear(5, classes))


def residual(shape, classes):
    return Residual(shape[0], classes)


def attention(shape, classes):
    return Attention(shape[0], classes)


def own_parameter(shape, classes):
    return OwnParameter(shape[0], classes)


def partly_frozen(shape, classes):
    """The first layer stays as it is."""
    model = chain(shape, classes)
    model[0].requires_grad_(False)
    return model


def convolution(shape, classes):
    """Images channels first; GELU is not in the table."""
    height, width, channels = shape
    first, second = nn.Conv2d(channels, 4, 3), nn.Conv2d(4, 3, 2)
    flat = 3 * (height - 3) * (width - 3)
    return nn.Sequential(
        first, nn.GELU(), second, nn.GELU(), nn.Flatten(), nn.Linear(flat, classes)
    )


def normalised(shape, classes):
    """One record's output depends on the others."""
    return nn.Sequential(
        nn.Linear(shape[0], 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, classes)
    )


class OneLayer(nn.Module):
    """The others change what goes into it."""

    def __init__(self, shape, classes):
        super().__init__()
        self.out = nn.Linear(shape[0], classes)


class Mixing(OneLayer):
    """Mixes records without a layer that a validator knows."""

    def forward(self, x):
        return self.out(x - x.mean(0, keepdim=True))


class Branching(OneLayer):
    """Python decides by a record's numbers, which no call for many records at once can do."""

    def forward(self, x):
        return torch.cat([self.out(row) * (1 if row[0, 0] > 0 else -1) for row in x.split(1)])


class Remembering(OneLayer):
    """Scales by the largest value seen so far, and keeps it."""

    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.register_buffer("largest", torch.full((8,), 1e-3))

    def forward(self, x):
        self.largest = torch.maximum(self.largest, x.detach().abs().max())
        return self.out(x / self.largest.max())


class Leaves(OneLayer):
    """Ends the process where it can."""

    def forward(self, x):
        raise SystemExit(3)


mixing, branching, remembering, leaves = Mixing, Branching, Remembering, Leaves


made = 0  # models of the next two factories so far


def fails_later(shape, classes):
    """The first one is good."""
    global made
    made += 1
    if made > 1:
        raise RuntimeError("not today")
    return nn.Linear(shape[0], classes)


def widens_later(shape, classes):
    """The second one puts out one number too many."""
    global made
    made += 1
    return nn.Linear(shape[0], classes + made - 1)


SEEN = []


class Hiding(OneLayer):
    """Adds what the last batch came to, after some passes; no comparison looks where it is kept."""

    def __init__(self, shape, classes, patience=40):
        super().__init__(shape, classes)
        self.patience = patience
        SEEN.clear()

    def forward(self, x):
        inner = x.detach()
        if not torch._C._functorch.is_batchedtensor(inner):
            return self.out(x)
        last = SEEN[-1] if len(SEEN) > self.patience else 0.0
        SEEN.append(torch._C._functorch.get_unwrapped(inner).sum())
        return self.out(x + last)


hiding = Hiding


def wrong_width(shape, classes):
    return nn.Linear(shape[0], classes + 1)


def no_module(shape, classes):
    return "a string"


def raises(shape, classes):
    raise ValueError("no such width")


def partly_traced(shape, classes):
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        first = torch.jit.trace(nn.Tanh(), torch.zeros(1, shape[0]))
    return nn.Sequential(first, nn.Linear(shape[0], classes))


def frozen(shape, classes):
    return nn.Linear(shape[0], classes).requires_grad_(False)


not_callable = 3
