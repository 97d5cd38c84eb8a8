"""The options that `run` and `plan` share: one row per field of AuditConfig."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer

from fairaudit.config.options import OUT, data_name
from fairaudit.config.presets.catalog import PRESETS
from fairaudit.config.sources import ResolvedConfig, nested_settings, parse_pairs, resolve_config
from fairaudit.errors import ConfigError

# Panel of the help -> its options; the others stand at the end.
PANELS: Mapping[str, tuple[str, ...]] = {
    "Data": (
        *(
            "data",
            "label",
            "positive",
            "favourable",
            "drop",
            "missing",
            "merge_rare",
            "infer",
            "image_column",
        ),
        *("resize", "channels", "pixel_range", "skip_bad_images", "split_column", "test_size", "public_data"),
    ),
    "Groups": (
        *("group", "group_by_label", "intersect", "bin", "contrast", "compare", "group_as_feature"),
        *("balance", "keep", "suppress_below"),
    ),
    "Privacy": (
        *("method", "variant", "epsilon", "noise_multiplier", "delta", "max_grad_norm", "threshold"),
        *("settings", "preset", "n_public"),
    ),
    "Training": (
        *("model", "hidden", "activation", "epochs", "batch_size", "learning_rate", "optimizer"),
        *("seeds", "repeats", "seed", "twins", "self_check", "diagnostics", "diagnostics_every"),
    ),
    "Report": ("out", "format", "json", "quiet", "verbose"),
    "Gates": ("fail_on", "baseline", "inconclusive"),
    "Execution (never changes a result)": (
        *("device", "workers", "executor", "ray_address", "cpus_per_job", "gpus_per_job", "memory"),
        *("resume", "config", "trust_config"),
    ),
}


@dataclass(frozen=True, slots=True)
class Option:
    """One field on the command line.

    Args:
        field: Name in AuditConfig. kind: What it is; ``list`` repeats, ``dict`` repeats NAME=VALUE.
        help: One line. metavar: Shown for the value.
        flags: Spelling, where it is not the field's name with dashes.
    """

    field: str
    kind: type
    help: str
    metavar: str | None = None
    flags: str | None = None


OPTIONS: tuple[Option, ...] = (
    Option("data", str, "Table, or images (folder, npz, parquet); a file, folder or glob.", "PATH"),
    Option("group", list, "Column of groups; repeat. The first steers the splits.", "COL"),
    Option("group_by_label", bool, "Take the classes of the label as groups, too."),
    Option("intersect", bool, "Also compare the intersections of the group columns."),
    Option("label", str, "Column to predict; inferred when left out and unambiguous.", "COL"),
    Option("positive", str, "The label that rates are about; inferred from common spellings.", "VALUE"),
    Option("favourable", str, "The label that people want; gates on impact ratios need it.", "VALUE"),
    Option("drop", list, "Column to leave out; repeat.", "COL"),
    Option("columns", str, "What is publicly known of the columns; nothing is learned of them.", "FILE"),
    Option("group_as_feature", bool, "Give the group column to the model."),
    Option("bin", dict, "Cut a numeric group at edges or quantiles; repeat.", "COL=EDGES|qN"),
    Option("contrast", dict, "Turn a column into value / not value; repeat.", "COL=VALUE"),
    Option("missing", str, "What to do with missing feature values (default: impute).", "impute|drop|error"),
    Option("merge_rare", float, "Merge levels below this share of rows (default: 0.002).", "SHARE"),
    Option("infer", bool, "Guess label and positive value from the file (default: infer)."),
    Option("image_column", str, "Column or array of images, where several hold some.", "COL"),
    Option("resize", str, "Scale all images to one size.", "HxW"),
    Option("channels", str, "Grey or colour; auto: grey where all are (default: auto).", "auto|grey|rgb"),
    Option("pixel_range", str, "Scale pixels to -1..1 or to 0..1 (default: symmetric).", "symmetric|unit"),
    Option("skip_bad_images", bool, "Leave out images that cannot be read; they are counted."),
    Option("n_public", int, "Number of training records, as a public constant.", "N"),
    Option("public_data", str, "Public table for PATE's student; else half of the test rows.", "PATH"),
    Option("split_column", str, "Column that says train or test for each row.", "COL"),
    Option("test_size", float, "Share of rows held out (default: 0.2).", "SHARE"),
    Option("balance", bool, "Cut all groups to one size before the split."),
    Option("keep", dict, "Keep this fraction of a group's training rows; repeat.", "GROUP=FRACTION"),
    Option(
        "model",
        str,
        "logistic, mlp, cnn or module:factory, which runs that code (default: logistic; images: cnn).",
        "NAME",
    ),
    Option("hidden", list, "Width of a hidden layer of mlp; repeat (default: 256, 256).", "WIDTH"),
    Option("activation", str, "Activation of mlp (default: tanh).", "tanh|relu"),
    Option("epochs", int, "Passes over the training rows (default: by rule).", "N"),
    Option("batch_size", int, "Expected batch size (default: by rule).", "N"),
    Option("learning_rate", float, "Step size of every method (default: by rule).", "RATE"),
    Option("optimizer", str, "What is done with the released gradient (default: sgd).", "sgd|momentum|adam"),
    Option("method", list, "Method, `all` or `ablation`; repeat (default: global-adapt).", "NAME"),
    Option("variant", list, "Add a published form beside the default one; repeat.", "NAME"),
    Option("epsilon", list, "Calibrate each method to this epsilon; repeat to sweep (default: 3).", "E"),
    Option("noise_multiplier", float, "Set the noise instead; epsilons may differ.", "SIGMA"),
    Option("delta", float, "Delta (default: largest power of ten up to 1/(10 N)).", "D"),
    Option("max_grad_norm", float, "Clipping bound C (default: by rule).", "C"),
    Option("threshold", float, "Threshold Z of the global methods (default: by rule).", "Z"),
    Option("settings", dict, "One method's number, as global.threshold=50.", "NAME=VALUE"),
    Option("preset", str, f"A paper's settings: {', '.join(PRESETS)}.", "NAME"),
    Option("tune", int, "Try N settings of every arm on held-out training rows; charge the search.", "N"),
    Option("tune_for", str, "What a setting is chosen by (default: accuracy).", "accuracy|worst-group"),
    Option("tune_privacy", str, "Whether epsilon covers the search (default: charged).", "charged|uncharged"),
    Option("seeds", int, "Seeds; each has its own split, undersampling and start (default: 5).", "N"),
    Option("repeats", int, "Private runs per seed (default: 1).", "N"),
    Option("seed", int, "The first seed (default: 0).", "N"),
    Option("self_check", bool, "Compare a private method with itself: no gap should show."),
    Option("twins", bool, "Train each private method without noise too, to split its cost (default: twins)."),
    Option(
        "diagnostics",
        str,
        "What is read of the training: full says why; auto is full where cheap, else basic (default: auto).",
        "auto|off|basic|full",
    ),
    Option("diagnostics_every", int, "Steps between gradient readings, and checkpoints of full.", "STEPS"),
    Option("compare", list, "Report the gap between two groups, as 2,8; repeat.", "A,B"),
    Option("suppress_below", int, "Hide groups with fewer test rows than this (default: 0).", "N"),
    Option(
        "out",
        str,
        f"Folder of the report and of finished trainings (default: {OUT}/NAME, after the data).",
        "DIR",
    ),
    Option(
        "format",
        list,
        "Report files: json, md, html, junit, model-card; svg or png charts (default: json,md,html).",
        "KIND,...",
    ),
    Option("fail_on", list, "Failing condition, as 'privacy_cost_gap > 0.02'; repeat.", "RULE"),
    Option("baseline", str, "Earlier report, for rules with .delta.", "REPORT"),
    Option("inconclusive", str, "What an inconclusive rule counts as; else exit 3.", "fail|pass"),
    Option("device", str, "Where to train; auto: a GPU if there is one (default: auto).", "auto|cpu|cuda"),
    Option("workers", int, "Trainings at a time (default: one per core).", "N"),
    Option("executor", str, "Where trainings are run (default: local).", "local|ray"),
    Option("ray_address", str, "Ray cluster to use, or `auto`; else one is started here.", "ADDRESS"),
    Option("cpus_per_job", float, "Processors that a training asks of Ray (default: 1).", "N"),
    Option("gpus_per_job", float, "GPUs that a training asks of Ray (default: 0).", "N"),
    Option("memory", int, "Activations kept between the two passes of a step.", "MIB"),
    Option("resume", bool, "Go on from finished trainings, or not.", None, "--resume/--fresh"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Given:
    """What one command line said.

    Args:
        values: Field -> value, only where it was given. config: File of ``--config``.
        trust_config: Whether a file that was found may do all that one named by hand may.
        json: The answer alone on stdout. quiet, verbose: How much to tell.
        beside: The command's own options.
    """

    values: Mapping[str, object]
    config: Path | None
    trust_config: bool
    json: bool
    quiet: bool
    verbose: bool
    beside: Mapping[str, object] = field(default_factory=dict)


def takes_audit_options(
    command: Callable[[Given], None], *, beside: Sequence[inspect.Parameter] = ()
) -> Callable[..., None]:
    """The command with every option of an audit in its signature, for typer to read.

    Args:
        command: Takes what was typed. beside: Its own options, as of :func:`plain_option`.
    """

    @wraps(command)
    def parsed(**typed: object) -> None:
        own = {parameter.name: typed.pop(parameter.name) for parameter in beside}
        command(replace(_given(typed), beside=own))

    parameters = [*map(_parameter, OPTIONS), *beside]
    parameters += [
        plain_option("config", Path | None, None, "TOML file of options.", "--config", metavar="FILE"),
        plain_option(
            "trust_config",
            bool,
            False,
            "Let a found file of options run code, write elsewhere or use a cluster.",
            "--trust-config",
        ),
        plain_option("json", bool, False, "Print the answer as JSON on stdout, and only that.", "--json"),
        plain_option("quiet", bool, False, "Say nothing but errors.", "--quiet", "-q"),
        plain_option("verbose", bool, False, "Say more.", "--verbose", "-v"),
    ]
    parsed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    parsed.__annotations__ = {p.name: p.annotation for p in parameters}
    return parsed


def settled(given: Given, home: str | None = None) -> ResolvedConfig:
    """What was typed, laid over the environment and the files of options.

    Args:
        given: The command line. home: Where results go unless it says so; None: as the other places say.

    Raises:
        ConfigError: The options contradict each other, or the current folder is gone.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the current folder was deleted", hint="cd to a folder that exists") from None
    resolved = resolve_config(
        given.values,
        environment=os.environ,
        folder=folder,
        config_file=given.config,
        trust_found=given.trust_config,
    )
    if home is None or "out" in given.values:
        return resolved
    config = resolved.config
    return replace(resolved, config=config.model_copy(update={"out": Path(home, data_name(config.data))}))


