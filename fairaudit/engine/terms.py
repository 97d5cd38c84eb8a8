"""Layers of known types inside a user's own module: norms and sums without copies of parameters.

A record's gradient in the parameters of such a layer follows from what the layer was given, x, and
from the gradient at what it put out, delta. That gradient is one in a *tap*: a zero that is added
to the output. A *term* is what a batch has of one parameter: it gives each record's gradient norm,
and later the weighted sum of the gradients. Both are made of the same tensors, so that a record
adds no more to a sum than its norm says, whatever the module does with the layer. Whether that is
the gradient of its loss is another question (``isolation.py``).

Shapes: n records, T positions of a record (all axes before those that a layer reads), I inputs and
O outputs of a layer, G groups of channels.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairaudit.engine.layer import HIDDEN, Shape
from fairaudit.engine.layers import is_plain

# Where positions nearly cancel, a squared norm that is summed over pairs of them is off by the
# rounding of terms that are much larger, and so is a sum over records. Squared norms are raised by
# this share of the square of what the positions' norms add up to.
ROUNDING = 16 * 2**-24
PIECE_BYTES = 2**21  # of windows laid out at once: about a core's second-level cache
PIECE_BYTES_ELSEWHERE = 2**28  # on a GPU, which wants few large kernels


class Term(ABC):
    """What n records have of one parameter.

    Args:
        norms: Upper bounds of their gradients' L2 norms, [n], but for the last bits of float32,
            which NORM_GUARD covers, and for what squares of a gradient below 1e-15 hide.
    """

    def __init__(self, norms: Tensor) -> None:
        self.norms = norms

    @abstractmethod
    def add_to(self, target: Tensor, weights: Tensor) -> None:
        """Add ``sum_i w_i g_i``, with weights [n], to ``target``, of the parameter's shape."""

    @abstractmethod
    def without(self, usable: Tensor) -> "Term":
        """The same term with nothing of the records that are not ``usable``, [n] booleans.

        A weight of 0 is not enough: 0 times NaN is NaN.
        """


class Gradients(Term):
    """The gradients themselves.

    Args:
        rows: [n, ...].
        norms: Upper bounds of their norms, where they are known.
    """

    def __init__(self, rows: Tensor, norms: Tensor | None = None) -> None:
        if norms is None:
            # A last axis of length 1 is appended: ``rows`` [n] of a parameter that is a single
            # number would leave no axis to take the norm over.
            axes = tuple(range(1, rows.dim() + 1))
            norms = torch.linalg.vector_norm(rows.unsqueeze(-1), dim=axes)
        super().__init__(norms)
        self.rows = rows

    def add_to(self, target: Tensor, weights: Tensor) -> None:
        """One product of weights and rows; rows [n, P] of a flat parameter need no reordering."""
        if self.rows.dim() == 2:
            target.addmv_(self.rows.t(), weights)
        else:
            target.add_(weighted_sum(self.rows, weights))

    def without(self, usable: Tensor) -> "Gradients":
        """The rows of the others are 0."""
        return Gradients(_zeroed(self.rows, usable))


class Products(Term):
    """Gradients ``sum_t delta_t x_t^T``, [O, I], kept as their factors x and delta.

    Their norms are those of ghost clipping, by the products of all pairs of positions; the weighted
    sum is one product.

    Args:
        x: Inputs [n, T, I] of n records at T positions.
        delta: Output gradients [n, T, O].
        norms: Upper bounds of their norms, where they are known.

    Source: Li et al. 2022 (ghost norm), Bu et al. 2023 (book-keeping).
    """

    def __init__(self, x: Tensor, delta: Tensor, norms: Tensor | None = None) -> None:
        super().__init__(norms_of_products(x, delta) if norms is None else norms)
        self.x = x
        self.delta = delta

    def add_to(self, target: Tensor, weights: Tensor) -> None:
        """The product of inputs and weighted output gradients over all positions."""
        weighted = self.delta * weights.view(-1, 1, 1)
        target.addmm_(weighted.flatten(0, 1).mT, self.x.flatten(0, 1))

    def without(self, usable: Tensor) -> "Products":
        """The inputs and output gradients of the others are 0."""
        return Products(_zeroed(self.x, usable), _zeroed(self.delta, usable))


