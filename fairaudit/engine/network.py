"""R copies of one network in one flat parameter tensor, and a batch on its way through them.

With book-keeping: one forward and backward pass, ghost norms, gradient sums. A batch is walked in
chunks whose length depends on the model alone. A layer's book of a chunk holds what its weighted
gradient sum is computed from (inputs and output gradients, for instance). Books are kept while they
fit the memory budget, else recomputed in the same order: the memory setting changes no bit of a
result.

Shapes: R replicates, B records of a batch, P parameters, Y classes. Where R is 1, tensors are
[B, ...] instead of [R, B, ...]: [(R,) B, ...].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fairaudit.engine.devices import CPU
from fairaudit.engine.layer import Book, Elementwise, Parametric
from fairaudit.engine.layers import bind, is_plain
from fairaudit.engine.stacked import (
    DEFAULT_BUDGET,
    GradientTape,
    Stacked,
    in_one_row,
    refuse_untrainable,
)
from fairaudit.errors import TrainingError

CHUNK_BYTES = 16 * 2**20  # activations of one chunk: a core's share of the last-level cache
SMALLEST_CHUNK = 32  # records, unless each takes more than LARGE_RECORD bytes
LARGE_RECORD = 2**20  # bytes of activations; a chunk of such records may be smaller
Books = dict[int, Book]  # layer index -> what its weighted sums need of one chunk


def flatten(module: nn.Module) -> list[nn.Module]:
    """The modules of a Sequential in their order, nested ones taken apart as well.

    A Sequential with hooks or a ``forward`` of its own is not taken apart, nor is any other module.
    """
    if not isinstance(module, nn.Sequential) or not is_plain(module):
        return [module]
    if type(module).forward is not nn.Sequential.forward:
        return [module]
    return [leaf for child in module for leaf in flatten(child)]


def _refuse_loose_parameters(module: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Refuse parameters that two layers share, that are in no layer, or that are frozen.

    Gradients and their norms are computed layer by layer, and are right only if each parameter is
    that of exactly one layer and is trained.
    """
    # The module lists each parameter once; one that two layers share is listed by both of them.
    owned = [id(parameter) for layer in layers for parameter in layer.parameters()]
    if owned != [id(parameter) for parameter in module.parameters()]:
        raise TrainingError(
            "the model shares parameters between layers, or has some outside them",
            hint="give every layer parameters of its own",
        )
    if not all(parameter.requires_grad for parameter in module.parameters()):
        raise TrainingError("the model has frozen parameters", hint="train all of them")


def check_table(module: nn.Module) -> None:
    """Refuse a module that :class:`Network` cannot hold; nothing is computed.

    Raises:
        TrainingError: A layer is not in the table, sizes are not known, or parameters are shared,
            frozen, outside all layers, or missing.
    """
    layers = flatten(module)
    if any(is_lazy(parameter) for parameter in module.parameters()):
        raise TrainingError(
            "the model has lazy layers, whose sizes are not known yet",
            hint="give every layer its sizes",
        )
    _refuse_loose_parameters(module, layers)
    size = sum(p.numel() for p in module.parameters())
    bound = bind(layers, torch.empty(1, size, device="meta"))
    if not any(isinstance(layer, Parametric) for layer in bound):
        refuse_untrainable(module)  # raises: there is no parameter at all


