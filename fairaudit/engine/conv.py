"""Convolutions: per-sample weight gradients where they are small, ghost norms where positions are few."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairaudit.engine.layer import (
    HIDDEN,
    Book,
    Materialised,
    Parametric,
    Shape,
    SumTarget,
    as_batch,
    as_before,
)
from fairaudit.engine.patches import Patches, Window, positions

# A written gradient is written, read for its norm and read again for its sum; a ghost norm costs
# T^2 (inputs + outputs) multiplications in float64. This many of those take as long as one float.
_GHOST_PER_FLOAT = 8


@dataclass(frozen=True, slots=True)
class ConvShape:
    """Sizes of a convolution on images of one size, groups = 1.

    Args:
        image: (H, W, C), as it comes.
        outputs: O.
        window: Kernel, stride, padding and dilation.
        has_bias: Whether b exists.
    """

    image: Shape
    outputs: int
    window: Window
    has_bias: bool

    @property
    def out(self) -> Shape:
        """(Ho, Wo, O)."""
        return (*positions(self.image, self.window), self.outputs)

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """(O, C, kh, kw), as a module stores it."""
        return (self.outputs, self.image[2], *self.window.kernel)

    @property
    def by_ghost(self) -> bool:
        """Whether a ghost norm is cheaper than the record's gradient; of shapes alone."""
        spots = self.out[0] * self.out[1]
        inputs = math.prod(self.weight[1:])
        return spots * spots * (inputs + self.outputs) < _GHOST_PER_FLOAT * inputs * self.outputs


def convolution(theta: Tensor, start: int, shape: ConvShape) -> Parametric:
    """The layer, by whichever norm is cheaper for its shapes."""
    return (GhostConv if shape.by_ghost else WrittenConv)(theta, start, shape)


