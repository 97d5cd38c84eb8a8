"""Networks of users' own, which the layer table lacks, and records that they read.

The engine runs them record by record, kept apart by construction.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from opacus.layers import DPMultiheadAttention
from torch import Tensor, nn

LEVELS = (3, 5, 8, 12, 16, 24, 40, 90)  # of a table's categories
NUMBERS = 20  # of its other columns


class Residual(nn.Module):
    """A skip connection around a wide layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(98, 256), nn.Linear(256, 256)
        self.out = nn.Linear(256, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 98] -> [n, 2]."""
        h = torch.tanh(self.first(x))
        return self.out(h + torch.tanh(self.inner(h)))


class Block(nn.Module):
    """A transformer block over six tokens of sixteen numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = DPMultiheadAttention(16, 4, batch_first=True)
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.wide, self.narrow, self.out = nn.Linear(16, 64), nn.Linear(64, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 96] -> [n, 2]."""
        h = self.before(x.view(len(x), 6, 16))
        h = h + self.attend(h, h, h)[0]
        return self.out((h + self.narrow(torch.relu(self.wide(self.after(h))))).mean(1))


def grouped_convolutions() -> nn.Sequential:
    """Two convolutions, one of them grouped and dilated, with GELU."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.GELU(),
        nn.Conv2d(16, 16, 3, groups=4, dilation=2),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 11 * 11, 10),
    )


class Tabular(nn.Module):
    """Categories by tables, numbers beside them, three blocks with normalisation and a way around.

    The first columns of a record are the codes of its categories.
    """

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(levels, min(16, levels)) for levels in LEVELS)
        inputs = NUMBERS + sum(table.embedding_dim for table in self.tables)
        self.first = nn.Linear(inputs, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 28] -> [n, 2]."""
        codes = x[:, : len(LEVELS)].long()
        rows = [table(codes[:, number]) for number, table in enumerate(self.tables)]
        h = self.first(torch.cat([*rows, x[:, len(LEVELS) :]], 1))
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow, strict=True):
            h = h + narrow(torch.relu(wide(norm(h))))
        return self.out(torch.relu(self.norm(h)))


class _Encoder(nn.Module):
    """Attention and two layers, each with normalisation before it and a way around."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = DPMultiheadAttention(width, 4, batch_first=True)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, h: Tensor) -> Tensor:
        """[n, T, width] -> the same."""
        given = self.before(h)
        h = h + self.attend(given, given, given)[0]
        return h + self.narrow(F.gelu(self.wide(self.after(h))))


class VisionTransformer(nn.Module):
    """Sixteen patches, a token for the class and places as bare parameters, two encoders."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 7, stride=7)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, 17, width))
        self.encoders = nn.ModuleList(_Encoder(width) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 1, 28, 28] -> [n, 10]."""
        h = self.patches(x).flatten(2).mT
        h = torch.cat([self.token.expand(len(x), -1, -1), h], 1) + self.places
        for encoder in self.encoders:
            h = encoder(h)
        return self.out(self.norm(h[:, 0]))


@dataclass(frozen=True, slots=True)
class Own:
    """A network of somebody's own.

    Args:
        shape: Of a record.
        classes: Y.
        build: Makes it.
        codes: Levels of the first columns, which are categories; the others are normal numbers.
    """

    shape: tuple[int, ...]
    classes: int
    build: Callable[[], nn.Module]
    codes: tuple[int, ...] = ()

    def features(self, records: int, generator: torch.Generator) -> Tensor:
        """Random records [N, *shape]."""
        made = torch.randn(records, *self.shape, generator=generator)
        for column, levels in enumerate(self.codes):
            made[:, column] = torch.randint(levels, (records,), generator=generator).float()
        return made


OWN = {
    "own-residual": Own((98,), 2, Residual),
    "own-transformer": Own((96,), 2, Block),
    "own-convolution": Own((1, 28, 28), 10, grouped_convolutions),
    "own-tabular": Own((len(LEVELS) + NUMBERS,), 2, Tabular, LEVELS),
    "own-vit": Own((1, 28, 28), 10, VisionTransformer),
}