class Network(Stacked):
    """Replicates of one architecture, stacked: ``theta`` [R, P] and the layers bound to it.

    Args:
        modules: One module per replicate, of equal architecture; their parameters are copied.
        device: Where the copies lie.

    Raises:
        TrainingError: A layer is not in the table of ``engine/layers.py``, or a parameter is shared
            between layers, frozen, or of no layer.
    """

    def __init__(self, modules: Sequence[nn.Module], device: torch.device = CPU) -> None:
        layers = flatten(modules[0])
        _refuse_loose_parameters(modules[0], layers)
        rows = [in_one_row(module.parameters()) for module in modules]
        self.theta: Tensor = torch.stack(rows).to(device)
        self.layers = bind(layers, self.theta)
        # For each layer, whether it writes over its input. An activation after a layer with
        # parameters may: nothing reads that layer's output again.
        self._overwrites: list[bool] = []
        floats = 0
        follows_parametric = False
        for layer in self.layers:
            self._overwrites.append(follows_parametric and isinstance(layer, Elementwise))
            follows_parametric = isinstance(layer, Parametric)
            if isinstance(layer, Parametric):
                floats += layer.floats_per_record
        self.bytes_per_record = 4 * self.replicates * floats  # of activations and their gradients

    def forward(self, x: Tensor) -> list[Tensor]:
        """The input of every layer, in their order, and the logits last: [(R,) B, ...] each.

        Where an activation follows a layer with parameters, it overwrites that layer's output.
        """
        activations = [x]
        for layer, overwrites in zip(self.layers, self._overwrites, strict=True):
            if overwrites and isinstance(layer, Elementwise):
                x = layer.forward_(x)
            else:
                x = layer.forward(x)
            activations.append(x)
        return activations

    def logits(self, x: Tensor) -> Tensor:
        """The logits alone, [(R,) B, Y], of inputs ``x``; nothing is overwritten."""
        for layer in self.layers:
            x = layer.forward(x)
        return x


@dataclass(slots=True)
class Chunk:
    """A slice of the batch and what is kept of it between the passes."""

    rows: slice  # of the batch
    x: Tensor  # inputs [(R,) n, ...]
    norms: Tensor | None = None  # of x with a 1 appended, [(R,) n]; None: not known
    activations: list[Tensor] | None = None  # as Network.forward gives them; None: not kept
    finite: Tensor | None = None  # whether a record is, [(R,) n]; None: all are, as far as is known
    delta: Tensor | None = None  # gradient at the logits; None before the backward pass
    books: Books | None = None  # None: not kept, computed again for the sums


