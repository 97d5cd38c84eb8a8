"""A method that learns nothing.

It keeps what a worker hands it and answers with figures known beforehand.
"""

import numpy as np
import torch

from fairaudit.engine.loop import Trace
from fairaudit.methods.base import Method, TrainedReplicates

TWIN = 0.7  # by which the logit of a training without noise differs

handed = []  # (task, observers), one per training
claims = {}  # arm -> the event that it says it did


def second_class(x, groups, repeats, more=0.0):
    """Probability of the second class for records of that first input: [R, n], in float64."""
    x, groups = np.asarray(x, float), np.asarray(groups)
    logits = [(1.0 - 0.6 * r) * x + 0.3 * groups - 0.4 * r + more for r in range(repeats)]
    return 1 / (1 + np.exp(-np.stack(logits)))


def is_twin(task):
    return task.settings.get("noise_multiplier") == 0


class Told:
    """R models whose predictions are `told`."""

    def __init__(self, task):
        self.theta = torch.arange(float(task.repeats * 3)).view(task.repeats, 3) + task.seed
        self.n_parameters = 3
        self.more = TWIN * is_twin(task)

    def probabilities(self, features, groups):
        second = second_class(features.flatten(1)[:, 0], groups, len(self.theta), self.more)
        return torch.from_numpy(np.stack([1 - second, second], -1).astype(np.float32))


def threshold(arm, seed, step, repeats):
    """A released series by which arm, seed and step can be told apart."""
    return [len(arm) + 100.0 * seed + step + repeat / 8 for repeat in range(repeats)]


class Recorder(Method):
    """Records its task."""

    def fit(self, task, observers):
        handed.append((task, list(observers)))
        trace = Trace()
        for step in (1, 3):
            trace.add(
                step,
                {"threshold": torch.tensor(threshold(task.arm, task.seed, step, task.repeats))},
            )
        if task.arm == "dpsgd":
            sigma = task.settings["noise_multiplier"]
            own = torch.tensor([sigma, 2 * sigma, 4 * sigma])[: task.pool.n_groups]
            for step in range(task.steps_per_epoch * task.epochs):
                trace.add(step, {"group_noise_multiplier": own.expand(task.repeats, -1)})
        return TrainedReplicates(Told(task), trace, None if is_twin(task) else claims.get(task.arm))
