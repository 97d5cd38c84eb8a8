"""What the engine asks of R copies of a model, and of a batch on its way through them.

Two makes stand behind it: networks of the layer table (``network.py``), and modules of any other
kind (``replicates.py``).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from fairaudit.errors import TrainingError

DEFAULT_BUDGET = 512 * 2**20  # bytes of books kept between the two passes
ROWS_AT_ONCE = 4096  # of predictions
PREDICTION_BYTES = 128 * 2**20  # of one chunk of predictions


class Stacked(ABC):
    """Replicates of one architecture: ``theta`` [R, P] is their parameters, updated in place."""

    theta: Tensor
    bytes_per_record: int  # what one record takes on its way, over the replicates

    @property
    def replicates(self) -> int:
        """R."""
        return len(self.theta)

    @property
    def n_parameters(self) -> int:
        """P."""
        return self.theta.shape[1]

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """The outputs alone, [(R,) B, Y], of inputs [(R,) B, ...]."""

    @torch.inference_mode()
    def probabilities(self, features: Tensor, groups: Tensor | None = None) -> Tensor:
        """Softmax outputs of all replicates on ``features`` [n, ...] -> [R, n, Y], in chunks.

        No network reads the ``groups``; models of another make do.
        """
        parts = []
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
    def forward(
        self,
        x: Tensor,
        norms: Tensor | None = None,
        *,
        clean: bool = False,
    ) -> Tensor:
        """Logits [(R,) B, Y] of inputs [(R,) B, d] or [(R,) B, H, W, C].

        Args:
            x: Inputs.
            norms: Of the inputs with a bias 1 appended, [(R,) B], where they are known.
            clean: Zero the rows that are not finite now, for a query before the backward pass;
                otherwise that pass does it.
        """

    @abstractmethod
    def backward(self, output_gradient: Tensor) -> Tensor:
        """L2 norms of the per-sample gradients, [(R,) B], from [(R,) B, Y]."""

    @abstractmethod
    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """``sum_i w_i g_i`` of each row of weights, W times [R, B] -> W times [R, P].

        The results are the tape's own and change with the next call. Each row is a pass of its own,
        so asking for more rows leaves the others bit-identical.
        """


def in_one_row(values: Iterable[Tensor]) -> Tensor:
    """The numbers of all tensors, [P], in their order."""
    return torch.cat([value.detach().flatten() for value in values])


def refuse_untrainable(module: nn.Module) -> None:
    """A model must have something to train.

    Raises:
        TrainingError: It has no parameter, or all are frozen.
    """
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise TrainingError("the model has no parameter to train", hint="do not freeze all of it")
