"""Convolutions: per-sample weight gradients where they are small, ghost norms where positions are few.

The first are products of patches with output gradients: G[a, b, c, o] = sum over positions (h, w) of
x[h s + a, w s + b, c] d[h, w, o], one per record, is one matmul per record once the windows are laid out as
rows. Laying them out costs more than the matmul when it is done in full, so three ways are told apart, by
shapes alone; pieces of few records stay in the cache.
"""

import math
from dataclasses import dataclass
from enum import Enum, auto

import torch
import torch.nn.functional as F
from torch import Tensor

from fairaudit.engine.layer import (
    HIDDEN,
    Book,
    Materialised,
    Parametric,
    Shape,
    as_batch,
    as_before,
)

PIECE_BYTES = 2**21  # of rows laid out at once: about a core's second-level cache
PIECE_BYTES_ELSEWHERE = 2**28  # a GPU wants few large kernels
_SHORT_RUN = 16  # floats: shorter runs are copied one by one
# A written gradient is written, read for its norm and read again for its sum; a ghost norm costs
# T^2 (inputs + outputs) multiplications in float64. This many of those take as long as one float.
_GHOST_PER_FLOAT = 8
_GHOST_BYTES = 8 * 2**20  # of one piece's products


@dataclass(frozen=True, slots=True)
class Window:
    """(height, width) of a sliding window's kernel, stride, padding and dilation."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


def positions(image: Shape, window: Window) -> tuple[int, int]:
    """How many windows fit, (down, across)."""
    down, across = (
        (image[i] + 2 * window.padding[i] - window.dilation[i] * (window.kernel[i] - 1) - 1)
        // window.stride[i] + 1
        for i in (0, 1)
    )  # fmt: skip
    return down, across


class PatchLayout(Enum):
    """How windows become rows."""

    FULL = auto()  # every window in full, [positions, kh kw C]
    TURNED = auto()  # the same with positions along the row: few channels make short runs otherwise
    SHARED = auto()  # across only, [H Wo, kw C]; the shifts down are laid out in the output gradient


class Patches:
    """Weight gradients per record, for images of one size.

    Args:
        image: (H, W, C).
        outputs: O.
        window: Of the convolution.
    """

    def __init__(self, image: Shape, outputs: int, window: Window) -> None:
        self.channels, self.outputs, self.window = image[2], outputs, window
        self.padded = (image[0] + 2 * window.padding[0], image[1] + 2 * window.padding[1])
        self.down, self.across = positions(image, window)
        (kh, kw), spots = window.kernel, self.down * self.across
        full = spots * kh * kw * self.channels
        shared = self.padded[0] * self.across * (kw * self.channels + kh * outputs)
        if window.stride[0] == 1 and shared < full:
            self.layout, self.floats = PatchLayout.SHARED, shared
        else:
            short = kw * self.channels < _SHORT_RUN and kh * kw > 1
            self.layout, self.floats = PatchLayout.TURNED if short else PatchLayout.FULL, full

    def products(self, x: Tensor, delta: Tensor) -> Tensor:
        """[B, kh kw C O] of images [B, H, W, C] and output gradients [B, Ho, Wo, O]."""
        (kh, kw), (below, right) = self.window.kernel, self.window.padding
        out = x.new_empty(len(x), kh * kw * self.channels * self.outputs)
        piece_bytes = PIECE_BYTES if x.is_cpu else PIECE_BYTES_ELSEWHERE
        at_once = min(len(x), max(1, piece_bytes // (4 * self.floats)))
        # Laid out in the same memory piece by piece: fetching it anew would take as long as the matmul.
        windows, shifted = self._work_space(x, at_once)
        for start in range(0, len(x), at_once or 1):
            piece = slice(start, start + at_once)
            n = len(x[piece])
            padded = F.pad(x[piece], (0, 0, right, right, below, below)) if below or right else x[piece]
            windows[:n].copy_(self._windows(padded, windows[:n]))
            rows, columns = windows[:n].view(n, *self._rows), delta[piece]
            if shifted is None:
                columns = columns.reshape(n, -1, self.outputs)
            else:
                for number in range(kh):
                    first = number * self.window.dilation[0]
                    shifted[:n, first : first + self.down, :, number] = columns
                columns = shifted[:n].view(n, -1, kh * self.outputs)
            rows = rows if self.layout is PatchLayout.TURNED else rows.mT
            torch.bmm(rows, columns, out=out[piece].view(n, rows.shape[1], columns.shape[2]))
        return out

    def in_order(self, weight: Tensor) -> Tensor:
        """A view of weights [R, O, C, kh, kw] in the order of the products."""
        if self.layout is PatchLayout.SHARED:
            return weight.permute(0, 4, 2, 3, 1)
        return weight.permute(0, 3, 4, 2, 1)

    def _work_space(self, x: Tensor, count: int) -> tuple[Tensor, Tensor | None]:
        """Memory for the windows of so many records, and for their output gradients where they shift.

        What a shift leaves free stays zero.
        """
        kh, kw = self.window.kernel
        spots = (self.down, self.across)
        match self.layout:
            case PatchLayout.FULL:
                return x.new_empty(count, *spots, kh, kw, self.channels), None
            case PatchLayout.TURNED:
                return x.new_empty(count, kh, kw, self.channels, *spots), None
        height = self.padded[0]
        shifted = x.new_zeros(count, height, self.across, kh, self.outputs)
        return x.new_empty(count, height, self.across, kw, self.channels), shifted

    @property
    def _rows(self) -> tuple[int, int]:
        """The windows of one record as a matrix."""
        kh, kw = self.window.kernel
        size, spots = kh * kw * self.channels, self.down * self.across
        match self.layout:
            case PatchLayout.FULL:
                return spots, size
            case PatchLayout.TURNED:
                return size, spots
        return self.padded[0] * self.across, kw * self.channels

    def _windows(self, x: Tensor, like: Tensor) -> Tensor:
        """The windows of padded images, a view of the shape of ``like``."""
        by_record, by_row, by_column, by_channel = x.stride()
        (down, across), (dilated_down, dilated_across) = self.window.stride, self.window.dilation
        spots = (by_row * down, by_column * across)
        within = (by_row * dilated_down, by_column * dilated_across, by_channel)
        strides = {
            PatchLayout.FULL: (by_record, *spots, *within),
            PatchLayout.TURNED: (by_record, *within, *spots),
            PatchLayout.SHARED: (by_record, by_row, spots[1], *within[1:]),
        }
        return x.as_strided(like.shape, strides[self.layout], x.storage_offset())


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
        images, deltas, spots = as_batch(x), as_batch(delta), self.shape.out[0] * self.shape.out[1]
        doubles = spots * (2 * spots + math.prod(self.shape.weight[1:]) + self.shape.outputs)
        rows = max(1, _GHOST_BYTES // (8 * doubles))
        norms = [
            self._norms(i, d)
            for i, d in zip(torch.split(images, rows), torch.split(deltas, rows), strict=True)
        ]
        together = torch.cat(norms) if norms else deltas.new_zeros(0)
        return as_before(together, x).to(x.dtype).add_(HIDDEN), (x, delta)

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

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Of the weight and, where it exists, of the bias, by replicate."""
        return out[:, self.start : self.split].view(-1, *self.shape.weight), *self._bias_part(out)

    def write(self, parts: tuple[Tensor, ...], book: Book, weights: Tensor, *, add: bool) -> None:
        """The convolution's own backward pass over weighted output gradients, one replicate at a time."""
        x, delta = book
        delta = delta * weights.unsqueeze(-1).unsqueeze(-1)
        if x.dim() == 4:
            x, delta = x.unsqueeze(0), delta.unsqueeze(0)
        for number, (images, deltas) in enumerate(zip(x, delta, strict=True)):
            found = torch.ops.aten.convolution_backward(
                deltas.permute(0, 3, 1, 2), images.permute(0, 3, 1, 2), self.weight[number],
                [self.shape.outputs], *self.options, False, [0, 0], 1, [False, True, len(parts) > 1],
            )  # fmt: skip
            for part, value in zip(parts, found[1:], strict=False):
                (part[number].add_ if add else part[number].copy_)(value)


def _in_one(x: Tensor) -> bool:
    """Whether replicates go through one kernel; on a CPU one after the other is faster."""
    return x.dim() == 4 or not x.is_cpu
