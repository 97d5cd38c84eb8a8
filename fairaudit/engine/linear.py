"""Linear layers: ghost norms and book-keeping, no per-sample gradient.

theta [R, P] holds the parameters of R replicates; for one replicate tensors have no axis of
replicates, [(R,) B, ...]. What a book and its parts are: ``layer.py``.
"""

import torch
from torch import Tensor

from fairaudit.engine.layer import HIDDEN, Book, Parametric, Shape

_ONE = torch.ones(())


class Linear(Parametric):
    """``y = x W^T + b``.

    A record's gradient is the outer product of delta and (x, 1), so its squared norm is
    ``|delta|^2 (|x|^2 + 1)`` (ghost norm) and the weighted sum is one matmul (book-keeping).

    Args:
        theta: All parameters, ``[R, P]``; updated in place by the optimizer.
        start: First index of this layer in P.
        shape: (outputs, inputs).
        has_bias: Whether b exists.

    Source: Li et al. 2022 (ghost norm), Bu et al. 2023 (book-keeping).
    """

    def __init__(self, theta: Tensor, start: int, shape: tuple[int, int], has_bias: bool) -> None:
        outputs, inputs = shape
        self.shape = shape
        self.has_bias = has_bias
        self.floats_per_record = outputs + inputs
        self.start = start
        self.split = start + outputs * inputs
        self.end = self.split + outputs * has_bias
        self.single = len(theta) == 1
        # Views: in-place updates of theta are seen here without re-binding.
        weight = theta[:, start : self.split].view(-1, outputs, inputs)
        bias = theta[:, self.split : self.end]
        if not has_bias:
            bias = theta.new_zeros(len(theta), outputs)
        self.weight = weight[0] if self.single else weight
        self.bias = bias[0] if self.single else bias.unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """Affine map, [(R,) B, inputs] -> [(R,) B, outputs]."""
        if self.single:
            return torch.addmm(self.bias, x, self.weight.t())
        return torch.baddbmm(self.bias, x, self.weight.transpose(1, 2))

    def backward(self, x: Tensor, y: Tensor, delta: Tensor) -> Tensor:
        """Gradient at the input, ``delta W``: [(R,) B, outputs] -> [(R,) B, inputs]."""
        return torch.matmul(delta, self.weight)

    def book(self, x: Tensor, delta: Tensor, x_norms: Tensor | None = None) -> tuple[Tensor, Book]:
        """Each record's ghost norm |delta| sqrt(|x|^2 + 1), ``[(R,) B]``, and the book (x, delta).

        Without a bias it is |delta| |x|. |delta| is rounded up by what squares below float32's
        range could hide: a norm that is too small would leave a gradient unclipped. ``x_norms``
        [(R,) B] are sqrt(|x|^2 + 1) where they are known, else None.
        """
        # Norms that are known have a 1 appended for the bias: without a bias they are of no use.
        if x_norms is None or not self.has_bias:
            x_norms = torch.linalg.vector_norm(x, dim=-1)
            if self.has_bias:
                x_norms = torch.hypot(x_norms, _ONE)
        outputs: Tensor = torch.linalg.vector_norm(delta, dim=-1)
        return outputs.add_(HIDDEN).mul_(x_norms), (x, delta)

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """Views of ``out [R, P]``: the weight's part and, if there is a bias, the bias's part."""
        parts = [out[:, self.start : self.split].view(-1, *self.shape)]
        if self.has_bias:
            parts.append(out[:, self.split : self.end])
        if self.single:
            parts = [part[0] for part in parts]
        return tuple(parts)

    def write(self, parts: tuple[Tensor, ...], book: Book, weights: Tensor, *, add: bool) -> None:
        """The weighted sum of gradients: (w * delta)^T x for the weight, column sums for the bias.

        With ``add`` it is added to ``parts``; else it overwrites them. Weights w are [(R,) B, 1].
        """
        weight, *biases = parts
        x, delta = book
        weighted = delta * weights
        transposed = weighted.mT
        if add and self.single:
            weight.addmm_(transposed, x)
        elif add:
            weight.baddbmm_(transposed, x)
        elif self.single:
            torch.mm(transposed, x, out=weight)
        else:
            torch.bmm(transposed, x, out=weight)
        for bias in biases:
            if add:
                bias.add_(weighted.sum(-2))
            else:
                torch.sum(weighted, -2, out=bias)


class ImageLinear(Linear):
    """A linear layer after a flattened image.

    Inputs come in the engine's order (H, W, C), the weight is stored in PyTorch's (C, H, W). The
    weight is rearranged once a pass, rather than every record.

    Args:
        theta, start: As of Linear.
        image: The image's (H, W, C).
        outputs: Number of outputs.
        has_bias: Whether b exists.
    """

    def __init__(
        self, theta: Tensor, start: int, image: Shape, outputs: int, has_bias: bool
    ) -> None:
        height, width, channels = image
        super().__init__(theta, start, (outputs, height * width * channels), has_bias)
        self.image = image
        # The weight where theta holds it, and a copy in the inputs' order, renewed at every pass.
        self._stored = _channels_last(theta[:, start : self.split], outputs, image)
        self._arranged = torch.empty(self._stored.shape, dtype=theta.dtype, device=theta.device)
        arranged = self._arranged.view(len(theta), *self.shape)
        self.weight = arranged[0] if self.single else arranged

    def forward(self, x: Tensor) -> Tensor:
        """Affine map, [(R,) B, inputs] -> [(R,) B, outputs]."""
        self._arranged.copy_(self._stored)
        return super().forward(x)

    def parts(self, out: Tensor) -> tuple[Tensor, ...]:
        """A buffer for the weight's sum in the inputs' order (H, W, C), then views of ``out``.

        The views are the bias's part, if there is a bias, and the weight's part, into which
        :meth:`write` rearranges the buffer.
        """
        weight, *bias = super().parts(out)
        stored = _channels_last(out[:, self.start : self.split], self.shape[0], self.image)
        return weight.new_zeros(weight.shape), *bias, stored

    def write(self, parts: tuple[Tensor, ...], book: Book, weights: Tensor, *, add: bool) -> None:
        """Write or add the weighted sum as a linear layer does, the weight's part in the buffer.

        The buffer is then rearranged into the last of ``parts``, where the sum is to be.
        """
        *sums, stored = parts
        super().write(tuple(sums), book, weights, add=add)
        # Copied also with ``add``: the buffer holds the sum of all chunks so far.
        stored.copy_(sums[0].view(stored.shape))


def _channels_last(weight: Tensor, outputs: int, image: Shape) -> Tensor:
    """A view [R, outputs, H, W, C] of weights as they are stored, [R, outputs * C * H * W]."""
    height, width, channels = image
    return weight.view(len(weight), outputs, channels, height, width).permute(0, 1, 3, 4, 2)
