"""What a layer is: its two passes and, with parameters, its norms and weighted sums.

With one replicate the tensors carry no replicate axis ([B, ...]), which keeps small models clear of
batched-matmul overhead; with several it leads ([R, B, ...]). Images are channels last, [..., H, W,
C], whatever order a module's author sees. Parameters stay in the order of ``module.parameters()``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# More than the norm of a vector of fewer than 10^7 numbers whose squares all underflow in float32,
# numbers below its normal range being taken for zero.
HIDDEN = 1e-15

Shape = tuple[int, ...]  # of one record, channels last: (d,) or (H, W, C)
Book = tuple[Tensor, ...]  # what a layer keeps of a chunk between its norms and its sums


class Layer(ABC):
    """One step of a network. Parameters, if any, are views into the flat ``theta``."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer for input ``x``; may overwrite nothing."""

    @abstractmethod
    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input, from input ``x``, output ``y`` and output gradient ``delta``."""


class Elementwise(Layer):
    """A function of each number by itself, whose derivative follows from its output alone.

    Args:
        function: Of a tensor.
        in_place: The same, over its argument.
        derivative: ATen's backward operator: of the output gradient and the output.
        constants: Its further arguments.
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        in_place: Callable[[Tensor], Tensor],
        derivative: Any,  # noqa: ANN401 - operators have no types
        *constants: float,
    ) -> None:
        self._function = function
        self._in_place = in_place
        self._derivative = derivative
        self._constants = constants

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of ``x``."""
        return self._function(x)

    def forward_(self, x: Tensor) -> Tensor:
        """The forward pass into the memory of ``x``."""
        return self._in_place(x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """The gradient times the derivative."""
        gradient: Tensor = self._derivative(delta, y, *self._constants)
        return gradient

    def backward_(self, y: Tensor, delta: Tensor) -> Tensor:
        """The backward pass into the memory of ``delta``, all of the shape ``[(R,) B, ...]``."""
        gradient: Tensor = self._derivative.grad_input(
            delta,
            y,
            *self._constants,
            grad_input=delta,
        )
        return gradient


class Parametric(Layer):
    """A layer with parameters, whose every record's gradient has a norm and a weight of its own."""

    floats_per_record: int  # held for one record between the passes: input and output gradient

    @abstractmethod
    def book(
        self,
        x: Tensor,
        delta: Tensor,
        x_norms: Tensor | None = None,
    ) -> tuple[Tensor, Book]:
        """What the weighted sums need of a chunk, and its norms.

        Args:
            x: Inputs.
            delta: Output gradients.
            x_norms: sqrt(|x|^2 + 1) of each record, where it is known.

        Returns:
            (L2 norm of each record's gradient in this layer's parameters [(R,) B], the book).
        """

    @abstractmethod
    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Where this layer's part of a sum [R, P] is written: a view for each parameter."""

    @abstractmethod
    def write(
        self,
        parts: tuple[Tensor, ...],
        book: Book,
        weights: Tensor,
        *,
        add: bool,
    ) -> None:
        """Write, or add, sum_i w_i g_i from a chunk's book and its weights [(R,) B, 1]."""


class Materialised(Parametric):
    """A layer whose records' gradients are written out: cheap for its shapes."""

    @abstractmethod
    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """The gradients in each parameter, [(R,) B, size] each, in the order of ``parts``."""

    def book(
        self,
        x: Tensor,
        delta: Tensor,
        x_norms: Tensor | None = None,
    ) -> tuple[Tensor, Book]:
        """The norms ``[(R,) B]`` of what is summed later, to the bit, and the written gradients."""
        parts = self.gradients(x, delta)
        norms: Tensor = torch.linalg.vector_norm(parts[0], dim=-1)
        for part in parts[1:]:
            norms = torch.hypot(norms, torch.linalg.vector_norm(part, dim=-1))
        # A norm that is too small is a gradient not clipped, and squares below float32's range read
        # as zero.
        return norms.add_(HIDDEN), parts

    def write(
        self,
        parts: tuple[Tensor, ...],
        book: Book,
        weights: Tensor,
        *,
        add: bool,
    ) -> None:
        """Weights ``[(R,) B, 1]`` times the written gradients, into ``parts``.

        ``add``: to what is there; else it is overwritten.
        """
        row = weights.mT
        product = torch.mm if len(parts[0]) == 1 else torch.bmm
        for part, gradients in zip(parts, book, strict=True):
            (part.add_ if add else part.copy_)(product(row, gradients).view(part.shape))


def as_batch(images: Tensor) -> Tensor:
    """[(R,) B, H, W, C] -> [(R) B, H, W, C]."""
    if images.dim() == 5:
        return images.flatten(0, 1)
    return images


def as_before(images: Tensor, like: Tensor) -> Tensor:
    """[(R) B, ...] -> [(R,) B, ...], with the leading axes of ``like`` [(R,) B, H, W, C]."""
    if like.dim() == 5:
        return images.view(*like.shape[:2], *images.shape[1:])
    return images
