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
    from fairaudit.report.model import Report
    from fairaudit.tuning.search import Tuning
    from fairaudit.tuning.study import Tuned


class SettingsSearch(Capability):
    """``--tune``: several settings of every arm are tried, and epsilon covers the choice."""

    name = "tuning"

    def messages(self) -> Sequence[type[Message]]:
        """The messages of the module ``messages`` of this folder."""
        from fairaudit.tuning import messages

        return messages_in(messages)

    def refuse(self, config: AuditConfig) -> None:
        """Refuse options that are about one setting."""
        from fairaudit.tuning.plan import refuse

        refuse(config)

    def unsuited(self, spec: MethodSpec, config: AuditConfig) -> Lacking | None:
        """Why a method takes no part in a search."""
        from fairaudit.tuning.plan import unsuited

        return unsuited(spec, config)

    def validation_rows(self, config: AuditConfig, rows: int) -> int:
        """How many training rows are for validation: candidates are scored on them."""
        from fairaudit.tuning.plan import validation_rows

        return validation_rows(config, rows)

    def search(self, draft: ArmDraft, config: AuditConfig, target: float | None) -> Tuning | None:
        """An arm's search around its default setting, with noise so that it costs the target."""
        from fairaudit.tuning.charge import search_of

        return search_of(draft, config, target)

    def reported_search(self, draft: ArmDraft, report: Report, arm: str) -> Tuning | None:
        """Around the reported default setting, with the noise and the charge that are reported."""
        from fairaudit.tuning.reported import reported_search

        return reported_search(draft, report, arm)

    def search_ranges(
        self, config: AuditConfig, ranges: Mapping[str, DeclaredRange]
    ) -> Tuning | None:
        """The search in the ranges that the user's code declares; not charged."""
        from fairaudit.tuning.ranges import search_ranges

        return search_ranges(config, ranges)

    def limitations(self, plan: Plan) -> Iterable[Message]:
        """What the figures of a search do not say."""
        from fairaudit.tuning.limitations import limitations

        return limitations(plan)

    def plan(
        self, plan: Plan, dataset: Dataset, own_model: ModelFacts | None
    ) -> Mapping[str, Plan]:
        """The plan of every arm at its default setting, which a search is compared with."""
        from fairaudit.tuning.plan import side_plans_of

        return side_plans_of(plan, dataset, own_model)

    @property
    def study(self) -> type[Tuned]:
        """The type of the study: what was tried, at what charge, and what searching gained."""
        from fairaudit.tuning.study import Tuned

        return Tuned

    def measure(self, audit: Audit) -> Tuned | None:
        """The study of an audit, from the trainings that finished."""
        from fairaudit.tuning.measure import measure

        return measure(audit)
