"""Convolutions: per-sample gradients where small, ghost norms where positions are few.

The first are products of patches with output gradients: G[a, b, c, o] = sum over positions (h, w)
of x[h s + a, w s + b, c] d[h, w, o], one per record, is one matmul per record once the windows are
laid out as rows. Laying them out costs more than the matmul when it is done in full, so three ways
are told apart, by shapes alone; pieces of few records stay in the cache.
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
    spots = []
    for axis in (0, 1):
        reach = window.dilation[axis] * (window.kernel[axis] - 1)
        room = image[axis] + 2 * window.padding[axis] - reach - 1
        spots.append(room // window.stride[axis] + 1)
    return spots[0], spots[1]


class PatchLayout(Enum):
    """How windows become rows."""

    FULL = auto()  # every window in full, [positions, kh kw C]
    TURNED = auto()  # the same with positions along the row: few channels make short runs otherwise
    SHARED = (
        auto()
    )  # across only, [H Wo, kw C]; the shifts down are laid out in the output gradient


class Patches:
    """Weight gradients per record, for images of one size.

    Args:
        image: (H, W, C).
        outputs: O.
        window: Of the convolution.
    """

    def __init__(self, image: Shape, outputs: int, window: Window) -> None:
        self.channels = image[2]
        self.outputs = outputs
        self.window = window
        self.padded = (image[0] + 2 * window.padding[0], image[1] + 2 * window.padding[1])
        self.down, self.across = positions(image, window)
        (kh, kw) = window.kernel
        spots = self.down * self.across
        full = spots * kh * kw * self.channels
        shared = self.padded[0] * self.across * (kw * self.channels + kh * outputs)
        if window.stride[0] == 1 and shared < full:
            self.layout = PatchLayout.SHARED
            self.floats = shared
        else:
            short = kw * self.channels < _SHORT_RUN and kh * kw > 1
            self.layout = PatchLayout.TURNED if short else PatchLayout.FULL
            self.floats = full

    def products(self, x: Tensor, delta: Tensor) -> Tensor:
        """[B, kh kw C O] of images [B, H, W, C] and output gradients [B, Ho, Wo, O]."""
        (kh, kw) = self.window.kernel
        (below, right) = self.window.padding
        out = x.new_empty(len(x), kh * kw * self.channels * self.outputs)
        piece_bytes = PIECE_BYTES if x.is_cpu else PIECE_BYTES_ELSEWHERE
        at_once = min(len(x), max(1, piece_bytes // (4 * self.floats)))
        # Laid out in the same memory piece by piece: fetching it anew would take as long as the
        # matmul.
        windows, shifted = self._work_space(x, at_once)
        for start in range(0, len(x), at_once or 1):
            piece = slice(start, start + at_once)
            n = len(x[piece])
            padded = (
                F.pad(x[piece], (0, 0, right, right, below, below)) if below or right else x[piece]
            )
            windows[:n].copy_(self._windows(padded, windows[:n]))
            rows = windows[:n].view(n, *self._rows)
            columns = delta[piece]
            if shifted is None:
                columns = columns.reshape(n, -1, self.outputs)
            else:
                for number in range(kh):
                    first = number * self.window.dilation[0]
                    shifted[:n, first : first + self.down, :, number] = columns
                columns = shifted[:n].view(n, -1, kh * self.outputs)
            if self.layout is not PatchLayout.TURNED:
                rows = rows.mT
            torch.bmm(rows, columns, out=out[piece].view(n, rows.shape[1], columns.shape[2]))
        return out

    def in_order(self, weight: Tensor) -> Tensor:
        """A view of weights [R, O, C, kh, kw] in the order of the products."""
        if self.layout is PatchLayout.SHARED:
            return weight.permute(0, 4, 2, 3, 1)
        return weight.permute(0, 3, 4, 2, 1)

    def _work_space(self, x: Tensor, count: int) -> tuple[Tensor, Tensor | None]:
        """Memory for the windows of so many records.

        And for their output gradients where they shift.

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
        size = kh * kw * self.channels
        spots = self.down * self.across
        match self.layout:
            case PatchLayout.FULL:
                return spots, size
            case PatchLayout.TURNED:
                return size, spots
        return self.padded[0] * self.across, kw * self.channels

    def _windows(self, x: Tensor, like: Tensor) -> Tensor:
        """The windows of padded images, a view of the shape of ``like``."""
        by_record, by_row, by_column, by_channel = x.stride()
        (down, across) = self.window.stride
        (dilated_down, dilated_across) = self.window.dilation
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
    """``y = conv(x, W) + b`` on channels-last images [(R,) B, H, W, C].

    Replicates go one after the other.
    """

    def __init__(self, theta: Tensor, start: int, shape: ConvShape) -> None:
        self.shape = shape
        self.floats_per_record = math.prod(shape.image) + math.prod(shape.out)
        self.start = start
        self.split = start + math.prod(shape.weight)
        self.end = self.split + shape.outputs * shape.has_bias
        self.weight = theta[:, start : self.split].view(len(theta), *shape.weight)
        self.bias = theta[:, self.split : self.end]
        window = shape.window
        self.options = (list(window.stride), list(window.padding), list(window.dilation))

    def forward(self, x: Tensor) -> Tensor:
        """[(R,) B, H, W, C] -> [(R,) B, Ho, Wo, O]."""
        outputs = []
        for images, weight, bias in zip(_apart(x), self.weight, self.bias, strict=True):
            outputs.append(
                F.conv2d(
                    _channels_first(images),
                    weight.contiguous(memory_format=torch.channels_last),
                    bias if self.shape.has_bias else None,
                    *self.options,
                )
            )
        return _together(outputs, x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The transposed convolution of the output gradient."""
        gradients = []
        for images, deltas, weight in zip(_apart(x), _apart(delta), self.weight, strict=True):
            weight = weight.contiguous(memory_format=torch.channels_last)
            gradients.append(self.pulled(deltas, images, weight, (True, False, False))[0])
        return _together(gradients, x)

    def pulled(
        self, delta: Tensor, x: Tensor, weight: Tensor, wanted: tuple[bool, bool, bool]
    ) -> tuple[Tensor, ...]:
        """Gradients in input, weight and bias of one replicate, of images [B, H, W, C]."""
        found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            _channels_first(delta),
            _channels_first(x),
            weight,
            [self.shape.outputs],
            *self.options,
            False,
            [0, 0],
            1,
            list(wanted),
        )
        return found

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Of the weight [R, O, C, kh, kw] and, where it exists, of the bias [R, O]."""
        weight = out[:, self.start : self.split].view(-1, *self.shape.weight)
        if self.shape.has_bias:
            return weight, out[:, self.split : self.end]
        return (weight,)


class WrittenConv(_Conv, Materialised):
    """Per-sample weight gradients, in pieces that stay in the cache; they replace the batch's own.

    Source: Bu et al. 2022 (which norm for which layer).
    """

    def __init__(self, theta: Tensor, start: int, shape: ConvShape) -> None:
        super().__init__(theta, start, shape)
        self.patches = Patches(shape.image, shape.outputs, shape.window)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """[(R,) B, kh kw C O] in the order of the patches, and [(R,) B, O]."""
        images = as_batch(x)
        deltas = as_batch(delta)
        parts = [self.patches.products(images, deltas)]
        if self.shape.has_bias:
            parts.append(deltas.sum((1, 2)))
        return tuple(as_before(part, x) for part in parts)

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """The weight's part in the order of the patches, and the bias's."""
        weight, *bias = super().parts(out)
        return self.patches.in_order(weight), *bias


class GhostConv(_Conv):
    """The norm from inner products of positions, for many channels on few positions.

    |sum_t d_t x_t^T|^2 = sum_{t,t'} (d_t . d_t') (x_t . x_t'), over positions t with patches x_t.
    What cancels between positions would leave the norm to rounding, and a norm that is too small is
    a gradient not clipped: the products are taken in float64.

    Source: Li et al. 2022; Bu et al. 2022.
    """

    def book(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> tuple[Tensor, Book]:
        """Inputs and output gradients are kept."""
        images = as_batch(x)
        deltas = as_batch(delta)
        spots = self.shape.out[0] * self.shape.out[1]
        doubles = spots * (2 * spots + math.prod(self.shape.weight[1:]) + self.shape.outputs)
        rows = max(1, _GHOST_BYTES // (8 * doubles))
        norms = []
        for start in range(0, len(images), rows):
            piece = slice(start, start + rows)
            norms.append(self._norms(images[piece], deltas[piece]))
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

    def write(self, parts: tuple[Tensor, ...], book: Book, weights: Tensor, *, add: bool) -> None:
        """Its own backward pass over weighted output gradients, one replicate at a time."""
        x, delta = book
        weighted = delta * weights.unsqueeze(-1).unsqueeze(-1)
        wanted = (False, True, self.shape.has_bias)
        for number, (images, deltas) in enumerate(zip(_apart(x), _apart(weighted), strict=True)):
            _, *sums = self.pulled(deltas, images, self.weight[number], wanted)
            for part, value in zip(parts, sums, strict=False):
                if add:
                    part[number].add_(value)
                else:
                    part[number].copy_(value)


def _apart(x: Tensor) -> tuple[Tensor, ...]:
    """[(R,) B, H, W, C] as R times [B, H, W, C]."""
    if x.dim() == 4:
        return (x,)
    return x.unbind()


def _together(images: list[Tensor], like: Tensor) -> Tensor:
    """R times [B, C, H, W] as [(R,) B, H, W, C], contiguous, with as many axes as ``like``."""
    parts = [image.permute(0, 2, 3, 1) for image in images]
    if like.dim() == 4:
        return parts[0].contiguous()
    return torch.stack(parts)


def _channels_first(images: Tensor) -> Tensor:
    return images.permute(0, 3, 1, 2)
