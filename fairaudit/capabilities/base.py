"""What a folder may add to audits.

Every hook has a default that adds nothing, so a folder overrides what it has. The types that hooks
speak of are those of all rooms: they are read by type checkers alone, and a subclass imports what
does the work inside its methods. So a plan knows every folder and loads no PyTorch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - types of all rooms, which stand above this one

if TYPE_CHECKING:
    from fairaudit.config.model_names import ModelFacts
    from fairaudit.config.options import AuditConfig, SplitOptions
    from fairaudit.config.presets import Preset
    from fairaudit.data.dataset import Dataset, Split
    from fairaudit.data.predictions import Scored
    from fairaudit.execution.seed_data import SeedData
    from fairaudit.messages.base import Message
    from fairaudit.methods.base import Task, TrainedReplicates
    from fairaudit.methods.spec import MethodSpec, Variant
    from fairaudit.planning.arms import Arm
    from fairaudit.planning.chosen import Lacking
    from fairaudit.planning.draft import ArmDraft
    from fairaudit.planning.flow import Audit
    from fairaudit.planning.plan import Job, Plan
    from fairaudit.planning.search import CandidateSearch, DeclaredRange
    from fairaudit.report.model import Report, Study
    from fairaudit.report.types.facts import ArmPrivacy
    from fairaudit.results.estimates import Measured
    from fairaudit.results.jobs import Array, JobContent, JobResult


class Capability(ABC):
    """A folder that adds to audits and can be taken out; it has one subclass, in one instance."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which a plan and a report hold what it adds."""

    # --- the command line

    def commands(self) -> Sequence[Callable[..., None]]:
        """Commands of the terminal, as functions for typer to read; they come after the core's."""
        return ()

    def next_command(self, report: Report, path: str, arm: str = "") -> str:
        """What a user types in a shell after an audit; "" for nothing.

        Args:
            report: Of the audit.
            path: Of its ``report.json``.
            arm: Key of the arm that it is about; "": of whichever fits.
        """
        return ""

    # --- what readers are told

    def messages(self) -> Sequence[type[Message]]:
        """Messages of its own, which ``fairaudit explain`` knows by their codes."""
        return ()

    # --- methods

    def presets(self) -> Sequence[Preset]:
        """Settings of published experiments."""
        return ()

    def methods(self) -> Sequence[MethodSpec]:
        """Methods beside those of the program."""
        return ()

    def variants(self) -> Mapping[str, tuple[Variant, ...]]:
        """Name of a method -> published forms of it."""
        return {}

    # --- arms whose code options name; their methods name the capability, which trains them

    def own_methods(self, config: AuditConfig) -> Iterable[MethodSpec]:
        """Methods of code that options name; ``MethodSpec.capability`` is this one.

        Raises:
            ConfigError: An option names no such code, or does not go with it.
        """
        return ()

    def arms(
        self, config: AuditConfig, targets: Sequence[float | None], reference: Arm
    ) -> Iterable[Arm]:
        """The arms of the methods of :meth:`own_methods`, at each target epsilon of the audit.

        Args:
            config: The options.
            targets: Epsilons; None stands for a given noise multiplier.
            reference: The arm of plain SGD.

        Raises:
            ConfigError: The code cannot be called as the options ask.
        """
        return ()

    def identity(self, config: AuditConfig, arm: Arm, delta: float) -> dict[str, object]:
        """What a training of such an arm depends on beside its code, JSON-ready, for job ids."""
        raise NotImplementedError(f"{self.name} has no arms")

    def train(self, plan: Plan, job: Job, arm: Arm, prepared: SeedData) -> JobContent:
        """Train one job of such an arm.

        Raises:
            OwnCodeError: The code failed.
        """
        raise NotImplementedError(f"{self.name} has no arms")

    def privacy(self, arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> ArmPrivacy:
        """What is known of the privacy of an arm of such code, once it has trained.

        Args:
            arm, plan: The arm and its plan.
            results: Job id -> result.
        """
        raise NotImplementedError(f"{self.name} has no arms")

    def limitations(self, plan: Plan) -> Iterable[Message]:
        """Limitations that the report must state of what it trained."""
        return ()

    # --- the search for an arm's settings

    def refuse(self, config: AuditConfig) -> None:
        """Refuse options that do not go with its own.

        Raises:
            ConfigError: About the first of them.
        """
        return

    def unsuited(self, spec: MethodSpec, config: AuditConfig) -> Lacking | None:
        """Why a method takes no part in what the options ask for; None where it does."""
        return None

    def validation_rows(self, config: AuditConfig, rows: int) -> int:
        """How many of a seed's ``rows`` training rows a search keeps for scores: none trains."""
        return 0

    def search(
        self, draft: ArmDraft, config: AuditConfig, target: float | None
    ) -> CandidateSearch | None:
        """How one arm's settings are sought; None where they are fixed.

        Args:
            draft: The arm before its noise is known.
            config: The options.
            target: Epsilon that the arm must meet; None: its noise is given.

        Raises:
            ConfigError: What is searched would change what is released.
            PrivacyError: No noise meets the target.
        """
        return None

    def reported_search(self, draft: ArmDraft, report: Report, arm: str) -> CandidateSearch | None:
        """How the settings of an audited arm were sought, by its report; None where fixed.

        Args:
            draft: The arm with its default setting, as the report holds it.
            report: Of the audit.
            arm: The arm's key there.

        Raises:
            ConfigError: The report holds a search that this version does not make.
        """
        return None

    def search_ranges(
        self, config: AuditConfig, ranges: Mapping[str, DeclaredRange]
    ) -> CandidateSearch | None:
        """How settings of code that options name are sought; None where they are fixed.

        Args:
            config: The options.
            ranges: Name of a setting -> the range that its values are drawn from.
        """
        return None

    # --- trainings beside the audit's, and what is measured of them

    def plan(
        self, plan: Plan, dataset: Dataset, own_model: ModelFacts | None
    ) -> Mapping[str, Plan]:
        """Plans of trainings beside the audit's, by name.

        Args:
            plan: Of the audit.
            dataset: The data that it was made from.
            own_model: What is known of a user's own model; None: a model of the program.

        Raises:
            ConfigError: The data or other options do not go with these trainings.
        """
        return {}

    def unmeasured(self, plan: Plan, dataset: Dataset) -> Mapping[str, str]:
        """Metrics of its own that this audit will not have: name -> why, or what to do.

        A rule about one of them is refused before anything is trained.
        """
        return {}

    def rows(self, dataset: Dataset, options: SplitOptions, seed: int) -> Split:
        """Training and test rows of one seed, of a plan whose ``study`` is this capability."""
        raise NotImplementedError(f"{self.name} has no trainings of its own")

    def outcome(
        self, task: Task, trained: TrainedReplicates, prepared: SeedData
    ) -> dict[str, Array]:
        """What a training of a plan of its own leaves (see :meth:`rows`), as arrays by name.

        Raises:
            DivergedError: Predictions that are not finite.
        """
        raise NotImplementedError(f"{self.name} has no trainings of its own")

    @property
    def study(self) -> type[Study] | None:
        """The class of what a report holds of it; None: it adds no study."""
        return None

    def compared(self, audit: Audit) -> Sequence[Measured]:
        """The audit's comparisons, to which it may add numbers of its own."""
        return audit.comparisons

    def scored(
        self, scored: Scored, comparisons: Sequence[Measured]
    ) -> tuple[Sequence[Measured], Study | None]:
        """Comparisons of given predictions, with numbers of its own added, and its study of them.

        Args:
            scored: The predictions.
            comparisons: What was measured of them.
        """
        return comparisons, None

    def measure(self, audit: Audit) -> Study | None:
        """Its study of the trainings that finished; None where the options do not ask for it."""
        return None
