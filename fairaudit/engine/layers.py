"""The table of layers: which modules the engine computes itself, and how.

A layer in the table needs no autograd, and no per-sample gradient that is not worth writing down.
A model with any other layer is run record by record (``engine/isolation.py``).

To bind a module is to make the engine's layer of it, whose parameters are views into the flat theta
[R, P] of R replicates. Images are (H, W, C) in the engine, (C, H, W) in PyTorch's modules.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fairaudit.engine.conv import Conv, Window
from fairaudit.engine.layer import Elementwise, Layer, Shape
from fairaudit.engine.linear import ImageLinear, Linear
from fairaudit.engine.small_layers import (
    ChannelsFirst,
    Flatten,
    GroupNorm,
    LayerNorm,
    Pooling,
    Relu,
    Sigmoid,
    Tanh,
    Unchanged,
)
from fairaudit.errors import TrainingError

ACTIVATIONS: dict[type[nn.Module], Callable[[], Elementwise]] = {
    nn.Tanh: Tanh,
    nn.ReLU: Relu,
    nn.Sigmoid: Sigmoid,
}


def unsupported(module: nn.Module, detail: str = "") -> TrainingError:
    """The error that says that the table lacks this layer, or this way of using it (``detail``)."""
    return TrainingError(
        f"layer {type(module).__name__}{' ' + detail if detail else ''} is not in the layer table",
        hint="use Linear, Conv2d, GroupNorm, LayerNorm, pooling, Flatten, Tanh, ReLU and Sigmoid "
        "layers",
    )


def _pair(module: nn.Module, value: object) -> tuple[int, int]:
    """A layer's option, its stride for instance, as (height, width); one number is taken for both.

    Raises:
        TrainingError: It is neither a whole number nor two of them.
    """
    match value:
        case int():
            return value, value
        case (int() as down, int() as across):
            return down, across
    raise unsupported(module, f"with {value!r} where two numbers are expected")


def _check_parameters(module: nn.Module, weight: Shape, bias: Shape) -> bool:
    """Check that a layer's parameters have the shapes that its sizes say; tell if it has a bias.

    Args:
        module: The layer.
        weight, bias: The shapes; that of the bias counts only where the layer has one.

    Raises:
        TrainingError: The parameters have other shapes, or one is computed and no parameter.
    """
    shapes = {name: tuple(value.shape) for name, value in module.named_parameters(recurse=False)}
    wanted = {"weight": weight}
    if module.bias is not None:
        wanted["bias"] = bias
    if shapes != wanted:
        raise unsupported(module, "with parameters of other shapes than its sizes say")
    return "bias" in wanted


class _Chain:
    """Binds the modules of a model one after the other, each given the shape of what precedes it.

    ``start`` is the index of the next module's first parameter in P.

    Args:
        theta: Parameters [R, P].
    """

    def __init__(self, theta: Tensor) -> None:
        self.theta = theta
        self.start = 0
        self.layers: list[Layer] = []
        # Of a record where the next module begins; None: a row of the width that the module takes.
        self.shape: Shape | None = None
        # (H, W, C) of the image that was flattened to the present row; None: it was no image.
        self.flattened: Shape | None = None

    def add(self, layer: Layer, shape: Shape | None, flattened: Shape | None = None) -> None:
        """Append a layer whose output has that shape; ``flattened``: the image that a row was."""
        self.layers.append(layer)
        self.shape = shape
        self.flattened = flattened

    def image(self, module: nn.Module) -> tuple[int, int, int]:
        """The shape (H, W, C) of the images that a module takes in.

        Raises:
            TrainingError: What comes in is no image.
        """
        if self.shape is None or len(self.shape) != 3:
            raise unsupported(module, "without an image as its input")
        height, width, channels = self.shape
        return height, width, channels

    def linear(self, module: nn.Linear) -> None:
        """Bind a linear layer: rows of numbers [.., inputs] to rows [.., outputs]."""
        outputs = module.out_features
        inputs = module.in_features
        has_bias = _check_parameters(module, (outputs, inputs), (outputs,))
        if self.shape is not None and len(self.shape) != 1:
            raise unsupported(module, "on what is not one row of numbers")
        # A flattened image's weight has to be rearranged, unless there is one channel or one
        # position, where (C, H, W) and (H, W, C) are the same order.
        image = self.flattened
        if image is not None and image[2] > 1 and image[0] * image[1] > 1:
            self.add(ImageLinear(self.theta, self.start, image, outputs, has_bias), (outputs,))
        else:
            self.add(Linear(self.theta, self.start, (outputs, inputs), has_bias), (outputs,))

    def conv(self, module: nn.Conv2d) -> None:
        """Bind a convolution: images (H, W, C) to images."""
        image = self.image(module)
        if module.groups != 1 or module.padding_mode != "zeros":
            raise unsupported(
                module, f"with groups={module.groups}, padding_mode={module.padding_mode!r}"
            )
        kernel, stride, dilation = (
            _pair(module, size) for size in (module.kernel_size, module.stride, module.dilation)
        )
        padding = (0, 0) if module.padding == "valid" else module.padding
        if padding == "same":
            # Numbers of padding that keep an image's size, over both sides together.
            both_sides = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            if any(number % 2 for number in both_sides):
                raise unsupported(module, "with padding='same' and an even kernel")
            padding = (both_sides[0] // 2, both_sides[1] // 2)
        window = Window(kernel, stride, _pair(module, padding), dilation)
        outputs = module.out_channels
        size = (outputs, module.in_channels, *kernel)
        has_bias = _check_parameters(module, size, (outputs,))
        layer = Conv(self.theta, self.start, image, outputs, window, has_bias)
        self.add(layer, layer.out)

    def group_norm(self, module: nn.GroupNorm) -> None:
        """Bind a normalisation of images over groups of channels."""
        image = self.image(module)
        if not module.affine or module.bias is None:
            raise unsupported(module, "without a weight and a bias")
        _check_parameters(module, (module.num_channels,), (module.num_channels,))
        self.add(GroupNorm(self.theta, self.start, image, module.num_groups, module.eps), image)

    def layer_norm(self, module: nn.LayerNorm) -> None:
        """Bind a normalisation over all numbers of a record, a row or an image.

        One over the last axes alone is refused, and so is one of a flattened image of several
        channels, whose numbers the engine keeps in another order.
        """
        # (H, W, C) -> (C, H, W), as a module's normalized_shape has it; a row (d,) stays (d,).
        channels_first = self.shape if self.shape is None else (*self.shape[2:], *self.shape[:2])
        if not module.elementwise_affine or module.bias is None:
            raise unsupported(module, "without a weight and a bias")
        if self.flattened is not None and self.flattened[2] > 1:
            raise unsupported(module, "on a flattened image")
        if channels_first is not None and tuple(module.normalized_shape) != channels_first:
            raise unsupported(module, "over a part of its input")
        if channels_first is None and len(module.normalized_shape) != 1:
            raise unsupported(module, "without an image as its input")
        _check_parameters(module, tuple(module.normalized_shape), tuple(module.normalized_shape))
        shape = tuple(module.normalized_shape) if self.shape is None else self.shape
        self.add(LayerNorm(self.theta, self.start, shape, module.eps), shape)

    def flatten(self, module: nn.Flatten) -> None:
        """Bind a flattening of all axes of an image to one row of numbers."""
        height, width, channels = self.image(module)
        if (module.start_dim, module.end_dim) not in ((1, -1), (1, 3), (-3, -1)):
            raise unsupported(module, f"from axis {module.start_dim} to {module.end_dim}")
        self.add(Flatten(), (height * width * channels,), (height, width, channels))

    def pool(self, module: nn.MaxPool2d | nn.AvgPool2d | nn.AdaptiveAvgPool2d) -> None:
        """Bind a pooling: each window of an image becomes one value per channel."""
        image = self.image(module)
        if isinstance(module, nn.MaxPool2d) and module.return_indices:
            raise unsupported(module, "with return_indices=True")
        layer = Pooling(module)
        # One image without numbers is pooled, for the shape of the result alone.
        pooled = layer.forward(self.theta.new_empty(1, *image, device="meta"))
        self.add(layer, tuple(pooled.shape[1:]))


# How a module of each type is bound: called with the chain and the module.
_TABLE: dict[type[nn.Module], Callable[..., None]] = {
    nn.Linear: _Chain.linear,
    nn.Conv2d: _Chain.conv,
    nn.GroupNorm: _Chain.group_norm,
    nn.LayerNorm: _Chain.layer_norm,
    nn.Flatten: _Chain.flatten,
    nn.MaxPool2d: _Chain.pool,
    nn.AvgPool2d: _Chain.pool,
    nn.AdaptiveAvgPool2d: _Chain.pool,
    ChannelsFirst: lambda chain, module: chain.add(Unchanged(), module.shape),
}


def is_plain(module: nn.Module) -> bool:
    """Whether a module computes what its type says.

    That is: it has no hooks, its instance's ``forward`` is not replaced, and it is no TorchScript,
    which has another ``forward`` than its Python class.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return False
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return "forward" not in vars(module) and not any(getattr(module, name) for name in hooks)


def bind(modules: Sequence[nn.Module], theta: Tensor) -> list[Layer]:
    """The engine's layers for a chain of modules, with the flat parameters ``theta`` [R, P].

    Raises:
        TrainingError: A module is not in the table, or has hooks. A subclass of a module of the
            table is not in it, for it may compute something else.
    """
    chain = _Chain(theta)
    for module in modules:
        kind = type(module)
        if not is_plain(module):
            raise unsupported(module, "with hooks")
        if kind in ACTIVATIONS:
            chain.add(ACTIVATIONS[kind](), chain.shape, chain.flattened)
        elif kind in _TABLE:
            _TABLE[kind](chain, module)
        else:
            raise unsupported(module)
        chain.start += sum(p.numel() for p in module.parameters())
    return chain.layers
