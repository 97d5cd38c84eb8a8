"""What this folder adds to audits: membership attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability
from fairaudit.messages.base import Message, messages_in

if TYPE_CHECKING:
    from fairaudit.config.model_names import ModelFacts
    from fairaudit.config.options import SplitOptions
    from fairaudit.data.dataset import Dataset, Split
    from fairaudit.execution.seed_data import SeedData
    from fairaudit.leakage.study import Leakage
    from fairaudit.methods.base import Task, TrainedReplicates
    from fairaudit.planning.flow import Audit
    from fairaudit.planning.plan import Plan
    from fairaudit.results.jobs import Array


class MembershipAttacks(Capability):
    """Who is exposed, by group: the audit's methods on random halves of its rows, attacked."""

    name = "leakage"

    def messages(self) -> Sequence[type[Message]]:
        """Those of its module ``messages``."""
        from fairaudit.leakage import messages

        return messages_in(messages)

    def plan(
        self, plan: Plan, dataset: Dataset, own_model: ModelFacts | None
    ) -> Mapping[str, Plan]:
        """The trainings whose models are attacked."""
        from fairaudit.leakage.plan import side_plans_of

        return side_plans_of(plan, dataset, own_model)

    def rows(self, dataset: Dataset, options: SplitOptions, seed: int) -> Split:
        """A random half of the rows as training rows, the other half as test rows."""
        from fairaudit.data.inputs.split import draw_members

        return draw_members(dataset, options, seed)

    def outcome(
        self, task: Task, trained: TrainedReplicates, prepared: SeedData
    ) -> dict[str, Array]:
        """How sure the models are of every row's class, and which rows they learned."""
        from fairaudit.leakage.outcome import on_everyone

        return on_everyone(task, trained, prepared)

    @property
    def study(self) -> type[Leakage]:
        """What the attacks found, by group."""
        from fairaudit.leakage.study import Leakage

        return Leakage

    def measure(self, audit: Audit) -> Leakage | None:
        """Attack the models that were trained."""
        from fairaudit.leakage.measure import measure

        return measure(audit)
