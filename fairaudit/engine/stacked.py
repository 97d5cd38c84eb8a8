"""What the engine asks of R copies of a model, and of a batch on its way through them.

Two implementations stand behind it: networks of the layer table (``network.py``), and modules of
any other kind (``replicates.py``).

A tape carries one batch through the replicates in three calls: ``forward`` gives logits,
``backward`` the norms of each record's gradient, ``sums`` the sums of these gradients with given
weights (a weight row has one weight for each record). What is kept between two calls is the books.
Where there is one replicate, [(R,) B, ...] is [B, ...].
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from fairaudit.errors import TrainingError

DEFAULT_BUDGET = 512 * 2**20  # bytes of books kept between the two passes
ROWS_AT_ONCE = 4096  # the most records in one chunk of predictions
PREDICTION_BYTES = 128 * 2**20  # the most memory that such a chunk takes


class Stacked(ABC):
    """Replicates of one architecture: ``theta`` [R, P] is their parameters, updated in place."""

    theta: Tensor
    bytes_per_record: int  # memory that one record takes in a training step, over all replicates

    @property
    def replicates(self) -> int:
        """R, the number of replicates."""
        return len(self.theta)

    @property
    def n_parameters(self) -> int:
        """P, the number of parameters of one replicate."""
        return self.theta.shape[1]

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """The outputs alone, [(R,) B, Y], of inputs [(R,) B, ...]."""

    @torch.inference_mode()
    def probabilities(self, features: Tensor, groups: Tensor | None = None) -> Tensor:
        """Softmax outputs of all replicates on ``features`` [n, ...] -> [R, n, Y], on the CPU.

        ``groups`` [n] is not read here. It is there because some models of other classes predict by
        group, and all are called alike.
        """
        parts = []  # [R, chunk, Y] each
        at_once = max(1, min(ROWS_AT_ONCE, PREDICTION_BYTES // self.bytes_per_record))
        for chunk in torch.split(features, at_once):
            single = self.replicates == 1
            x = chunk.to(self.theta.device)
            logits = self.logits(x if single else x.expand(self.replicates, *chunk.shape))
            parts.append(torch.softmax(logits.unsqueeze(0) if single else logits, -1).cpu())
        return torch.cat(parts, 1)


class GradientTape(ABC):
    """Records of one batch through replicates: logits, then norms, then weighted gradient sums."""

    @abstractmethod
    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits [(R,) B, Y] of inputs [(R,) B, d] or [(R,) B, H, W, C].

        Args:
            x: Inputs.
            norms: L2 norms of the inputs with a 1 appended for the bias, [(R,) B]; None: not known.
            clean: Zero the logits of records that are not finite now, because a query reads them
                before the backward pass; otherwise that pass does it.
        """

    @abstractmethod
    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B].

        Args:
            output_gradient: The objective's gradient at the logits of ``forward``, [(R,) B, Y].
        """

    @abstractmethod
    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i`` over the batch, for each row of weights: [R, B] -> [R, P].

        The results lie in the tape's own memory and are overwritten by the next call. Each row is a
        pass of its own, so asking for more rows changes no bit of the others.
        """


def in_one_row(values: Iterable[Tensor]) -> Tensor:
    """The numbers of all tensors as one row [P], in their order, detached from autograd."""
    return torch.cat([value.detach().flatten() for value in values])


def refuse_untrainable(module: nn.Module) -> None:
    """Refuse a model that has nothing to train.

    Raises:
        TrainingError: It has no parameter, or all are frozen.
    """
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise TrainingError("the model has no parameter to train", hint="do not freeze all of it")
