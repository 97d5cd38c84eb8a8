"""What trains an arm, and a trained model that always answers."""

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

DIVERGED: Literal["diverged"] = "diverged"


class Sanitised:
    """A trained model that always says something.

    The same of every class, where it says nothing finite.

    One that diverged says so of every record. To leave it out, or to stop, would tell that it did.
    """

    def __init__(self, trained: TrainedReplicates | None, n_classes: int) -> None:
        self.trained, self.n_classes = trained, n_classes

    @property
    def event(self) -> PrivacyEvent | Literal["diverged"] | None:
        """What its training did, counted as it went; not known where it stopped half-way."""
        if self.trained is None:
            return DIVERGED
        return self.trained.event

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Each record by itself: [1, n, Y]."""
        same = torch.full(
            (
                1,
                len(features),
                self.n_classes,
            ),
            1.0 / self.n_classes,
        )
        if self.trained is None:
            return same
        probabilities = self.trained.probabilities(features, groups)
        is_finite = torch.isfinite(probabilities).all(-1, keepdim=True)
        return torch.where(is_finite, probabilities, same)


class Kept(NamedTuple):
    """What a search for release keeps: one training's settings and model, and nothing else."""

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
    """The same training without its noise."""
    settings = find(arm.method).without_noise(task.settings)
    assert settings is not None, f"{arm.key} has no noise to take away"
    return replace(task, settings=settings)
