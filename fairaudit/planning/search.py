"""An arm whose settings are sought at each seed: what a plan knows of its search."""

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
    """What a search is built of before its noise is known.

    Args:
        spec: The method.
        resolved: From the epsilon of one training to the default setting, noise included; None: the
            noise is given.
        sizes: What the ends of ranges may depend on.
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
    """How one arm's settings are sought; the capability that trains it knows more.

    Args:
        capability: Name of the capability that searches.
        uncovered: What its epsilon leaves out.
        trials: Trainings at each seed.
        settings: The default setting.
    """

    capability: ClassVar[str]
    uncovered: ClassVar[str]
    trials: int
    settings: Mapping[str, float]

    @property
    @abstractmethod
    def mean_length(self) -> float:
        """How long a training takes in the mean, in the default setting's epochs."""

    @abstractmethod
    def guarantee(
        self,
        one: ArmPrivacy,
        charge: SelectionEvent | None,
        delta: float,
    ) -> ArmPrivacy:
        """What the search guarantees, from what one of its trainings does and what is charged."""

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """All that its trainings and their chances follow from, JSON-ready."""


class Sought(NamedTuple):
    """A search, and what it releases: None where its trainings do so under no guarantee."""

    search: Search
    charge: SelectionEvent | None