class _Conv(Parametric):
    """``y = conv(x, W) + b`` on channels-last images [(R,) B, H, W, C]."""

    def __init__(self, theta: Tensor, start: int, shape: ConvShape) -> None:
        size = math.prod(shape.weight)
        self.shape = shape
        self.floats_per_record = math.prod(shape.image) + math.prod(shape.out)
        self.start, self.split = start, start + size
        self.end = self.split + shape.outputs * shape.has_bias
        self.weight = theta[:, start : self.split].view(len(theta), *shape.weight)
        self.bias = theta[:, self.split : self.end] if shape.has_bias else None
        self.options = (list(shape.window.stride), list(shape.window.padding), list(shape.window.dilation))

    def forward(self, x: Tensor) -> Tensor:
        """[(R,) B, H, W, C] -> [(R,) B, Ho, Wo, O]."""
        weight, bias = self._side_by_side(), None if self.bias is None else self.bias.flatten()
        replicates = len(self.weight)
        if _in_one(x):
            return self._apart(F.conv2d(self._beside(x), weight, bias, *self.options, replicates), x)
        weights, biases = (
            weight.chunk(replicates),
            [None] * replicates if bias is None else bias.chunk(replicates),
        )
        one_by_one = [
            F.conv2d(image.permute(0, 3, 1, 2), w, b, *self.options)
            for image, w, b in zip(x, weights, biases, strict=True)
        ]
        return torch.stack([out.permute(0, 2, 3, 1) for out in one_by_one])

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The transposed convolution of the output gradient."""
        if _in_one(x):
            return self._apart(self._through(self._beside(delta), self._beside(x), self._side_by_side()), x)
        weights = self._side_by_side().chunk(len(self.weight))
        images = [
            self._through(d.permute(0, 3, 1, 2), i.permute(0, 3, 1, 2), w).permute(0, 2, 3, 1)
            for d, i, w in zip(delta, x, weights, strict=True)
        ]
        return torch.stack(images)

    def _through(self, delta: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        groups = weight.shape[0] // self.shape.outputs
        found: Tensor = torch.ops.aten.convolution_backward(
            delta, x, weight, None, *self.options, False, [0, 0], groups, [True, False, False]
        )[0]
        return found

    def _side_by_side(self) -> Tensor:
        """Weights [(R) O, C, kh, kw], in the layout of channels-last images."""
        return self.weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)

    def _beside(self, x: Tensor) -> Tensor:
        """[(R,) B, H, W, C] -> [B, (R) C, H, W]: replicates as groups of channels, one kernel for all."""
        if x.dim() == 4:
            return x.permute(0, 3, 1, 2)
        grouped = x.permute(1, 2, 3, 0, 4).flatten(3)
        return grouped.permute(0, 3, 1, 2)

    def _apart(self, y: Tensor, like: Tensor) -> Tensor:
        """[B, (R) C, H, W] -> [(R,) B, H, W, C], contiguous."""
        y = y.permute(0, 2, 3, 1)
        if like.dim() == 5:
            channels = y.shape[3] // len(self.weight)
            y = y.reshape(*y.shape[:3], len(self.weight), channels).permute(3, 0, 1, 2, 4)
        return y.contiguous()

    def _bias_part(self, out: Tensor) -> tuple[Tensor, ...]:
        return (out[:, self.split : self.end],) if self.shape.has_bias else ()


class WrittenConv(_Conv, Materialised):
    """Per-sample weight gradients, in pieces that stay in the cache; they replace the batch's own.

    Source: Bu et al. 2022 (which norm for which layer).
    """

    def __init__(self, theta: Tensor, start: int, shape: ConvShape) -> None:
        super().__init__(theta, start, shape)
        self.patches = Patches(shape.image, shape.outputs, shape.window)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """[(R,) B, kh kw C O] in the order of the patches, and [(R,) B, O]."""
        images, deltas = as_batch(x), as_batch(delta)
        parts = [self.patches.products(images, deltas)]
        if self.shape.has_bias:
            parts.append(deltas.sum((1, 2)))
        return tuple(as_before(part, x) for part in parts)

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """The weight's part in the order of the patches, and the bias's."""
        weight = out[:, self.start : self.split].view(-1, *self.shape.weight)
        return self.patches.in_order(weight), *self._bias_part(out)


class GhostConv(_Conv):
    """The norm from inner products of positions, for many channels on few positions.

    |sum_t d_t x_t^T|^2 = sum_{t,t'} (d_t . d_t') (x_t . x_t'), over positions t with patches x_t.
    What cancels between positions would leave the norm to rounding, and a norm that is too small is a
    gradient not clipped: the products are taken in float64.

    Source: Li et al. 2022; Bu et al. 2022.
    """

    def book(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> tuple[Tensor, Book]:
        """Inputs and output gradients are kept."""
        images, deltas = as_batch(x), as_batch(delta)
        rows = max(1, _GHOST_BYTES // (8 * self._doubles()))
        norms = [
            self._norms(i, d)
            for i, d in zip(torch.split(images, rows), torch.split(deltas, rows), strict=True)
        ]
        together = torch.cat(norms) if norms else deltas.new_zeros(0)
        return as_before(together, x).to(x.dtype).add_(HIDDEN), (x, delta)

    def _doubles(self) -> int:
        spots = self.shape.out[0] * self.shape.out[1]
        return spots * (2 * spots + math.prod(self.shape.weight[1:]) + self.shape.outputs)

    def _norms(self, x: Tensor, delta: Tensor) -> Tensor:
        window = self.shape.window
        patches = F.unfold(
            x.permute(0, 3, 1, 2), window.kernel, window.dilation, window.padding, window.stride
        ).double()
        rows = delta.flatten(1, 2).double()
        alike = torch.bmm(patches.mT, patches)
        if self.shape.has_bias:
            alike += 1.0
        squares = (alike * torch.bmm(rows, rows.mT)).sum((1, 2))
        return squares.clamp_(min=0.0).sqrt_()

    def bind_sum(self, out: Tensor) -> SumTarget:
        """The convolution's own backward pass, over weighted output gradients."""
        return GhostConvSum(self, out)


_GHOST_BYTES = 8 * 2**20  # of one piece's products


class GhostConvSum(SumTarget):
    """The batch gradient of weighted output gradients, one replicate at a time."""

    def __init__(self, layer: GhostConv, out: Tensor) -> None:
        self.layer = layer
        shape = layer.shape
        self.weight = out[:, layer.start : layer.split].view(-1, *shape.weight)
        self.bias = out[:, layer.split : layer.end] if shape.has_bias else None

    def write(self, book: Book, weights: Tensor, *, add: bool) -> None:
        """See the base class."""
        x, delta = book
        delta = delta * weights.unsqueeze(-1).unsqueeze(-1)
        if x.dim() == 4:
            x, delta = x.unsqueeze(0), delta.unsqueeze(0)
        for number, (images, deltas) in enumerate(zip(x, delta, strict=True)):
            found = torch.ops.aten.convolution_backward(
                deltas.permute(0, 3, 1, 2), images.permute(0, 3, 1, 2), self.layer.weight[number],
                [self.layer.shape.outputs], *self.layer.options, False, [0, 0], 1,
                [False, True, self.bias is not None],
            )  # fmt: skip
            _put(self.weight[number], found[1], add=add)
            if self.bias is not None:
                _put(self.bias[number], found[2], add=add)


def _in_one(x: Tensor) -> bool:
    """Whether replicates go through one kernel; on a CPU one after the other is faster."""
    return x.dim() == 4 or not x.is_cpu


def _put(target: Tensor, value: Tensor, *, add: bool) -> None:
    (target.add_ if add else target.copy_)(value)
