"""Layers without parameters that change an image's shape: pooling, flattening, the order of axes."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from fairaudit.engine.layer import Layer, Shape, as_batch, as_before


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


class _Pool(Layer):
    """Pooling of each record's channels by itself, through PyTorch's kernels."""

    def forward(self, x: Tensor) -> Tensor:
        """[(R,) B, H, W, C] -> [(R,) B, Ho, Wo, C]."""
        return as_before(_last(self._pool(_first(x))), x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """To the inputs that the outputs came from."""
        return as_before(_last(self._spread(_first(delta), _first(x))), x)

    @abstractmethod
    def _pool(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C, Ho, Wo]."""

    @abstractmethod
    def _spread(self, delta: Tensor, x: Tensor) -> Tensor:
        """[B, C, Ho, Wo] -> [B, C, H, W]."""


class MaxPool(_Pool):
    """The largest of each window; of equals the first takes the gradient."""

    def __init__(self, module: nn.MaxPool2d) -> None:
        stride = module.kernel_size if module.stride is None else module.stride
        sizes = (module.kernel_size, stride, module.padding, module.dilation)
        self.options = (*map(_pair, sizes), module.ceil_mode)

    def _pool(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten.max_pool2d_with_indices(x, *self.options)[0]
        return found

    def _spread(self, delta: Tensor, x: Tensor) -> Tensor:
        where = torch.ops.aten.max_pool2d_with_indices(x, *self.options)[1]
        found: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(delta, x, *self.options, where)
        return found


class AvgPool(_Pool):
    """The mean of each window."""

    def __init__(self, module: nn.AvgPool2d) -> None:
        sizes = (module.kernel_size, module.stride, module.padding)
        self.options = (
            *map(_pair, sizes), module.ceil_mode, module.count_include_pad, module.divisor_override,
        )  # fmt: skip

    def _pool(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten.avg_pool2d(x, *self.options)
        return found

    def _spread(self, delta: Tensor, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten.avg_pool2d_backward(delta, x, *self.options)
        return found


class AdaptiveAvgPool(_Pool):
    """Means of windows that cut an image into so many parts.

    Args:
        out: (Ho, Wo).
    """

    def __init__(self, out: tuple[int, int]) -> None:
        self.out = out

    def _pool(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten._adaptive_avg_pool2d(x, self.out)
        return found

    def _spread(self, delta: Tensor, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten._adaptive_avg_pool2d_backward(delta, x)
        return found


def _first(x: Tensor) -> Tensor:
    return as_batch(x).permute(0, 3, 1, 2)


def _last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


def _pair(value: int | tuple[int, ...]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
