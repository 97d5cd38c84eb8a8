"""The command that repeats an audit."""

import shlex
from collections.abc import Mapping

from fairaudit.config.option_words import words_of
from fairaudit.config.options import EXECUTION, AuditConfig, marked
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig

# How the audit was computed and where it was written, not what it is.
EXECUTION_FIELDS = marked(AuditConfig, EXECUTION)
FRAME = "frame"  # the origin of `data` when a DataFrame was audited


def reproduce_command(resolved: ResolvedConfig) -> str:
    """The command that repeats an audit: a shell line, or a Python call if a DataFrame was audited.

    Defaults are left out, and so is what a preset sets. What came from a configuration file or the
    environment is written out, so that the command needs neither.
    """
    words, arguments = ["fairaudit", "run"], ["frame"]
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
        if name != "data":
            arguments.append(f"{name}={value!r}")
    if resolved.origins["data"] == FRAME:
        return f"fairaudit.run_audit({', '.join(arguments)})"
    return shlex.join(words)
