"""Output perturbation on inputs standardised within each group, as published; it has no epsilon."""

from collections.abc import Callable

import torch
from torch import Tensor

from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.base import Task
from fairaudit.methods.minimiser import OutputPerturbation
from fairaudit.models.convex import BoundedInputs
from fairaudit.privacy.noise import GaussianNoise


class GroupNormalised(OutputPerturbation):
    """Every group's inputs get mean 0 and deviation 1.

    So that all groups have equal mean squared norms.

    One record moves its group's statistics, and with them the inputs of the whole group; they are
    also needed, with the group label, to predict.

    Source: Tran et al. 2021, App. C; docs/methods.md 4.4.
    """

    def inputs(self, task: Task) -> BoundedInputs:
        """Statistics of each group's training records.

        Those of an absent group leave it as it is.
        """
        sizes = torch.bincount(
            task.pool.groups[: task.pool.n_records], minlength=task.pool.n_groups
        )
        sizes = sizes.double().unsqueeze(1)
        means = _sums(task.pool, lambda x, groups: x) / sizes
        spreads = (_sums(task.pool, lambda x, groups: (x - means[groups]).square()) / sizes).sqrt()
        return BoundedInputs(
            task.settings["feature_norm"],
            task.settings["intercept"],
            torch.where(sizes > 0, means, 0.0),
            torch.where(spreads > 0, spreads, 1.0),
        )

    def event(self, multiplier: float, draws: GaussianNoise) -> None:
        """None: the group statistics carry no noise."""
        return


def _sums(pool: TrainingPool, value: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Sum of a value of each record over each group, [K, d]."""
    total = torch.zeros(pool.n_groups, pool.width, dtype=torch.float64)
    for batch in pool.pieces():
        x = torch.where(
            torch.isfinite(batch.inputs).all(1, keepdim=True),
            batch.inputs,
            0.0,
        ).double()
        total.index_add_(0, batch.group, value(x, batch.group))
    return total
