"""The command that trains what was audited."""

import shlex

from fairaudit.config.model_names import is_factory
from fairaudit.report.model import Report


def gates_pass(report: Report) -> bool:
    """Whether no rule of a finished audit stands against it; an audit without rules has none."""
    return report.status == "complete" and report.verdict in (None, "pass")


def next_command(report: Report, path: str) -> str:
    """What trains the first arm of a report that has a guarantee; "" where it would be refused.

    Args:
        report: Of an audit.
        path: Of its ``report.json``.
    """
    if report.training is None or report.data.fitted or not gates_pass(report):
        return ""
    trained = [arm for arm in report.arms if arm.source is None and "#" not in arm.key]
    arm = next((arm for arm in trained if arm.privacy.guarantee.is_proved), None)
    if arm is None:
        return ""
    words = ["fairaudit", "train", "--from", path, "--method", arm.method]
    if arm.variant:
        words += ["--variant", arm.variant]
    forms = [(other.method, other.variant) for other in trained]
    if forms.count((arm.method, arm.variant)) > 1:
        words += ["--epsilon", f"{arm.privacy.target_epsilon:g}"]
    model = str(report.config["model"].value)
    if is_factory(model):
        words += ["--model", model]
    if report.config["data"].value is None:
        words += ["--data", "FILE"]
    return shlex.join([*words, "--out", "model"])