class Convolved(Term):
    """Gradients of a convolution's weight, kept as their factors x and delta.

    Windows of the image are laid out as rows for the norms alone, which are then those of
    ``Products``.

    Args:
        layer: The convolution.
        x: Padded images [n, N, C, ...]; a record may have N of them.
        delta: Output gradients [n, N, O, ...].
    """

    def __init__(self, layer: "TappedConv", x: Tensor, delta: Tensor) -> None:
        super().__init__(layer.norms(x, delta))
        self.layer = layer
        self.x = x
        self.delta = delta

    def add_to(self, target: Tensor, weights: Tensor) -> None:
        """PyTorch's backward pass of the convolution, for weighted output gradients."""
        weighted = self.delta * weights.view(-1, *[1] * (self.delta.dim() - 1))
        layer = self.layer
        (_, gradient, _) = torch.ops.aten.convolution_backward(
            weighted.flatten(0, 1),  # the images of all records as one axis
            self.x.flatten(0, 1),
            target,  # stands for the weight, of which only the shape is read
            None,  # no bias
            layer.stride,
            [0] * len(layer.stride),  # padding: ``x`` has it already
            layer.dilation,
            False,  # not transposed
            [0] * len(layer.stride),  # output padding, of transposed ones only
            layer.groups,
            [False, True, False],  # the weight's gradient alone, not the input's or the bias's
        )
        target.add_(gradient)

    def without(self, usable: Tensor) -> "Convolved":
        """The images and output gradients of the others are 0."""
        return Convolved(self.layer, _zeroed(self.x, usable), _zeroed(self.delta, usable))


class Lookups(Term):
    """Gradients of an embedding's table [V, O], in the rows of it that a record reads.

    Only those are kept: u gradients, each of one row for one record.

    Args:
        records, places: The record and the table's row of each, [u]; no pair twice, so that a
            record's squared norms add up.
        rows: The gradients, [u, O].
        count: n, the number of records; one that reads no row has norm 0.
    """

    def __init__(self, records: Tensor, places: Tensor, rows: Tensor, count: int) -> None:
        squares = torch.linalg.vector_norm(rows, dim=-1).square_()
        sums = squares.new_zeros(count).index_put_((records,), squares, accumulate=True)
        super().__init__(sums.sqrt_())
        self.records = records
        self.places = places
        self.rows = rows

    def add_to(self, target: Tensor, weights: Tensor) -> None:
        """Add each gradient, times its record's weight, to its row of the table."""
        weighted = self.rows * weights[self.records].unsqueeze(-1)
        target.index_put_((self.places,), weighted, accumulate=True)

    def without(self, usable: Tensor) -> "Lookups":
        """The gradients of the others are 0."""
        rows = _zeroed(self.rows, usable[self.records])
        return Lookups(self.records, self.places, rows, len(usable))


def _zeroed(rows: Tensor, usable: Tensor) -> Tensor:
    """The rows [n, ...] of records that are usable, 0 for the others."""
    return rows.where(usable.view(-1, *[1] * (rows.dim() - 1)), 0.0)


def weighted_sum(rows: Tensor, weights: Tensor) -> Tensor:
    """``sum_i w_i rows_i`` [...] of rows [n, ...] and weights [n], without copying the rows.

    A matrix product needs rows that are flat in memory, and would copy those that are transposed,
    as most gradients of weights are. So the axes are taken in the order in which they lie in
    memory, the longest stride first, and put back after the product.
    """
    axes = sorted(range(1, rows.dim()), key=rows.stride, reverse=True)
    ordered = rows.permute(0, *axes)
    matrix = ordered.reshape(len(rows), math.prod(ordered.shape[1:]))
    total = torch.mv(matrix.t(), weights).view(ordered.shape[1:])
    inverse = sorted(range(len(axes)), key=axes.__getitem__)  # the permutation that undoes ``axes``
    return total.permute(inverse)


