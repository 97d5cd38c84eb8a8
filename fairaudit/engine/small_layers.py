"""Layers between linear ones and convolutions: activations, pooling, flattening, normalisation.

Records are [(R,) B, ...], with the axis of replicates where there are several; images are channels
last, [..., H, W, C]. In ``backward`` x is a layer's input, y its output, delta the gradient at y.
"""

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

_ATEN: Any = torch.ops.aten  # PyTorch's operators by name, which have no types


class Tanh(Elementwise):
    """Elementwise tanh."""

    def __init__(self) -> None:
        super().__init__(torch.tanh, torch.tanh_, _ATEN.tanh_backward)


class Relu(Elementwise):
    """Elementwise max(x, 0); the derivative at 0 is 0."""

    def __init__(self) -> None:
        forward, in_place = partial(torch.clamp_min, min=0.0), partial(torch.clamp_min_, min=0.0)
        super().__init__(forward, in_place, _ATEN.threshold_backward, 0)  # 0: the threshold


class Sigmoid(Elementwise):
    """Elementwise logistic function."""

    def __init__(self) -> None:
        super().__init__(torch.sigmoid, torch.sigmoid_, _ATEN.sigmoid_backward)


class ChannelsFirst(nn.Module):
    """The first module of an image model: data are channels last, PyTorch's modules channels first.

    Args:
        shape: (H, W, C) of the images that come in.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        """[B, H, W, C] -> [B, C, H, W], copied, so that memory is laid out as authors expect it.

        Not ``contiguous()``: with one channel it would return a view with other strides.
        """
        return x.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)

    def extra_repr(self) -> str:
        """The shape, for PyTorch's printing of models."""
        return str(self.shape)


class Unchanged(Layer):
    """The engine's layer for :class:`ChannelsFirst`: its layers read channels last as it is."""

    def forward(self, x: Tensor) -> Tensor:
        """``x`` itself."""
        return x

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """``delta`` itself."""
        return delta


class Flatten(Layer):
    """[..., H, W, C] -> [..., H W C].

    PyTorch's modules flatten (C, H, W); the linear layer after it allows for that (ImageLinear).
    """

    def forward(self, x: Tensor) -> Tensor:
        """One row of numbers per record."""
        return x.flatten(-3)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """``delta`` in the shape of the images ``x``."""
        return delta.view(x.shape)


class Pooling(Layer):
    """Pooling of each channel of each record by itself, through PyTorch's kernels.

    Args:
        module: [B, C, H, W] -> [B, C, Ho, Wo], without parameters.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def forward(self, x: Tensor) -> Tensor:
        """Pool images: [(R,) B, H, W, C] -> [(R,) B, Ho, Wo, C]."""
        pooled = self._module(as_batch(x).permute(0, 3, 1, 2))
        return as_before(pooled.permute(0, 2, 3, 1).contiguous(), x)

    @torch.inference_mode(False)  # autograd keeps no tensor that was made in inference mode
    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input, ``[(R,) B, H, W, C]``, by PyTorch's autograd."""
        # Cloned, because the loop made them in inference mode.
        images = as_batch(x).clone().requires_grad_()
        with torch.enable_grad():
            pooled = self._module(images.permute(0, 3, 1, 2))
        deltas = as_batch(delta).clone().permute(0, 3, 1, 2)
        (spread,) = torch.autograd.grad(pooled, images, deltas)
        return as_before(spread.contiguous(), x)


