"""The ``fairaudit train`` command after an audit, and whether the audit's rules allow it."""

import shlex

from fairaudit.config.model_names import is_factory
from fairaudit.report.model import Report
from fairaudit.report.types.facts import EDGES
from fairaudit.report.types.verdicts import Outcome, worst


def outcomes_of(report: Report, arm: str) -> dict[str, Outcome]:
    """Text of each rule -> its outcome for one arm: the worst of the numbers that it judges there.

    Of a rule that judges no number of the arm it is the outcome for the whole report.
    """
    outcomes = {}
    for gate in report.gates:
        own = [target.outcome for target in gate.targets if target.arm == arm]
        outcomes[gate.rule] = worst(own) if own else gate.outcome
    return outcomes


def gates_pass(report: Report, arm: str) -> bool:
    """Whether the audit is complete and every rule, if there is one, passes for the arm."""
    passing = {"pass"}.issuperset(outcomes_of(report, arm).values())
    return report.status == "complete" and passing


def next_command(report: Report, path: str, arm: str = "") -> str:
    """The command that trains an arm of a report for release; "" where it would be refused.

    Args:
        report: Of an audit.
        path: Of its ``report.json``.
        arm: Key of the arm; "" for the first that has an established guarantee.
    """
    # Nothing was trained, or columns were not declared, so something is learned from rows.
    if report.training is None or report.data.fitted:
        return ""
    contrast = report.config["contrast"].value
    if isinstance(contrast, dict) and not contrast.keys().isdisjoint(report.data.features):
        return ""  # predictions would read such a feature as it was before
    # Neither controls, which read another arm's series, nor self-checks ("#" in the key).
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
    if any(item.startswith(EDGES) for item in match.privacy.not_covered):
        return ""  # groups are cut at quantiles of the rows
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
        words += ["--data", "FILE"]  # a DataFrame was audited, which has no path
    return shlex.join([*words, "--out", "model"])
