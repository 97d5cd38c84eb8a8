"""The report: the one artefact of an audit. Field names are the JSON's names.

An arm is one trained configuration, a comparison is one arm against its reference (a model without
privacy), cut by one grouping of the rows. A study is what a capability, a folder of the program
that can be taken out, measured on trainings beside the audit's. It may hold ways: the arms of the
audit trained once more in another manner, as at default settings beside a search for settings.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, WithJsonSchema

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.messages.base import Message
from fairaudit.report.document import Section
from fairaudit.report.messages.base import FindingMessage
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.types.facts import (
    ArmFacts,
    ArmPrivacy,
    Artifact,
    DataFacts,
    ExecutionFacts,
    Limitation,
    OptionValue,
    ReportWarning,
    Tool,
    TrainingFacts,
    Way,
)
from fairaudit.report.types.findings import Finding, Knob
from fairaudit.report.types.measured import ChangedGap, Diagnostics, SklearnBaseline, Sweep
from fairaudit.report.types.verdicts import GateRecord, Outcome
from fairaudit.results.estimates import Comparison, Figure, Part

SCHEMA_VERSION = 2
# Two runs of one command differ in these and in nothing else.
VOLATILE = ("artifacts", "command", "created_utc", "environment", "execution", "timing")


class Study(Part):
    """What a capability measured beside the audit on trainings of its own, and what that says.

    Args:
        name: Of the capability.
        comparisons: What it measured on its trainings, by grouping.
        ways: The audit's arms trained once more, see :class:`Way`.
    """

    name: str
    comparisons: tuple[Comparison, ...]
    ways: tuple[Way, ...] = ()

    @property
    def settings_tried(self) -> int | None:
        """How many settings were tried for every arm at each seed; None: the study is no search."""
        return None

    @property
    def trainings(self) -> dict[str, str]:
        """Key of an arm -> digest of everything that the study's trainings of it depend on."""
        return {}

    @property
    def unfinished(self) -> dict[str, str]:
        """Key of an arm -> how many of the study's trainings of it have no result, in words."""
        return {}

    def warnings(self) -> Iterable[Message]:
        """What a reader of its numbers must know, for the report's warnings."""
        return ()

    def findings(self, report: "Report") -> Iterable[FindingMessage]:
        """What it found of the report's arms."""
        return ()

    def knob(self, compared: Sequence[Comparison]) -> Knob | None:
        """What to change so that an arm of the capability's own costs less; None: nothing known.

        Args:
            compared: The arm beside its references.
        """
        return None

    def sections(self, report: "Report") -> Mapping[str, Section]:
        """Place in ``sections.order.ORDER`` -> the section that the study puts before it."""
        return {}

    @classmethod
    def of(cls, report: "Report") -> Self | None:
        """The study of this class that a report holds; None where it holds none."""
        for study in report.studies.values():
            if isinstance(study, cls):
                return study
        return None


def _checked_study(content: Any) -> Study:  # noqa: ANN401 (of a file, or of an audit)
    """One value of ``Report.studies``, as an object of its study's class.

    An audit gives such an object, which stays as it is; a file gives a dict. The class belongs to a
    capability, so pydantic cannot know it: the dict's ``name`` says which capability it is.

    Raises:
        ValueError: No capability of that name is installed.
    """
    if isinstance(content, Study):
        return content
    types = {capability.name: capability.study for capability in CAPABILITIES}
    name = content.get("name") if isinstance(content, dict) else None
    study = types.get(str(name))
    if study is None:
        raise ValueError(f"no capability {name!r} here")
    # As JSON text: strict validation of Python values would refuse the lists that are tuples in the
    # class, and of JSON it takes them.
    return study.model_validate_json(json.dumps(content), strict=True)


# What a capability measured, whichever it is.
StudyField = Annotated[
    SerializeAsAny[Study],
    BeforeValidator(_checked_study),
    WithJsonSchema({"type": "object", "required": ["comparisons", "name"]}),
]


