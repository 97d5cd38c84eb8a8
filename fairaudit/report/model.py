"""The report: the one artefact of an audit. Field names are the JSON's names."""

import html
from collections.abc import Mapping, Sequence
from typing import Literal

from fairaudit.report.decomposition import Why
from fairaudit.report.facts import (
    ArmFacts,
    Artifact,
    Control,
    DataFacts,
    ExecutionFacts,
    Limitation,
    OptionValue,
    PrivacyFacts,
    ReportWarning,
    Tool,
    TrainingFacts,
)
from fairaudit.report.measured import (
    ChangedGap,
    Diagnostics,
    Leakage,
    SelectionRates,
    SklearnBaseline,
    Sweep,
    Tuning,
    Way,
)
from fairaudit.report.safe_names import plain
from fairaudit.report.summary import GateRecord, Outcome, Summary
from fairaudit.report.written import POINTS, written
from fairaudit.results.estimates import Comparison, Figure, Part

SCHEMA_VERSION = 3
# Two runs of one command differ in these and in nothing else.
VOLATILE = ("artifacts", "command", "created_utc", "environment", "execution", "timing")

# Codes of warnings after which a cost is called that of a configuration, and what each says in few words.
UNHEALTHY = {
    "worse_than_constant": "not shown to be better than a constant model",
    "loss_rises": "its training loss rises",
    "cost_not_falling": "it is not shown to fall as epsilon grows",
    "mostly_clipping": "most of it is there without noise",
    "at_edge": "its best settings are at the edge of what was searched",
}


