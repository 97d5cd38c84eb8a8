"""What was audited and what is guaranteed: the report's facts about data, training and privacy."""

from typing import Literal, Self

from pydantic import JsonValue

from fairaudit.config.options import ASSUMED
from fairaudit.messages.base import Message
from fairaudit.methods.spec import Guarantee
from fairaudit.privacy.events import PrivacyEvent
from fairaudit.results.estimates import Comparison, EpsilonFigure, Figure, HighEnd, Part

KEPT_STEPS = 8  # of a training, unless --diagnostics-every says otherwise
UNIT = (
    "one training record (features, group and label), with the split and any undersampling held "
    "fixed"
)
NEIGHBOURING = "add or remove one record"


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
    """One way in which the rows were cut; the first steers splits and group-aware methods.

    ``fitted``: its groups are cut at quantiles of the rows, so that their names tell of these.
    """

    name: str
    groups: tuple[GroupFacts, ...]
    fitted: bool = False


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
        """Whether the favourable class is a guess: nobody said that people want it."""
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
    suppressed is None. ``categorical`` lists the features that are categories; others are numbers,
    or images. ``fitted`` lists what was learned from training rows without privacy. Of images, rows
    are images and ``images`` tells their shape; None for a table. ``could_be_groups`` are features
    of two to twelve values, by which people were not compared. Of given predictions there are no
    features, so repeated rows are not known.
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
    categorical: tuple[str, ...]
    inputs: int | None
    dropped_rows: dict[str, dict[str, int | None]]
    dropped_columns: dict[str, str]
    missing: dict[str, dict[str, int | None]]
    duplicate_rows: int | None
    duplicates_across_split: int | None
    fitted: tuple[str, ...]
    merged_levels: dict[str, int]
    split: SplitFacts
    images: ImageFacts | None = None
    could_be_groups: tuple[str, ...] = ()


class Schedule(Part):
    """How long every arm trains; one for the whole audit, so that arms can share their samples.

    Args:
        n_public: N, the number of training records: a public constant.
        steps_per_epoch: The sampling rate is 1 / steps_per_epoch.
        epochs: Passes; steps = epochs * steps_per_epoch.
    """

    n_public: int
    steps_per_epoch: int
    epochs: int

    @property
    def steps(self) -> int:
        """T, steps of one training, empty batches included."""
        return self.steps_per_epoch * self.epochs

    def kept(self, every: int | None) -> tuple[int, ...]:
        """The steps whose parameters are kept, so that they can be read after training.

        Args:
            every: Every how many steps; None: eight spread from the first to the last, or all steps
                where there are fewer.

        Returns:
            Numbers of steps from 0, rising.
        """
        if every is not None:
            return tuple(range(0, self.steps, every))
        if self.steps <= KEPT_STEPS:
            return tuple(range(self.steps))
        return tuple(round(i * (self.steps - 1) / (KEPT_STEPS - 1)) for i in range(KEPT_STEPS))

    @property
    def sample_rate(self) -> float:
        """q, the Poisson inclusion probability of each record."""
        return 1.0 / self.steps_per_epoch

    @property
    def expected_batch_size(self) -> float:
        """qN, the only divisor of a private release."""
        return self.n_public / self.steps_per_epoch


class TrainingFacts(Schedule):
    """What every arm shares, as it was planned.

    Args:
        model: Resolved model name.
        parameters: None where it depends on how a seed's table is encoded.
        gradients: Which engine gives each record's gradient.
        own_model: sha256 of a user's own model: its code, layers and the values that it starts
            from; "" for a built-in one.
        public_data: sha256 of ``--public-data``; None without it.
        student_pool: Records from which a student would learn: those of ``--public-data``, else
            half of the test rows.
        delta: Of every epsilon.
        seeds, repeats: As asked for.
        rules: Setting -> the rule that set it.
        epsilon_if_all_released: PLD epsilon of releasing every private model of the audit and its
            studies, or None.
        unit, neighbouring: What one epsilon is about.
        accountant: The library that every epsilon was computed by.
    """

    model: str
    parameters: int | None
    gradients: str
    own_model: str
    public_data: str | None
    student_pool: int
    delta: float
    seeds: int
    repeats: int
    rules: dict[str, str]
    epsilon_if_all_released: EpsilonFigure | None
    accountant: str
    unit: str = UNIT
    neighbouring: str = NEIGHBOURING


class Epsilon(Part):
    """Epsilon of one run by two accountants; rounded up.

    The headline is ``pld``, or ``rdp`` without it.
    """

    pld: EpsilonFigure | None
    rdp: EpsilonFigure | None

    @property
    def headline(self) -> float | None:
        """The epsilon that a report leads with: by PLD, else by RDP; None where neither is known.

        Only RDP can charge a search for settings.
        """
        if self.pld is None:
            return self.rdp
        return self.pld


class AttackFacts(Part):
    """What a guarantee leaves to an attacker who knows all but whether a record was trained on.

    If he accuses the share ``false_positive_rate`` of the records that were not trained on, he
    accuses at most the share ``true_positive_rate`` of those that were.
    """

    false_positive_rate: Figure
    true_positive_rate: HighEnd


