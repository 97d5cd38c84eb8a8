"""The options that `run` and `plan` share, as typer reads them: one per field of AuditConfig."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer

from fairaudit.config.options import OPTIONS, Option, data_name
from fairaudit.config.value_sources import ResolvedConfig, nested_settings, parse_pairs, resolve_config
from fairaudit.errors import ConfigError

# Options of every such command that are no fields of AuditConfig -> the panel that they end.
ALSO: Mapping[str, tuple[str, ...]] = {
    "Report": ("json", "quiet", "verbose"),
    "Execution (never changes a result)": ("config", "trust_config"),
}


@dataclass(frozen=True, slots=True)
class Given:
    """What one command line said.

    Args:
        values: Field -> value, only where it was given.
        config: File of ``--config``.
        trust_config: Whether a file that was found may do all that one named by hand may.
        json: The answer alone on stdout.
        quiet, verbose: How much to tell.
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
        command: Takes what was typed.
        beside: Its own options, as of :func:`plain_option`.
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
        given: The command line.
        home: Where results go unless it says so; None: as the other places say.

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
