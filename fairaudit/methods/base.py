"""What a method is given and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol  # noqa: TID251 - it is read without torch

from fairaudit.errors import DivergedError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from fairaudit.data.dataset import InputRows
    from fairaudit.engine.loop import Trace
    from fairaudit.engine.observe import Checkpoint, Observer
    from fairaudit.engine.pool import TrainingPool
    from fairaudit.engine.rules import PublicFacts
    from fairaudit.privacy.events import PrivacyEvent


def _cpu() -> torch.device:
    from fairaudit.engine.devices import CPU

    return CPU


@dataclass(frozen=True, slots=True)
class PublicPool:
    """The student pool: records that a method may read without protecting them.

    Args:
        features: [m, d], encoded like the training records.
        groups: [m] int64 in 0..K-1, or None where they are not known; for readings only.
    """

    features: InputRows
    groups: Tensor | None


class Predictor(Protocol):
    """R models that predict: an engine's network, or models of another make."""

    @property
    def theta(self) -> Tensor:
        """Parameters, [R, P]."""

    @property
    def n_parameters(self) -> int:
        """P."""

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """[R, n, Y] float32 for features [n, d] of records of those groups [n]."""


@dataclass(frozen=True, slots=True)
class Task:
    """One job for a method.

    Args:
        arm: Key; names the noise streams.
        seed: Audit seed.
        repeats: R.
        settings: The arm's numbers.
        optimizer: Name.
        model: A fresh start of this seed's model; every call gives the same parameters.
        pool: Training records.
        steps_per_epoch, epochs: The schedule.
        n_public: N.
        sampling: Label of each repeat's sampling stream, [R]; equal labels share a stream.
        source: Released series of the arm that this one controls, name -> [T, R'].
        budget: Bytes of activations kept; performance only.
        public: The student pool, for a method that needs one.
        checkpoints: Steps that a method which trains by steps keeps for readings after training.
        records: Id of every training record, [N]: the same whatever other records there are.
        device: Where a method that trains by steps computes; its records and readings stay on the
            CPU.
    """

    arm: str
    seed: int
    repeats: int
    settings: Mapping[str, float]
    optimizer: str
    model: nn.Module
    pool: TrainingPool
    steps_per_epoch: int
    epochs: int
    n_public: int
    sampling: Sequence[str]
    source: Mapping[str, NDArray[np.generic]]
    budget: int
    public: PublicPool | None = None
    records: NDArray[np.int64] | None = None
    device: torch.device = field(default_factory=_cpu)
    checkpoints: Collection[int] = ()

    def facts(self) -> PublicFacts:
        """What may be known of a training before its first batch."""
        import torch

        from fairaudit.engine.rules import PublicFacts

        expected = torch.full((self.repeats,), self.n_public / self.steps_per_epoch)
        return PublicFacts(
            self.n_public,
            expected,
            self.pool.n_groups,
            self.pool.n_classes,
        )


@dataclass(frozen=True, slots=True)
class TrainedReplicates:
    """R trained copies.

    Args:
        network: The replicates.
        trace: Readings over time.
        event: What training did, counted as it went, or None where nothing is claimed.
        checkpoints: The steps that the task asked for.
        kept: Raw intermediate values, name -> tensor, for the readings after training; never
            stored.
    """

    network: Predictor
    trace: Trace
    event: PrivacyEvent | None
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: Sequence[Checkpoint] = ()

    @property
    def parameters(self) -> Tensor:
        """[R, P], on the CPU."""
        return self.network.theta.cpu()

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """What every replicate predicts: features [n, d], groups [n] -> [R, n, Y]."""
        return self.network.probabilities(features, groups)


def diverged(
    arm: str,
    seed: int,
    learning_rate: float,
    model: str,
) -> DivergedError:
    """The error of a training whose parameters or predictions are not finite."""
    return DivergedError(
        f"{arm} diverged at seed {seed}: its {model} are huge or not finite",
        hint=f"use a smaller step, e.g. --learning-rate {learning_rate / 10:.2g}",
    )


class Method(ABC):
    """A way to train; its privacy events stand in the catalog, which needs no data and no torch."""

    @abstractmethod
    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Train ``task.repeats`` replicates.

        Raises:
            TrainingError: Diverged, or a layer that is not supported.
        """

    def fit_all(
        self, tasks: Sequence[Task], observers: Sequence[Observer] = ()
    ) -> list[TrainedReplicates | None]:
        """Train several tasks of one seed as :meth:`fit` trains each; None for one that diverged.

        Args:
            tasks: Of one model and one pool, of one repeat each; they may differ in numbers, length
                and streams.
            observers: Of every one; they keep nothing between steps and read each replicate alone.

        Returns:
            In their order. Where nobody observes, readings over time may be left out.

        Raises:
            TrainingError: A layer that is not supported.
        """
        trained: list[TrainedReplicates | None] = []
        for task in tasks:
            try:
                trained.append(self.fit(task, observers))
            except DivergedError:
                trained.append(None)
        return trained
