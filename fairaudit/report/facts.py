"""What was audited and what is guaranteed: the report's facts about data, training and privacy."""

from typing import Literal

from pydantic import Field, JsonValue

from fairaudit.config.options import ASSUMED
from fairaudit.methods.catalog import Guarantee
from fairaudit.results.estimates import EpsilonFigure, Figure, HighEnd, Part

# Sampling of an arm that releases something about all records at once.
NOT_SAMPLED = "none: what is released is about all training records at once"


class Tool(Part):
    """What wrote the report."""

    name: str
    version: str


class OptionValue(Part):
    """An option's value and where it came from."""

    value: JsonValue
    origin: str


class GroupFacts(Part):
    """One group of a grouping; ``rows`` is None where small counts are suppressed."""

    name: str
    rows: int | None
    is_missing: bool = False


class GroupingFacts(Part):
    """One way in which the rows were cut; the first steers splits and group-aware methods."""

    name: str
    steers: bool
    groups: tuple[GroupFacts, ...]


class ClassFacts(Part):
    """One class of the label."""

    name: str
    rows: int


class LabelFacts(Part):
    """The label and how it was found; its positive class, which rates are about (None: not known).

    ``favourable`` is the outcome that people want, which selection rates and impact ratios are
    about. ``favourable_origin`` says who said so; where nobody did, the positive class is assumed
    to be it, and gates do not take the assumption for a fact.
    """

    column: str
    origin: str
    classes: tuple[ClassFacts, ...]
    positive: str | None
    favourable: str | None
    favourable_origin: str

    @property
    def is_assumed(self) -> bool:
        """Whether nobody said that people want the favourable class."""
        return self.favourable_origin == ASSUMED


class SplitFacts(Part):
    """How rows became training and test rows; counts are of the first seed."""

    given: bool
    test_size: Figure | None
    balanced: bool
    keep: dict[str, Figure]
    train_rows: int | None
    test_rows: int | None


class ImageFacts(Part):
    """The images: their common shape, what was done to them, and how pixels became inputs."""

    height: int
    width: int
    channels: int
    resized: bool
    scaling: str


class DataFacts(Part):
    """The data: what was read, dropped, missing and repeated.

    ``dropped_rows`` and ``missing`` count per group of the first grouping; a count that is
    suppressed is None. ``fitted`` lists what was learned from training rows without privacy. Of
    images, rows are images and ``images`` tells their shape; None for a table. Of given predictions
    there are no features, so repeated rows are not known. ``outside_declaration`` counts values of
    declared columns that are not as declared.
    """

    name: str
    format: str
    sha256: str
    rows_read: int
    columns_read: int
    rows: int
    label: LabelFacts
    groupings: tuple[GroupingFacts, ...]
    features: tuple[str, ...]
    inputs: int | None
    dropped_rows: dict[str, dict[str, int | None]]
    dropped_columns: dict[str, str]
    missing: dict[str, dict[str, int | None]]
    duplicate_rows: int | None
    duplicates_across_split: int | None
    fitted: tuple[str, ...]
    merged_levels: dict[str, int]
    outside_declaration: dict[str, dict[str, int | None]] = Field(default_factory=dict)
    split: SplitFacts
    images: ImageFacts | None = None


class TrainingFacts(Part):
    """What every arm shares: model, sampling and schedule; ``rules`` says what set each number.

    ``parameters`` is None where it depends on how a seed's table is encoded; ``gradients`` says
    which engine gives each record's gradient.
    """

    model: str
    parameters: int | None
    gradients: str
    n_public: int
    steps_per_epoch: int
    epochs: int
    steps: int
    sample_rate: Figure
    expected_batch_size: Figure
    seeds: int
    repeats: int
    rules: dict[str, str]


class Epsilon(Part):
    """Epsilon of one run by two accountants; rounded up.

    The headline is ``pld``, or ``rdp`` without it.
    """

    pld: EpsilonFigure | None
    rdp: EpsilonFigure | None

    @property
    def headline(self) -> float | None:
        """By PLD; by RDP where a search is charged, which no PLD accountant knows."""
        if self.pld is None:
            return self.rdp
        return self.pld


