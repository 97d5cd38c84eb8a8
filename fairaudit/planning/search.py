"""What a plan knows of the search (``--tune``) for an arm's settings, without the code of it.

At each seed a search trains several candidates, each with settings of its own around the *default
setting*, and keeps the best by a score. A *charged* search has an epsilon for all of that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.spec import MethodSpec
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.report.facts import ArmPrivacy


@dataclass(frozen=True, slots=True)
class ArmDraft:
    """What a search is built of before the noise of its trainings is known.

    Args:
        spec: The method.
        resolved: ``(epsilon of one training) -> the arm's default setting``, with the noise
            multiplier that meets this epsilon; with the noise of the options where it is None.
        sizes: Public sizes, which the ends of searched ranges may depend on.
        steps_per_epoch, epochs: The schedule.
        delta: In (0, 1).
    """

    spec: MethodSpec
    resolved: Callable[[float | None], dict[str, float]]
    sizes: PublicSizes
    steps_per_epoch: int
    epochs: int
    delta: float


class Search(ABC):
    """How one arm's settings are sought: the part that planning reads.

    The capability that trains the candidates has its own subclass.

    Args:
        capability: Name of the capability that searches.
        uncovered: Choices (of the method, of what is searched) that the arm's epsilon does not
            cover, in words.
        trials: Trainings (candidates) at each seed.
        settings: The default setting, name -> number.
    """

    capability: ClassVar[str]
    uncovered: ClassVar[str]
    trials: int
    settings: Mapping[str, float]

    @property
    @abstractmethod
    def mean_length(self) -> float:
        """Expected epochs of a candidate over the epochs of the default setting; 1: they agree."""

    @abstractmethod
    def guarantee(self, one: ArmPrivacy, charge: SelectionEvent | None, delta: float) -> ArmPrivacy:
        """The privacy guarantee of the arm's released model, the search for its settings included.

        Args:
            one: The guarantee of one training at the default setting.
            charge: What the search releases, as :class:`Sought` has it.
            delta: In (0, 1).
        """

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """Everything that its trainings and their chances of being kept depend on, JSON-ready.

        It is part of the ids of the arm's jobs.
        """


class Sought(NamedTuple):
    """A search, and what it releases; the latter is None where its trainings have no guarantee."""

    search: Search
    charge: SelectionEvent | None
