"""The loss of a private loop, which every record must enter by itself."""

from collections.abc import Callable

import torch
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor

from fairaudit.errors import TrainingError

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> loss


class CheckedCriterion:
    """A criterion that refuses what is not the mean (or sum) of the single records' losses.

    At every backward pass it compares the gradient that arrives at each record's output with that
    of the record alone. Of another loss a record's gradient would also depend on other records, and
    no clipping bounds what one record then changes.

    Args:
        criterion: Of outputs [B, ...] and targets [B, ...].
        ghost: Opacus' criterion of ghost clipping, which then computes the loss; else None.
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
        """The loss of a batch, with a check in its backward pass.

        ``backward()`` raises a TrainingError where a record's part in it depends on other records.
        """
        if outputs.requires_grad:
            self._watch(outputs, targets)
        taken: Loss = self.ghost or self.criterion
        return taken(outputs, targets)

    def _watch(self, outputs: Tensor, targets: Tensor) -> None:
        """Have the first gradient that arrives at the outputs checked in the backward pass.

        Ghost clipping has a second backward pass, whose gradients are scaled and are not checked.
        """
        waiting = [self._alone(outputs.detach(), targets)]  # taken by the first gradient

        def arrived(gradient: Tensor) -> None:
            """Check the first gradient [B, ...] and report how many records passed."""
            if waiting:
                self._refuse_mixing(gradient, waiting.pop())
                self._checked(len(gradient))

        outputs.register_hook(arrived)  # type: ignore[no-untyped-call]

    def _refuse_mixing(self, batched: Tensor, expected: Tensor) -> None:
        """Refuse a loss whose gradients ``[B, ...]`` are not those of the single records."""
        # A record that is not finite by itself is zeroed later: nothing to compare.
        usable = expected.flatten(1).isfinite().all(1)
        batched, expected = batched[usable], expected[usable]
        if not expected.numel():
            return
        room = torch.finfo(expected.dtype).eps ** 0.5  # for rounding: half of the digits
        largest = float(expected.abs().max())
        if not torch.allclose(batched, expected, rtol=room, atol=room * largest):
            raise TrainingError(
                f"the loss is not the {self.reduction} of the single records' losses",
                hint="differentiate what the returned criterion gives, and use one in which no "
                "record's weight depends on the others; CrossEntropyLoss(weight=...) with "
                "reduction='mean' divides by the batch's weights",
            )

    def _alone(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The gradient at each record's output if the loss is the mean (sum) of single losses.

        It is computed from each record by itself, ``[B, ...]``.
        """
        if not len(outputs):
            return outputs

        def loss(output: Tensor, target: Tensor) -> Tensor:
            """The criterion of a batch of this one record."""
            return self.criterion(output.unsqueeze(0), target.unsqueeze(0)).sum()

        gradient = torch.func.grad(loss)
        try:
            alone: Tensor = torch.func.vmap(gradient)(outputs, targets)
        except RuntimeError:  # what vmap cannot run
            pairs = zip(outputs, targets, strict=True)
            alone = torch.stack([gradient(output, target) for output, target in pairs])
        if self.reduction == "mean":
            return alone / len(outputs)
        return alone