def _given(typed: Mapping[str, object]) -> Given:
    values: dict[str, object] = {}
    for option in OPTIONS:
        value = typed[option.field]
        if value is None or value == []:
            continue
        if option.kind is dict:
            assert isinstance(value, list)
            pairs = parse_pairs(value, option.field)
            values[option.field] = nested_settings(pairs) if option.field == "settings" else pairs
        elif option.field == "format":
            assert isinstance(value, list)
            values[option.field] = [word.strip() for words in value for word in words.split(",")]
        else:
            values[option.field] = value
    config = typed["config"]
    assert config is None or isinstance(config, Path)
    return Given(
        values,
        config,
        trust_config=bool(typed["trust_config"]),
        json=bool(typed["json"]),
        quiet=bool(typed["quiet"]),
        verbose=bool(typed["verbose"]),
    )


def _parameter(option: Option) -> inspect.Parameter:
    name = option.flags or "--" + option.field.replace("_", "-")
    if option.kind is bool and option.flags is None:
        name = f"{name}/--no-{name.removeprefix('--')}"
    # Numbers are read where their ranges are known, whichever place sets them.
    kind = list[str] if option.kind in (list, dict) else bool if option.kind is bool else str
    declared = typer.Option(name, help=option.help, metavar=option.metavar, show_default=False)
    return inspect.Parameter(
        option.field,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, declared],
    )


def plain_option(
    name: str, kind: object, default: object, text: str, *flags: str, metavar: str | None = None
) -> inspect.Parameter:
    """An option that is no field of an audit."""
    declared = typer.Option(*flags, help=text, show_default=False, metavar=metavar)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )
