"""Options as typer reads them: from the signature of a command, whose parameters are annotated.

Here are those of an audit, one per field of ``AuditConfig``, and those that several commands share.
"""

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import typer

from fairaudit.config.options import OPTIONS, AuditConfig, Option
from fairaudit.config.value_sources import (
    ResolvedConfig,
    nested_settings,
    parse_pairs,
    resolve_config,
)
from fairaudit.errors import ConfigError

# Options of one value that may be typed several times, to be swept over.
SWEPT = ("max_grad_norm", "epochs")
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", help="Column whose groups are compared; repeat.", metavar="COL"),
]
Label = Annotated[str | None, typer.Option(help="Column to predict.", metavar="COL")]
Positive = Annotated[
    str | None, typer.Option(help="The label that rates are about.", metavar="VALUE")
]
Favourable = Annotated[
    str | None, typer.Option(help="The label that people want.", metavar="VALUE")
]
MissingValues = Annotated[
    list[str] | None,
    typer.Option(help="A text that stands for a missing value; repeat.", metavar="TEXT|COL=TEXT"),
]
NumberFormats = Annotated[
    list[str] | None,
    typer.Option(
        "--number-format",
        help="How numbers are written, as of `run`; repeat.",
        metavar="FORMAT|COL=FORMAT",
    ),
]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="Kind of file, as of `run`; repeat.", metavar="KIND,..."),
]
StoredReport = Annotated[
    Path,
    typer.Argument(
        help="report.json of `fairaudit run`, or its folder; - reads stdin.", metavar="REPORT"
    ),
]
StoredReports = Annotated[
    list[Path],
    typer.Argument(
        help="report.json of `fairaudit run`, or its folder, one or several; - reads stdin.",
        metavar="REPORT...",
    ),
]
Rules = typer.Option(
    help="Failing condition, as 'privacy_cost_gap > 0.02'; repeat.", metavar="RULE"
)
Baseline = typer.Option(help="Earlier report, for rules with .delta.", metavar="REPORT")
CountsAs = Annotated[
    Literal["fail", "pass"] | None,
    typer.Option(help="What an inconclusive rule counts as; else exit 3."),
]


@dataclass(frozen=True, slots=True)
class Given:
    """What one command line said.

    Args:
        values: Field of ``AuditConfig`` -> value, only of options that were typed.
        config: File of ``--config``; None without it.
        trust_config: Whether a file of options that merely lies in the current folder may set all
            that one named by ``--config`` may.
        json: Print the answer alone, as JSON, on stdout.
        quiet, verbose: Whether to print less, or more, on stderr.
        of_command: Values of the options that this command alone has, by name.
        swept: Field -> its values, where one option was typed several times to be swept over; its
            place in ``values`` holds the first.
    """

    values: Mapping[str, object]
    config: Path | None
    trust_config: bool
    json: bool
    quiet: bool
    verbose: bool
    of_command: Mapping[str, Any]
    swept: Mapping[str, Sequence[str]] = field(default_factory=dict)


