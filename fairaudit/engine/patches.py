"""Products of an image's patches with output gradients: the weight gradients of a convolution.

G[a, b, c, o] = sum over positions (h, w) of x[h s + a, w s + b, c] d[h, w, o], one per record, is one
matmul per record once the windows are laid out as rows. Laying them out costs more than the matmul
when it is done in full, so three ways are told apart, by shapes alone; pieces of few records stay in
the cache.
"""

from dataclasses import dataclass
from enum import Enum, auto

import torch
import torch.nn.functional as F
from torch import Tensor

from fairaudit.engine.layer import Shape

PIECE_BYTES = 3 * 2**18  # of rows laid out at once: a core's second-level cache
PIECE_BYTES_ELSEWHERE = 2**28  # a GPU wants few large kernels
_SHORT_RUN = 16  # floats: shorter runs are copied one by one


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


class Layout(Enum):
    """How windows become rows."""

    FULL = auto()  # every window in full, [positions, kh kw C]
    TURNED = auto()  # the same with positions along the row: few channels make short runs otherwise
    SHARED = auto()  # across only, [H Wo, kw C]; the shifts down are laid out in the output gradient


class Patches:
    """Weight gradients per record, for images of one size.

    Args:
        image: (H, W, C). outputs: O. window: Of the convolution.
    """

    def __init__(self, image: Shape, outputs: int, window: Window) -> None:
        self.channels, self.outputs, self.window = image[2], outputs, window
        self.padded = (image[0] + 2 * window.padding[0], image[1] + 2 * window.padding[1])
        self.down, self.across = positions(image, window)
        (kh, kw), spots = window.kernel, self.down * self.across
        full = spots * kh * kw * self.channels
        shared = self.padded[0] * self.across * (kw * self.channels + kh * outputs)
        if window.stride[0] == 1 and shared < full:
            self.layout, self.floats = Layout.SHARED, shared
        else:
            short = kw * self.channels < _SHORT_RUN and kh * kw > 1
            self.layout, self.floats = Layout.TURNED if short else Layout.FULL, full

    def products(self, x: Tensor, delta: Tensor) -> Tensor:
        """[B, kh kw C O] of images [B, H, W, C] and output gradients [B, Ho, Wo, O]."""
        kh, kw = self.window.kernel
        out = x.new_empty(len(x), kh * kw * self.channels * self.outputs)
        piece_bytes = PIECE_BYTES if x.is_cpu else PIECE_BYTES_ELSEWHERE
        at_once = max(1, piece_bytes // (4 * self.floats))
        lay = self._shared if self.layout is Layout.SHARED else self._full
        for start in range(0, len(x), at_once):
            piece = slice(start, start + at_once)
            rows, columns = lay(self._pad(x[piece]), delta[piece])
            torch.bmm(rows, columns, out=out[piece].view(len(rows), rows.shape[1], columns.shape[2]))
        return out

    def in_order(self, weight: Tensor) -> Tensor:
        """A view of weights [R, O, C, kh, kw] in the order of the products."""
        if self.layout is Layout.SHARED:
            return weight.permute(0, 4, 2, 3, 1)
        return weight.permute(0, 3, 4, 2, 1)

    def _pad(self, x: Tensor) -> Tensor:
        down, across = self.window.padding
        return F.pad(x, (0, 0, across, across, down, down)) if down or across else x

    def _full(self, x: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Windows [n, kh kw C, positions] and output gradients [n, positions, O]."""
        n, (kh, kw) = len(x), self.window.kernel
        by_record, by_row, by_column, by_channel = x.stride()
        step = (by_row * self.window.stride[0], by_column * self.window.stride[1])
        shift = (by_row * self.window.dilation[0], by_column * self.window.dilation[1])
        sizes, strides = (kh, kw, self.channels), (*shift, by_channel)
        spots = (self.down, self.across)
        if self.layout is Layout.TURNED:
            windows = x.as_strided((n, *sizes, *spots), (by_record, *strides, *step), x.storage_offset())
            rows = windows.reshape(n, kh * kw * self.channels, self.down * self.across)
        else:
            windows = x.as_strided((n, *spots, *sizes), (by_record, *step, *strides), x.storage_offset())
            rows = windows.reshape(n, self.down * self.across, kh * kw * self.channels).mT
        return rows, delta.reshape(n, self.down * self.across, self.outputs)

    def _shared(self, x: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """Runs across [n, kw C, H Wo] and output gradients shifted down [n, H Wo, kh O]."""
        n, height, (kh, kw) = len(x), self.padded[0], self.window.kernel
        by_record, by_row, by_column, by_channel = x.stride()
        runs = x.as_strided(
            (n, height, self.across, kw, self.channels),
            (
                *(by_record, by_row, by_column * self.window.stride[1]),
                *(by_column * self.window.dilation[1], by_channel),
            ),
            x.storage_offset(),
        )
        shifted = delta.new_zeros(n, height, self.across, kh, self.outputs)
        for number in range(kh):
            first = number * self.window.dilation[0]
            shifted[:, first : first + self.down, :, number] = delta
        spots = height * self.across
        return runs.reshape(n, spots, kw * self.channels).mT, shifted.view(n, spots, kh * self.outputs)
