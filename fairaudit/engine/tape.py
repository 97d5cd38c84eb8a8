"""One forward and one backward pass over a batch; the one primitive: weights -> gradient sums.

A batch is walked in chunks whose length depends on the model alone, and the books (activations and
output gradients) of a chunk are kept while they fit the memory budget, else recomputed in the same
order: the memory setting changes no bit of a result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.engine.layer import Book, Elementwise, Layer, Parametric
from fairaudit.engine.network import Network
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape

CHUNK_BYTES = 16 * 2**20  # activations of one chunk: fits a core's last-level cache share
SMALLEST_CHUNK = 32  # records, unless one takes more than LARGE_RECORD bytes
LARGE_RECORD = 2**20

Books = dict[int, Book]  # layer index -> what its weighted sums need of one chunk


@dataclass(slots=True)
class Chunk:
    """A slice of the batch; its books while the budget lasts."""

    rows: slice
    x: Tensor
    activations: list[Tensor] | None
    norms: Tensor | None = None  # of x, where they are known
    finite: Tensor | None = None  # None: every record is; else [(R,) B] booleans
    delta: Tensor | None = None
    books: Books | None = None


class Tape(GradientTape):
    """Records of one batch through a network: logits, then norms, then weighted gradient sums.

    A record with a non-finite activation or gradient has its output gradient and its activation
    rows zeroed and norm 0 (rule R6): ``0 * NaN`` is NaN in a matmul, so a zero weight is not enough.

    Args:
        network: The stacked replicates.
        rows: The most weight rows that are ever asked for at once.
        budget: Bytes of books kept between the two passes; performance only.
    """

    def __init__(self, network: Network, rows: int = 1, budget: int = DEFAULT_BUDGET) -> None:
        self.network = network
        self.budget = budget
        self.single = network.replicates == 1
        self.chunks: list[Chunk] = []
        parametric = {i: layer for i, layer in enumerate(network.layers) if isinstance(layer, Parametric)}
        self.first, self.last = min(parametric), max(parametric)
        self.bytes_per_record = network.bytes_per_record
        fitting = 2 ** int(math.log2(max(1, CHUNK_BYTES // self.bytes_per_record)))
        self.rows_per_chunk = max(fitting, SMALLEST_CHUNK if self.bytes_per_record <= LARGE_RECORD else 1)
        self._rows = [torch.zeros_like(network.theta) for _ in range(rows)]
        # Where each row of each layer goes, resolved once: a view costs as much as a small matmul.
        self._targets = [[(i, layer.bind_sum(row)) for i, layer in parametric.items()] for row in self._rows]

    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y]; see the base class."""
        rows = x.shape[0 if self.single else 1]
        kept = 0
        self.chunks = []
        for start in range(0, max(rows, 1), self.rows_per_chunk):
            piece = slice(start, min(start + self.rows_per_chunk, rows))
            whole = rows <= self.rows_per_chunk
            chunk = Chunk(piece, x if whole else self._rows_of(x, piece), None)
            if norms is not None:
                chunk.norms = norms if whole else norms[..., piece]
            chunk.activations = self.network.forward(chunk.x)
            if clean and not math.isfinite(chunk.activations[-1].sum().item()):
                chunk.finite = torch.isfinite(chunk.activations[-1]).all(-1)
                chunk.activations = _zeroed(chunk.activations, chunk.finite)
            self.chunks.append(chunk)
        logits = [chunk.activations[-1] for chunk in self.chunks if chunk.activations is not None]
        for chunk in self.chunks:
            kept += self.bytes_per_record * (chunk.rows.stop - chunk.rows.start)
            if kept > self.budget:
                chunk.activations = None
        return logits[0] if len(logits) == 1 else torch.cat(logits, -2)

    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B], from [(R,) B, Y]."""
        norms = []
        whole = len(self.chunks) == 1
        for chunk in self.chunks:
            chunk.delta = output_gradient if whole else output_gradient[..., chunk.rows, :]
            books, own = self._walk(chunk)
            # One scalar test in the common case; masks only where something is not finite.
            if not math.isfinite(own.sum().item()):
                finite = torch.isfinite(own)
                chunk.finite = finite if chunk.finite is None else chunk.finite & finite
                books, own = self._walk(chunk)
            if chunk.activations is not None:
                chunk.books, chunk.activations = books, None
            norms.append(own)
        return norms[0] if whole else torch.cat(norms, -1)

    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i`` of each row of weights; see the base class."""
        whole = len(self.chunks) == 1
        for number, chunk in enumerate(self.chunks):
            books = chunk.books or self._walk(chunk)[0]
            for row, targets in zip(weights, self._targets, strict=False):
                piece = row if whole else row[:, chunk.rows]
                column = piece.view(-1, 1) if self.single else piece.unsqueeze(-1)
                for index, target in targets:
                    target.write(books[index], column, add=number > 0)
        return self._rows[: len(weights)]

    def _walk(self, chunk: Chunk) -> tuple[Books, Tensor]:
        """Books and gradient norms of one chunk, recomputing its activations if they were let go."""
        layers, delta = self.network.layers, chunk.delta
        assert delta is not None
        activations = chunk.activations or self.network.forward(chunk.x)
        if chunk.finite is not None:
            activations = _zeroed(activations, chunk.finite)
            (delta,) = _zeroed([delta], chunk.finite)
        books: Books = {}
        norms: Tensor | None = None
        for index in range(len(layers) - 1, self.first - 1, -1):
            layer, x = layers[index], activations[index]
            if isinstance(layer, Parametric):
                own, books[index] = layer.book(x, delta, chunk.norms if index == 0 else None)
                norms = own if norms is None else torch.hypot(norms, own)
            if index > self.first:
                # Behind the last layer with parameters the gradient may be the caller's own.
                delta = _back(layer, x, activations[index + 1], delta, overwrite=index < self.last)
        assert norms is not None
        if chunk.finite is not None:
            norms = torch.where(chunk.finite, norms, 0.0)
        return books, norms

    def _rows_of(self, values: Tensor, rows: slice) -> Tensor:
        return values[rows] if self.single else values[:, rows]


def _back(layer: Layer, x: Tensor, y: Tensor, delta: Tensor, *, overwrite: bool) -> Tensor:
    """Through one layer, in place where that is possible and allowed."""
    if overwrite and isinstance(layer, Elementwise):
        return layer.backward_(y, delta)
    return layer.backward(x, y, delta)


def _zeroed(values: list[Tensor], finite: Tensor) -> list[Tensor]:
    """The rows of records that are not finite as zeros."""
    return [
        torch.where(finite.view(*finite.shape, *[1] * (value.dim() - finite.dim())), value, 0.0)
        for value in values
    ]
