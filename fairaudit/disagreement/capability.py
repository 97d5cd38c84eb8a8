"""What this folder adds to audits: how many people another training would decide differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability
from fairaudit.messages.base import Message, messages_in

if TYPE_CHECKING:
    from fairaudit.config.model_names import ModelFacts
    from fairaudit.config.options import SplitOptions
    from fairaudit.data.dataset import Dataset, Split
    from fairaudit.data.predictions import Scored
    from fairaudit.disagreement.study import Disagreement
    from fairaudit.execution.seed_data import SeedData
    from fairaudit.methods.base import Task, TrainedReplicates
    from fairaudit.planning.flow import Audit
    from fairaudit.planning.plan import Plan
    from fairaudit.results.estimates import Measured
    from fairaudit.results.jobs import Array


class DecidedByChance(Capability):
    """Who would be decided differently by another training on the same rows, by group."""

    name = "disagreement"

    def messages(self) -> Sequence[type[Message]]:
        """Those of its module ``messages``."""
        from fairaudit.disagreement import messages

        return messages_in(messages)

    def plan(
        self, plan: Plan, dataset: Dataset, own_model: ModelFacts | None
    ) -> Mapping[str, Plan]:
        """The further trainings on the first seed's split that ``--again`` asks for."""
        from fairaudit.disagreement.plan import side_plans_of

        return side_plans_of(plan, dataset, own_model)

    def unmeasured(self, plan: Plan, dataset: Dataset) -> Mapping[str, str]:
        """Its metrics, with what to do, where no trainings are on the same rows."""
        from fairaudit.disagreement.plan import what_to_do
        from fairaudit.metrics.registry import of_retraining

        todo = what_to_do(plan, dataset)
        return {spec.name: todo for spec in of_retraining()} if todo else {}

    def rows(self, dataset: Dataset, options: SplitOptions, seed: int) -> Split:
        """The split of the audit's first seed, at every seed of these trainings."""
        from fairaudit.disagreement.plan import rows_again

        return rows_again(dataset, options, seed)

    def outcome(
        self, task: Task, trained: TrainedReplicates, prepared: SeedData
    ) -> dict[str, Array]:
        """What a training predicts of the test rows, and what a control reads of it."""
        from fairaudit.disagreement.outcome import predicted

        return predicted(task, trained, prepared)

    @property
    def study(self) -> type[Disagreement]:
        """From which trainings it was measured."""
        from fairaudit.disagreement.study import Disagreement

        return Disagreement

    def compared(self, audit: Audit) -> Sequence[Measured]:
        """The audit's comparisons with the disagreement of every arm and of its reference."""
        from fairaudit.disagreement.measure import compared

        return compared(audit)

    def measure(self, audit: Audit) -> Disagreement:
        """From which trainings it was measured, or why it was not."""
        from fairaudit.disagreement.measure import measure

        return measure(audit)

    def scored(
        self, scored: Scored, comparisons: Sequence[Measured]
    ) -> tuple[Sequence[Measured], Disagreement | None]:
        """The disagreement in given predictions of several trainings, and from which it is."""
        from fairaudit.disagreement.measure import scored as with_disagreement

        return with_disagreement(scored, comparisons)
