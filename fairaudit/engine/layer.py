"""What a layer is: its two passes and, with parameters, its norms and weighted sums.

With one replicate the tensors carry no replicate axis ([B, ...]), which keeps small models clear of
batched-matmul overhead; with several it leads ([R, B, ...]). Images are channels last, [..., H, W,
C], whatever order a module's author sees. Parameters stay in the order of ``module.parameters()``.

A batch is computed in chunks. A chunk's backward pass gives each record's gradient norm, and its
book: the tensors from which, once the clipping rule has given every record a weight, the weighted
sum of gradients is computed. theta [R, P] are all parameters of the R replicates, one row each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Added to norms: more than the norm of any vector of fewer than 10^7 numbers whose squares all
# underflow in float32 and read as 0. A norm that is too small would leave a gradient unclipped.
HIDDEN = 1e-15

Shape = tuple[int, ...]  # of one record's values, channels last: (d,) or (H, W, C)
Book = tuple[Tensor, ...]  # what a layer keeps of a chunk between its norms and its sums


class Layer(ABC):
    """One step of a network. Parameters, if any, are views into the flat ``theta``."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer for input ``x`` [(R,) B, ...]; it overwrites nothing."""

    @abstractmethod
    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input, from input ``x``, output ``y`` and output gradient ``delta``."""


class Elementwise(Layer):
    """A function of each number by itself, whose derivative follows from its output alone.

    Args:
        function: From a tensor to a new one.
        in_place: The same, writing over its argument.
        derivative: PyTorch's backward operator: from output gradient and output to the gradient at
            the input.
        constants: Further arguments of ``derivative``.
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
        """The function of every number, in the shape of ``x``."""
        return self._function(x)

    def forward_(self, x: Tensor) -> Tensor:
        """The same as ``forward``, written over ``x``."""
        return self._in_place(x)

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input: ``delta`` times the derivative, which is computed from ``y``."""
        gradient: Tensor = self._derivative(delta, y, *self._constants)
        return gradient

    def backward_(self, y: Tensor, delta: Tensor) -> Tensor:
        """The same as ``backward``, written over ``delta``; the input is not needed.

        ``grad_input`` is the form of PyTorch's operator that writes into a given tensor.
        """
        gradient: Tensor = self._derivative.grad_input(delta, y, *self._constants, grad_input=delta)
        return gradient


class Parametric(Layer):
    """A layer with parameters: it computes per-record gradient norms and weighted gradient sums."""

    floats_per_record: int  # numbers in one record's input and output gradient, for memory limits

    @abstractmethod
    def book(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> tuple[Tensor, Book]:
        """Each record's gradient norm in this layer, and the book of the chunk.

        Args:
            x: Inputs [(R,) B, ...].
            delta: Output gradients [(R,) B, ...].
            x_norms: sqrt(|x|^2 + 1) of each record [(R,) B]; None: not known.

        Returns:
            (L2 norm of each record's gradient in this layer's parameters [(R,) B], the book, which
            ``write`` takes).
        """

    @abstractmethod
    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Where ``write`` puts this layer's part of a sum ``out`` [R, P]: a view per parameter."""

    @abstractmethod
    def write(self, parts: tuple[Tensor, ...], book: Book, weights: Tensor, *, add: bool) -> None:
        """Write sum_i w_i g_i of a chunk into ``parts``, or add it to what is there.

        Args:
            parts: As :meth:`parts` gives them.
            book: Of the chunk, as :meth:`book` gives it.
            weights: Of its records, [(R,) B, 1].
            add: Whether to add; else what is there is overwritten.
        """


class Materialised(Parametric):
    """A layer whose book is every record's gradient, written out, which is cheap for its shapes."""

    @abstractmethod
    def gradients(self, x: Tensor, delta: Tensor) -> Book:
        """Each record's gradient: a tensor [(R,) B, size] per parameter, ordered as ``parts``."""

    def book(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> tuple[Tensor, Book]:
        """Each record's gradient norm [(R,) B], and as the book the gradients themselves."""
        parts = self.gradients(x, delta)
        norms: Tensor = torch.linalg.vector_norm(parts[0], dim=-1)
        for part in parts[1:]:
            norms = torch.hypot(norms, torch.linalg.vector_norm(part, dim=-1))
        # Rounded up by what squares below float32's range could hide.
        return norms.add_(HIDDEN), parts

    def write(self, parts: tuple[Tensor, ...], book: Book, weights: Tensor, *, add: bool) -> None:
        """Write, or add, the weighted sum of the book's gradients: one product per parameter."""
        row = weights.mT  # [(R,) 1, B], for the product with gradients [(R,) B, size]
        product = torch.mm if len(parts[0]) == 1 else torch.bmm  # by the number of replicates
        for part, gradients in zip(parts, book, strict=True):
            total = product(row, gradients).view(part.shape)
            if add:
                part.add_(total)
            else:
                part.copy_(total)


def as_batch(images: Tensor) -> Tensor:
    """Replicates and records as one axis, for PyTorch's operations on images, which take only one.

    [B, H, W, C] stays as it is; [R, B, H, W, C] becomes [R * B, H, W, C].
    """
    if images.dim() == 5:
        return images.flatten(0, 1)
    return images


def as_before(images: Tensor, like: Tensor) -> Tensor:
    """Undo :func:`as_batch`: give ``images`` the leading axes that the tensor ``like`` has.

    With ``like`` [B, H, W, C] they stay [B, ...]; with [R, B, H, W, C], [R * B, ...] becomes
    [R, B, ...].
    """
    if like.dim() == 5:
        return images.view(*like.shape[:2], *images.shape[1:])
    return images