class ReleaseFacts(Part):
    """One noisy release of a step."""

    name: str
    noise_multiplier: Figure


class AttackFacts(Part):
    """The most that an attacker can do who knows all but whether a record was trained on.

    Of people who were not he accuses the share ``false_positive_rate``, of those who were at most
    ``true_positive_rate``.
    """

    false_positive_rate: Figure
    true_positive_rate: HighEnd


class ClaimFacts(Part):
    """What a trainer of the user's own says of its privacy; nothing of it is checked.

    ``epsilon`` and ``delta`` are the largest that any of its ``trainings`` claims, None where one
    of them claims nothing; ``asked_delta`` is what it was asked for beside ``target_epsilon``.
    """

    asked_delta: Figure
    epsilon: EpsilonFigure | None
    delta: Figure | None
    unit: str
    neighbouring: str
    accountant: str
    trainings: int
    claiming: int


class PrivacyFacts(Part):
    """What one trained model of an arm guarantees, and what that does not cover.

    ``guarantee`` is the status of the training mechanism given the encoded table;
    ``epsilon_if_all_released`` the PLD epsilon of releasing every private model of the audit;
    ``attack`` what the guarantee means for an attacker, empty where none is proved; ``claim`` what
    a trainer of the user's own says, for which all else is None or empty.
    """

    guarantee: Guarantee
    reason: str
    unit: str
    neighbouring: str
    sampling: str
    accountant: str
    epsilon: Epsilon | None
    target_epsilon: Figure | None
    delta: Figure | None
    sample_rate: Figure | None
    steps: int | None
    releases: tuple[ReleaseFacts, ...]
    effective_noise_multiplier: Figure | None
    epsilon_if_all_released: EpsilonFigure | None
    not_covered: tuple[str, ...]
    attack: tuple[AttackFacts, ...] = ()
    claim: ClaimFacts | None = None


NOTHING_KNOWN = PrivacyFacts(
    guarantee=Guarantee.NONE,
    reason="",
    unit="",
    neighbouring="",
    sampling="",
    accountant="",
    epsilon=None,
    target_epsilon=None,
    delta=None,
    sample_rate=None,
    steps=None,
    releases=(),
    effective_noise_multiplier=None,
    epsilon_if_all_released=None,
    not_covered=(),
)


class FailedSeed(Part):
    """A seed of an arm that ended without a model."""

    seed: int
    message: str


class ArmFacts(Part):
    """One method in one form: its numbers, its reference and how many seeds finished.

    ``trainings`` is a digest of all that the finished trainings follow from (data, options, code),
    or of the predictions that were given: where it is equal in two reports, the trainings are the
    same.
    ``step_shortened``: Its step is shorter than the reference's, by the rule that reads the noise,
    so a larger epsilon makes it longer.
    ``trainer``: The user's own code that trained it, as ``module:function``, or "".
    ``differs_by``: Of that code, by how much the probabilities of two equal trainings differ at
        most.
    """

    key: str
    method: str
    variant: str | None
    settings: dict[str, Figure]
    reference: str | None
    source: str | None
    reads_groups: bool
    repeats: int
    seeds_planned: int
    seeds_finished: int
    failed: tuple[FailedSeed, ...]
    trainings: str
    step_shortened: bool = False
    trainer: str = ""
    differs_by: Figure | None = None


class Control(Part):
    """Whether plain DP-SGD at the same effective step was trained beside a threshold method.

    ``message`` is the finding in words, or what to run.
    """

    status: Literal["run", "not run", "not needed"]
    message: str


class ReportWarning(Part):
    """Something that may bias the audit or must be known to read it.

    ``arm``: whom it is about, or "".
    """

    code: str
    level: Literal["warning", "notice"]
    message: str
    fix: str
    arm: str = ""


class Limitation(Part):
    """One thing that the figures do not say."""

    code: str
    text: str


class Artifact(Part):
    """A file written beside the report; the path is relative to the output directory."""

    path: str
    sha256: str


class ExecutionFacts(Part):
    """How the audit was computed; never changes a result."""

    device: str
    workers: int | None
    executor: str
    memory: int | None
    resume: bool
    out: str
