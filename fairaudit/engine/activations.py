"""Activations: elementwise, with derivatives that follow from their outputs."""

import torch
from torch import Tensor

from fairaudit.engine.layer import Elementwise


class Tanh(Elementwise):
    """Elementwise tanh."""

    def forward(self, x: Tensor) -> Tensor:
        """tanh(x)."""
        return torch.tanh(x)

    def forward_(self, x: Tensor) -> Tensor:
        """tanh(x), over x."""
        return x.tanh_()

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient times 1 - y^2."""
        gradient: Tensor = torch.ops.aten.tanh_backward(delta, y)
        return gradient

    def backward_(self, y: Tensor, delta: Tensor) -> Tensor:
        """The same, over delta."""
        gradient: Tensor = torch.ops.aten.tanh_backward.grad_input(delta, y, grad_input=delta)
        return gradient


class Relu(Elementwise):
    """Elementwise max(x, 0); the derivative at 0 is 0."""

    def forward(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return x.clamp_min(0.0)

    def forward_(self, x: Tensor) -> Tensor:
        """max(x, 0), over x."""
        return x.clamp_min_(0.0)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient where the output is positive, else 0."""
        gradient: Tensor = torch.ops.aten.threshold_backward(delta, y, 0)
        return gradient

    def backward_(self, y: Tensor, delta: Tensor) -> Tensor:
        """The same, over delta."""
        gradient: Tensor = torch.ops.aten.threshold_backward.grad_input(delta, y, 0, grad_input=delta)
        return gradient


class Sigmoid(Elementwise):
    """Elementwise logistic function."""

    def forward(self, x: Tensor) -> Tensor:
        """1 / (1 + exp(-x))."""
        return torch.sigmoid(x)

    def forward_(self, x: Tensor) -> Tensor:
        """1 / (1 + exp(-x)), over x."""
        return x.sigmoid_()

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient times y (1 - y)."""
        gradient: Tensor = torch.ops.aten.sigmoid_backward(delta, y)
        return gradient

    def backward_(self, y: Tensor, delta: Tensor) -> Tensor:
        """The same, over delta."""
        gradient: Tensor = torch.ops.aten.sigmoid_backward.grad_input(delta, y, grad_input=delta)
        return gradient
