"""The command that repeats an audit, and the options that a report holds."""

import shlex
from collections.abc import Mapping

from pydantic import ValidationError

from fairaudit.config.option_words import words_of
from fairaudit.config.options import EXECUTION, AuditConfig, marked
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig
from fairaudit.errors import ConfigError

# How the audit was computed and where it was written, not what it is.
EXECUTION_FIELDS = marked(AuditConfig, EXECUTION)
FRAME = "frame"  # the origin of `data` when a DataFrame was audited


def reproduce_command(resolved: ResolvedConfig) -> str:
    """The command that repeats an audit: a shell line, or a Python call if a DataFrame was audited.

    Defaults are left out, and so is what a preset sets. What came from a configuration file or the
    environment is written out, so that the command needs neither.
    """
    words, arguments = ["fairaudit", "run"], ["frame"]  # of the shell line, of the Python call
    for name, origin in resolved.origins.items():
        # An origin says in words where a value came from, or why the option is not used.
        is_left_out = origin == DEFAULT or origin.startswith(("not used", "preset "))
        if is_left_out or name in EXECUTION_FIELDS:
            continue
        value = getattr(resolved.config, name)
        words += words_of(name, value)
        # The call holds literals of Python; a value that is none, as a path, stands by its text.
        if isinstance(value, tuple):
            value = list(value)
        if not isinstance(value, str | int | float | bool | list | Mapping):
            value = str(value)
        if name != "data":  # the DataFrame stands there already, as ``frame``
            arguments.append(f"{name}={value!r}")
    if resolved.origins["data"] == FRAME:
        return f"fairaudit.run_audit({', '.join(arguments)})"
    return shlex.join(words)


def stored_options(values: Mapping[str, object]) -> AuditConfig:
    """The options of an audit, from a report that holds them.

    Args:
        values: Name of an option -> its value, as the report holds it or changed.

    Raises:
        ConfigError: A DataFrame was audited and no file is named; an option is not of this version.
    """
    if values["data"] is None:  # a report names no file for a DataFrame
        raise ConfigError(
            "a DataFrame was audited", hint="--data PATH names a file with the same rows"
        )
    try:
        return AuditConfig.model_validate(values)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise ConfigError(
            f"the report's option {where} is none of this version", hint="run the audit again"
        ) from None
