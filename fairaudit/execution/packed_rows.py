"""One seed's training rows as every batch wants them, in a file without a name.

A record holds what no seed changes, so a number is standardised whenever it is read. A training reads each
row once an epoch, in every arm: here the numbers lie as the model takes them, and of a one-hot category
only which input is 1. That is still several times smaller than the inputs themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from fairaudit.data.dataset import Float32, Int64
from fairaudit.data.recipe import DecodedRows, runs_of
from fairaudit.data.records import Block, UInt8
from fairaudit.data.spool import Spool


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Inputs of N training rows; those that are read have the bits of :class:`DecodedRows`.

    Args:
        table: ``[N, width]``, a map of a file.
        shape: (N, d).
        dense: Values of the inputs that any number may be in.
        ones: Inputs that are 1.
        runs: (first, end, input): neighbours in ``dense`` that are neighbours among the inputs.
    """

    table: UInt8
    shape: tuple[int, int]
    dense: Block
    ones: Block
    runs: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, rows: DecodedRows, spool: Spool) -> Self:
        """Those rows, packed into the file.

        Raises:
            OutputError: The disk is full.
        """
        n, d = rows.shape
        inputs = rows.recipe.dense
        dense = Block(tuple(inputs.tolist()), "float32", 0, gaps=False)
        kind = np.min_scalar_type(max(0, d - 1)).name
        ones = Block(rows.recipe.one_hot, kind, dense.stop, gaps=False)
        width = -(-max(ones.stop, 1) // 4) * 4  # whole numbers of float32

        def blocks() -> Iterator[UInt8]:
            for _, records in rows.records.chunks(rows.rows):
                made = np.zeros((len(records), d), np.float32)
                rows.recipe.decode(records, made)
                packed = np.zeros((len(records), width), np.uint8)
                dense.of(packed)[:] = made[:, inputs]
                ones.of(packed)[:] = rows.recipe.ones(records)
                yield packed

        return cls(spool.keep_rows(blocks(), width), (n, d), dense, ones, runs_of(enumerate(inputs.tolist())))

    def fill(self, index: Int64, out: Float32) -> None:
        """Write the inputs of n of the rows into zeros ``[n, d]``, C-contiguous."""
        rows = np.take(self.table, index, axis=0)
        values = self.dense.of(rows)
        for first, end, at in self.runs:
            out[:, at : at + end - first] = values[:, first:end]
        places: NDArray[np.int64] = self.ones.of(rows).astype(np.int64)
        places += (np.arange(len(rows)) * out.shape[1])[:, None]
        # numpy's own way takes twice as long.
        torch.from_numpy(out).view(-1).index_fill_(0, torch.from_numpy(places).view(-1), 1.0)