class Tape(GradientTape):
    """Records of one batch through a network: logits, then norms, then weighted gradient sums.

    ``forward``, ``backward`` and ``sums`` are called in that order for every batch. A record with a
    non-finite activation or gradient has its output gradient and its activation rows zeroed and
    norm 0 (rule R6): ``0 * NaN`` is NaN in a matmul, so a zero weight is not enough.

    Args:
        network: The stacked replicates.
        most_sums: The most weighted sums that one call of :meth:`sums` computes, each with weights
            [R, B] of the records.
        budget: Bytes of activations and books kept between the passes; affects performance only.
    """

    def __init__(self, network: Network, most_sums: int = 1, budget: int = DEFAULT_BUDGET) -> None:
        self.network = network
        self.budget = budget
        self.single = network.replicates == 1
        self.chunks: list[Chunk] = []
        parametric: dict[int, Parametric] = {}
        for index, layer in enumerate(network.layers):
            if isinstance(layer, Parametric):
                parametric[index] = layer
        self.first = min(parametric)  # index of the first layer with parameters
        self.last = max(parametric)
        self.bytes_per_record = network.bytes_per_record
        fitting = max(1, CHUNK_BYTES // self.bytes_per_record)
        self.rows_per_chunk = 2 ** int(math.log2(fitting))
        if self.bytes_per_record <= LARGE_RECORD:
            self.rows_per_chunk = max(self.rows_per_chunk, SMALLEST_CHUNK)
        self._sums = [torch.zeros_like(network.theta) for _ in range(most_sums)]
        # For each sum and each layer, the views that the sum is written to. Made once: a view costs
        # as much as a small matmul.
        self._targets: list[list[tuple[int, Parametric, tuple[Tensor, ...]]]] = []
        for total in self._sums:
            targets = [(index, layer, layer.parts(total)) for index, layer in parametric.items()]
            self._targets.append(targets)

    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y] of inputs ``x``; what the other passes need is kept.

        Args:
            x: Inputs [(R,) B, ...].
            norms: L2 norms of the inputs with a 1 appended for the bias, [(R,) B]; None: not known.
            clean: Zero records that are not finite now, because a query reads the logits before the
                backward pass; otherwise that pass does it.
        """
        rows = x.shape[0 if self.single else 1]
        self.chunks = []
        logits = []
        # An empty batch is one empty chunk, so that logits, norms and sums have their shapes.
        for start in range(0, max(rows, 1), self.rows_per_chunk):
            piece = slice(start, min(start + self.rows_per_chunk, rows))
            chunk = Chunk(piece, x, norms)
            if rows > self.rows_per_chunk:
                chunk.x = x[piece] if self.single else x[:, piece]
                chunk.norms = None if norms is None else norms[..., piece]
            activations = self.network.forward(chunk.x)
            if clean and not math.isfinite(activations[-1].sum().item()):
                chunk.finite = torch.isfinite(activations[-1]).all(-1)
                activations = _zeroed(activations, chunk.finite)
            # The first chunks keep their activations, until the budget is spent; the others compute
            # them again.
            if self.bytes_per_record * piece.stop <= self.budget:
                chunk.activations = activations
            self.chunks.append(chunk)
            logits.append(activations[-1])
        if len(logits) == 1:
            return logits[0]
        return torch.cat(logits, -2)

    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B], from the gradient at the logits."""
        norms = []
        whole = len(self.chunks) == 1
        for chunk in self.chunks:
            chunk.delta = output_gradient if whole else output_gradient[..., chunk.rows, :]
            books, chunk_norms = self._walk(chunk)
            # One scalar test in the common case; masks only where something is not finite.
            if not math.isfinite(chunk_norms.sum().item()):
                finite = torch.isfinite(chunk_norms)
                chunk.finite = finite if chunk.finite is None else chunk.finite & finite
                books, chunk_norms = self._walk(chunk)  # again, their rows zeroed
            if chunk.activations is not None:  # the budget allows it: books replace activations
                chunk.books = books
                chunk.activations = None
            norms.append(chunk_norms)
        if whole:
            return norms[0]
        return torch.cat(norms, -1)

    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i``, ``[R, P]``, for each row of weights ``[R, B]``.

        They lie in the tape's own memory, and the next call overwrites them.
        """
        whole = len(self.chunks) == 1
        for number, chunk in enumerate(self.chunks):
            books = chunk.books or self._walk(chunk)[0]
            # There may be fewer rows of weights than the tape has memory for.
            for row, targets in zip(weights, self._targets, strict=False):
                piece = row if whole else row[:, chunk.rows]
                column = piece.view(-1, 1) if self.single else piece.unsqueeze(-1)
                # The first chunk overwrites the sums of the batch before, the others add to it.
                for index, layer, parts in targets:
                    layer.write(parts, books[index], column, add=number > 0)
        return self._sums[: len(weights)]

    def _walk(self, chunk: Chunk) -> tuple[Books, Tensor]:
        """The backward pass of one chunk: its books by layer, and its gradient norms [(R,) n].

        Activations that were not kept are computed again.
        """
        layers = self.network.layers
        delta = chunk.delta
        assert delta is not None
        activations = chunk.activations or self.network.forward(chunk.x)
        if chunk.finite is not None:
            activations = _zeroed(activations, chunk.finite)
            (delta,) = _zeroed([delta], chunk.finite)
        books: Books = {}
        norms: Tensor | None = None
        # From the last layer to the first one with parameters: before it there is nothing to train.
        for index in range(len(layers) - 1, self.first - 1, -1):
            layer = layers[index]
            x = activations[index]
            if isinstance(layer, Parametric):
                # The chunk's norms are of the batch's inputs, which only the first layer reads.
                layer_norms, books[index] = layer.book(
                    x, delta, chunk.norms if index == 0 else None
                )
                norms = layer_norms if norms is None else torch.hypot(norms, layer_norms)
            if index > self.first:
                y = activations[index + 1]
                # After the last layer with parameters delta may still be the caller's tensor, which
                # is not written over.
                if index < self.last and isinstance(layer, Elementwise):
                    delta = layer.backward_(y, delta)
                else:
                    delta = layer.backward(x, y, delta)
        assert norms is not None
        if chunk.finite is not None:
            norms = torch.where(chunk.finite, norms, 0.0)
        return books, norms


def _zeroed(values: list[Tensor], finite: Tensor) -> list[Tensor]:
    """Copies of the values [(R,) B, ...], 0 for records that are not ``finite`` [(R,) B]."""
    zeroed = []
    for value in values:
        ones = [1] * (value.dim() - finite.dim())
        zeroed.append(value.where(finite.view(*finite.shape, *ones), 0.0))
    return zeroed
