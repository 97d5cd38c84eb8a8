"""The training records, laid out so that a batch is one gather."""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Rows(Protocol):
    """Inputs of N records, made when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, d)."""

    def fill(self, index: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the inputs of n records into the first columns of zeros [n, d or more], C-contiguous."""


class Batch(NamedTuple):
    """One step's records; padded entries have zero inputs and targets.

    Args:
        inputs: [(R,) B, d]. targets: One-hot labels, [(R,) B, Y]. group: [(R,) B].
        norms: Of the inputs with a bias 1 appended, [(R,) B]. records: Their numbers, [(R,) B].
        present: [R, B] booleans, or None where nothing is padded.
    """

    inputs: Tensor
    targets: Tensor
    group: Tensor
    norms: Tensor
    records: Tensor
    present: Tensor | None


class TrainingPool:
    """Inputs, one-hot labels and groups of N records, with a null record behind them for padding.

    Args:
        features: [N, d] float32; or rows that are made batch by batch, where all are too many to keep.
        labels: [N] int64 in 0..Y-1. groups: [N] int64 in 0..K-1.
        n_classes: Y. n_groups: K.
    """

    def __init__(
        self, features: Tensor | Rows, labels: Tensor, groups: Tensor, *, n_classes: int, n_groups: int
    ) -> None:
        self.n_records, self.width = features.shape
        self.n_classes, self.n_groups = n_classes, n_groups
        self._widths = [self.width, n_classes, 1]
        self.labels = torch.cat([labels, labels.new_zeros(1)])
        self.groups = torch.cat([groups, groups.new_zeros(1)])
        self._source: _Table | _Made = (
            _Table(features, labels, n_classes)
            if isinstance(features, Tensor)
            else _Made(features, self.labels, self._widths)
        )

    def gather(self, index: Tensor, present: Tensor | None) -> Batch:
        """The records of a batch, in the order of ``index`` [(R,) B]."""
        if index.dim() == 1:
            rows, group = self._source.take(index), self.groups.index_select(0, index)
        else:
            flat = index.view(-1)
            rows = self._source.take(flat).view(*index.shape, sum(self._widths))
            group = self.groups.index_select(0, flat).view(index.shape)
        inputs, targets, norms = torch.split_with_sizes(rows, self._widths, -1)
        return Batch(inputs, targets, group, norms.squeeze(-1), index, present)


class _Table:
    """Inputs, one-hot label and norm of every record side by side: a batch is one look-up, three views."""

    def __init__(self, features: Tensor, labels: Tensor, n_classes: int) -> None:
        one_hot = torch.nn.functional.one_hot(labels, n_classes).to(features.dtype)
        table = torch.cat([features, one_hot, _norms(features)], 1)
        self._table = torch.cat([table, table.new_zeros(1, table.shape[1])])

    def take(self, index: Tensor) -> Tensor:
        """[n, d + Y + 1]."""
        return self._table.index_select(0, index)


class _Made:
    """The same rows, made when they are taken."""

    def __init__(self, features: Rows, labels: Tensor, widths: list[int]) -> None:
        self._features, self._labels, self._widths = features, labels, widths

    def take(self, index: Tensor) -> Tensor:
        """[n, d + Y + 1]; all zero where a batch is padded."""
        real = index < self._features.shape[0]
        chosen = index[real]
        made = torch.zeros(len(chosen), sum(self._widths))
        self._features.fill(chosen.numpy(), made.numpy())
        inputs, targets, norms = torch.split_with_sizes(made, self._widths, -1)
        targets.scatter_(1, self._labels.index_select(0, chosen).unsqueeze(1), 1.0)
        norms.copy_(_norms(inputs))
        if len(chosen) == len(index):
            return made
        rows = made.new_zeros(len(index), made.shape[1])
        rows[real] = made
        return rows


def _norms(features: Tensor) -> Tensor:
    """Of the inputs with a bias 1 appended, [n, 1]."""
    return torch.hypot(torch.linalg.vector_norm(features, dim=-1, keepdim=True), torch.ones(()))
