"""The command that trains what was audited."""

import shlex

from fairaudit.config.model_names import is_factory
from fairaudit.report.model import Report
from fairaudit.report.verdicts import Outcome, worst


def outcomes_of(report: Report, arm: str) -> dict[str, Outcome]:
    """Rule -> what it says of an arm; of all, where it judges nothing of the arm."""
    outcomes = {}
    for gate in report.gates:
        own = [target.outcome for target in gate.targets if target.arm == arm]
        outcomes[gate.rule] = worst(own) if own else gate.outcome
    return outcomes


def gates_pass(report: Report, arm: str) -> bool:
    """Whether no rule of a finished audit stands against an arm; without rules none does."""
    passing = {"pass"}.issuperset(outcomes_of(report, arm).values())
    return report.status == "complete" and passing


def next_command(report: Report, path: str, arm: str = "") -> str:
    """What trains an arm of a report; "" where it would be refused.

    Args:
        report: Of an audit.
        path: Of its ``report.json``.
        arm: Its key; "" for the first that has a guarantee.
    """
    if report.training is None or report.data.fitted:
        return ""
    trained = [
        candidate
        for candidate in report.arms
        if candidate.source is None and "#" not in candidate.key
    ]
    match = None
    for candidate in trained:
        if candidate.privacy.guarantee.is_proved and arm in ("", candidate.key):
            match = candidate
            break
    if match is None or not gates_pass(report, match.key):
        return ""
    words = ["fairaudit", "train", "--from", path, "--method", match.method]
    if match.variant:
        words += ["--variant", match.variant]
    forms = [(form.method, form.variant) for form in trained]
    if forms.count((match.method, match.variant)) > 1:
        words += ["--epsilon", f"{match.privacy.target_epsilon:g}"]
    model = str(report.config["model"].value)
    if is_factory(model):
        words += ["--model", model]
    if report.config["data"].value is None:
        words += ["--data", "FILE"]
    return shlex.join([*words, "--out", "model"])
