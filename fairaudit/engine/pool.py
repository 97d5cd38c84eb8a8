"""The training records, laid out so that a batch is one gather.

Inputs are kept in memory, or are ``Rows``: made from something smaller, batch by batch, where all
would take too much memory. Replicates of one step may draw batches of different size: then shorter
ones are padded with a null record, whose number is N, one past the last.
"""

import copy
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROWS_AT_ONCE = 16_384  # rows made in one piece where all are gone through


class Rows(Protocol):
    """Inputs of N records that are not kept but made from something smaller when needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, d)."""

    def fill(self, index: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Make the inputs of the n records ``index`` and write them to ``out``.

        ``out`` is zeros [n, d], C-contiguous.
        """


@dataclass(frozen=True, slots=True)
class _SomeRows:
    """The ``Rows`` of a part of the records: record n here is record ``places[n]`` of ``rows``."""

    rows: Rows
    places: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        """(len(places), d)."""
        return len(self.places), *self.rows.shape[1:]

    def fill(self, index: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write the inputs of the records ``index``, as numbered here, to ``out`` [n, d]."""
        self.rows.fill(self.places[index], out)


class Batch(NamedTuple):
    """One step's records; padded entries have zero inputs and targets.

    Args:
        inputs: [(R,) B, d], or images [(R,) B, H, W, C].
        targets: One-hot labels, [(R,) B, Y].
        group: Each record's group, [(R,) B].
        norms: L2 norms of the inputs with a 1 appended for the bias, [(R,) B].
        records: Their numbers in the pool, [(R,) B]; N for padding.
        present: [R, B] booleans, False for padding; None where nothing is padded.
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
        features: [N, d] or [N, H, W, C], float32; or rows that are made batch by batch, where all
            are too many to keep.
        labels: [N] int64 in 0..Y-1.
        groups: [N] int64 in 0..K-1.
        n_classes: Y.
        n_groups: K.
    """

    def __init__(
        self,
        features: Tensor | Rows,
        labels: Tensor,
        groups: Tensor,
        *,
        n_classes: int,
        n_groups: int,
    ) -> None:
        self.n_records = features.shape[0]
        self.shape = tuple(features.shape[1:])
        self.n_classes = n_classes
        self.n_groups = n_groups
        # Behind the records' entries that of the null record, 0 everywhere.
        self.labels = torch.cat([labels, labels.new_zeros(1)])
        self.groups = torch.cat([groups, groups.new_zeros(1)])
        # The table's columns are one-hot labels and norms, and before them the inputs where these
        # are rows of numbers in memory: a batch then costs one gather and three views. Images are
        # too large to be copied into it, and ``Rows`` are not in memory.
        blocks = [
            torch.nn.functional.one_hot(labels, n_classes).to(torch.float32),
            self._norms(features),
        ]
        # Inputs that are not in the table; None: they are.
        self._apart: Tensor | Rows | None = features
        if isinstance(features, Tensor) and len(self.shape) == 1:
            blocks.insert(0, features)
            self._apart = None
        self._widths = [block.shape[1] for block in blocks]
        table = torch.cat(blocks, 1)
        self._table = torch.cat([table, table.new_zeros(1, table.shape[1])])

    @property
    def width(self) -> int:
        """Numbers in one record."""
        return math.prod(self.shape)

    @property
    def device(self) -> torch.device:
        """Where the records lie."""
        return self._table.device

    def to(self, device: torch.device) -> "TrainingPool":
        """A pool of the same records with its tensors on another device; ``Rows`` are shared."""
        moved = copy.copy(self)
        moved._table = self._table.to(device)
        moved.labels = self.labels.to(device)
        moved.groups = self.groups.to(device)
        if isinstance(self._apart, Tensor):
            moved._apart = self._apart.to(device)
        return moved

    def restricted_to(self, places: Tensor) -> "TrainingPool":
        """A pool of the records ``places`` [n] alone, in that order; it holds no other record.

        A search for settings trains on it once its validation records are held back. Tensors are
        copied; ``Rows`` are shared with this pool and read at those places alone.
        """
        part = copy.copy(self)
        rows = torch.cat([places, places.new_tensor([self.n_records])])  # and the null record
        part.n_records = len(places)
        part._table = self._table[rows]
        part.labels = self.labels[rows]
        part.groups = self.groups[rows]
        if isinstance(self._apart, Tensor):
            part._apart = self._apart[places]
        elif self._apart is not None:
            part._apart = _SomeRows(self._apart, places.cpu().numpy())
        return part

    def everything(self) -> Batch:
        """All records in their order, as one batch [N, ...] without padding."""
        return self.gather(torch.arange(self.n_records), None)

    def gather(self, index: Tensor, present: Tensor | None) -> Batch:
        """The records of a batch, in the order of ``index``, on the pool's device.

        Args:
            index: Record numbers [(R,) B], on any device; N, one past the last, for padding.
            present: False for padding, [R, B], on any device; None where nothing is padded.
        """
        index = index.to(self.device)
        if present is not None:
            present = present.to(self.device)
        if index.dim() == 1:  # one replicate: no view has to be made
            rows = self._table.index_select(0, index)
            group = self.groups.index_select(0, index)
        else:
            flat = index.view(-1)
            rows = self._table.index_select(0, flat).view(*index.shape, self._table.shape[1])
            group = self.groups.index_select(0, flat).view(index.shape)
        if self._apart is None:
            inputs, targets, norms = torch.split_with_sizes(rows, self._widths, -1)
        else:
            targets, norms = torch.split_with_sizes(rows, self._widths, -1)
            inputs = self._gathered(self._apart, index, present)
        return Batch(inputs, targets, group, norms.squeeze(-1), index, present)

    def _gathered(self, features: Tensor | Rows, index: Tensor, present: Tensor | None) -> Tensor:
        """Inputs ``[(R,) B, *shape]`` of the records ``index`` [(R,) B], from images or ``Rows``.

        They are 0 for padding, where ``present`` [R, B] is False; None: nothing is padded.
        """
        # Padding has number N, one past the last record: any record is read for it, then zeroed.
        flat = index.flatten().clamp(max=self.n_records - 1)
        if isinstance(features, Tensor):
            inputs = features.index_select(0, flat)
        else:
            inputs = self._filled(features, flat)
        inputs = inputs.view(*index.shape, *self.shape)
        if present is None:
            return inputs
        return torch.where(present.view(*present.shape, *[1] * len(self.shape)), inputs, 0.0)

    def _filled(self, rows: Rows, index: Tensor) -> Tensor:
        """Make the inputs [n, d] of the records ``index`` [n], on the pool's device."""
        made = torch.zeros(len(index), *self.shape, device="cpu")
        # Filled through an array that shares the tensor's memory.
        rows.fill(index.cpu().numpy(), made.numpy())
        return made.to(self.labels.device)

    def _norms(self, features: Tensor | Rows) -> Tensor:
        """L2 norms of all inputs with a 1 appended for the bias, [N, 1].

        Computed once: a linear layer reads them at every step.
        """
        if isinstance(features, Tensor):
            return _norms_with_bias(features.flatten(1))
        # Written into one tensor: small results kept between the pieces would stop the memory of a
        # piece from being used for the next.
        norms = self.labels.new_empty(self.n_records, 1, dtype=torch.float32)
        for start in range(0, self.n_records, ROWS_AT_ONCE):
            piece = torch.arange(start, min(start + ROWS_AT_ONCE, self.n_records))
            norms[start : start + len(piece)] = _norms_with_bias(self._filled(features, piece))
        return norms


def _norms_with_bias(features: Tensor) -> Tensor:
    """sqrt(|x|^2 + 1) of each row of ``features`` [n, d], [n, 1]."""
    lengths = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    return torch.hypot(lengths, torch.ones((), device=features.device))