def norms_of_products(x: Tensor, delta: Tensor) -> Tensor:
    """Upper bounds of the norms of ``sum_t delta_t x_t^T``, computed without these matrices.

    ``|sum_t delta_t x_t^T|^2 = sum_s sum_t (x_s . x_t) (delta_s . delta_t)`` over all pairs of
    positions (ghost norm). The square is raised by ROUNDING times the square of ``sum_t |x_t|
    |delta_t|``, the largest that it can be, and the norm by what squares below float32's range
    could hide.

    Args:
        x: Inputs [..., T, I] at T positions.
        delta: Output gradients [..., T, O].

    Returns:
        The bounds, [...].

    Source: Li et al. 2022.
    """
    inputs: Tensor = torch.linalg.vector_norm(x, dim=-1)
    outputs: Tensor = torch.linalg.vector_norm(delta, dim=-1)
    if x.shape[-2] == 1:  # of one position the norm is |x| |delta|: nothing can cancel
        return (outputs.add_(HIDDEN) * inputs.add_(HIDDEN)).squeeze(-1)
    # Clamped, for rounding may leave a sum that should be 0 below it.
    squares = ((x @ x.mT) * (delta @ delta.mT)).sum((-2, -1)).clamp_(min=0.0)
    largest = (inputs * outputs).sum(-1)
    # Each length may be too small by HIDDEN, and so the products of lengths by HIDDEN times the two
    # sums; the 1 is for products whose own squares vanish.
    hidden = (inputs.sum(-1) + outputs.sum(-1) + 1.0) * HIDDEN
    return squares.add_(largest.square_(), alpha=ROUNDING).sqrt_().add_(hidden)


def is_written_out(positions: int, inputs: int, outputs: int) -> bool:
    """Whether a layer's gradient [O, I] is written out for each record, or kept as its factors.

    The gradient is written out where it takes at most twice the memory of the factors x [T, I] and
    delta [T, O]: to write it out then costs what the sum over the batch would cost, and replaces
    that. With one position it is kept as factors, for its norm follows from two lengths.

    Args:
        positions: T.
        inputs, outputs: I and O.
    """
    return positions > 1 and inputs * outputs <= 2 * positions * (inputs + outputs)


class TappedLayer(ABC):
    """A layer of known type with parameters of its own: what its terms are made of.

    In its methods x is what the layer was given, y what it put out, delta the gradient at y.

    Args:
        layer: The user's layer, read by subclasses for its options, not for its parameters.
        trained: Which of ``weight`` and ``bias`` are trained, and have terms.
    """

    def __init__(self, layer: nn.Module, trained: tuple[str, ...]) -> None:
        self.trained = trained

    @abstractmethod
    def reads(self, x: Tensor) -> bool:
        """Whether the layer's terms can be made for this input [...] of one record."""

    def spread(self, bias: Tensor, shape: Shape) -> Tensor:
        """The bias as a view of the layer's outputs' ``shape``, (n, ...), to be added to them.

        ``bias`` is [O], or the number 0 where the layer has none.
        """
        return bias.expand(shape)

    @abstractmethod
    def weight(self, x: Tensor, delta: Tensor) -> Term:
        """The term of the weight, from inputs and output gradients [n, ...]."""

    @abstractmethod
    def bias(self, delta: Tensor) -> Term:
        """The term of the bias, from output gradients [n, ...]."""

    @abstractmethod
    def weight_numbers(self, x: Shape, y: Shape) -> int:
        """How many numbers a record's term of the weight takes beside input and output gradient.

        For memory limits; ``x`` and ``y`` are the shapes of one record's input and output.
        """

    def names(self, path: str) -> list[str]:
        """The trained parameters' names in the module, where the layer is at ``path``."""
        return [f"{path}.{name}" if path else name for name in self.trained]

    def terms(self, x: Tensor, delta: Tensor) -> list[Term]:
        """The terms of the trained parameters, in the order of ``trained``.

        Args:
            x: What the layer was given, [n, ...].
            delta: The gradient at its output, [n, ...].
        """
        of_parameters = []
        if "weight" in self.trained:
            of_parameters.append(self.weight(x, delta))
        if "bias" in self.trained:
            of_parameters.append(self.bias(delta))
        return of_parameters

    def multiplications(self, x: Shape, y: Shape) -> int:
        """How many multiplications a record's forward pass takes, to a small factor.

        ``x`` and ``y`` are the shapes of its input and output.
        """
        return math.prod(y)

    def numbers(self, x: Shape, y: Shape) -> int:
        """How many numbers the terms of a record keep, whose input and output have these shapes."""
        of_weight = self.weight_numbers(x, y) if "weight" in self.trained else 0
        return math.prod(x) + math.prod(y) + of_weight


