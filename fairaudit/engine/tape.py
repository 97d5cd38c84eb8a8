"""One forward and one backward pass over a batch; the one primitive: weights -> gradient sums.

A batch is walked in chunks whose length depends on the model alone, and the books (activations and
output gradients) of a chunk are kept while they fit the memory budget, else recomputed in the same
order: the memory setting changes no bit of a result.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.engine.layers import Parametric
from fairaudit.engine.network import Network

CHUNK_BYTES = 16 * 2**20  # activations of one chunk: fits a core's last-level cache share
DEFAULT_BUDGET = 512 * 2**20


@dataclass(slots=True)
class Chunk:
    """A slice of the batch and, while the budget lasts, its books."""

    rows: slice
    x: Tensor
    finite: Tensor | None  # None: every record is; else [(R,) B] booleans
    books: list[Tensor] | None
    delta: Tensor | None = None
    deltas: dict[int, Tensor] | None = None


class Tape:
    """Records of one batch through a network: logits, then norms, then weighted gradient sums.

    A record with a non-finite activation or gradient has its output gradient and its activation
    rows zeroed and norm 0 (rule R6): ``0 * NaN`` is NaN in a matmul, so a zero weight is not enough.

    Args:
        network: The stacked replicates.
        budget: Bytes of books kept between the two passes; performance only.
    """

    def __init__(self, network: Network, budget: int = DEFAULT_BUDGET) -> None:
        self.network = network
        self.budget = budget
        self.single = network.replicates == 1
        self.chunks: list[Chunk] = []
        widths = [layer.floats_per_record for layer in network.layers if isinstance(layer, Parametric)]
        self.bytes_per_record = 4 * network.replicates * sum(widths)
        self.rows_per_chunk = 2 ** max(5, int(math.log2(max(1, CHUNK_BYTES // self.bytes_per_record))))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [(R,) B, Y] of inputs [(R,) B, d]; rows that are not finite become zero."""
        rows = x.shape[-2]
        self.chunks = []
        kept = 0
        logits = []
        for start in range(0, max(rows, 1), self.rows_per_chunk):
            piece = slice(start, min(start + self.rows_per_chunk, rows))
            part = x if rows <= self.rows_per_chunk else x[..., piece, :]
            books = self.network.forward(part)
            chunk = Chunk(piece, part, None, books)
            if not math.isfinite(books[-1].sum().item()):
                chunk.finite = torch.isfinite(books[-1]).all(-1)
                self._clean(chunk)
                assert chunk.books is not None
                books = chunk.books
            logits.append(books[-1])
            kept += self.bytes_per_record * (piece.stop - piece.start)
            if kept > self.budget:
                chunk.books = None
            self.chunks.append(chunk)
        return logits[0] if len(logits) == 1 else torch.cat(logits, -2)

    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B], from [(R,) B, Y]."""
        norms = []
        for chunk in self.chunks:
            whole = len(self.chunks) == 1
            chunk.delta = output_gradient if whole else output_gradient[..., chunk.rows, :]
            books, deltas, squared = self._walk(chunk)
            if chunk.books is not None:
                chunk.books, chunk.deltas = books, deltas
            norms.append(squared.sqrt_())
        return norms[0] if len(norms) == 1 else torch.cat(norms, -1)

    def sums(self, weights: Tensor, out: Tensor) -> None:
        """Write ``sum_i weights[r, w, i] g_i`` into ``out`` [R, W, P] for weights [R, W, B].

        Each row W is a pass of its own, so asking for more rows leaves the others bit-identical.
        """
        for number, chunk in enumerate(self.chunks):
            if chunk.books is None or chunk.deltas is None:
                books, deltas, _ = self._walk(chunk)
            else:
                books, deltas = chunk.books, chunk.deltas
            piece = weights if len(self.chunks) == 1 else weights[..., chunk.rows]
            for row in range(weights.shape[1]):
                w = (piece[0, row] if self.single else piece[:, row]).unsqueeze(-1)
                for index, delta in deltas.items():
                    layer = self.network.layers[index]
                    assert isinstance(layer, Parametric)
                    layer.weighted_sum(books[index], delta * w, out[:, row], add=number > 0)

    def _walk(self, chunk: Chunk) -> tuple[list[Tensor], dict[int, Tensor], Tensor]:
        """Books, output gradients of the parametric layers, and squared norms of one chunk."""
        books, deltas, squared = self._pass(chunk)
        # One scalar test in the common case; masks only where something is not finite.
        if not math.isfinite(squared.sum().item()):
            finite = torch.isfinite(squared)
            chunk.finite = finite if chunk.finite is None else chunk.finite & finite
            books, deltas, squared = self._pass(chunk)
        return books, deltas, squared

    def _pass(self, chunk: Chunk) -> tuple[list[Tensor], dict[int, Tensor], Tensor]:
        layers = self.network.layers
        books = self.network.forward(chunk.x) if chunk.books is None else chunk.books
        delta = chunk.delta
        assert delta is not None
        if chunk.finite is not None:
            keep = chunk.finite.unsqueeze(-1)
            books = [torch.where(keep, b, 0.0) for b in books]
            delta = torch.where(keep, delta, 0.0)
        deltas: dict[int, Tensor] = {}
        squared = delta.new_zeros(delta.shape[:-1])
        first = next(i for i, layer in enumerate(layers) if isinstance(layer, Parametric))
        for index in range(len(layers) - 1, first - 1, -1):
            layer = layers[index]
            if isinstance(layer, Parametric):
                deltas[index] = delta
                squared = squared.add_(layer.squared_norms(books[index], delta))
            if index > first:
                delta = layer.backward(books[index], books[index + 1], delta)
                if chunk.finite is not None:
                    delta = torch.where(chunk.finite.unsqueeze(-1), delta, 0.0)
        if chunk.finite is not None:
            squared = torch.where(chunk.finite, squared, 0.0)
        return books, deltas, squared

    def _clean(self, chunk: Chunk) -> None:
        assert chunk.books is not None
        assert chunk.finite is not None
        keep = chunk.finite.unsqueeze(-1)
        chunk.books = [torch.where(keep, b, 0.0) for b in chunk.books]
