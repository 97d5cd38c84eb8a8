"""The training records, laid out so that a batch is one gather."""

import copy
import math
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
        inputs: [(R,) B, d], or images [(R,) B, H, W, C]. targets: One-hot labels, [(R,) B, Y].
        group: [(R,) B]. records: Their numbers, [(R,) B].
        norms: Of the inputs with a bias 1 appended, [(R,) B].
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
        features: [N, d] or [N, H, W, C], float32; or rows that are made batch by batch, where all are
            too many to keep. labels: [N] int64 in 0..Y-1.
        groups: [N] int64 in 0..K-1. n_classes: Y. n_groups: K.
    """

    def __init__(
        self, features: Tensor | Rows, labels: Tensor, groups: Tensor, *, n_classes: int, n_groups: int
    ) -> None:
        self.n_records, self.shape = features.shape[0], tuple(features.shape[1:])
        self.n_classes, self.n_groups = n_classes, n_groups
        self.labels = torch.cat([labels, labels.new_zeros(1)])
        self.groups = torch.cat([groups, groups.new_zeros(1)])
        self._made = None if isinstance(features, Tensor) else features
        # Rows of numbers share one table, so that a batch costs one gather and three views; a pool of
        # images is too large to be copied.
        self._images = features if isinstance(features, Tensor) and len(self.shape) > 1 else None
        self._widths = [*self.shape, n_classes, 1] if self._images is None else [n_classes, 1]
        self._table = torch.zeros(0)
        if isinstance(features, Tensor):
            one_hot = torch.nn.functional.one_hot(labels, n_classes).to(features.dtype)
            norms = _norms(features.flatten(1))
            table = torch.cat([features, one_hot, norms] if self._images is None else [one_hot, norms], 1)
            self._table = torch.cat([table, table.new_zeros(1, table.shape[1])])

    @property
    def width(self) -> int:
        """Numbers in one record."""
        return math.prod(self.shape)

    @property
    def device(self) -> torch.device:
        """Where the records lie."""
        return self.labels.device

    def to(self, device: torch.device) -> "TrainingPool":
        """The same pool on another device."""
        moved = copy.copy(self)
        moved._table, moved.labels = self._table.to(device), self.labels.to(device)
        moved.groups = self.groups.to(device)
        moved._images = None if self._images is None else self._images.to(device)
        return moved

    def gather(self, index: Tensor, present: Tensor | None) -> Batch:
        """The records of a batch, in the order of ``index`` [(R,) B]; both may lie on the CPU."""
        index = index.to(self.device)
        present = None if present is None else present.to(self.device)
        if index.dim() == 1:
            rows, group = self._rows(index), self.groups.index_select(0, index)
        else:
            flat = index.view(-1)
            rows = self._rows(flat).view(*index.shape, sum(self._widths))
            group = self.groups.index_select(0, flat).view(index.shape)
        if self._images is None:
            inputs, targets, norms = torch.split_with_sizes(rows, self._widths, -1)
        else:
            targets, norms = torch.split_with_sizes(rows, self._widths, -1)
            inputs = self._gathered_images(self._images, index, present)
        return Batch(inputs, targets, group, norms.squeeze(-1), index, present)

    def _rows(self, index: Tensor) -> Tensor:
        """Inputs, one-hot label and norm of records [n], side by side; zeros where a batch is padded."""
        if self._made is None:
            return self._table.index_select(0, index)
        real = index < self.n_records
        chosen = index[real]
        made = torch.zeros(len(chosen), sum(self._widths), device="cpu")
        self._made.fill(chosen.cpu().numpy(), made.numpy())
        made = made.to(self.device)
        inputs, targets, norms = torch.split_with_sizes(made, self._widths, -1)
        targets.scatter_(1, self.labels.index_select(0, chosen).unsqueeze(1), 1.0)
        norms.copy_(_norms(inputs))
        if len(chosen) == len(index):
            return made
        rows = made.new_zeros(len(index), made.shape[1])
        rows[real] = made
        return rows

    def _gathered_images(self, images: Tensor, index: Tensor, present: Tensor | None) -> Tensor:
        last = self.n_records - 1  # padding points one past it
        found = images.index_select(0, index.flatten().clamp(max=last)).view(*index.shape, *self.shape)
        return found if present is None else torch.where(present[..., None, None, None], found, 0.0)


def _norms(features: Tensor) -> Tensor:
    """Of inputs [n, d] with a bias 1 appended, [n, 1]."""
    lengths = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    return torch.hypot(lengths, torch.ones((), device=features.device))
