"""Output perturbation on inputs standardised within each group, as published; it has no epsilon."""

import torch
from torch import Tensor

from fairaudit.methods.base import Task
from fairaudit.methods.output_perturbation import OutputPerturbation
from fairaudit.models.linear import BoundedInputs
from fairaudit.privacy.noise import GaussianNoise


class GroupNormalised(OutputPerturbation):
    """Every group's inputs get mean 0 and deviation 1, so that all groups have equal mean squared norms.

    One record moves its group's statistics, and with them the inputs of the whole group; they are also
    needed, with the group label, to predict.

    Source: Tran et al. 2021, App. C; METHODS 3e.
    """

    def inputs(self, task: Task, features: Tensor, groups: Tensor) -> BoundedInputs:
        """Statistics of each group's training records; those of an absent group leave it as it is."""
        x = torch.where(torch.isfinite(features).all(1, keepdim=True), features, 0.0).double()
        means, deviations = (
            x.new_zeros(task.pool.n_groups, x.shape[1]),
            x.new_ones(task.pool.n_groups, x.shape[1]),
        )
        for group in range(task.pool.n_groups):
            own = x[groups == group]
            if len(own):
                means[group] = own.mean(0)
                spread = own.std(0, correction=0)
                deviations[group] = torch.where(spread > 0, spread, 1.0)
        return BoundedInputs(task.settings["feature_norm"], task.settings["intercept"], means, deviations)

    def event(self, multiplier: float, draws: GaussianNoise) -> None:
        """None: the group statistics carry no noise."""
        return