class _Normalise(Materialised):
    """``y = (x - mean) / sqrt(var + eps) * w + b``, mean and variance over blocks of one record.

    A block is a set of numbers that share mean and variance: a group of channels, or all.

    Args:
        theta: All parameters [R, P].
        start: First index of this layer in P.
        shape: Of a record.
        size: Entries of w, and of b.
        eps: Added to the variance.
    """

    def __init__(self, theta: Tensor, start: int, shape: Shape, size: int, eps: float) -> None:
        self.floats_per_record = 2 * math.prod(shape)
        self.start = start
        self.split = start + size  # where w ends and b begins
        self.end = start + 2 * size
        self.eps = eps
        # w and b as [...] for one replicate, [R, 1, ...] for several, to go with [(R,) B, ...].
        scale, shift = self.parts(theta)
        single = len(theta) == 1
        self.scale = scale[0] if single else scale.unsqueeze(1)
        self.shift = shift[0] if single else shift.unsqueeze(1)

    @abstractmethod
    def in_record_order(self, values: Tensor) -> Tensor:
        """A view of w or b in the order of a record's numbers, which broadcasts to records.

        It is [R, *shape], or [R, 1, 1, C] for one number a channel.

        Args:
            values: w or b as it is stored, channels first: [R, size].
        """

    @abstractmethod
    def cut(self, x: Tensor) -> Tensor:
        """A view [(R,) B, spots, blocks, width] of ``x``.

        Mean and variance of each block are over spots (positions of an image) and width (channels
        of the block).
        """

    def forward(self, x: Tensor) -> Tensor:
        """The normalised records, in the shape of ``x``."""
        standardised, _ = self._standardised(x)
        return torch.addcmul(self.shift, standardised, self.scale)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input, ``[(R,) B, ...]``.

        In each block of a record, with g = delta w and z the standardised input, it is
        ``(g - mean(g) - z mean(g z)) / sd``: both g's mean and its projection on z are taken out.
        """
        standardised, inverse_sd = self._standardised(x)
        g = self.cut((delta * self.scale).contiguous())
        z = self.cut(standardised)
        mean = g.mean((-3, -1), keepdim=True)
        projection = (g * z).mean((-3, -1), keepdim=True)
        return ((g - mean - z * projection) * inverse_sd).view(x.shape)

    def _standardised(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(standardised input ``(x - mean) / sd`` in the shape of ``x``, 1 / sd of each block).

        The latter is [(R,) B, 1, blocks, 1]; sd is sqrt(variance + eps).
        """
        blocks = self.cut(x.contiguous())
        centred = blocks - blocks.mean((-3, -1), keepdim=True)
        variance = centred.square().mean((-3, -1), keepdim=True)
        inverse_sd = variance.add_(self.eps).rsqrt_()
        return (centred * inverse_sd).view(x.shape), inverse_sd

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Views of ``out`` [R, P] where w and b are, shaped as :meth:`in_record_order` says."""
        weight = self.in_record_order(out[:, self.start : self.split])
        bias = self.in_record_order(out[:, self.split : self.end])
        return weight, bias


class GroupNorm(_Normalise):
    """Normalises over all positions of a group of channels; one w and one b per channel.

    Args:
        theta: All parameters [R, P].
        start: First index of this layer in P.
        shape: (H, W, C).
        groups: Number of groups of channels.
        eps: Added to the variance.
    """

    def __init__(self, theta: Tensor, start: int, shape: Shape, groups: int, eps: float) -> None:
        self.groups = groups
        super().__init__(theta, start, shape, shape[-1], eps)

    def in_record_order(self, values: Tensor) -> Tensor:
        """w or b as [R, 1, 1, C]: one number a channel."""
        return values.view(len(values), 1, 1, -1)

    def cut(self, x: Tensor) -> Tensor:
        """A view of images as [(R,) B, H W, groups, C / groups]."""
        *lead, height, width, channels = x.shape
        return x.view(*lead, height * width, self.groups, channels // self.groups)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """Each record's gradient in w and in b, [(R,) B, C] each."""
        standardised, _ = self._standardised(x)
        return (delta * standardised).sum((-3, -2)), delta.sum((-3, -2))


class LayerNorm(_Normalise):
    """Normalises over all numbers of a record; one w and one b for each number.

    Args:
        theta: All parameters [R, P].
        start: First index of this layer in P.
        shape: (d,), or (H, W, C), whose w and b are stored channels first.
        eps: Added to the variance.
    """

    def __init__(self, theta: Tensor, start: int, shape: Shape, eps: float) -> None:
        self.shape = shape
        super().__init__(theta, start, shape, math.prod(shape), eps)

    def in_record_order(self, values: Tensor) -> Tensor:
        """w or b as [R, *shape], whose channels are the last axis."""
        if len(self.shape) == 1:
            return values
        height, width, channels = self.shape
        return values.view(len(values), channels, height, width).permute(0, 2, 3, 1)

    def cut(self, x: Tensor) -> Tensor:
        """A view of records as [(R,) B, 1, 1, size]: one block."""
        return x.flatten(-len(self.shape)).unsqueeze(-2).unsqueeze(-2)

    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """Each record's gradient in w and in b, [(R,) B, size] each, flattened as (H, W, C)."""
        first = -len(self.shape)  # axis of a record's own numbers
        standardised, _ = self._standardised(x)
        return (delta * standardised).flatten(first), delta.flatten(first)
