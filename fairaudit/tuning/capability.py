"""What this folder adds to audits: the search for an arm's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING  # noqa: TID251 - a declaration is read without what it speaks of

from fairaudit.capabilities.base import Capability
from fairaudit.messages.base import Message, messages_in

if TYPE_CHECKING:
    from fairaudit.config.model_names import ModelFacts
    from fairaudit.config.options import AuditConfig
    from fairaudit.data.dataset import Dataset
    from fairaudit.methods.spec import MethodSpec
    from fairaudit.planning.chosen import Lacking
    from fairaudit.planning.draft import ArmDraft
    from fairaudit.planning.flow import Audit
    from fairaudit.planning.plan import Plan
    from fairaudit.planning.search import DeclaredRange
    from fairaudit.tuning.search import Tuning
    from fairaudit.tuning.study import Tuned


class SettingsSearch(Capability):
    """``--tune``: several settings of every arm are tried, and epsilon covers the choice."""

    name = "tuning"

    def messages(self) -> Sequence[type[Message]]:
        """Those of its module ``messages``."""
        from fairaudit.tuning import messages

        return messages_in(messages)

    def refuse(self, config: AuditConfig) -> None:
        """Refuse what is about one setting."""
        from fairaudit.tuning.plan import refuse

        refuse(config)

    def unsuited(self, spec: MethodSpec, config: AuditConfig) -> Lacking | None:
        """Why a method takes no part in a search."""
        from fairaudit.tuning.plan import unsuited

        return unsuited(spec, config)

    def validation_rows(self, config: AuditConfig, rows: int) -> int:
        """The validation rows, on which candidates are scored."""
        from fairaudit.tuning.plan import validation_rows

        return validation_rows(config, rows)

    def search(self, draft: ArmDraft, config: AuditConfig, target: float | None) -> Tuning | None:
        """Around the arm's default setting, with noise so that all of it meets the target."""
        from fairaudit.tuning.charge import search_of

        return search_of(draft, config, target)

    def search_ranges(
        self, config: AuditConfig, ranges: Mapping[str, DeclaredRange]
    ) -> Tuning | None:
        """In the ranges that the code declares; not charged."""
        from fairaudit.tuning.ranges import search_ranges

        return search_ranges(config, ranges)

    def limitations(self, plan: Plan) -> Iterable[Message]:
        """What the figures of a search do not say."""
        from fairaudit.tuning.limitations import limitations

        return limitations(plan)

    def plan(
        self, plan: Plan, dataset: Dataset, own_model: ModelFacts | None
    ) -> Mapping[str, Plan]:
        """Every arm at its default setting, which a search is compared with."""
        from fairaudit.tuning.plan import side_plans_of

        return side_plans_of(plan, dataset, own_model)

    @property
    def study(self) -> type[Tuned]:
        """What was tried, at what charge, and what it gained."""
        from fairaudit.tuning.study import Tuned

        return Tuned

    def measure(self, audit: Audit) -> Tuned | None:
        """Read it of the trainings that finished."""
        from fairaudit.tuning.measure import measure

        return measure(audit)
