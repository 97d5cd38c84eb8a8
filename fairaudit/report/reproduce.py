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
    """One shell line, or one Python call where the data were a DataFrame.

    Defaults are left out, and so is what a preset sets; files and environment are written out,
    so the line needs neither.
    """
    words, arguments = ["fairaudit", "run"], ["frame"]
    for name, origin in resolved.origins.items():
        is_left_out = origin == DEFAULT or origin.startswith(("not used", "preset "))
        if is_left_out or name in EXECUTION_FIELDS:
            continue
        value = getattr(resolved.config, name)
        words += words_of(name, value)
        # As a literal of Python; what is none, as a path, by its text.
        if isinstance(value, tuple):
            value = list(value)
        if not isinstance(value, str | int | float | bool | list | Mapping):
            value = str(value)
        if name != "data":
            arguments.append(f"{name}={value!r}")
    if resolved.origins["data"] == FRAME:
        return f"fairaudit.run_audit({', '.join(arguments)})"
    return shlex.join(words)