class ClaimFacts(Part):
    """What a trainer of the user's own says of its privacy; nothing of it is checked.

    ``epsilon`` and ``delta`` are the largest that any of its ``trainings`` finished trainings
    claims, None unless all of them claim something; ``claiming`` of them do. ``asked_delta`` is the
    delta that the trainer was asked for beside ``ArmPrivacy.target_epsilon``.
    """

    asked_delta: Figure
    epsilon: EpsilonFigure | None
    delta: Figure | None
    unit: str
    neighbouring: str
    accountant: str
    trainings: int
    claiming: int


EDGES = "edges of the groups of"  # how an item of `not_covered` begins: quantiles of the rows


class ArmPrivacy(Part):
    """What one trained model of an arm guarantees, and what that does not cover.

    Args:
        guarantee: Status of the training mechanism given the encoded table.
        reason: Why it is not established, or what is charged beside a training; else "".
        event: What one training releases, None where nothing is claimed; of a charged search one
            training at the default setting. The search's epsilon is by RDP alone, for PLD knows no
            such search.
        epsilon: Of one run, None where nothing is claimed.
        target_epsilon: What it was calibrated to; None: the noise was given.
        delta: Beside epsilon.
        base_epsilon: PLD epsilon of one training of a charged search, the dearest candidate.
        not_covered: What an established epsilon leaves out.
        attack: What the guarantee leaves to an attacker, an item for each rate of false alarms; ()
            before the audit has trained.
        claim: What a trainer of the user's own says; None of other arms, and before the audit has
            trained.
    """

    guarantee: Guarantee
    reason: str = ""
    event: PrivacyEvent | None = None
    epsilon: Epsilon | None = None
    target_epsilon: Figure | None = None
    delta: float | None = None
    base_epsilon: EpsilonFigure | None = None
    not_covered: tuple[str, ...] = ()
    attack: tuple[AttackFacts, ...] = ()
    claim: ClaimFacts | None = None

    @property
    def headline(self) -> float | None:
        """The one epsilon that stands for the arm, of one run; None where none is accounted for."""
        if self.epsilon is None:
            return None
        return self.epsilon.headline


class ArmPlan(Part):
    """One column of the report, as it was planned: a method in one form at one epsilon.

    Args:
        key: ``method``, ``method:variant``, ``method@epsilon`` (sweeps), ``method#self-check``.
        method: Canonical method name.
        variant: Variant name or None.
        settings: Resolved numbers (learning_rate, max_grad_norm, noise_multiplier, ...), exact.
        privacy: What one run of it guarantees.
        reference: Key of the arm that its cost is measured against, None for the reference.
        source: Key of the arm whose released thresholds it reads, or None.
        reads_groups: Whether group labels enter training.
        trainer: ``module:Class``; of the user's own code ``module:function``; "": not trained here.
        repeats: Private runs per seed; 1 for a reference.
        shares_samples: Its first repeat trains on the reference's Poisson sample (paired arms); a
            self-check arm draws its own.
        capability: Name of the capability that trains it by code of the user's own, whose settings
            are that code's; "": the program itself trains it.
        step_by_rule: Whether the rule that reads the noise sets its learning rate, so that a larger
            epsilon makes its steps longer.
    """

    key: str
    method: str
    variant: str | None
    settings: dict[str, float]
    privacy: ArmPrivacy
    reference: str | None
    source: str | None
    reads_groups: bool
    trainer: str
    repeats: int
    shares_samples: bool = True
    capability: str = ""
    step_by_rule: bool = False


class FailedSeed(Part):
    """A seed of an arm that ended without a model."""

    seed: int
    message: str


class ArmFacts(ArmPlan):
    """An arm after training: which of its seeds failed.

    ``trainings`` is a digest of all that the finished trainings follow from (data, options, code),
    or of the predictions that were given: where it is equal in two reports, the trainings are the
    same. It is "" where none finished.
    """

    seeds_planned: int
    failed: tuple[FailedSeed, ...]
    trainings: str


class Way(Part):
    """The arms of the report trained and compared once more in another manner.

    The way ``default`` trains them at default settings, beside a search for settings. Its name
    enters the arms' keys: ``dpsgd:default@3`` of ``dpsgd@3``.
    """

    name: str
    arms: tuple[ArmFacts, ...]
    comparisons: tuple[Comparison, ...]


class ReportWarning(Part):
    """Something that may bias the audit or must be known to read it.

    ``arm``: whom it is about, or "".
    """

    code: str
    level: Literal["warning", "notice"]
    message: str
    fix: str
    arm: str = ""

    @classmethod
    def of(cls, message: Message) -> Self:
        """The warning or notice as a report holds it."""
        assert message.level in ("warning", "notice"), message.code
        return cls(
            code=message.code,
            level=message.level,
            message=message.text,
            fix=message.fix,
            arm=message.about,
        )


class Limitation(Part):
    """One thing that the figures do not say."""

    code: str
    text: str

    @classmethod
    def of(cls, message: Message) -> Self:
        """The limitation as a report holds it."""
        return cls(code=message.code, text=message.text)


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
