"""What this folder adds to audits: arms that code of the user's own trains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability
from fairaudit.messages.base import Message, messages_in

if TYPE_CHECKING:
    from fairaudit.config.options import AuditConfig
    from fairaudit.execution.seed_data import SeedData
    from fairaudit.methods.spec import MethodSpec
    from fairaudit.planning.arms import Arm
    from fairaudit.planning.flow import Audit
    from fairaudit.planning.plan import Job, Plan
    from fairaudit.report.types.facts import ArmPrivacy
    from fairaudit.results.jobs import JobContent, JobResult
    from fairaudit.trainers.study import Trainers


class OwnTrainers(Capability):
    """Trainers, synthesizers and synthetic tables of the user's own, each as an arm."""

    name = "trainers"

    def messages(self) -> Sequence[type[Message]]:
        """The messages of the module ``messages`` of this folder."""
        from fairaudit.trainers import messages

        return messages_in(messages)

    def own_methods(self, config: AuditConfig) -> Iterable[MethodSpec]:
        """The code and the table that options name, as methods."""
        from fairaudit.trainers.arms import methods

        return methods(config)

    def arms(
        self, config: AuditConfig, targets: Sequence[float | None], reference: Arm
    ) -> Iterable[Arm]:
        """The arms of these methods: each at each target epsilon, after its reference."""
        from fairaudit.trainers.arms import arms

        return arms(config, targets, reference)

    def identity(self, config: AuditConfig, arm: Arm, delta: float) -> dict[str, object]:
        """What a training depends on beside the code: its libraries, what it is asked and given."""
        from fairaudit.trainers.arms import identity

        return identity(config, arm, delta)

    def train(self, plan: Plan, job: Job, arm: Arm, prepared: SeedData) -> JobContent:
        """Train one job by running the code in processes of its own."""
        from fairaudit.trainers.jobs import train

        return train(plan, job, arm, prepared)

    def privacy(self, arm: Arm, plan: Plan, results: Mapping[str, JobResult]) -> ArmPrivacy:
        """An arm's privacy as planned, with what its finished trainings claim."""
        from fairaudit.trainers.claims import privacy

        return privacy(arm, plan, results)

    def limitations(self, plan: Plan) -> Iterable[Message]:
        """What is not known of such arms, as limitations of the report."""
        from fairaudit.trainers.claims import limitations

        return limitations(plan)

    @property
    def study(self) -> type[Trainers]:
        """The type of the study: what trainings of such code show beside their costs."""
        from fairaudit.trainers.study import Trainers

        return Trainers

    def measure(self, audit: Audit) -> Trainers | None:
        """The study of an audit, from the trainings that finished."""
        from fairaudit.trainers.measure import measure

        return measure(audit)
