"""What training is watched for: curves by group and epoch, and the lengths of its steps.

The training loop shows an observer every step and keeps the named readings that it returns.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from fairaudit.engine.observe import Observer, StepView


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine along the last axis, ``[..., P]`` -> ``[...]``; NaN where either vector is zero."""
    product = (a * b).sum(-1)
    value = product / (a.norm(dim=-1) * b.norm(dim=-1))
    return torch.where(value.isfinite(), value.clamp(-1.0, 1.0), torch.nan)


class FactorOfStep(Observer):
    """How much longer or shorter the clipping rule makes each step than plain SGD's.

    The factor is what the rule gives a gradient that it does not clip: 1 for most rules, C/Z for
    those that scale all gradients (``global``, ``global-adapt``). A twin of the training takes
    plain steps times these factors, so that the cost of shorter steps is known apart from that of
    clipping (docs/methods.md 7.1).
    """

    def observe(self, view: StepView) -> Mapping[str, Tensor]:
        """The rule's one factor of this step for each replicate, as ``factor``, [R]."""
        return {"factor": view.step_factor()}


STASH_ROWS = 65_536  # records held before they are folded into the running sums


class EpochCurves(Observer):
    """Means over the records that an epoch's Poisson batches drew, at the parameters of their step.

    A pass over the whole data would cost as much as training; these cost a few operations per
    epoch. Readings per epoch, [R, K] each: ``loss`` (nats), ``gradient_norm``, ``clipped``
    (fraction that the rule scales down more than it would a zero gradient), ``scale`` (mean
    factor); NaN for a group of which no batch held a (finite) record.
    """

    def __init__(self) -> None:
        # Steps not yet in the sums: logits and targets [R, B, Y]; norms, factors, factors of a zero
        # gradient and groups of each record [R, B].
        self._stash: list[tuple[Tensor, ...]] = []
        self._rows = 0
        self._sums: Tensor | None = None

    def observe(self, view: StepView) -> Mapping[str, Tensor]:
        """The epoch's means after its last step; empty after every other step."""
        if view.present is None:
            group = view.group
        else:  # padding in a group of its own, K, which is dropped
            group = torch.where(view.present, view.group, view.n_groups)
        self._stash.append(
            (view.logits, view.targets, view.norms, view.scale, view.unclipped, group)
        )
        self._rows += group.shape[1]
        if self._rows >= STASH_ROWS or view.last_of_epoch:
            self._fold(view.n_groups)
        if not view.last_of_epoch or self._sums is None:
            return {}
        count, *sums = self._sums.unbind(-1)
        self._sums = None
        names = ("loss", "gradient_norm", "clipped", "scale")
        return {name: (total / count).float() for name, total in zip(names, sums, strict=True)}

    def _fold(self, n_groups: int) -> None:
        """Add the stashed steps to the sums by group, ``[R, K, 5]``.

        The five: count, loss, gradient norm, share clipped and factor. What does not count, padding
        or a record that is not finite, goes to a group K behind the others, which is dropped.
        """
        logits, targets, norms, scale, unclipped, group = (
            torch.cat(part, 1) for part in zip(*self._stash, strict=True)
        )
        self._stash, self._rows = [], 0
        # Classes and readings lie along the axis before the records', which is several times faster
        # than along a last axis of two or five numbers.
        by_class = torch.log_softmax(logits.transpose(1, 2).contiguous(), 1)
        loss = -(by_class * targets.transpose(1, 2)).sum(1)
        # Rules are handed norms rounded up by a factor 1 + 1e-5; what that alone scales down is no
        # clip.
        clipped = (scale < unclipped * (1 - 1e-4)).to(scale.dtype)
        values = torch.stack((torch.ones_like(loss), loss, norms, clipped, scale), 1).double()
        # A record that the engine zeroed because it is not finite has no loss to average.
        finite = torch.isfinite(values.sum(1))
        group = torch.where(finite, group, n_groups).unsqueeze(1).expand_as(values)
        values = torch.where(finite.unsqueeze(1), values, 0.0)
        sums = values.new_zeros(*values.shape[:2], n_groups + 1).scatter_add_(2, group, values)
        sums = sums[..., :n_groups].transpose(1, 2)
        self._sums = sums if self._sums is None else self._sums + sums
