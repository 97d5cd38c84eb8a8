"""The commands that repeat an audit, and that train a model of what it is about."""

import shlex
from collections.abc import Mapping

from fairaudit.config.option_words import words_of
from fairaudit.config.options import EXECUTION
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig
from fairaudit.methods.catalog import Guarantee
from fairaudit.report.model import Report

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
        if origin != DEFAULT
        and not origin.startswith(("not used", "preset "))
        and name not in EXECUTION_FIELDS
    }
    if resolved.origins["data"] == FRAME:
        arguments = ["frame"]
        for name, value in values.items():
            value = list(value) if isinstance(value, tuple) else value
            is_literal = isinstance(value, str | int | float | bool | list | Mapping)
            if name != "data":
                arguments.append(f"{name}={(value if is_literal else str(value))!r}")
        return f"fairaudit.run_audit({', '.join(arguments)})"
    words = ["fairaudit", "run"]
    for name, value in values.items():
        words += words_of(name, value)
    return shlex.join(words)


def train_command(report: Report, path: str = "report.json") -> str:
    """What trains the first arm of a report that has a guarantee; "" where none has.

    Args:
        report: Of an audit.
        path: Of its ``report.json``.
    """
    if report.training is None:
        return ""
    trained = [arm for arm in report.arms if arm.source is None and "#" not in arm.key]
    arms = [arm for arm in trained if report.privacy[arm.key].guarantee is Guarantee.ESTABLISHED]
    if not arms:
        return ""
    arm = arms[0]
    alike = [other for other in trained if (other.method, other.variant) == (arm.method, arm.variant)]
    target = report.privacy[arm.key].target_epsilon if len(alike) > 1 else None
    words = train_words(path, arm.method, arm.variant, target)
    words += ["--data", "FILE"] if report.config["data"].value is None else []
    return shlex.join([*words, "--out", "model"])


def train_words(report: str, method: str, variant: str | None, epsilon: float | None) -> list[str]:
    """How a command begins that trains one arm.

    Args:
        report: Path of a ``report.json``.
        method, variant: Of the arm.
        epsilon: Its target; None where the report has one of such an arm.
    """
    words = ["fairaudit", "train", "--from", report, "--method", method]
    words += ["--variant", variant] if variant else []
    return words + (["--epsilon", f"{epsilon:g}"] if epsilon is not None else [])
