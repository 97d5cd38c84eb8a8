"""The trace of every record's Hessian in closed form, for chains of Linear layers and functions.

A parameter of one Linear layer enters its output z linearly, so the layer's diagonal block has the
trace ``(|x|^2 + 1) tr(H_z)``, with H_z the Hessian of the loss in z. At the softmax

    H_z = sum_k w_k u_k u_k^T,   w_k = p_k,  u_k = e_k - p,   and the loss gradient is d = -u_target

(one column for two classes), so the columns carry the gradient with them. Below it H_z is

    sum_k w_k u_k u_k^T  +  diag(e)  +  M

where a function f turns u, e, M into f' u, f'^2 e, f' M f' and adds f'' d to e, and a Linear layer
turns diag(e) + M into W^T (diag e + M) W. Above the lowest Linear layer only that matrix's diagonal
counts, so a chain with two curved hidden layers needs no matrix at all; a deeper one needs one per
record.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.diagnostics.landscape import Landscape
from fairaudit.diagnostics.second_order import DERIVATIVES, Derivatives
from fairaudit.engine.layer import Layer
from fairaudit.engine.linear import Linear
from fairaudit.engine.small_layers import Relu

MATRIX_BYTES = 32 * 2**20  # per-record matrices of one chunk
WIDEST_BYTES = 2**19  # the widest activation of one chunk: all of them stay in cache


class _Curvature:
    """The Hessian of each record's loss in the values at one place of the chain.

    Args:
        logits: [n, Y].
        targets: Class numbers, [n].
    """

    def __init__(self, logits: Tensor, targets: Tensor) -> None:
        if (
            logits.shape[1] == 2
        ):  # both columns are multiples of (-1, 1); a softmax is slow on two classes
            self.second = torch.sigmoid(logits[:, 1:] - logits[:, :1])
            self.weights = self.second * (1.0 - self.second)
            # One for all records, until a function tells them apart.
            self.columns = logits.new_tensor([[[-1.0, 1.0]]])
        else:
            self.weights = torch.softmax(logits, -1)
            self.columns = torch.eye(logits.shape[1]).to(logits) - self.weights.unsqueeze(1)
        self.targets = targets
        self.diagonal: Tensor | None = None  # e, [n, h]
        self.matrix: Tensor | None = None  # M, [n, h, h]

    def gradient(self) -> Tensor:
        """Loss gradient at this place, [n, h]."""
        if self.columns.shape[1] == 1:
            return self.columns[:, 0] * (self.second - self.targets.unsqueeze(1))
        rows = torch.arange(len(self.targets), device=self.targets.device)
        return -self.columns[rows, self.targets]

    def trace(self) -> Tensor:
        """[n]."""
        lengths: Tensor = torch.linalg.vector_norm(self.columns, dim=-1)
        total = (lengths.square_() * self.weights).sum(1)
        if self.diagonal is not None:
            total += self.diagonal.sum(-1)
        if self.matrix is not None:
            total += self.matrix.diagonal(dim1=1, dim2=2).sum(-1)
        return total

    def through_function(self, derivatives: Derivatives) -> None:
        """From the output of an elementwise function to its input."""
        slope, second = derivatives
        bend = None
        if second is not None:
            bend = self.gradient().mul_(second)
        self.columns = self.columns * slope.unsqueeze(1)
        if self.matrix is not None:
            self.matrix = self.matrix * slope.unsqueeze(1) * slope.unsqueeze(2)
        if self.diagonal is not None:
            self.diagonal = self.diagonal.mul_(slope).mul_(slope)
        if bend is not None:
            self.diagonal = bend if self.diagonal is None else bend.add_(self.diagonal)

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
        inner = None
        if diagonal is not None:
            inner = diagonal.unsqueeze(2) * weight
        if matrix is not None:
            if inner is None:
                inner = matrix @ weight
            else:
                inner = inner + matrix @ weight
        self.matrix = None if inner is None else weight.t() @ inner


def _traces_of_chunk(landscape: Landscape, layers: list[Layer], rows: slice) -> Tensor:
    """tr H_i of a chunk's records, [n]."""
    values = [landscape.records.features[rows]]
    for layer in layers:
        values.append(layer.forward(values[-1]))
    curvature = _Curvature(values[-1], landscape.records.targets[rows])
    total: Tensor | float = 0.0
    below = sum(isinstance(layer, Linear) for layer in layers)
    for index in range(len(layers) - 1, -1, -1):
        layer = layers[index]
        if not isinstance(layer, Linear):
            curvature.through_function(DERIVATIVES[type(layer)](values[index + 1]))
            continue
        below -= 1
        if index:
            norms: Tensor = torch.linalg.vector_norm(values[index], dim=-1)
            squares = norms.square_()
        else:
            squares = landscape.records.squared_norms[rows].to(values[0].dtype)
        total = torch.mul(squares + float(layer.has_bias), curvature.trace()).add_(total)
        if not below:
            break
        curvature.through_linear(layer.weight, diagonal_suffices=below == 1)
    assert isinstance(total, Tensor)
    return total


def traces_of_records(landscape: Landscape, layers: list[Layer]) -> Tensor:
    """tr H_i of every record, in group order, [n].

    Args:
        landscape: What is read.
        layers: Its layers, a chain.
    """
    size, matrix = landscape.theta.element_size(), work_of(layers).matrix
    widest = max(max(layer.shape) for layer in layers if isinstance(layer, Linear))
    rows_at_once = WIDEST_BYTES // (widest * size)
    if matrix:
        rows_at_once = min(rows_at_once, MATRIX_BYTES // (matrix * size))
    chunks = landscape.records.chunks(max(1, rows_at_once))
    return torch.cat([_traces_of_chunk(landscape, layers, rows) for rows in chunks])


@dataclass(frozen=True, slots=True)
class Work:
    """What the closed form takes.

    Args:
        gradients: Its multiplications over those of one gradient; elementwise work is left out.
        matrix: Entries of the largest matrix held for each record; 0 where none is needed.
    """

    gradients: float
    matrix: int


def work_of(layers: list[Layer]) -> Work:
    """What the closed form takes on a chain: it is walked as the records would be."""
    shapes = [layer.shape for layer in layers if isinstance(layer, Linear)]
    weights, classes, below = sum(map(math.prod, shapes)), shapes[-1][0], len(shapes)
    if classes == 2:
        columns = 1
    else:
        columns = classes
    count, largest, diagonal, matrix = (
        weights,
        0,
        False,
        False,
    )  # one forward pass, then what is carried
    for layer in reversed(layers):
        if not isinstance(layer, Linear):
            diagonal = diagonal or not isinstance(layer, Relu)
            continue
        below -= 1
        outputs, inputs = layer.shape
        if not below:
            break
        count += outputs * inputs * columns
        if matrix:
            count += outputs * outputs * inputs
        if below == 1:
            count += outputs * inputs * diagonal
            diagonal, matrix = diagonal or matrix, False
        elif diagonal or matrix:
            count += outputs * inputs * inputs
            largest = max(largest, inputs * max(inputs, outputs))
            diagonal, matrix = False, True
    return Work(count / (3 * weights), largest)