class TappedLinear(TappedLayer):
    """``nn.Linear``: [T.., I] -> [T.., O], where the axes T.. are a record's positions."""

    def reads(self, x: Tensor) -> bool:
        """Float32 inputs with any number of axes."""
        return x.dtype == torch.float32

    def terms(self, x: Tensor, delta: Tensor) -> list[Term]:
        """The terms of the trained parameters, in the order of ``trained``.

        Where a record has one position, both norms follow from two lengths: ``|delta| |x|`` for the
        weight and ``|delta|`` for the bias. Lengths are raised by what squares below float32's
        range could hide.
        """
        if delta[0].numel() != delta.shape[-1]:  # more numbers than O: several positions
            return super().terms(x, delta)
        rows, delta = x.reshape(len(x), -1), delta.reshape(len(delta), -1)
        outputs: Tensor = torch.linalg.vector_norm(delta, dim=-1)
        outputs.add_(HIDDEN)
        of_parameters: list[Term] = []
        if "weight" in self.trained:
            inputs: Tensor = torch.linalg.vector_norm(rows, dim=-1)
            norms = inputs.add_(HIDDEN).mul_(outputs)
            of_parameters.append(Products(rows.unsqueeze(1), delta.unsqueeze(1), norms))
        if "bias" in self.trained:
            of_parameters.append(Gradients(delta, outputs))
        return of_parameters

    def weight(self, x: Tensor, delta: Tensor) -> Term:
        """Gradients ``sum_t delta_t x_t^T``, written out or as their factors."""
        x, delta = _by_position(x, 1), _by_position(delta, 1)
        if is_written_out(x.shape[1], x.shape[2], delta.shape[2]):
            return Gradients(torch.bmm(delta.mT, x))
        return Products(x, delta)

    def bias(self, delta: Tensor) -> Term:
        """The sum over positions."""
        return Gradients(_by_position(delta, 1).sum(1))

    def multiplications(self, x: Shape, y: Shape) -> int:
        """One for each input of each output."""
        return x[-1] * math.prod(y)

    def weight_numbers(self, x: Shape, y: Shape) -> int:
        """The size of the weight where its gradient is written out, else 0."""
        inputs, outputs = x[-1], y[-1]
        return inputs * outputs * is_written_out(math.prod(x[:-1]), inputs, outputs)


class TappedLayerNorm(TappedLayer):
    """``nn.LayerNorm``: ``y = standardised x * weight + bias`` over the last axes, ``shape``.

    Its gradients have the size of one position, so they are written out.
    """

    def __init__(self, layer: nn.LayerNorm, trained: tuple[str, ...]) -> None:
        super().__init__(layer, trained)
        self.shape = layer.normalized_shape
        self.eps = layer.eps

    def reads(self, x: Tensor) -> bool:
        """Float32 inputs with any number of axes."""
        return x.dtype == torch.float32

    def weight(self, x: Tensor, delta: Tensor) -> Term:
        """The sum over positions of standardised inputs times output gradients."""
        standardised = F.layer_norm(x, self.shape, eps=self.eps)
        return Gradients(_by_position(standardised.mul_(delta), len(self.shape)).sum(1))

    def bias(self, delta: Tensor) -> Term:
        """The sum over positions."""
        return Gradients(_by_position(delta, len(self.shape)).sum(1))

    def weight_numbers(self, x: Shape, y: Shape) -> int:
        """The standardised input."""
        return math.prod(x)


