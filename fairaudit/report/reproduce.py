"""The command that repeats an audit, written from its resolved options."""

import shlex
from collections.abc import Mapping

from fairaudit.config.options import EXECUTION, words_of
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig

# How the audit was computed and where it was written, not what it is.
EXECUTION_FIELDS = (*EXECUTION, "out")
FRAME = "frame"  # the origin of `data` when a DataFrame was audited


def reproduce_command(resolved: ResolvedConfig) -> str:
    """One shell line, or one Python call where the data were a DataFrame.

    Defaults are left out, and so is what a preset sets; files and environment are written out,
    so the line needs neither.
    """
    values = {
        name: getattr(resolved.config, name)
        for name, origin in resolved.origins.items()
        if _is_written(name, origin)
    }
    if resolved.origins["data"] == FRAME:
        arguments = "".join(f", {name}={_literal(value)}" for name, value in values.items() if name != "data")
        return f"fairaudit.run_audit(frame{arguments})"
    words = ["fairaudit", "run"]
    for name, value in values.items():
        words += words_of(name, value)
    return shlex.join(words)


def _is_written(name: str, origin: str) -> bool:
    is_set = origin != DEFAULT and not origin.startswith(("not used", "preset "))
    return is_set and name not in EXECUTION_FIELDS


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        return repr(list(value))
    return repr(value) if isinstance(value, str | int | float | bool | Mapping) else repr(str(value))