def takes_audit_options(
    command: Callable[[Given], None],
    *,
    of_command: Sequence[inspect.Parameter] = (),
    unlisted: Collection[str] = (),
    helps: Mapping[str, str] = MappingProxyType({}),
    sweeps: bool = False,
    options: Sequence[Option] = OPTIONS,
) -> Callable[..., None]:
    """Decorator: a command that takes every option of an audit, as a signature for typer to read.

    Args:
        command: Is given what was typed, as one :class:`Given`.
        of_command: Parameters of the options that this command alone has.
        unlisted: Fields that its help leaves out. It accepts them all the same, so that it can say
            why they do not apply.
        helps: Field -> its help, where that differs from ``run``'s.
        sweeps: Whether an option of ``SWEPT`` may be typed several times.
        options: The options that the command takes; by default all of an audit.

    Raises:
        ConfigError: By the command, where an option has several values and ``sweeps`` is false.
    """

    @wraps(command)
    def parsed(**typed: Any) -> None:  # noqa: ANN401 (as typer has read them)
        """Called by typer: gather what was typed into a ``Given``, and run the command with it."""
        values, swept = _typed_values(options, typed)
        extra = {own.name: typed.pop(own.name) for own in of_command}
        if swept and not sweeps:
            name = next(iter(swept)).replace("_", "-")
            raise ConfigError(
                f"--{name} has several values", hint="fairaudit run and plan take them"
            )
        # What is left of `typed` are options of every command, named as fields of `Given`.
        command(Given(values, **typed, of_command=extra, swept=swept))

    parameters = []
    for option in options:
        text, hidden = helps.get(option.field, option.help), option.field in unlisted
        parameters.append(_audit_parameter(option, text, hidden=hidden))
    parameters += of_command
    config = typer.Option(help="TOML file of options.", metavar="FILE")
    trust = typer.Option(
        "--trust-config",
        help="Let a found file of options run code, write elsewhere or use a cluster.",
    )
    verbose = typer.Option("--verbose", "-v", help="Say more.")
    parameters += [
        parameter("config", Path | None, None, config),
        parameter("trust_config", bool, False, trust),
        inspect.Parameter("json", _BY_NAME, default=False, annotation=AsJson),
        inspect.Parameter("quiet", _BY_NAME, default=False, annotation=Quiet),
        parameter("verbose", bool, False, verbose),
    ]
    # Typer reads these two, and not the parameters that `parsed` itself has.
    parsed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    parsed.__annotations__ = {p.name: p.annotation for p in parameters}
    return parsed


def _typed_values(
    options: Sequence[Option], typed: dict[str, Any]
) -> tuple[dict[str, object], dict[str, Sequence[str]]]:
    """Take an audit's options out of what typer has read.

    Args:
        options: The options that the command takes.
        typed: Parameter -> value, None or [] where it was not typed; the options are removed.

    Returns:
        Field of ``AuditConfig`` -> value, and field -> values of an option that was typed several
        times to be swept over (the first mapping holds the first of these values).
    """
    values: dict[str, object] = {}
    swept: dict[str, Sequence[str]] = {}
    for option in options:
        value = typed.pop(option.field)
        if value is None or value == []:
            continue
        if option.field in SWEPT:
            if len(value) > 1:
                swept[option.field] = tuple(value)
            value = value[0]
        if _default_type(option.field) is dict:
            value = parse_pairs(value, option.field)
        if option.field == "settings":
            value = nested_settings(value)
        values[option.field] = value
    return values, swept


def _audit_parameter(option: Option, text: str, *, hidden: bool) -> inspect.Parameter:
    """An audit's option as a parameter for typer to read.

    Args:
        option: The option.
        text: The option's help.
        hidden: Whether the help leaves it out.
    """
    name = "--" + option.field.replace("_", "-")
    default = _default_type(option.field)
    # A number stays text here: ranges are checked when the options of all places are merged.
    kind: object = str | None
    if default is bool:
        kind = bool | None
        name += f"/--no-{name.removeprefix('--')}"
    elif default in (tuple, dict) or option.field in SWEPT:
        kind = list[str] | None
    declared = typer.Option(option.flags or name, help=text, metavar=option.metavar, hidden=hidden)
    return parameter(option.field, kind, None, declared)


_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def parameter(
    name: str,
    kind: object,
    default: object,
    declared: Any,  # noqa: ANN401 (typer's own type)
) -> inspect.Parameter:
    """An option as a keyword parameter of a command's signature, which typer reads.

    Args:
        name: Name of the parameter, with underscores.
        kind: The parameter's type.
        default: The parameter's default; ``Parameter.empty``: it has to be given.
        declared: Spelling and help, as ``typer.Option`` makes them.
    """
    return inspect.Parameter(name, _BY_NAME, default=default, annotation=Annotated[kind, declared])


def _default_type(field: str) -> type:
    """Type of a field's default, which tells flags (bool), lists (tuple) and pairs (dict) apart."""
    return type(AuditConfig.model_fields[field].get_default())


def settled(given: Given) -> ResolvedConfig:
    """The audit's options: what was typed, else the environment's, else those of files or a preset.

    Raises:
        ConfigError: The options contradict each other, or the current folder is gone.
    """
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the current folder was deleted") from None
    return resolve_config(
        given.values,
        environment=os.environ,
        folder=folder,
        config_file=given.config,
        trust_config=given.trust_config,
    )