class _TappedImageLayer(TappedLayer):
    """A layer of N images a record, [N, C, ...], with one number of the bias for each channel."""

    def spread(self, bias: Tensor, shape: Shape) -> Tensor:
        """The bias [C] of every channel at all its positions: a view of ``shape``, (n, N, C, ...).

        A layer without a bias hands in the number 0.
        """
        axes_after_channels = len(shape) - 3
        return bias.view(-1, *[1] * axes_after_channels).expand(shape)

    def bias(self, delta: Tensor) -> Term:
        """The sum over images and positions."""
        return Gradients(_by_channel(delta))


class TappedGroupNorm(_TappedImageLayer):
    """``nn.GroupNorm``: [N, C, ...], standardised over the positions of groups of channels."""

    def __init__(self, layer: nn.GroupNorm, trained: tuple[str, ...]) -> None:
        super().__init__(layer, trained)
        self.groups = layer.num_groups
        self.eps = layer.eps

    def reads(self, x: Tensor) -> bool:
        """Float32 inputs with an axis of images and one of channels."""
        return x.dtype == torch.float32 and x.dim() > 1

    def weight(self, x: Tensor, delta: Tensor) -> Term:
        """The sum over positions of standardised inputs times output gradients."""
        standardised = F.group_norm(x.flatten(0, 1), self.groups, eps=self.eps)
        return Gradients(_by_channel(standardised.view(x.shape).mul_(delta)))

    def weight_numbers(self, x: Shape, y: Shape) -> int:
        """The standardised input."""
        return math.prod(x)


