"""Models that know their columns, as docs/own-models.md shows them."""

import torch
from torch import nn


class Tokens(nn.Module):
    """The mean of the tokens' embeddings; token 0 is padding."""

    def __init__(self, tokens, classes):
        super().__init__()
        self.tokens = tokens
        self.embed = nn.Embedding(100, 8, padding_idx=0)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        ids = self.tokens.values(x).round().long().clamp(0, 99)
        there = (ids > 0).unsqueeze(-1)
        words = self.embed(ids) * there
        return self.head(words.sum(1) / there.sum(1).clamp(min=1))


def tokens(shape, classes, columns):
    return Tokens(columns["tokens"], classes)


class Categories(nn.Module):
    """An embedding of each category beside the numbers."""

    def __init__(self, columns, classes):
        super().__init__()
        self.numbers = [one for one in columns if one.kind == "number"]
        self.categories = [one for one in columns if one.kind == "category"]
        self.embed = nn.ModuleList(nn.Embedding(one.size, 4) for one in self.categories)
        width = 4 * len(self.categories) + len(self.numbers)
        self.layers = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, classes))

    def forward(self, x):
        parts = [
            embed(one.codes(x)) for one, embed in zip(self.categories, self.embed, strict=True)
        ]
        parts += [x[:, one.inputs][:, :1] for one in self.numbers]
        return self.layers(torch.cat(parts, 1))


def categories(shape, classes, columns):
    return Categories(columns.values(), classes)


class OnEmbedding(nn.Module):
    """A linear head on a stored embedding."""

    def __init__(self, embedding, classes):
        super().__init__()
        self.inputs = embedding.inputs
        self.head = nn.Linear(len(embedding.places), classes)

    def forward(self, x):
        return self.head(x[:, self.inputs])


def embedding(shape, classes, columns):
    return OnEmbedding(columns["emb"], classes)


def by_name(shape, classes, width=3, *, columns):
    assert width == 3
    return nn.Linear(sum(one.width for one in columns.values()), classes)


def two_only(shape, classes, width=5):
    assert width == 5
    return nn.Linear(shape[0], classes)
