"""The training records, laid out so that a batch is one gather."""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor


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
        features: [N, d] or [N, H, W, C], float32. labels: [N] int64 in 0..Y-1.
        groups: [N] int64 in 0..K-1. n_classes: Y. n_groups: K.
    """

    def __init__(
        self, features: Tensor, labels: Tensor, groups: Tensor, *, n_classes: int, n_groups: int
    ) -> None:
        self.n_records, self.shape = len(features), tuple(features.shape[1:])
        self.n_classes, self.n_groups = n_classes, n_groups
        one_hot = torch.nn.functional.one_hot(labels, n_classes).to(features.dtype)
        lengths = torch.linalg.vector_norm(features.flatten(1), dim=-1, keepdim=True)
        norms = torch.hypot(lengths, torch.ones((), device=features.device))
        # Rows of numbers share one table, so that a batch costs one gather and three views; a pool of
        # images is too large to be copied.
        self._images = features if len(self.shape) > 1 else None
        self._widths = [*self.shape, n_classes, 1] if self._images is None else [n_classes, 1]
        table = torch.cat([features, one_hot, norms] if self._images is None else [one_hot, norms], 1)
        self._table = torch.cat([table, table.new_zeros(1, table.shape[1])])
        self.labels = torch.cat([labels, labels.new_zeros(1)])
        self.groups = torch.cat([groups, groups.new_zeros(1)])

    @property
    def width(self) -> int:
        """Numbers in one record."""
        return math.prod(self.shape)

    @property
    def device(self) -> torch.device:
        """Where the records lie."""
        return self._table.device

    def to(self, device: torch.device) -> "TrainingPool":
        """The same pool on another device."""
        moved = copy.copy(self)
        moved._table, moved.labels = self._table.to(device), self.labels.to(device)
        moved.groups = self.groups.to(device)
        moved._images = None if self._images is None else self._images.to(device)
        return moved

    def gather(self, index: Tensor, present: Tensor | None) -> Batch:
        """The records of a batch, in the order of ``index`` [(R,) B]."""
        if index.dim() == 1:
            rows, group = self._table.index_select(0, index), self.groups.index_select(0, index)
        else:
            flat = index.view(-1)
            rows = self._table.index_select(0, flat).view(*index.shape, self._table.shape[1])
            group = self.groups.index_select(0, flat).view(index.shape)
        if self._images is None:
            inputs, targets, norms = torch.split_with_sizes(rows, self._widths, -1)
        else:
            targets, norms = torch.split_with_sizes(rows, self._widths, -1)
            inputs = self._gathered_images(self._images, index, present)
        return Batch(inputs, targets, group, norms.squeeze(-1), index, present)

    def _gathered_images(self, images: Tensor, index: Tensor, present: Tensor | None) -> Tensor:
        last = self.n_records - 1  # padding points one past it
        found = images.index_select(0, index.flatten().clamp(max=last)).view(*index.shape, *self.shape)
        return found if present is None else torch.where(present[..., None, None, None], found, 0.0)
