"""The training records, laid out so that a batch is one gather."""

from typing import NamedTuple

import torch
from torch import Tensor


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
        features: [N, d] float32. labels: [N] int64 in 0..Y-1. groups: [N] int64 in 0..K-1.
        n_classes: Y. n_groups: K.
    """

    def __init__(
        self, features: Tensor, labels: Tensor, groups: Tensor, *, n_classes: int, n_groups: int
    ) -> None:
        self.n_records, self.width = features.shape
        self.n_classes, self.n_groups = n_classes, n_groups
        self._widths = [self.width, n_classes, 1]
        one_hot = torch.nn.functional.one_hot(labels, n_classes).to(features.dtype)
        norms = torch.hypot(torch.linalg.vector_norm(features, dim=-1, keepdim=True), torch.ones(()))
        # One table, so that a batch costs one index_select and three views.
        table = torch.cat([features, one_hot, norms], 1)
        self._table = torch.cat([table, table.new_zeros(1, table.shape[1])])
        self.labels = torch.cat([labels, labels.new_zeros(1)])
        self.groups = torch.cat([groups, groups.new_zeros(1)])

    def gather(self, index: Tensor, present: Tensor | None) -> Batch:
        """The records of a batch, in the order of ``index`` [(R,) B]."""
        if index.dim() == 1:
            rows, group = self._table.index_select(0, index), self.groups.index_select(0, index)
        else:
            flat = index.view(-1)
            rows = self._table.index_select(0, flat).view(*index.shape, self._table.shape[1])
            group = self.groups.index_select(0, flat).view(index.shape)
        inputs, targets, norms = torch.split_with_sizes(rows, self._widths, -1)
        return Batch(inputs, targets, group, norms.squeeze(-1), index, present)
