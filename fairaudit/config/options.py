"""The audit's options as one frozen value, and what the command line says of each.

Where a value came from is kept beside it (``config/value_sources.py``).
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from fairaudit.config.addresses import located
from fairaudit.config.declared import Declaration, DeclaredColumn, read_declaration
from fairaudit.config.named_columns import read_names
from fairaudit.config.presets import presets
from fairaudit.errors import ConfigError

LARGEST_EPSILON = 10_000  # a loss bounded by exp(10,000) is not bounded
LARGEST_SEED = 2**53  # up to it every reader of JSON keeps a whole number
Number = Annotated[float, Field(strict=True)]  # true and "1" are refused
Epsilon = Annotated[float, Field(gt=0, le=LARGEST_EPSILON, allow_inf_nan=False)]
Format = Literal["json", "md", "html", "junit", "svg", "png"]
MOST = 1_000_000_000  # of what is counted: libraries fail on numbers that no setting needs
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Seconds = Annotated[float, Field(gt=0, le=10_000_000, allow_inf_nan=False)]
Trials = Annotated[int, Field(ge=2, le=1_000)]
Repetitions = Annotated[int, Field(ge=1, le=10_000)]  # a plan holds a line for every training

OUT = "fairaudit-report"  # the folder of all reports, each in one that is named after its data
_LONGEST_NAME = 60
_PACKED = (".gz", ".zst", ".bz2", ".lz4", ".br")  # endings behind that of the data


class Effect(Enum):
    """What an option can change: a mark on its field's type.

    An option without a mark can change every training, so it is part of every job's id.
    """

    EXECUTION = "nothing: it says how and where to compute"
    PLANNED = "trainings, by what a plan's arms, schedule and jobs make of it"
    MEASURED = "what is measured on finished trainings"
    JUDGED = "what is said of a finished report"


EXECUTION, PLANNED, MEASURED, JUDGED = Effect

# Origin of the favourable class where nobody said which it is.
ASSUMED = "assumed"


def data_name(data: Path) -> str:
    """Name for a folder of results on these data, after the data file or folder without its ending.

    Only letters, digits, dots and dashes are kept, so the name is safe in a shell and never leads
    out of a folder.
    """
    # Of a packed file, as loans.csv.gz, two endings are left out.
    stem = Path(data.stem).stem if data.suffix.lower() in _PACKED else data.stem
    name = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", stem))
    return name[:_LONGEST_NAME].strip("-_.") or "data"


class SplitOptions(NamedTuple):
    """The options of a split; each is the field of that name in :class:`AuditConfig`."""

    test_size: float
    balance: bool
    keep: Mapping[str, float]


class EncodingOptions(NamedTuple):
    """The options of an encoding; each is the field of that name in :class:`AuditConfig`."""

    merge_rare: float
    pixel_range: str
    zero: Mapping[str, str] = {}


class TextOptions(NamedTuple):
    """The options of a text file; each is the field of that name in :class:`AuditConfig`."""

    names: tuple[str, ...] = ()


NO_TEXT_OPTIONS = TextOptions()


class AuditConfig(BaseModel):
    """Every option of an audit. Option names are these names with dashes.

    None means that an option was not given. Where a training needs a number, the plan then sets it
    by rule, from the data's size and the model, and the report shows the number and the rule.

    Example:
        >>> import fairaudit
        >>> config = fairaudit.AuditConfig(data="people.csv", group=("sex",), epsilon=(1.0, 8.0))
        >>> config.epsilon, config.seeds
        ((1.0, 8.0), 5)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # data
    data: Annotated[Path, BeforeValidator(located), PLANNED]
    group: tuple[str, ...] = ()
    intersect: bool = False
    label: str | None = None
    positive: str | None = None
    # The outcome that people want; impact ratios are about it
    favourable: Annotated[str | None, MEASURED] = None
    drop: tuple[str, ...] = ()
    # The content of a file, which is given by its path
    columns: Annotated[Declaration | None, BeforeValidator(read_declaration)] = None
    # Of the columns of a file without a header
    names: Annotated[tuple[str, ...], BeforeValidator(read_names)] = ()
    group_as_feature: bool = False
    bin: dict[str, str] = {}  # column -> "18,30,60" (edges) or "q4" (quantiles)
    contrast: dict[str, str] = {}  # column -> value: the column becomes value / not value
    # Texts that stand for a missing value; "COL=TEXT" in one column
    missing_values: tuple[str, ...] = ()
    number_format: tuple[str, ...] = ()  # "point", "comma", or "COL=" and one of these or "text"
    missing: Literal["impute", "drop", "error"] = "impute"
    merge_rare: Annotated[float, Field(ge=0, lt=1)] = 0.002  # levels below this share are merged
    zero: dict[str, str] = {}  # column of two values -> the value that is coded 0, the other 1
    group_by_label: bool = False  # the classes are groups too
    resize: str | None = None  # "HEIGHTxWIDTH"
    channels: Literal["auto", "grey", "rgb"] = "auto"
    pixels: str | None = None  # "28x28", "32x32x3", "3x32x32"
    pixel_range: Literal["symmetric", "unit"] = "symmetric"  # -1 to 1, or 0 to 1
    n_public: Annotated[Count | None, PLANNED] = None
    # Unlabelled records that PATE's student learns from
    public_data: Annotated[Path | None, BeforeValidator(located), PLANNED] = None
    # split
    split_column: str | None = None
    test_size: Fraction = 0.2
    balance: bool = False
    keep: dict[str, float] = {}  # group -> fraction kept, training split only
    # model and schedule
    model: Annotated[str, PLANNED] = "auto"
    hidden: tuple[Count, ...] = (256, 256)
    activation: Literal["tanh", "relu"] = "tanh"
    epochs: Annotated[Count | None, PLANNED] = None
    batch_size: Annotated[Count | None, PLANNED] = None
    learning_rate: Annotated[Positive | None, PLANNED] = None
    optimizer: Literal["sgd", "momentum", "adam"] = "sgd"
    # methods and privacy
    # Package.module:function, code of the user's own
    trainer: Annotated[tuple[str, ...], PLANNED] = ()
    synthesizer: Annotated[tuple[str, ...], PLANNED] = ()
    # A table that was made, in place of code that makes one
    synthetic: Annotated[Path | None, BeforeValidator(located), PLANNED] = None
    method: Annotated[tuple[str, ...], PLANNED] = ("global-adapt",)
    variant: Annotated[tuple[str, ...], PLANNED] = ()
    epsilon: Annotated[tuple[Epsilon, ...], PLANNED] = (3.0,)
    noise_multiplier: Annotated[NotNegative | None, PLANNED] = None
    delta: Annotated[Fraction | None, PLANNED] = None
    max_grad_norm: Annotated[Positive | None, PLANNED] = None
    threshold: Annotated[Positive | None, PLANNED] = None
    settings: Annotated[dict[str, dict[str, Number]], PLANNED] = {}  # method -> setting -> value
    preset: Annotated[str | None, PLANNED] = None
    # the search for settings
    tune: Annotated[Trials | None, PLANNED] = None
    tune_for: Annotated[Literal["accuracy", "worst-group"], PLANNED] = "accuracy"
    tune_privacy: Annotated[Literal["charged", "uncharged"], PLANNED] = "charged"
    # trainers of the user's own
    reference: Annotated[Literal["trainer", "sgd"], PLANNED] = "trainer"
    raw: Annotated[bool, PLANNED] = False
    trainer_groups: Annotated[bool, PLANNED] = False
    trainer_version: Annotated[str | None, PLANNED] = None
    # repetition
    seeds: Annotated[Repetitions, PLANNED] = 5
    repeats: Annotated[Repetitions, PLANNED] = 1
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED), PLANNED] = 0
    self_check: Annotated[bool, PLANNED] = False
    # Train arms with noisy steps without their noise, too, and their steps alone
    twins: Annotated[Literal["auto", "always", "off"], PLANNED] = "auto"
    # membership inference
    leakage: Annotated[bool, PLANNED] = False
    # Fewer leave no shadows of a side
    leakage_seeds: Annotated[int, Field(ge=8, le=1_000), PLANNED] = 16
    # further trainings on the first seed's split
    again: Annotated[int | None, Field(ge=3, le=1_000), PLANNED] = None
    # measurement and report
    # "2,8": the gap between two groups, asked for in advance
    compare: Annotated[tuple[str, ...], MEASURED] = ()
    diagnostics: Literal["off", "basic", "full"] = "basic"
    diagnostics_every: Count | None = None
    suppress_below: Annotated[int, Field(ge=0, le=MOST), MEASURED] = 0
    out: Annotated[Path, EXECUTION] = Field(
        default_factory=lambda known: Path(OUT, data_name(known["data"]))
    )
    format: Annotated[tuple[Format, ...], JUDGED] = ("json", "md", "html")
    note: Annotated[str | None, JUDGED] = None
    # gates
    fail_on: Annotated[tuple[str, ...], JUDGED] = ()
    baseline: Annotated[Path | None, JUDGED] = None
    inconclusive: Annotated[Literal["fail", "pass"] | None, JUDGED] = None
    changed_answers: Annotated[Fraction, JUDGED] = 0.05
    trust_claimed_epsilon: Annotated[bool, JUDGED] = False
    trust_module: Annotated[bool, JUDGED] = False
    # execution
    device: Annotated[Literal["auto", "cpu", "cuda"], EXECUTION] = "auto"
    workers: Annotated[int | None, Field(ge=1, le=10_000), EXECUTION] = None
    executor: Annotated[Literal["local", "ray"], EXECUTION] = "local"
    ray_address: Annotated[str | None, EXECUTION] = None
    cpus_per_job: Annotated[float, Field(gt=0, le=10_000), EXECUTION] = 1.0
    gpus_per_job: Annotated[float, Field(ge=0, le=10_000), EXECUTION] = 0.0
    # MiB of activations kept between the two passes of a step
    memory: Annotated[Count | None, EXECUTION] = None
    resume: Annotated[bool, EXECUTION] = True
    trainer_timeout: Annotated[Seconds | None, EXECUTION] = None
    trainer_memory: Annotated[Count | None, EXECUTION] = None  # MiB

    @property
    def reads_rows(self) -> bool:
        """Whether trainings need rows as the file holds them: some code of the user's own does.

        Other trainings read encoded rows alone.
        """
        return self.raw or bool(self.synthesizer) or self.synthetic is not None

    @property
    def split(self) -> SplitOptions:
        """The options by which rows become training and test rows."""
        return SplitOptions(self.test_size, self.balance, self.keep)

    @property
    def encoding(self) -> EncodingOptions:
        """The options by which rows become a model's inputs."""
        return EncodingOptions(self.merge_rare, self.pixel_range, self.zero)

    @property
    def text(self) -> TextOptions:
        """The options of reading a text file."""
        return TextOptions(self.names)

    @property
    def has_given_synthetic(self) -> bool:
        """Whether one given synthetic table is audited.

        The table was drawn once, so no seeds tell how another draw would differ: intervals hold
        the luck of training on it and of the test rows alone.
        """
        return self.synthetic is not None

    @property
    def declared(self) -> Mapping[str, DeclaredColumn]:
        """Column -> what ``--columns`` declares of it as publicly known; empty without it."""
        if self.columns:
            return self.columns.columns
        return {}

    @model_validator(mode="before")
    @classmethod
    def _with_own_defaults(cls, values: dict[str, object]) -> dict[str, object]:
        """Run by pydantic before validation: defaults that depend on another option.

        With code of the user's own or a synthetic table and no ``--method``, none of the program's
        methods is trained.
        """
        brought = [name for name in ("trainer", "synthesizer", "synthetic") if values.get(name)]
        if brought and "method" not in values:
            return {**values, "method": ()}
        return values

    @field_validator("out", mode="before")
    @classmethod
    def _refuse_no_folder(cls, value: object) -> object:
        """Run by pydantic before validation: refuse a value of ``out`` that can name no folder.

        An empty text would be taken for the current folder. Other values are returned as they are.

        Raises:
            ConfigError: The value is empty or holds a zero character.
        """
        if value == "" or "\0" in str(value):
            raise ConfigError(
                f"--out {str(value)!r} is no folder", hint="name a folder; . is the current one"
            )
        return value

    @field_validator("format", mode="before")
    @classmethod
    def _split_at_commas(cls, value: object) -> object:
        """Run by pydantic before validation: ``json,md`` becomes ``("json", "md")``.

        What is neither text nor a list of texts is left for pydantic to refuse.
        """
        parts = [value] if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            return value
        return tuple(name.strip() for part in parts for name in part.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class Option:
    """One field on the command line.

    Args:
        field: Name in AuditConfig.
        help: One line.
        metavar: Word that stands for the value in the help; None for a flag.
        flags: Spelling, where it is not the field's name with dashes.
        needs: Field of another option, without which this one has no effect and is refused.
        capability: Name of the capability that it belongs to; it is refused where that is not
            installed.
        joined: Whether its values are written as one, between commas, where none holds one.
    """

    field: str
    help: str
    metavar: str | None = None
    flags: str | None = None
    needs: str | None = None
    capability: str | None = None
    joined: bool = False


# Panel of the help -> its options: a row for each field, which says what AuditConfig does not.
PANELS: Mapping[str, tuple[Option, ...]] = {
    "Data": (
        Option(
            "data",
            "Table, or images (a folder or npz): a file, a folder, s3://.., gs://.., - for a pipe.",
            "PATH",
        ),
        Option("label", "Column to predict, unless the data declare it.", "COL"),
        Option("positive", "The label that rates are about; else the later of two.", "VALUE"),
        Option(
            "favourable", "The label that people want; gates on impact ratios need it.", "VALUE"
        ),
        Option("drop", "Column to leave out; repeat.", "COL"),
        Option(
            "names",
            "Names of the columns of a text file without a header: a file, or a,b,c.",
            "FILE|LIST",
            joined=True,
        ),
        Option(
            "columns", "What is publicly known of the columns; nothing is learned of them.", "FILE"
        ),
        Option(
            "missing_values",
            "A text that stands for a missing value, beside the empty field; repeat.",
            "TEXT|COL=TEXT",
        ),
        Option(
            "number_format",
            "How numbers are written: point (1,234.5) or comma (1.234,5); COL=text: none; repeat.",
            "FORMAT|COL=FORMAT",
        ),
        Option(
            "missing",
            "What to do with missing feature values (default: impute).",
            "impute|drop|error",
        ),
        Option("merge_rare", "Merge levels below this share of rows (default: 0.002).", "SHARE"),
        Option(
            "zero",
            "Code this one of a column's two values as 0 (default: the first sorted); repeat.",
            "COL=VALUE",
        ),
        Option(
            "pixels", "Take a table's columns of pixels, or its raw bytes, as images.", "HxW[xC]"
        ),
        Option("resize", "Scale all images to one size.", "HxW"),
        Option(
            "channels", "Grey or colour; auto: grey where all are (default: auto).", "auto|grey|rgb"
        ),
        Option(
            "pixel_range",
            "Scale pixels to -1..1 or to 0..1 (default: symmetric).",
            "symmetric|unit",
        ),
        Option("split_column", "Column that says train or test for each row.", "COL"),
        Option("test_size", "Share of rows held out (default: 0.2).", "SHARE"),
        Option(
            "public_data", "Public table for PATE's student; else half of the test rows.", "PATH"
        ),
    ),
    "Groups": (
        Option("group", "Column of groups; repeat. The first steers the splits.", "COL"),
        Option("group_by_label", "Take the classes of the label as groups, too."),
        Option("intersect", "Also compare the intersections of the group columns."),
        Option("bin", "Cut a numeric group at edges or quantiles; repeat.", "COL=EDGES|qN"),
        Option("contrast", "Turn a column into value / not value; repeat.", "COL=VALUE"),
        Option("compare", "Report the gap between two groups, as 2,8; repeat.", "A,B"),
        Option("group_as_feature", "Give the group column to the model."),
        Option("balance", "Cut all groups to one size before the split."),
        Option("keep", "Keep this fraction of a group's training rows; repeat.", "GROUP=FRACTION"),
        Option("suppress_below", "Hide groups with fewer test rows than this (default: 0).", "N"),
    ),
    "Privacy": (
        Option("method", "Method, `all` or `ablation`; repeat (default: global-adapt).", "NAME"),
        Option("variant", "Add a published form beside the default one; repeat.", "NAME"),
        Option(
            "epsilon", "Calibrate each method to this epsilon; repeat to sweep (default: 3).", "E"
        ),
        Option("noise_multiplier", "Set the noise instead; epsilons may differ.", "SIGMA"),
        Option("delta", "Delta (default: largest power of ten up to 1/(10 N)).", "D"),
        Option("max_grad_norm", "Clipping bound C (default: by rule).", "C"),
        Option("threshold", "Threshold Z of the global methods (default: by rule).", "Z"),
        Option("settings", "One method's number, as global.threshold=50.", "NAME=VALUE"),
        Option("preset", f"A paper's settings: {', '.join(presets())}.", "NAME"),
        Option("n_public", "Number of training records, as a public constant.", "N"),
    ),
    "Training": (
        Option(
            "model",
            "logistic, mlp, cnn or module:factory, which runs that code (default: logistic; "
            "images: cnn).",
            "NAME",
        ),
        Option("hidden", "Width of a hidden layer of mlp; repeat (default: 256, 256).", "WIDTH"),
        Option("activation", "Activation of mlp (default: tanh).", "tanh|relu"),
        Option("epochs", "Passes over the training rows (default: by rule).", "N"),
        Option("batch_size", "Expected batch size (default: by rule).", "N"),
        Option("learning_rate", "Step size of every method (default: by rule).", "RATE"),
        Option(
            "optimizer",
            "What is done with the released gradient (default: sgd).",
            "sgd|momentum|adam",
        ),
        Option(
            "seeds", "Seeds; each has its own split, undersampling and start (default: 5).", "N"
        ),
        Option("repeats", "Private runs per seed (default: 1).", "N"),
        Option("seed", "The first seed (default: 0).", "N"),
        Option(
            "twins",
            "Train methods without noise, and their steps alone, to split costs; auto where a cost "
            "is detected (default: auto).",
            "auto|always|off",
        ),
        Option("self_check", "Compare a private method with itself: no gap should show."),
        Option(
            "tune",
            "Try N settings of each method on held-out training rows; charge the search.",
            "N",
        ),
        Option(
            "tune_for",
            "What a setting is chosen by (default: accuracy).",
            "accuracy|worst-group",
            needs="tune",
        ),
        Option(
            "tune_privacy",
            "Whether epsilon covers the search (default: charged).",
            "charged|uncharged",
            needs="tune",
        ),
        Option(
            "leakage",
            "Also train on random halves and attack: who is exposed, by group.",
            capability="leakage",
        ),
        Option(
            "leakage_seeds",
            "Models of each method that are attacked, 8 or more (default: 16).",
            "N",
            needs="leakage",
        ),
        Option(
            "again",
            "Also train each method N times on the first seed's rows: who is decided by chance.",
            "N",
            capability="disagreement",
        ),
        Option(
            "diagnostics",
            "What is read of training: basic is gradient misalignment and the loss that steps add; "
            "full adds steps, bounds, curvature (default: basic).",
            "off|basic|full",
        ),
        Option("diagnostics_every", "Steps between the checkpoints of full.", "STEPS"),
    ),
    "Your own trainer": (
        Option(
            "trainer",
            "Audit module:function, which runs that code; repeat.",
            "NAME",
            capability="trainers",
        ),
        Option(
            "synthesizer",
            "Audit the synthetic tables of module:function, which runs that code; repeat.",
            "NAME",
            capability="trainers",
        ),
        Option("synthetic", "Audit this synthetic table.", "FILE", capability="trainers"),
        Option(
            "reference",
            "What its cost is measured against (default: trainer).",
            "trainer|sgd",
            needs="trainer",
        ),
        Option("raw", "Give it the rows as they stand in the file, not encoded.", needs="trainer"),
        Option("trainer_groups", "Give it the group of each training row.", needs="trainer"),
        Option("trainer_version", "Another text trains anew where nothing else changed.", "TEXT"),
        Option("trainer_timeout", "End a training of it after so many seconds.", "S"),
        Option("trainer_memory", "Most memory of a training of it.", "MIB"),
    ),
    "Report": (
        Option(
            "out",
            f"Folder of the report and of finished trainings (default: {OUT}/NAME, after the "
            "data).",
            "DIR",
        ),
        Option(
            "format",
            "Report files: json, md, html, junit; svg or png charts (default: json,md,html).",
            "KIND,...",
        ),
        Option("note", "Words of your own for its readers: purpose, owner, ticket.", "TEXT"),
    ),
    "Gates": (
        Option("fail_on", "Failing condition, as 'privacy_cost_gap > 0.02'; repeat.", "RULE"),
        Option("baseline", "Earlier report, for rules with .delta.", "REPORT"),
        Option("inconclusive", "What an inconclusive rule counts as; else exit 3.", "fail|pass"),
        Option(
            "changed_answers",
            "Share of answers that `plan` assumes privacy to change, where it forecasts whether a "
            "rule can be decided (default: 0.05).",
            "SHARE",
        ),
        Option("trust_claimed_epsilon", "Judge the epsilon that a trainer claims, unchecked."),
        Option("trust_module", "Judge the epsilon of a module of your own as established."),
    ),
    "Execution (never changes a result)": (
        Option(
            "device",
            "Where to train; auto: a GPU if there is one (default: auto).",
            "auto|cpu|cuda",
        ),
        Option("workers", "Trainings at a time (default: one per core).", "N"),
        Option("executor", "Where trainings are run (default: local).", "local|ray"),
        Option(
            "ray_address",
            "Ray cluster to use, or `auto`; else one is started here.",
            "ADDRESS",
            needs="executor",
        ),
        Option(
            "cpus_per_job",
            "Processors that a training asks of Ray (default: 1).",
            "N",
            needs="executor",
        ),
        Option(
            "gpus_per_job", "GPUs that a training asks of Ray (default: 0).", "N", needs="executor"
        ),
        Option("memory", "Activations kept between the two passes of a step.", "MIB"),
        Option("resume", "Go on from finished trainings, or not.", None, "--resume/--fresh"),
    ),
}
OF_OTHER_CODE = PANELS["Your own trainer"]
OPTIONS = tuple(option for options in PANELS.values() for option in options)


def marked(config: type[AuditConfig], *effects: Effect) -> set[str]:
    """Names of the options that are marked with one of these effects."""
    names = set()
    for name, field in config.model_fields.items():
        if any(effect in field.metadata for effect in effects):  # of Annotated[.., EXECUTION]
            names.add(name)
    return names