class Embedding(TappedLayer):
    """``nn.Embedding``: whole numbers [T..] to rows [T.., O] of a table [V, O].

    A record's gradient is 0 but in the rows that it reads.
    """

    def __init__(self, layer: nn.Embedding, trained: tuple[str, ...]) -> None:
        super().__init__(layer, trained)
        self.rows = layer.num_embeddings
        self.padding = layer.padding_idx

    def reads(self, x: Tensor) -> bool:
        """Whole numbers with any number of axes."""
        return x.dtype in (torch.int64, torch.int32)

    def weight(self, x: Tensor, delta: Tensor) -> Term:
        """For each record and row of the table: the sum of delta over the positions that read it.

        A record may read one row at several positions. Gradients of these positions are summed
        before norms are taken, for it is the norm of the sum that counts.

        Args:
            x: Numbers of the table's rows, [n, T..].
            delta: Output gradients, [n, T.., O].
        """
        count, width = len(x), delta.shape[-1]
        places, rows = x.reshape(count, -1).long(), delta.reshape(-1, width)
        if self.padding is not None:  # the padding's row has no gradient, as in PyTorch
            rows = rows.where(places.view(-1, 1) != self.padding, 0.0)
        records = torch.arange(count, device=x.device)
        if places.shape[1] == 1:
            return Lookups(records, places.view(-1), rows, count)
        # One number for each pair of a record and a row of the table: record * V + row.
        pairs = (records.unsqueeze(1) * self.rows + places).view(-1)
        pairs, pair_of_position = torch.unique(pairs, return_inverse=True)
        sums = rows.new_zeros(len(pairs), width)
        sums.index_put_((pair_of_position,), rows, accumulate=True)
        return Lookups(pairs // self.rows, pairs % self.rows, sums, count)

    def bias(self, delta: Tensor) -> Term:
        """Never called: an embedding has no bias."""
        raise AssertionError("an embedding has no bias")

    def weight_numbers(self, x: Shape, y: Shape) -> int:
        """A row for each position."""
        return math.prod(y)


class TappedConv(_TappedImageLayer):
    """``nn.Conv1d``, ``nn.Conv2d``, ``nn.Conv3d``: [N, C, ...] -> [N, O, ...], of any options.

    A window is what one output reads of the image, laid out as a row of I numbers, I being C over
    the number of groups times the size of the kernel. An image has L windows, one a position.
    """

    def __init__(self, layer: Any, trained: tuple[str, ...]) -> None:  # noqa: ANN401 - three types
        super().__init__(layer, trained)
        self.kernel = tuple(layer.kernel_size)
        self.stride = list(layer.stride)
        self.dilation = list(layer.dilation)
        self.groups = layer.groups
        self._padding = list(layer._reversed_padding_repeated_twice)  # as F.pad takes it
        self._mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode

    def reads(self, x: Tensor) -> bool:
        """Float32 inputs with an axis of images, one of channels, and those of the kernel."""
        return x.dtype == torch.float32 and x.dim() == len(self.kernel) + 2

    def weight(self, x: Tensor, delta: Tensor) -> Term:
        """Each record's gradient: output gradients times windows, written out or as factors.

        Args:
            x: Images before padding, [n, N, C, ...]: N images of each of n records.
            delta: Output gradients [n, N, O, ...].

        Returns:
            [n, O, C over the number of groups, *kernel] written out, or the factors where these
            take less memory.
        """
        x = self._padded(x)
        if not self._is_written_out(x.shape[1:], delta.shape[1:]):
            return Convolved(self, x, delta)
        count, images = x.shape[:2]
        inputs, outputs = self._size(x.shape[1:]), delta.shape[2] // self.groups
        # The gradient of every image, [n N, G, O / G, I], then summed over a record's images.
        rows = x.new_empty(count * images, self.groups, outputs, inputs)
        for part, windows, deltas in self._pieces(x.flatten(0, 1), delta.flatten(0, 1)):
            torch.matmul(deltas, windows.mT, out=rows[part])
        if images > 1:
            rows = rows.view(count, images, *rows.shape[1:]).sum(1)
        channels = x.shape[2] // self.groups
        return Gradients(rows.view(count, delta.shape[2], channels, *self.kernel))

    def norms(self, x: Tensor, delta: Tensor) -> Tensor:
        """Upper bounds of the norms of the weight's gradients, [n], by ``norms_of_products``.

        Args:
            x: Padded images [n, N, C, ...].
            delta: Output gradients [n, N, O, ...].
        """
        images = x.shape[1]

        def by_record(pieces: Tensor) -> Tensor:
            """[m N, G, I, L] -> [m, G, N L, I]: one axis for a record's positions in all images."""
            parts = pieces.view(-1, images, *pieces.shape[1:])
            return parts.permute(0, 2, 1, 4, 3).flatten(2, 3)

        norms = []
        for _, windows, deltas in self._pieces(x.flatten(0, 1), delta.flatten(0, 1), images):
            of_groups = norms_of_products(by_record(windows), by_record(deltas))  # [m, G]
            norms.append(torch.linalg.vector_norm(of_groups, dim=-1))
        return torch.cat(norms)

    def multiplications(self, x: Shape, y: Shape) -> int:
        """One for each number of an output's window."""
        return self._size(x) * math.prod(y)

    def weight_numbers(self, x: Shape, y: Shape) -> int:
        """The padded image, taken for twice the image, and the gradient where it is written out."""
        written = self._size(x) * y[1] * self._is_written_out(x, y)
        return 2 * math.prod(x) + written

    def _padded(self, x: Tensor) -> Tensor:
        """Images [n, N, C, ...] with the layer's padding around them, contiguous."""
        if not any(self._padding):
            return x.contiguous()
        padded = F.pad(x.flatten(0, 1), self._padding, self._mode)
        return padded.view(*x.shape[:2], *padded.shape[1:])

    def _size(self, x: Shape) -> int:
        """I, the numbers in a window of images (N, C, ...)."""
        size: int = x[1] // self.groups * math.prod(self.kernel)
        return size

    def _is_written_out(self, x: Shape, y: Shape) -> bool:
        """Whether the weight's gradient is written out, for one record's input and output."""
        return is_written_out(x[0] * math.prod(y[2:]), self._size(x), y[1] // self.groups)

    def _pieces(
        self, x: Tensor, delta: Tensor, together: int = 1
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Lay out the windows of images, some images at a time to save memory.

        Args:
            x: Padded images [M, C, ...].
            delta: Output gradients [M, O, ...].
            together: A piece has a multiple of so many images: those of whole records.

        Yields:
            (slice of m of the M images, their windows [m, G, I, L], their output gradients
            [m, G, O / G, L]). All windows lie in one memory, which the next piece overwrites.
        """
        spots = delta.shape[2:]  # how many windows there are along each axis; L in all
        shape = (x.shape[1], *self.kernel, *spots)
        piece_bytes = PIECE_BYTES if x.is_cpu else PIECE_BYTES_ELSEWHERE
        at_once = max(1, piece_bytes // (4 * math.prod(shape) * together)) * together
        memory = x.new_empty(min(at_once, len(x)), *shape)
        # All windows are one strided view of the images: a step inside a window goes on by the
        # dilation, a step from window to window by the stride.
        by_image, by_channel, *by_axis = x.stride()
        within = [step * by for step, by in zip(self.dilation, by_axis, strict=True)]
        between = [step * by for step, by in zip(self.stride, by_axis, strict=True)]
        strides = (by_image, by_channel, *within, *between)
        for start in range(0, len(x), at_once):
            part = slice(start, min(start + at_once, len(x)))
            images = x[part]
            windows = memory[: len(images)]
            windows.copy_(images.as_strided(windows.shape, strides, images.storage_offset()))
            deltas = delta[part].reshape(len(images), self.groups, -1, math.prod(spots))
            yield part, windows.view(len(images), self.groups, -1, deltas.shape[-1]), deltas


def _by_position(rows: Tensor, axes: int) -> Tensor:
    """[n, T.., ...] as [n, T, ...]: all axes between the records and the last ``axes`` as one."""
    shape = rows.shape[rows.dim() - axes :]  # of one position
    return rows.reshape(len(rows), -1, *shape)


def _by_channel(images: Tensor) -> Tensor:
    """Sums [n, C] over the images and positions of [n, N, C, ...]."""
    if images.dim() == 3:  # no positions
        return images.sum(1)
    return images.flatten(3).sum((1, 3))


# From a module, and which of its weight and bias are trained, to its tapped layer.
KNOWN: dict[type[nn.Module], Callable[[Any, tuple[str, ...]], TappedLayer]] = {
    nn.Linear: TappedLinear,
    nn.LayerNorm: TappedLayerNorm,
    nn.GroupNorm: TappedGroupNorm,
    nn.Embedding: Embedding,
    nn.Conv1d: TappedConv,
    nn.Conv2d: TappedConv,
    nn.Conv3d: TappedConv,
}


def known_layers(module: nn.Module) -> dict[str, TappedLayer]:
    """By their paths, the layers in a module that can be tapped.

    Such a layer is of exactly a type of ``KNOWN``, computes what that type says, and has parameters
    each of which stands in one layer alone; a layer that stands at two paths counts as one, and is
    named by the first. Some of the parameters are trained.
    """
    places: dict[int, int] = {}  # id of a parameter -> at how many places layers hold it
    for part in module.modules():
        for value in part._parameters.values():
            places[id(value)] = places.get(id(value), 0) + 1
    layers = {}
    for path, layer in module.named_modules():
        kind = KNOWN.get(type(layer))
        # A layer of these types has parts or buffers only if somebody added them, as a
        # parametrisation does: it may then compute something else.
        if kind is None or not is_plain(layer) or layer._modules or layer._buffers:
            continue
        # ``max_norm`` changes the table while a record is read; ``scale_grad_by_freq`` scales
        # gradients by counts over the batch.
        if isinstance(layer, nn.Embedding) and (layer.max_norm or layer.scale_grad_by_freq):
            continue
        held = {name: value for name, value in layer._parameters.items() if value is not None}
        if not set(held) <= {"weight", "bias"} or any(places[id(p)] > 1 for p in held.values()):
            continue
        trained = tuple(
            name for name in ("weight", "bias") if name in held and held[name].requires_grad
        )
        if trained:
            layers[path] = kind(layer, trained)
    return layers
