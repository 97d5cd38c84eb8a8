"""The commands that repeat an audit, and that train a model of what it is about."""

import shlex
from collections.abc import Mapping

from fairaudit.config.model_names import is_factory
from fairaudit.config.option_words import words_of
from fairaudit.config.options import EXECUTION, AuditConfig, marked
from fairaudit.config.value_sources import DEFAULT, ResolvedConfig
from fairaudit.report.model import Report

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
        if isinstance(value, tuple):
            value = list(value)
        if not isinstance(value, str | int | float | bool | list | Mapping):
            value = str(value)
        if name != "data":
            arguments.append(f"{name}={value!r}")
    if resolved.origins["data"] == FRAME:
        return f"fairaudit.run_audit({', '.join(arguments)})"
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
    for arm in trained:
        facts = report.privacy[arm.key]
        if not facts.guarantee.is_proved:
            continue
        forms = [(other.method, other.variant) for other in trained]
        target = None
        if forms.count((arm.method, arm.variant)) > 1:
            target = facts.target_epsilon
        words = train_words(path, arm.method, arm.variant, target)
        words += model_words(report.config["model"].value)
        if report.config["data"].value is None:
            words += ["--data", "FILE"]
        return shlex.join([*words, "--out", "model"])
    return ""


def train_words(report: str, method: str, variant: str | None, epsilon: float | None) -> list[str]:
    """How a command begins that trains one arm.

    Args:
        report: Path of a ``report.json``.
        method, variant: Of the arm.
        epsilon: Its target; None where the report has one of such an arm.
    """
    words = ["fairaudit", "train", "--from", report, "--method", method]
    if variant:
        words += ["--variant", variant]
    if epsilon is not None:
        words += ["--epsilon", f"{epsilon:g}"]
    return words


def model_words(model: object) -> list[str]:
    """The option that names a model of the user's own to ``train`` and ``predict``."""
    if isinstance(model, str) and is_factory(model):
        return ["--model", model]
    return []
