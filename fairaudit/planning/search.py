"""The search (``--tune``) for an arm's settings, as whoever plans, trains or releases sees it.

At each seed a search trains several candidates, each with settings of its own around the *default
setting*, and keeps the best by a score. A *charged* search has an epsilon for all of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol  # noqa: TID251 - a plan loads no PyTorch

import numpy as np
from numpy.typing import NDArray

from fairaudit.privacy.selection import SelectionEvent
from fairaudit.report.types.facts import ArmPrivacy
from fairaudit.results.jobs import Array, JobContent, StepTwin

if TYPE_CHECKING:
    from fairaudit.execution.seed_data import SeedData
    from fairaudit.execution.trained import KeptTraining
    from fairaudit.methods.base import Method, Task
    from fairaudit.planning.arms import Arm

Places = NDArray[np.int64]


class DeclaredRange(Protocol):
    """A range of a setting as code of the user's own declares it.

    ``log``: values are drawn evenly on a log scale.
    """

    @property
    def low(self) -> float: ...  # noqa: D102 (of the class's text)
    @property
    def high(self) -> float: ...  # noqa: D102
    @property
    def log(self) -> bool: ...  # noqa: D102


class PredictsTest(Protocol):
    """Predictions of one training, as code of the user's own gives them."""

    @property
    def test(self) -> NDArray[np.float32]:
        """Class probabilities [n, Y]: n are the test rows, and behind them the validation rows."""
        ...


# Trains code of the user's own once. Its arguments: the candidate's number, its settings, and which
# of the training rows it is fitted to and which are for validation (both as places among them).
TrainAt = Callable[[int, Mapping[str, float], Places, Places], PredictsTest]


class CandidateSearch(ABC):
    """How one arm's settings are sought, and how its candidates are trained.

    Args:
        uncovered: Choices (of the method, of what is searched) that the arm's epsilon does not
            cover, in words.
        trials: Trainings (candidates) at each seed.
        settings: The default setting, name -> number.
        charge: What the search releases; of one that is not charged, what it would release with a
            random number of tries; None where its trainings have no guarantee.
    """

    uncovered: ClassVar[str]
    trials: int
    settings: Mapping[str, float]
    charge: SelectionEvent | None

    @property
    @abstractmethod
    def mean_length(self) -> float:
        """Expected epochs of a candidate over the epochs of the default setting; 1: they agree."""

    @abstractmethod
    def guarantee(self, one: ArmPrivacy, delta: float) -> ArmPrivacy:
        """The privacy guarantee of the arm's released model, the search for its settings included.

        Args:
            one: The guarantee of one training at the default setting.
            delta: In (0, 1).
        """

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """All that its trainings, and which of them is kept, depend on; JSON-ready.

        It is part of the ids of the arm's jobs.
        """

    def train(self, arm: Arm, method: Method, task: Task, prepared: SeedData) -> JobContent:
        """Train the candidates of one seed.

        Args:
            arm: Whose settings are sought.
            method, task: How it trains at its default setting, on all training rows.
            prepared: The seed's data.
        """
        raise NotImplementedError(f"{arm.key} has no candidates of this program")

    def train_twins(
        self, arm: Arm, method: Method, task: Task, prepared: SeedData
    ) -> tuple[dict[str, Array], StepTwin]:
        """Train the twins of one seed's candidates: their arrays, and what became of the second.

        Arguments are those of :meth:`train`. The first twin is without noise, the second takes the
        steps alone.
        """
        raise NotImplementedError(f"{arm.key} has no candidates of this program")

    def train_for_release(
        self, arm: Arm, method: Method, task: Task, prepared: SeedData, *, n_fit: int
    ) -> KeptTraining:
        """Search once with fresh draws, inside ``privacy.streams.from_operating_system``.

        Args:
            arm, method, task, prepared: As of :meth:`train`.
            n_fit: Training rows without those for validation, as they were planned.
        """
        raise NotImplementedError(f"{arm.key} has no candidates of this program")

    def train_own(self, arm: Arm, seed: int, prepared: SeedData, train_at: TrainAt) -> JobContent:
        """Train the candidates of one seed by code of the user's own.

        Args:
            arm, seed: The arm and the seed whose candidates are tried.
            prepared: The seed's data.
            train_at: Trains the code at one setting.

        Raises:
            OwnCodeError: The code fails at its default.
        """
        raise NotImplementedError(f"{arm.key} is trained by this program")