class Report(Part):
    """Everything an audit found; the JSON file is this object rounded to six digits.

    ``content_sha256`` notices damage and edits of the file, not those of whoever also writes a new one.
    The object keeps full precision. It holds exact functions of raw rows and is not
    differentially private itself.
    """

    schema_version: Literal[3] = 3
    content_sha256: str = ""  # of everything but the volatile fields; set where the file is written
    numerics_version: str
    report_is_dp: Literal[False] = False
    tool: Tool
    created_utc: str
    status: Literal["complete", "partial"]
    command: tuple[str, ...]
    reproduce: str
    config: dict[str, OptionValue]
    environment: dict[str, str]
    execution: ExecutionFacts
    data: DataFacts
    training: TrainingFacts | None  # None: predictions were given, nothing was trained
    arms: tuple[ArmFacts, ...]
    privacy: dict[str, PrivacyFacts]
    sklearn_baseline: SklearnBaseline
    comparisons: tuple[Comparison, ...]
    control: Control
    selection: tuple[SelectionRates, ...]
    changed: tuple[ChangedGap, ...] | None = None  # None: of schema 1, which did not judge them together
    sweep: tuple[Sweep, ...] = ()  # empty where no method ran at several epsilons
    leakage: Leakage | None = None  # None: membership inference was not asked for
    tuning: Tuning | None = None  # None: settings were fixed
    gates: tuple[GateRecord, ...] = ()
    verdict: Outcome | None = None  # None: no gate was set
    summary: Summary | None = None  # None: of an earlier version
    diagnostics: Diagnostics
    why: Why | None = None
    warnings: tuple[ReportWarning, ...]
    limitations: tuple[Limitation, ...]
    artifacts: tuple[Artifact, ...] = ()
    timing: dict[str, Figure]

    @property
    def test_rows(self) -> str:
        """``test rows``, and how those of several splits are counted."""
        splits = 1 if self.training is None or self.data.split.given else self.training.seeds
        return "test rows" if splits == 1 else f"test rows (distinct, over {splits:,} splits)"

    @property
    def settings_tried(self) -> int | None:
        """At each seed in every arm, of which it gives the expectation; None where settings were fixed."""
        given = self.config.get("tune")
        return given.value if given is not None and isinstance(given.value, int) else None

    @property
    def every_arm(self) -> tuple[ArmFacts, ...]:
        """The arms, then those of the ways beside a search."""
        return (*self.arms, *(arm for way in self._ways for arm in way.arms))

    @property
    def every_comparison(self) -> tuple[Comparison, ...]:
        """The comparisons, then those of the ways beside a search."""
        return (*self.comparisons, *(comparison for way in self._ways for comparison in way.comparisons))

    @property
    def every_guarantee(self) -> dict[str, PrivacyFacts]:
        """What is guaranteed of every arm, those of the ways beside a search last."""
        return {**self.privacy, **{key: facts for way in self._ways for key, facts in way.privacy.items()}}

    @property
    def has_failures(self) -> bool:
        """Whether a planned training has no result, be it beside a search or to be attacked."""
        attacks_failed = self.leakage is not None and bool(self.leakage.unfinished)
        return attacks_failed or any(arm.failed for arm in self.every_arm)

    @property
    def _ways(self) -> tuple[Way, ...]:
        return () if self.tuning is None else self.tuning.ways

    @property
    def costs(self) -> tuple[Comparison, ...]:
        """The comparisons of an arm with another; a reference by itself has no cost."""
        return tuple(c for c in self.comparisons if c.reference)

    @property
    def attacks(self) -> tuple[Comparison, ...]:
        """The comparisons of attacked models; none where membership inference was not asked for."""
        return self.leakage.comparisons if self.leakage else ()

    @property
    def unhealthy(self) -> tuple[ReportWarning, ...]:
        """Warnings after which an arm's cost is called that of its settings; notices are none."""
        return tuple(w for w in self.warnings if w.arm and w.code in UNHEALTHY and w.level == "warning")

    @property
    def configurations(self) -> dict[str, list[str]]:
        """Arms whose cost is that of their settings more than of privacy, by why, in words."""
        told: dict[str, list[str]] = {}
        for warning in self.unhealthy:
            told.setdefault(warning.arm or "", []).append(UNHEALTHY[warning.code])
        found: dict[str, list[str]] = {}
        for arm, whys in told.items():
            found.setdefault("; ".join(dict.fromkeys(whys)), []).append(arm)
        return found

    def shares_trainings(self, other: "Report", *keys: str) -> bool:
        """Whether these arms are the very same trainings, or given predictions, in both reports."""
        mine, theirs = ({arm.key: arm.trainings for arm in one.every_arm} for one in (self, other))
        return _are_same(mine, theirs, keys)

    def shares_attacks(self, other: "Report", *keys: str) -> bool:
        """The same of the models that were attacked."""
        attacked = (one.leakage.arms if one.leakage else () for one in (self, other))
        mine, theirs = ({arm.arm: arm.trainings for arm in arms} for arms in attacked)
        return _are_same(mine, theirs, keys)

    # pandas takes 0.4 s to import, and no reader of a report but this one needs it.
    def by_group(self) -> "pandas.DataFrame":  # type: ignore[name-defined]  # noqa: F821
        """One row per arm, grouping and group: costs with interval ends, accuracies beside them.

        Returns:
            Columns ``arm, reference, grouping, group, n_test, n_train``, then ``privacy_cost``,
            ``excess_risk`` and any other cost each with ``_low`` and ``_high``, then ``accuracy`` and
            ``reference_accuracy``. Accuracies and costs are fractions, risks nats.
        """
        from fairaudit.report.frames import group_frame

        return group_frame(self)

    def metrics(self) -> "pandas.DataFrame":  # type: ignore[name-defined]  # noqa: F821
        """One row per arm, grouping, group and metric; the group "" stands for all test rows.

        Returns:
            Columns ``arm, reference, grouping, group, metric, value, low, high, unit, n_test, n_seeds,
            reason``: why there is no value or interval, or "".
        """
        from fairaudit.report.frames import metric_frame

        return metric_frame(self)

    def gaps(self) -> "pandas.DataFrame":  # type: ignore[name-defined]  # noqa: F821
        """One row per arm, grouping, metric and gap.

        Returns:
            Columns ``arm, reference, grouping, metric, kind, a, b``; ``value, low, high``: of a minus b;
            ``unit, n_test, n_seeds, reason``; ``size, size_low, size_high``: without its sign, with an
            interval that holds for all pairs together; ``direction`` (in words, "" where the sign is not
            told), ``gated``.
        """
        from fairaudit.report.frames import gap_frame

        return gap_frame(self)

    def figure(self, name: str) -> "NotebookChart":  # type: ignore[name-defined]  # noqa: F821
        """One chart of the report as Vega-Lite, which a notebook shows.

        Args:
            name: As in the HTML: ``privacy-cost``, ``accuracy``, ``excess-risk``, ``training-loss`` ...

        Raises:
            ConfigError: The report has no numbers for it.
        """
        from fairaudit.report.frames import figure

        return figure(self, name)

    def __repr__(self) -> str:
        """One line; all of it would be hundreds of pages."""
        verdict = "" if self.verdict is None else f", verdict {self.verdict}"
        arms = ", ".join(arm.key for arm in self.arms)
        return f"<fairaudit report on {plain(self.data.name)}: {plain(arms, 200)}; {self.status}{verdict}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The cost by group as a table, for notebooks; every name is escaped."""
        head = "".join(f"<th>{title}</th>" for title in ("method", "group", "test rows", "cost (points)"))
        body = "".join(
            f"<tr><td>{_cell(c.arm)}</td><td>{_cell(f'{c.grouping} {g.group}')}</td>"
            f"<td>{'' if g.n_test is None else g.n_test}</td>"
            f"<td>{html.escape(cost)}</td></tr>"
            for c in self.costs
            for g in c.by_group
            for cost in (written(g.estimates.get("privacy_cost"), POINTS) if g.estimates else g.reason,)
        )
        return (
            f"<p>fairaudit {_cell(self.tool.version)}: {_cell(self.data.name)}, {self.status}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def _cell(text: str) -> str:
    return html.escape(plain(text, 80))


def _are_same(mine: Mapping[str, str], theirs: Mapping[str, str], keys: Sequence[str]) -> bool:
    """Whether each of these names stands for the same trainings in both, and for some."""
    return all(mine.get(key) and mine.get(key) == theirs.get(key) for key in keys)
