"""Output perturbation on inputs standardised within each group, as published; it has no epsilon."""

import torch

from fairaudit.methods.base import Task
from fairaudit.methods.minimiser import OutputPerturbation
from fairaudit.models.convex import BoundedInputs
from fairaudit.privacy.noise import GaussianNoise


class GroupNormalised(OutputPerturbation):
    """Every group's inputs get mean 0 and deviation 1, so equal mean squared norms.

    One record moves its group's statistics, and with them the inputs of the whole group; they are
    also needed, with the group label, to predict.

    Source: Tran et al. 2021, App. C; docs/methods.md 4.4.
    """

    def inputs(self, task: Task) -> BoundedInputs:
        """How inputs are bounded: standardised by group, clipped to norm R, constant appended.

        A group's mean and deviation are those of its training records, without noise; a record that
        is not finite counts with inputs 0. A group without records, and a constant input, are not
        rescaled.
        """
        records = task.pool.everything()
        finite = torch.isfinite(records.inputs).all(1, keepdim=True)
        x = torch.where(finite, records.inputs, 0.0).double()
        sizes = torch.bincount(records.group, minlength=task.pool.n_groups).double().unsqueeze(1)
        # [K, d] zeros, to a copy of which ``index_add`` adds each group's rows.
        sums = torch.zeros(task.pool.n_groups, task.pool.width, dtype=torch.float64)
        means = sums.index_add(0, records.group, x) / sizes
        squares = (x - means[records.group]).square()
        spreads = (sums.index_add(0, records.group, squares) / sizes).sqrt()
        return BoundedInputs(
            task.settings["feature_norm"],
            task.settings["intercept"],
            torch.where(sizes > 0, means, 0.0),
            torch.where(spreads > 0, spreads, 1.0),
        )

    def event(self, multiplier: float, draws: GaussianNoise) -> None:
        """No privacy event: the group statistics carry no noise, so no epsilon can be claimed."""
        return