class Report(Part):
    """Everything an audit found; the JSON file is this object rounded to six digits.

    ``content_sha256`` notices damage and edits of the file, not those of whoever also writes a new
    one. The object keeps full precision. It holds exact functions of raw rows and is not
    differentially private itself.
    """

    schema_version: Literal[2] = 2
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
    sklearn_baseline: SklearnBaseline
    comparisons: tuple[Comparison, ...]
    changed: tuple[ChangedGap, ...] = ()
    sweep: tuple[Sweep, ...] = ()  # empty where no method ran at several epsilons
    studies: dict[str, StudyField] = Field(default_factory=dict)  # by capability
    gates: tuple[GateRecord, ...] = ()
    verdict: Outcome | None = None  # None: no gate was set
    findings: tuple[Finding, ...] = ()
    diagnostics: Diagnostics
    warnings: tuple[ReportWarning, ...]
    limitations: tuple[Limitation, ...]
    artifacts: tuple[Artifact, ...] = ()
    timing: dict[str, Figure]

    @property
    def test_rows(self) -> str:
        """What a count of test rows is called: ``test rows``, or with several splits ``distinct``.

        A row that is a test row of several splits is counted once. There is one split where
        predictions were given or a column says which rows are test rows; else one for each seed.
        """
        splits = 1
        if not (self.training is None or self.data.split.given):
            splits = self.training.seeds
        if splits == 1:
            return "test rows"
        return f"test rows (distinct, over {splits:,} splits)"

    def name_of(self, grouping: str, group: str) -> str:
        """A group's name for a reader, with its grouping if the report has several.

        All rows are the group "", whose name is "".
        """
        if len(self.data.groupings) == 1 or not group:
            return group_text(grouping, group)
        return f"{plain(grouping)} = {plain(group)}"

    @property
    def settings_tried(self) -> int | None:
        """How many settings a search tried for every arm at each seed; None without a search.

        With a search a number of an arm is the expectation over which of the tried models is kept.
        """
        for study in self.studies.values():
            if study.settings_tried is not None:
                return study.settings_tried
        return None

    @property
    def every_arm(self) -> tuple[ArmFacts, ...]:
        """The arms of the audit, then those of every way (at default settings beside a search)."""
        arms = list(self.arms)
        for way in self._ways:
            arms += way.arms
        return tuple(arms)

    @property
    def every_comparison(self) -> tuple[Comparison, ...]:
        """The comparisons of the audit, then those of every way."""
        comparisons = list(self.comparisons)
        for way in self._ways:
            comparisons += way.comparisons
        return tuple(comparisons)

    @property
    def privacy(self) -> dict[str, ArmPrivacy]:
        """Key of every arm of the audit -> what one trained model of it guarantees."""
        return {arm.key: arm.privacy for arm in self.arms}

    @property
    def every_guarantee(self) -> dict[str, ArmPrivacy]:
        """The same as ``privacy`` of every arm, those of ways included."""
        return {arm.key: arm.privacy for arm in self.every_arm}

    @property
    def has_failures(self) -> bool:
        """Whether a planned training has no result: of an arm, of a way or of a study."""
        if any(arm.failed for arm in self.every_arm):
            return True
        return any(study.unfinished for study in self.studies.values())

    @property
    def _ways(self) -> tuple[Way, ...]:
        """The ways of all studies: the arms trained once more, as at default settings."""
        ways: list[Way] = []
        for study in self.studies.values():
            ways += study.ways
        return tuple(ways)

    @property
    def all_comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons of the audit, then what its studies measured (as membership attacks).

        Unlike ``every_comparison`` it holds none of a way.
        """
        comparisons = list(self.comparisons)
        for study in self.studies.values():
            comparisons += study.comparisons
        return tuple(comparisons)

    @property
    def costs(self) -> tuple[Comparison, ...]:
        """The comparisons of an arm with its reference; a model measured by itself has no cost."""
        return tuple(c for c in self.comparisons if c.reference)

    def trainings(self, study: str = "") -> dict[str, str]:
        """Key of an arm -> digest of everything that its trainings depend on (data, options, code).

        Args:
            study: Name of the study whose own trainings are meant; "": those of the audit and of
                ways.
        """
        if study:
            return self.studies[study].trainings
        return {arm.key: arm.trainings for arm in self.every_arm}

    def shares_trainings(self, other: "Report", *keys: str, study: str = "") -> bool:
        """Whether these arms are the very same trainings, or given predictions, in both reports.

        Only then do equal numbers say that nothing changed; numbers of other trainings are equal by
        chance.

        Args:
            other: The report to compare with.
            keys: The arms.
            study: As of :meth:`trainings`.
        """
        ours, theirs = self.trainings(study), other.trainings(study)
        # An arm that this report lacks has no digest, and then nothing is known to be shared.
        return all(ours.get(key) and ours.get(key) == theirs.get(key) for key in keys)

    def __repr__(self) -> str:
        """Which report it is, in a line; all of it would be hundreds of pages."""
        return f"<fairaudit report on {self.data.name!r}: {self.status}>"

    __str__ = __repr__
