"""The table of layers: how each turns activations and output gradients into norms and weighted sums.

With one replicate the tensors carry no replicate axis ([B, ...]), which keeps small models clear of
batched-matmul overhead; with several it leads ([R, B, ...]). Kernels are written for both.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from fairaudit.errors import TrainingError

_ONE = torch.ones(())
_HIDDEN = 1e-18  # more than the norm of a vector whose squares all underflow in float32


class Layer(ABC):
    """One step of a network. Parameters, if any, are views into the flat ``theta``."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer for input ``x``; may overwrite nothing."""

    @abstractmethod
    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input, from input ``x``, output ``y`` and output gradient ``delta``."""


class Parametric(Layer):
    """A layer with parameters: per-sample norms and weighted sums without per-sample gradients."""

    floats_per_record: int  # held for one record between the passes: input and output gradient

    @abstractmethod
    def norms(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> Tensor:
        """L2 norm of each record's gradient in this layer's parameters, [(R,) B].

        Args:
            x: Inputs. delta: Output gradients.
            x_norms: sqrt(|x|^2 + 1) of each record, where it is known.
        """

    @abstractmethod
    def bind_sum(self, out: Tensor) -> "SumTarget":
        """Where this layer's part of a gradient sum [R, P] is written."""


class SumTarget(ABC):
    """A layer's part of one row of gradient sums."""

    @abstractmethod
    def write(self, x: Tensor, weighted_delta: Tensor, *, add: bool) -> None:
        """Write, or add, sum_i w_i g_i from the layer's inputs and w_i * delta_i."""


class Linear(Parametric):
    """``y = x W^T + b``.

    A record's gradient is the outer product of delta and (x, 1), so its squared norm is
    ``|delta|^2 (|x|^2 + 1)`` (ghost norm) and the weighted sum is one matmul (book-keeping).

    Args:
        theta: All parameters, ``[R, P]``; updated in place by the optimizer.
        start: First index of this layer in P.
        shape: (outputs, inputs). has_bias: Whether b exists.

    Source: Li et al. 2022 (ghost norm), Bu et al. 2023 (book-keeping).
    """

    def __init__(self, theta: Tensor, start: int, shape: tuple[int, int], has_bias: bool) -> None:
        outputs, inputs = shape
        self.floats_per_record = outputs + inputs
        self.shape = shape
        self.split, self.end = start + outputs * inputs, start + outputs * inputs + outputs * has_bias
        self.start = start
        replicates = len(theta)
        weight = theta[:, start : self.split].view(replicates, outputs, inputs)
        bias = theta[:, self.split : self.end] if has_bias else theta.new_zeros(replicates, outputs)
        self.has_bias = has_bias
        self.single = replicates == 1
        # Views: in-place updates of theta are seen here without re-binding.
        self.weight = weight[0] if self.single else weight
        self.bias = bias[0] if self.single else bias.unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """Affine map, [(R,) B, inputs] -> [(R,) B, outputs]."""
        if self.single:
            return torch.addmm(self.bias, x, self.weight.t())
        return torch.baddbmm(self.bias, x, self.weight.transpose(1, 2))

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """``delta W``."""
        return torch.matmul(delta, self.weight)

    def norms(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> Tensor:
        """Ghost norm: |delta| sqrt(|x|^2 + 1).

        A norm that is too small is a gradient not clipped. Squares below float32's range read as
        zero, so |delta| is rounded up by what they could hide.
        """
        if x_norms is None or not self.has_bias:
            x_norms = torch.linalg.vector_norm(x, dim=-1)
            if self.has_bias:
                x_norms = torch.hypot(x_norms, _ONE)
        outputs: Tensor = torch.linalg.vector_norm(delta, dim=-1)
        return outputs.add_(_HIDDEN).mul_(x_norms)

    def bind_sum(self, out: Tensor) -> "LinearSum":
        """Views of the weight's and the bias's part."""
        weight = out[:, self.start : self.split].view(-1, *self.shape)
        bias = out[:, self.split : self.end]
        return LinearSum(
            weight[0] if self.single else weight,
            (bias[0] if self.single else bias) if self.has_bias else None,
        )


class LinearSum(SumTarget):
    """One matmul per replicate, (w * delta)^T x, and the column sums for the bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias
        self.batched = weight.dim() == 3

    def write(self, x: Tensor, weighted_delta: Tensor, *, add: bool) -> None:
        """See the base class."""
        left = weighted_delta.mT
        if add:
            (self.weight.baddbmm_ if self.batched else self.weight.addmm_)(left, x)
            if self.bias is not None:
                self.bias.add_(weighted_delta.sum(-2))
            return
        (torch.bmm if self.batched else torch.mm)(left, x, out=self.weight)
        if self.bias is not None:
            torch.sum(weighted_delta, -2, out=self.bias)


class Tanh(Layer):
    """Elementwise tanh."""

    def forward(self, x: Tensor) -> Tensor:
        """tanh(x)."""
        return torch.tanh(x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient times 1 - y^2."""
        gradient: Tensor = torch.ops.aten.tanh_backward(delta, y)
        return gradient


class Relu(Layer):
    """Elementwise max(x, 0); the derivative at 0 is 0."""

    def forward(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return x.clamp_min(0.0)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient where the output is positive, else 0."""
        gradient: Tensor = torch.ops.aten.threshold_backward(delta, y, 0)
        return gradient


class Sigmoid(Layer):
    """Elementwise logistic function."""

    def forward(self, x: Tensor) -> Tensor:
        """1 / (1 + exp(-x))."""
        return torch.sigmoid(x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient times y (1 - y)."""
        gradient: Tensor = torch.ops.aten.sigmoid_backward(delta, y)
        return gradient


ACTIVATIONS: dict[type[nn.Module], type[Layer]] = {nn.Tanh: Tanh, nn.ReLU: Relu, nn.Sigmoid: Sigmoid}


def bind(modules: list[nn.Module], theta: Tensor) -> list[Layer]:
    """The layers of a chain of modules, over the flat parameters ``theta`` [R, P].

    Raises:
        TrainingError: A module is not in the table.
    """
    layers: list[Layer] = []
    start = 0
    for module in modules:
        if type(module) is nn.Linear:  # a subclass may compute something else
            shape = (module.out_features, module.in_features)
            layers.append(Linear(theta, start, shape, module.bias is not None))
            start += sum(p.numel() for p in module.parameters())
        elif type(module) in ACTIVATIONS:
            layers.append(ACTIVATIONS[type(module)]())
        else:
            raise TrainingError(
                f"layer {type(module).__name__} is not supported",
                hint="use Linear, Tanh, ReLU and Sigmoid layers",
            )
    return layers
