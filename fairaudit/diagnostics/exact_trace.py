"""The trace of every record's Hessian in closed form, for chains of Linear layers and functions.

A parameter of one Linear layer enters its output z linearly, so the layer's diagonal block has the
trace ``(|x|^2 + 1) tr(H_z)``, with H_z the Hessian of the loss in z. H_z is carried down the chain as

    S S^T (a few columns, from the softmax)  +  diag(e)  +  M

where a function f turns S, e, M into f' S, f'^2 e, f' M f' and adds f'' d to e, and a Linear layer turns
diag(e) + M into W^T (diag e + M) W. Above the lowest Linear layer only that matrix's diagonal counts,
so a chain with two curved hidden layers needs no matrix at all; a deeper one needs one per record.
"""

import math

import torch
from torch import Tensor

from fairaudit.diagnostics.landscape import Landscape
from fairaudit.diagnostics.second_order import CurveBook, LinearBook, Pass, walk
from fairaudit.engine.layers import Layer, Linear, Relu

MATRIX_BYTES = 32 * 2**20  # per-record matrices of one chunk
ROWS_AT_ONCE = 1024


class _Curvature:
    """The Hessian of each record's loss in the values at one place of the chain.

    Args:
        columns: S, [n, c, h]. diagonal: e, [n, h], None for zero. matrix: M, [n, h, h], None for zero.
    """

    def __init__(self, columns: Tensor) -> None:
        self.columns = columns
        self.diagonal: Tensor | None = None
        self.matrix: Tensor | None = None

    def trace(self) -> Tensor:
        """[n]."""
        total = self.columns.square().sum((1, 2))
        if self.diagonal is not None:
            total = total + self.diagonal.sum(-1)
        if self.matrix is not None:
            total = total + self.matrix.diagonal(dim1=1, dim2=2).sum(-1)
        return total

    def through_function(self, step: CurveBook) -> None:
        """From the output of an elementwise function to its input."""
        slope = step.slope
        self.columns = self.columns * slope.unsqueeze(1)
        if self.matrix is not None:
            self.matrix = self.matrix * slope.unsqueeze(1) * slope.unsqueeze(2)
        if self.diagonal is not None:
            self.diagonal = self.diagonal * slope.square()
        if step.bend is not None:
            self.diagonal = step.bend if self.diagonal is None else self.diagonal + step.bend

    def through_linear(self, weight: Tensor, *, diagonal_suffices: bool) -> None:
        """From the output of a Linear layer to its input.

        Args:
            weight: W, [out, in].
            diagonal_suffices: Whether only traces are asked for from here on down.
        """
        self.columns = self.columns @ weight
        diagonal, matrix = self.diagonal, self.matrix
        self.diagonal = self.matrix = None
        if diagonal_suffices:
            if diagonal is not None:
                self.diagonal = diagonal @ weight.square()
            if matrix is not None:
                own = ((matrix @ weight) * weight).sum(1)
                self.diagonal = own if self.diagonal is None else self.diagonal + own
            return
        inner = None if diagonal is None else diagonal.unsqueeze(2) * weight
        if matrix is not None:
            inner = matrix @ weight if inner is None else inner + matrix @ weight
        self.matrix = None if inner is None else weight.t() @ inner


def _softmax_columns(probabilities: Tensor) -> Tensor:
    """S with S S^T = diag p - p p^T, [n, c, Y]: one column for two classes, else Y."""
    if probabilities.shape[1] == 2:
        root = probabilities.prod(1).sqrt()
        return torch.stack([root, -root], -1).unsqueeze(1)
    root = probabilities.sqrt()
    return torch.diag_embed(root) - root.unsqueeze(2) * probabilities.unsqueeze(1)


def _traces_of_chunk(book: Pass, lowest: int) -> Tensor:
    """tr H_i of a chunk's records, [n]; ``lowest`` is the place of the first Linear layer."""
    curvature = _Curvature(_softmax_columns(book.probabilities))
    total = torch.zeros_like(book.probabilities[:, 0])
    below = sum(isinstance(step, LinearBook) for step in book.steps)
    for index in range(len(book.steps) - 1, lowest - 1, -1):
        step = book.steps[index]
        if isinstance(step, CurveBook):
            curvature.through_function(step)
            continue
        below -= 1
        inputs = step.x.square().sum(-1) + float(step.layer.has_bias)
        total += inputs * curvature.trace()
        if below:
            curvature.through_linear(step.layer.weight, diagonal_suffices=below == 1)
    return total


def traces_of_records(landscape: Landscape, layers: list[Layer]) -> Tensor:
    """tr H_i of every record, in group order, [n].

    Args:
        landscape: What is read. layers: Its layers, a chain.
    """
    lowest = next(i for i, layer in enumerate(layers) if isinstance(layer, Linear))
    size = _matrix_floats(layers) * landscape.theta.element_size()
    rows_at_once = max(1, min(ROWS_AT_ONCE, MATRIX_BYTES // size if size else ROWS_AT_ONCE))
    chunks = landscape.records.chunks(rows_at_once)
    return torch.cat([_traces_of_chunk(walk(landscape, layers, rows), lowest) for rows in chunks])


def _matrix_floats(layers: list[Layer]) -> int:
    """Size of the largest per-record matrix; 0 where none is needed."""
    shapes = [layer.shape for layer in layers if isinstance(layer, Linear)]
    if not any(_bends(layer) for layer in layers):
        return 0
    return max((inputs * max(inputs, outputs) for outputs, inputs in shapes[2:]), default=0)


def _bends(layer: Layer) -> bool:
    """Whether a function has a second derivative that is not zero."""
    return not isinstance(layer, Linear | Relu)


def relative_cost(layers: list[Layer]) -> float:
    """Multiplications of the closed form over those of one gradient; elementwise work is left out."""
    linears = [layer for layer in layers if isinstance(layer, Linear)]
    weights = sum(math.prod(layer.shape) for layer in linears)
    classes, below = linears[-1].shape[0], len(linears)
    columns = 1 if classes == 2 else classes
    cost, diagonal, matrix = weights, False, False  # one forward pass, then what is carried down
    for layer in reversed(layers):
        if not isinstance(layer, Linear):
            diagonal = diagonal or _bends(layer)
            continue
        below -= 1
        outputs, inputs = layer.shape
        if not below:
            break
        cost += outputs * inputs * (columns + 1)
        cost += outputs * outputs * inputs * matrix
        if below == 1:
            cost += outputs * inputs * diagonal
            diagonal, matrix = diagonal or matrix, False
        else:
            cost += outputs * inputs * inputs * (diagonal or matrix)
            diagonal, matrix = False, diagonal or matrix
    return cost / (3 * weights)
