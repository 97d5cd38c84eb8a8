"""Normalisation within one record: no record's output depends on another's, unlike batch normalisation."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from fairaudit.engine.layer import Book, Materialised, Shape


class _Normalise(Materialised):
    """``y = (x - mean) / sqrt(var + eps) * w + b``, mean and variance over parts of one record.

    Args:
        theta, start: As of any layer.
        shape: Of a record.
        size: Entries of w, and of b.
        eps: Added to the variance.
    """

    def __init__(self, theta: Tensor, start: int, shape: Shape, size: int, eps: float) -> None:
        self.floats_per_record = 2 * math.prod(shape)
        self.start, self.split, self.end = start, start + size, start + 2 * size
        self.single = len(theta) == 1
        self.eps = eps
        self.scale = self._lead(self.stored(theta[:, start : self.split]))
        self.shift = self._lead(self.stored(theta[:, self.split : self.end]))

    @abstractmethod
    def stored(self, values: Tensor) -> Tensor:
        """A view of w or b, [R, size], as it meets a record: [R, *shape] or what broadcasts to it."""

    @abstractmethod
    def cut(self, x: Tensor) -> Tensor:
        """A view [(R,) B, spots, parts, width]: mean and variance are over spots and width."""

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of ``x``."""
        standard = self._standard(x)[0]
        return torch.addcmul(self.shift, standard, self.scale)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """What is left of the gradient when its mean and its projection on the output are taken away."""
        standard, rate = self._standard(x)
        inner, along = self.cut((delta * self.scale).contiguous()), self.cut(standard)
        mean = inner.mean((-3, -1), keepdim=True)
        slope = (inner * along).mean((-3, -1), keepdim=True)
        return ((inner - mean - along * slope) * rate).view(x.shape)

    def _standard(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pieces = self.cut(x.contiguous())
        centred = pieces - pieces.mean((-3, -1), keepdim=True)
        rate = centred.square().mean((-3, -1), keepdim=True).add_(self.eps).rsqrt_()
        return (centred * rate).view(x.shape), rate

    def _lead(self, values: Tensor) -> Tensor:
        """[R, ...] -> [...] for one replicate, [R, 1, ...] for several."""
        return values[0] if self.single else values.unsqueeze(1)

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Views of w's and b's part."""
        return self.stored(out[:, self.start : self.split]), self.stored(out[:, self.split : self.end])


class GroupNorm(_Normalise):
    """Over all positions of some channels; one w and b per channel.

    Args:
        theta, start: As of any layer.
        shape: (H, W, C).
        groups: Of channels.
        eps: Added to the variance.
    """

    def __init__(self, theta: Tensor, start: int, shape: Shape, groups: int, eps: float) -> None:
        self.groups = groups
        super().__init__(theta, start, shape, shape[-1], eps)

    def stored(self, values: Tensor) -> Tensor:
        """[R, 1, 1, C]."""
        return values.view(len(values), 1, 1, -1)

    def cut(self, x: Tensor) -> Tensor:
        """[(R,) B, H W, groups, C / groups]."""
        *lead, height, width, channels = x.shape
        return x.view(*lead, height * width, self.groups, channels // self.groups)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """[(R,) B, C] each."""
        return (delta * self._standard(x)[0]).sum((-3, -2)), delta.sum((-3, -2))


class LayerNorm(_Normalise):
    """Over everything; a w and a b for each number.

    Args:
        theta, start: As of any layer.
        shape: (d,) or (H, W, C), stored channels first.
        eps: Added to the variance.
    """

    def __init__(self, theta: Tensor, start: int, shape: Shape, eps: float) -> None:
        self.shape = shape
        super().__init__(theta, start, shape, math.prod(shape), eps)

    def stored(self, values: Tensor) -> Tensor:
        """[R, *shape]."""
        if len(self.shape) == 1:
            return values
        height, width, channels = self.shape
        return values.view(len(values), channels, height, width).permute(0, 2, 3, 1)

    def cut(self, x: Tensor) -> Tensor:
        """[(R,) B, 1, 1, size]."""
        return x.flatten(-len(self.shape)).unsqueeze(-2).unsqueeze(-2)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """[(R,) B, size] each."""
        first = -len(self.shape)
        return (delta * self._standard(x)[0]).flatten(first), delta.flatten(first)
