"""What a method is given (:class:`Task`) and what it gives back (:class:`TrainedReplicates`).

In shapes R is the number of replicates, the repeats of one seed that are trained side by side; N of
training records, P of trained parameters, K of groups, Y of classes, T of steps.
"""

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
    """The default device of a task, imported late so that this file can be read without torch."""
    from fairaudit.engine.devices import CPU

    return CPU


@dataclass(frozen=True, slots=True)
class PublicPool:
    """The student pool: records that a method may read without protecting them.

    Args:
        features: [m, d], encoded like the training records.
        groups: [m] int64 in 0..K-1, or None where they are not known. They are for diagnostics:
            no method trains on them.
    """

    features: InputRows
    groups: Tensor | None


class TrainedModels(Protocol):
    """R trained models that predict: the engine's network, or for instance logistic regressions."""

    @property
    def theta(self) -> Tensor:
        """Parameters of every model, [R, P]."""

    @property
    def n_parameters(self) -> int:
        """P, the number of parameters of one model."""

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Each model's class probabilities of n records, [R, n, Y] float32.

        Args:
            features: Encoded inputs, [n, d].
            groups: Each record's group, [n], for models that standardise inputs by group.
        """


@dataclass(frozen=True, slots=True)
class Task:
    """One training that a method is asked for: one arm at one seed, with all its repeats.

    Args:
        arm: The arm's key. It names the noise streams, so that no two arms share noise.
        seed: Audit seed.
        repeats: R, the runs to train side by side.
        settings: The arm's numbers by the setting's name, for instance ``learning_rate``.
        optimizer: Its name in ``engine.optimizers.OPTIMIZERS``.
        model: The seed's initial model: every arm of a seed starts from the same parameters.
        pool: Training records.
        steps_per_epoch, epochs: The schedule: q is 1 / steps_per_epoch, T the product of both.
        n_public: N, as it is public.
        sampling: Label of each repeat's sampling stream, [R]. Equal labels draw equal batches, also
            in different arms.
        source: Series read from another training that this one follows, name -> [T, R'] for its R'
            repeats; empty for a method that follows none.
        budget: Bytes of activations to keep at most. It changes the speed and no result.
        public: The student pool; None for a method that needs none.
        checkpoints: Steps whose parameters and released values are to be kept, so that diagnostics
            can read them after training; for methods that train by steps.
        records: Id of every training record, [N], which no other record can change; None where no
            method asks for ids.
        device: Where a method that trains by steps computes; its records and readings stay on the
            CPU.

    Example:
        >>> import torch
        >>> from fairaudit.engine.pool import TrainingPool
        >>> from fairaudit.methods.dpsgd import DpSgd
        >>> labels, groups = torch.tensor([0, 1] * 4), torch.tensor([0, 0, 1, 1] * 2)
        >>> task = Task(
        ...     arm="dpsgd",
        ...     seed=0,
        ...     repeats=2,
        ...     settings={"learning_rate": 0.1, "max_grad_norm": 1.0, "noise_multiplier": 1.0},
        ...     optimizer="sgd",
        ...     model=torch.nn.Linear(8, 2),
        ...     pool=TrainingPool(torch.eye(8), labels, groups, n_classes=2, n_groups=2),
        ...     steps_per_epoch=2,
        ...     epochs=3,
        ...     n_public=8,
        ...     sampling=["first", "second"],
        ...     source={},
        ...     budget=2**20,
        ... )
        >>> trained = DpSgd().fit(task, [])
        >>> tuple(trained.parameters.shape), trained.event.steps  # [R, P]; 2 steps an epoch
        ((2, 18), 6)
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
        """The public numbers (N, qN, K, Y), all that a rule or release may know beforehand."""
        import torch

        from fairaudit.engine.rules import PublicFacts

        expected = torch.full((self.repeats,), self.n_public / self.steps_per_epoch)
        return PublicFacts(self.n_public, expected, self.pool.n_groups, self.pool.n_classes)


@dataclass(frozen=True, slots=True)
class TrainedReplicates:
    """The R replicates of a task after training, and what was kept on the way.

    Args:
        network: The trained models.
        trace: Series of readings over the steps.
        event: What the training released, counted as it went and compared with the plan; None where
            no guarantee is claimed.
        checkpoints: The steps that the task asked to keep.
        kept: Raw intermediate values, name -> tensor, for the diagnostics after training; never
            stored.

    Example:
        >>> TrainedReplicates.__slots__  # :class:`Task` has an example of one
        ('network', 'trace', 'event', 'kept', 'checkpoints')
    """

    network: TrainedModels
    trace: Trace
    event: PrivacyEvent | None
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: Sequence[Checkpoint] = ()

    @property
    def parameters(self) -> Tensor:
        """Parameters of every replicate, [R, P], on the CPU."""
        return self.network.theta.cpu()

    def probabilities(self, features: Tensor, groups: Tensor) -> Tensor:
        """Every replicate's class probabilities: features [n, d] and groups [n] -> [R, n, Y]."""
        return self.network.probabilities(features, groups)


def diverged(arm: str, seed: int, learning_rate: float, model: str) -> DivergedError:
    """The error to raise for a training that diverged; its hint proposes a tenth of the step.

    Args:
        arm, seed: Which training.
        learning_rate: The one that it used.
        model: What is huge or not finite, a plural noun: ``parameters`` or ``predictions``.
    """
    return DivergedError(
        f"{arm} diverged at seed {seed}: its {model} are huge or not finite",
        hint=f"use a smaller step, e.g. --learning-rate {learning_rate / 10:.2g}",
    )


class Method(ABC):
    """A way to train.

    What it releases is described apart, in its :class:`MethodSpec`, so that epsilon is known
    without data and without torch.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> from fairaudit.methods.dpsgd import DpSgd
        >>> isinstance(DpSgd(), Method), find("dpsgd").trainer  # which names it as text
        (True, 'fairaudit.methods.dpsgd:DpSgd')
    """

    @abstractmethod
    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Train ``task.repeats`` replicates; observers read each step and change nothing in it.

        Raises:
            TrainingError: Diverged, or a layer that is not supported.
        """

    def fit_all(
        self, tasks: Sequence[Task], observers: Sequence[Observer] = ()
    ) -> list[TrainedReplicates | None]:
        """Train several tasks of one seed, each as :meth:`fit` trains it, for a search.

        Here one task is trained after the other; a subclass may train them side by side.

        Args:
            tasks: All with one model and one pool, each with one repeat; they may differ in
                settings, epochs and streams.
            observers: Read every task. They must keep nothing between steps and read each replicate
                by itself, because they may meet several tasks as the replicates of one training.

        Returns:
            One result per task, in the order of the tasks; None for a task that diverged. Without
            observers the traces may be empty.

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
