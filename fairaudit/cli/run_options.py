"""Options as typer reads them: those of an audit, one per field of AuditConfig, and those of a few words."""

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, cast

import typer

from fairaudit.config.options import OPTIONS, Option, data_name
from fairaudit.config.value_sources import ResolvedConfig, nested_settings, parse_pairs, resolve_config
from fairaudit.errors import ConfigError, did_you_mean

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
    command: Callable[[Given], None],
    *,
    beside: Sequence[inspect.Parameter] = (),
    unlisted: Collection[str] = (),
    helps: Mapping[str, str] = MappingProxyType({}),
) -> Callable[..., None]:
    """The command with every option of an audit in its signature, for typer to read.

    Args:
        command: Takes what was typed.
        beside: Its own options, as of :func:`plain_option`.
        unlisted: Fields that its help leaves out; it takes them to say why it cannot.
        helps: Field -> its help, where it is another than in `run`.
    """

    @wraps(command)
    def parsed(**typed: object) -> None:
        own = {parameter.name: typed.pop(parameter.name) for parameter in beside}
        command(replace(_given(typed), beside=own))

    parameters = [
        _parameter(option, helps.get(option.field, option.help), hidden=option.field in unlisted)
        for option in OPTIONS
    ]
    parameters += beside
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


def _parameter(option: Option, text: str, *, hidden: bool) -> inspect.Parameter:
    name = option.flags or "--" + option.field.replace("_", "-")
    if option.kind is bool and option.flags is None:
        name = f"{name}/--no-{name.removeprefix('--')}"
    # Numbers are read where their ranges are known, whichever place sets them.
    kind = list[str] if option.kind in (list, dict) else bool if option.kind is bool else str
    declared = typer.Option(name, help=text, metavar=option.metavar, show_default=False, hidden=hidden)
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


STDOUT = Path("-")
_COUNTED = ("fail", "pass")


def folder(text: str) -> Path:
    """A folder by its name.

    Raises:
        ConfigError: The text is empty; as a path it would be the current folder.
    """
    if not text:
        raise ConfigError("the folder has an empty name", hint="name one; . is the current folder")
    return Path(text)


def counted(word: str | None) -> Literal["fail", "pass"] | None:
    """What an inconclusive rule counts as.

    Raises:
        ConfigError: Another word.
    """
    if word is not None and word not in _COUNTED:
        raise ConfigError(
            f"--inconclusive takes fail or pass, not {word!r}", hint=did_you_mean(word, _COUNTED)
        )
    return cast(Literal["fail", "pass"] | None, word)


def formats(given: Iterable[str], known: Sequence[str]) -> list[str]:
    """The formats of a repeated or comma-separated option, each once.

    Raises:
        ConfigError: One of them does not exist.
    """
    names = list(dict.fromkeys(part.strip() for text in given for part in text.split(",") if part.strip()))
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown format {name!r}", hint=did_you_mean(name, known))
    return names
