"""Convolutions: per-sample weight gradients as one matmul per record.

G[a, b, c, o] = sum over positions (h, w) of x[h s + a, w s + b, c] d[h, w, o] is a product of
patches with output gradients, once the windows are laid out as rows; pieces of few records stay in
the cache.

Images are [(R,) B, H, W, C] of R replicates, outputs [(R,) B, Ho, Wo, O]; kh and kw are the size of
a window (the kernel), and a spot is a position of it in the image.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairaudit.engine.layer import Book, Materialised, Shape, as_batch, as_before

PIECE_BYTES = 2**21  # of rows laid out at once: about a core's second-level cache
PIECE_BYTES_ELSEWHERE = 2**28  # on a GPU, which wants few large kernels
_SHORT_RUN = 16  # floats: shorter contiguous runs are copied one number at a time


@dataclass(frozen=True, slots=True)
class Window:
    """(height, width) of a sliding window's kernel, stride, padding and dilation."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


def positions(image: Shape, window: Window) -> tuple[int, int]:
    """How many windows fit into an image (H, W, C): (down, across), an output's (Ho, Wo)."""
    counts = []
    for axis in (0, 1):
        length = window.dilation[axis] * (window.kernel[axis] - 1) + 1  # of the window in the image
        room = image[axis] + 2 * window.padding[axis] - length
        counts.append(room // window.stride[axis] + 1)
    return counts[0], counts[1]


class Conv(Materialised):
    """``y = conv(x, W) + b`` on channels-last images [(R,) B, H, W, C], one replicate at a time.

    Per-sample weight gradients are written out, in pieces that stay in the cache; their weighted
    sum replaces the batch's gradient. Source: Bu et al. 2022.

    Args:
        theta: All parameters [R, P].
        start: First index of this layer in P.
        image: (H, W, C) of the inputs.
        outputs: O.
        window: Kernel, stride, padding and dilation.
        has_bias: Whether b exists.
    """

    def __init__(
        self, theta: Tensor, start: int, image: Shape, outputs: int, window: Window, has_bias: bool
    ) -> None:
        channels = image[2]
        self.window = window
        self.outputs = outputs
        self.has_bias = has_bias
        self.spots = positions(image, window)
        self.out = (*self.spots, outputs)
        self.floats_per_record = math.prod(image) + math.prod(self.out)
        self._stored = (outputs, channels, *window.kernel)  # as a module stores its weight
        self._size = (*window.kernel, channels)  # of one window, as it is laid out
        # Whether windows are laid out with spots along the last axis: where channels are few, runs
        # of (kernel width, channels) would be too short to copy fast.
        runs = window.kernel[1] * channels
        self._is_turned = runs < _SHORT_RUN and math.prod(window.kernel) > 1
        self.start = start
        self.split = start + math.prod(self._stored)
        self.end = self.split + outputs * has_bias
        self.weight = theta[:, start : self.split].view(len(theta), *self._stored)
        self.bias = theta[:, self.split : self.end]
        self.options = (list(window.stride), list(window.padding), list(window.dilation))

    def forward(self, x: Tensor) -> Tensor:
        """The convolution: [(R,) B, H, W, C] -> [(R,) B, Ho, Wo, O]."""
        outputs = []
        for images, weight, bias in zip(_apart(x), self.weight, self.bias, strict=True):
            outputs.append(
                F.conv2d(
                    _channels_first(images),
                    weight.contiguous(memory_format=torch.channels_last),
                    bias if self.has_bias else None,
                    *self.options,
                )
            )
        return _together(outputs, x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The transposed convolution of the output gradient: ``[(R,) B, H, W, C]``, like ``x``."""
        gradients = []
        for images, deltas, weight in zip(_apart(x), _apart(delta), self.weight, strict=True):
            weight = weight.contiguous(memory_format=torch.channels_last)
            (gradient, _, _) = torch.ops.aten.convolution_backward(
                _channels_first(deltas),
                _channels_first(images),
                weight,
                [self.outputs],  # the bias's shape
                *self.options,
                False,  # not transposed
                [0, 0],  # output padding, of transposed ones only
                1,  # groups
                [True, False, False],  # the input's gradient alone, not the weight's or the bias's
            )
            gradients.append(gradient)
        return _together(gradients, x)

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Views of ``out [R, P]``: the weight's part, [R, kh, kw, C, O], and the bias's, if any."""
        weight = out[:, self.start : self.split].view(-1, *self._stored)
        parts = [weight.permute(0, 3, 4, 2, 1)]
        if self.has_bias:
            parts.append(out[:, self.split : self.end])
        return tuple(parts)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """Each record's gradient in the weight, [(R,) B, kh kw C O], and in the bias, [(R,) B, O].

        The latter only where there is a bias.
        """
        deltas = as_batch(delta)
        parts = [self._products(as_batch(x), deltas)]
        if self.has_bias:
            parts.append(deltas.sum((1, 2)))
        return tuple(as_before(part, x) for part in parts)

    def _products(self, x: Tensor, delta: Tensor) -> Tensor:
        """Each record's gradient in the weight, [B, kh kw C O], piece by piece.

        A record's is the product of its windows, laid out as rows [kh kw C, Ho Wo], with its output
        gradients [Ho Wo, O].

        Args:
            x: Images [B, H, W, C].
            delta: Output gradients [B, Ho, Wo, O].
        """
        (pad_height, pad_width) = self.window.padding
        spots = math.prod(self.spots)
        size = math.prod(self._size)
        out = x.new_empty(len(x), size * self.outputs)
        piece_bytes = PIECE_BYTES if x.is_cpu else PIECE_BYTES_ELSEWHERE
        at_once = min(len(x), max(1, piece_bytes // (4 * spots * size)))
        # All pieces are laid out in the same memory: to allocate it for each would take as long as
        # the matmul.
        if self._is_turned:
            windows = x.new_empty(at_once, *self._size, *self.spots)
        else:
            windows = x.new_empty(at_once, *self.spots, *self._size)
        for start in range(0, len(x), at_once or 1):  # 0 at once: an empty batch
            images = x[start : start + at_once]
            n = len(images)
            if pad_height or pad_width:  # F.pad takes the last axis first: channels, width, height
                images = F.pad(images, (0, 0, pad_width, pad_width, pad_height, pad_height))
            windows[:n].copy_(self._windows(images, windows[:n]))
            if self._is_turned:
                rows = windows[:n].view(n, size, spots)
            else:
                rows = windows[:n].view(n, spots, size).mT
            columns = delta[start : start + n].reshape(n, spots, self.outputs)
            torch.bmm(rows, columns, out=out[start : start + n].view(n, size, self.outputs))
        return out

    def _windows(self, x: Tensor, like: Tensor) -> Tensor:
        """The windows of padded images [B, H, W, C], as a view that copies nothing.

        A step inside a window goes on by the dilation, a step to the next window by the stride. The
        shape is that of ``like``: [B, Ho, Wo, kh, kw, C], or turned [B, kh, kw, C, Ho, Wo].
        """
        by_record, by_row, by_column, by_channel = x.stride()
        (down, across) = self.window.stride
        (dilated_down, dilated_across) = self.window.dilation
        between = (by_row * down, by_column * across)
        within = (by_row * dilated_down, by_column * dilated_across, by_channel)
        strides = (*within, *between) if self._is_turned else (*between, *within)
        return x.as_strided(like.shape, (by_record, *strides), x.storage_offset())


def _apart(x: Tensor) -> tuple[Tensor, ...]:
    """Split [(R,) B, H, W, C] into R tensors [B, H, W, C]."""
    if x.dim() == 4:
        return (x,)
    return x.unbind()


def _together(images: list[Tensor], like: Tensor) -> Tensor:
    """R tensors [B, C, H, W] as one [(R,) B, H, W, C], contiguous.

    ``like`` says whether it has the axis of replicates: 5 axes with it, 4 without.
    """
    parts = [image.permute(0, 2, 3, 1) for image in images]
    if like.dim() == 4:
        return parts[0].contiguous()
    return torch.stack(parts)


def _channels_first(images: Tensor) -> Tensor:
    """A view [B, C, H, W] of images [B, H, W, C], as PyTorch's convolutions take them."""
    return images.permute(0, 3, 1, 2)
