"""The loss of a private loop, which every record must enter by itself."""

from collections.abc import Callable

import torch
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor

from fairaudit.errors import TrainingError

Loss = Callable[[Tensor, Tensor], Tensor]


class CheckedCriterion:
    """A criterion that refuses what is not the mean (or sum) of the single records' losses.

    At every batch it compares the loss's gradient at each record's output with that of the record
    alone: per-sample gradients of another loss would follow the other records.

    Args:
        criterion: Of outputs [B, ...] and targets [B, ...].
        ghost: Opacus' criterion of ghost clipping, or None.
        reduction: ``mean`` or ``sum``.
        checked: Called with the number of records of each batch that passed.
    """

    def __init__(
        self,
        criterion: Loss,
        ghost: DPLossFastGradientClipping | None,
        reduction: str,
        checked: Callable[[int], None],
    ) -> None:
        self.criterion, self.ghost, self.reduction = criterion, ghost, reduction
        self._checked = checked

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch, for ``backward()``.

        Raises:
            TrainingError: A record's part of the loss depends on other records.
        """
        if outputs.requires_grad:
            if len(outputs) > 1:
                self._refuse_mixing(outputs.detach(), targets)
            self._checked(len(outputs))
        taken: Loss = self.ghost or self.criterion
        return taken(outputs, targets)

    def _refuse_mixing(self, outputs: Tensor, targets: Tensor) -> None:
        together = outputs.clone().requires_grad_()
        expected = self._alone(outputs, targets)
        if self.ghost is not None:
            loss = self.ghost(together, targets).loss_per_sample.sum()
        else:
            loss = self.criterion(together, targets)
            if self.reduction == "mean":
                expected = expected / len(outputs)
        (found,) = torch.autograd.grad(loss, together)
        usable = expected.flatten(1).isfinite().all(1)
        found, expected = found[usable], expected[usable]
        if not expected.numel():
            return
        room = torch.finfo(expected.dtype).eps ** 0.5
        largest = float(expected.abs().max())
        if not torch.allclose(found, expected, rtol=room, atol=room * largest):
            raise TrainingError(
                f"the loss is not the {self.reduction} of the single records' losses",
                hint="use a criterion in which no record's weight depends on the others; "
                "CrossEntropyLoss(weight=...) with reduction='mean' divides by the batch's weights",
            )

    def _alone(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The gradient at each record's output of that record's loss, like ``outputs``."""

        def loss(output: Tensor, target: Tensor) -> Tensor:
            return self.criterion(output.unsqueeze(0), target.unsqueeze(0)).sum()

        gradient = torch.func.grad(loss)
        try:
            alone: Tensor = torch.func.vmap(gradient)(outputs, targets)
        except RuntimeError:  # what vmap cannot run
            pairs = zip(outputs, targets, strict=True)
            alone = torch.stack([gradient(output, target) for output, target in pairs])
        return alone
