"""Which object trains an arm, and models of a search, which answer even where training diverged."""

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.catalog import find
from fairaudit.planning.arms import Arm
from fairaudit.privacy.events import PrivacyEvent

DIVERGED: Literal["diverged"] = "diverged"  # in place of the event of a training that diverged


class Sanitised:
    """A candidate of a search as a model whose probabilities are always finite.

    Where the trained model's are not, every class gets the same; so it is for all records of a
    training that diverged (``trained`` is None). Whether a candidate diverges depends on the
    records: leaving it out, or stopping, would release that.
    """

    def __init__(self, trained: TrainedReplicates | None, n_classes: int) -> None:
        self.trained, self.n_classes = trained, n_classes

    @property
    def event(self) -> PrivacyEvent | Literal["diverged"] | None:
        """The privacy event that its training counted; None: no privacy is claimed.

        ``DIVERGED`` where it diverged, since it is not known at which step it stopped.
        """
        if self.trained is None:
            return DIVERGED
        return self.trained.event

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Class probabilities [1, n, Y] of features [n, d], all finite."""
        same = torch.full((1, len(features), self.n_classes), 1.0 / self.n_classes)
        if self.trained is None:
            return same
        probabilities = self.trained.probabilities(features, groups)
        is_finite = torch.isfinite(probabilities).all(-1, keepdim=True)
        return torch.where(is_finite, probabilities, same)


class KeptTraining(NamedTuple):
    """The one training that ``release`` keeps of a search: its settings, epochs and model."""

    settings: Mapping[str, float]
    epochs: int
    model: Sanitised


def method_of(arm: Arm) -> Method:
    """The method object that trains an arm, by the arm's trainer ("module:Class")."""
    module, _, name = arm.trainer.partition(":")
    method = getattr(importlib.import_module(module), name)()
    assert isinstance(method, Method)
    return method


def noiseless(arm: Arm, task: Task) -> Task:
    """The task of the same training with all noise multipliers at 0, of an arm with noisy steps."""
    settings = find(arm.method).without_noise(task.settings)
    assert settings is not None, f"{arm.key} has no noise to take away"
    return replace(task, settings=settings)
