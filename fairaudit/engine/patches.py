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

PIECE_BYTES = 2**21  # of rows laid out at once: about a core's second-level cache
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
        kh, kw = self.window.kernel
        out = x.new_empty(len(x), kh * kw * self.channels * self.outputs)
        piece_bytes = PIECE_BYTES if x.is_cpu else PIECE_BYTES_ELSEWHERE
        at_once = min(len(x), max(1, piece_bytes // (4 * self.floats)))
        # Laid out in the same memory piece by piece: fetching it anew would take as long as the matmul.
        windows, shifted = self._work_space(x, at_once)
        for start in range(0, len(x), at_once or 1):
            piece = slice(start, start + at_once)
            n = len(x[piece])
            windows[:n].copy_(self._windows(self._pad(x[piece]), windows[:n]))
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

    def _pad(self, x: Tensor) -> Tensor:
        down, across = self.window.padding
        return F.pad(x, (0, 0, across, across, down, down)) if down or across else x

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
