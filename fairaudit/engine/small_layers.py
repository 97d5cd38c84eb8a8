"""Layers between linear ones and convolutions: activations, pooling, flattening, normalisation."""

import math
from abc import abstractmethod
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairaudit.engine.layer import (
    Book,
    Elementwise,
    Layer,
    Materialised,
    Shape,
    as_batch,
    as_before,
)

_ATEN: Any = torch.ops.aten


class Tanh(Elementwise):
    """Elementwise tanh."""

    def __init__(self) -> None:
        super().__init__(torch.tanh, torch.tanh_, _ATEN.tanh_backward)


class Relu(Elementwise):
    """Elementwise max(x, 0); the derivative at 0 is 0."""

    def __init__(self) -> None:
        threshold = partial(torch.clamp_min, min=0.0), partial(torch.clamp_min_, min=0.0)
        super().__init__(*threshold, _ATEN.threshold_backward, 0)


class Sigmoid(Elementwise):
    """Elementwise logistic function."""

    def __init__(self) -> None:
        super().__init__(torch.sigmoid, torch.sigmoid_, _ATEN.sigmoid_backward)


class ChannelsFirst(nn.Module):
    """The border between data, channels last, and modules as PyTorch's users write them.

    Args:
        shape: (H, W, C) of the images that come in.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, W, C] -> [B, C, H, W], copied, as a module's author expects it.

        One channel is contiguous either way by its strides, but not laid out either way.
        """
        return x.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)

    def extra_repr(self) -> str:
        """The shape."""
        return str(self.shape)


class Unchanged(Layer):
    """Nothing happens: the layers of this engine read images channels last."""

    def forward(self, x: Tensor) -> Tensor:
        """``x``."""
        return x

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """``delta``."""
        return delta


class Flatten(Layer):
    """[..., H, W, C] -> [..., H W C]; the linear layer behind it knows the order."""

    def forward(self, x: Tensor) -> Tensor:
        """One row per record."""
        return x.flatten(-3)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Images again."""
        return delta.view(x.shape)


class Pool(Layer):
    """Pooling of each record's channels by itself, through PyTorch's kernels.

    Args:
        module: [B, C, H, W] -> [B, C, Ho, Wo], without parameters.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def forward(self, x: Tensor) -> Tensor:
        """[(R,) B, H, W, C] -> [(R,) B, Ho, Wo, C]."""
        pooled = self._module(as_batch(x).permute(0, 3, 1, 2))
        return as_before(pooled.permute(0, 2, 3, 1).contiguous(), x)

    @torch.inference_mode(False)  # autograd keeps no tensor that was made in inference mode
    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """From outputs ``[(R,) B, Ho, Wo, C]`` to the inputs ``[(R,) B, H, W, C]``."""
        images = as_batch(x).clone().requires_grad_()
        with torch.enable_grad():
            pooled = self._module(images.permute(0, 3, 1, 2))
        deltas = as_batch(delta).clone().permute(0, 3, 1, 2)
        (spread,) = torch.autograd.grad(pooled, images, deltas)
        return as_before(spread.contiguous(), x)


class _Normalise(Materialised):
    """``y = (x - mean) / sqrt(var + eps) * w + b``, mean and variance over parts of one record.

    Args:
        theta, start: As of any layer.
        shape: Of a record.
        size: Entries of w, and of b.
        eps: Added to the variance.
    """

    def __init__(
        self,
        theta: Tensor,
        start: int,
        shape: Shape,
        size: int,
        eps: float,
    ) -> None:
        self.floats_per_record = 2 * math.prod(shape)
        self.start = start
        self.split = start + size
        self.end = start + 2 * size
        self.eps = eps
        # [...] for one replicate, [R, 1, ...] for several.
        scale, shift = self.parts(theta)
        single = len(theta) == 1
        self.scale = scale[0] if single else scale.unsqueeze(1)
        self.shift = shift[0] if single else shift.unsqueeze(1)

    @abstractmethod
    def stored(self, values: Tensor) -> Tensor:
        """A view of w or b, [R, size], as it meets a record.

        [R, *shape] or what broadcasts to it.
        """

    @abstractmethod
    def cut(self, x: Tensor) -> Tensor:
        """A view [(R,) B, spots, parts, width]: mean and variance are over spots and width."""

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of ``x``."""
        standard = self._standard(x)[0]
        return torch.addcmul(self.shift, standard, self.scale)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient less its mean and its projection on the output, ``[(R,) B, ...]``."""
        standard, rate = self._standard(x)
        inner = self.cut((delta * self.scale).contiguous())
        along = self.cut(standard)
        mean = inner.mean((-3, -1), keepdim=True)
        slope = (inner * along).mean((-3, -1), keepdim=True)
        return ((inner - mean - along * slope) * rate).view(x.shape)

    def _standard(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``(x - mean) / sd``, ``[(R,) B, ...]``, and 1 / sd of each record and part."""
        pieces = self.cut(x.contiguous())
        centred = pieces - pieces.mean((-3, -1), keepdim=True)
        variance = centred.square().mean((-3, -1), keepdim=True)
        rate = variance.add_(self.eps).rsqrt_()
        return (centred * rate).view(x.shape), rate

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Views of w's and b's part."""
        return self.stored(out[:, self.start : self.split]), self.stored(
            out[:, self.split : self.end]
        )


class GroupNorm(_Normalise):
    """Over all positions of some channels; one w and b per channel.

    Args:
        theta, start: As of any layer.
        shape: (H, W, C).
        groups: Of channels.
        eps: Added to the variance.
    """

    def __init__(
        self,
        theta: Tensor,
        start: int,
        shape: Shape,
        groups: int,
        eps: float,
    ) -> None:
        self.groups = groups
        super().__init__(
            theta,
            start,
            shape,
            shape[-1],
            eps,
        )

    def stored(self, values: Tensor) -> Tensor:
        """[R, 1, 1, C]."""
        return values.view(len(values), 1, 1, -1)

    def cut(self, x: Tensor) -> Tensor:
        """[(R,) B, H W, groups, C / groups]."""
        *lead, height, width, channels = x.shape
        return x.view(
            *lead,
            height * width,
            self.groups,
            channels // self.groups,
        )

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """[(R,) B, C] each."""
        standard, _ = self._standard(x)
        return (delta * standard).sum((-3, -2)), delta.sum((-3, -2))


class LayerNorm(_Normalise):
    """Over everything; a w and a b for each number.

    Args:
        theta, start: As of any layer.
        shape: (d,) or (H, W, C), stored channels first.
        eps: Added to the variance.
    """

    def __init__(
        self,
        theta: Tensor,
        start: int,
        shape: Shape,
        eps: float,
    ) -> None:
        self.shape = shape
        super().__init__(
            theta,
            start,
            shape,
            math.prod(shape),
            eps,
        )

    def stored(self, values: Tensor) -> Tensor:
        """w or b in the order of the record's numbers, [R, *shape]."""
        if len(self.shape) == 1:
            return values
        height, width, channels = self.shape
        return values.view(
            len(values),
            channels,
            height,
            width,
        ).permute(0, 2, 3, 1)

    def cut(self, x: Tensor) -> Tensor:
        """[(R,) B, 1, 1, size]."""
        return x.flatten(-len(self.shape)).unsqueeze(-2).unsqueeze(-2)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """[(R,) B, size] each."""
        first = -len(self.shape)
        standard, _ = self._standard(x)
        return (delta * standard).flatten(first), delta.flatten(first)
