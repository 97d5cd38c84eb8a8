"""The ``fairaudit train`` command after an audit."""

import shlex

from fairaudit.config.model_names import is_factory
from fairaudit.release.checks import is_fit, options
from fairaudit.report.model import Report
from fairaudit.report.types.facts import ArmFacts


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
    match = None
    for candidate in report.arms:
        is_asked = arm in ("", candidate.key) and _is_trained(candidate)
        if is_asked and is_fit(candidate, report, options()):
            match = candidate
            break
    if match is None or not is_fit(match, report):  # the command sets nothing aside
        return ""
    words = ["fairaudit", "train", "--from", path, "--method", match.method]
    if match.variant:
        words += ["--variant", match.variant]
    # Where the same form was audited at several epsilons, the command has to say which.
    forms = [(form.method, form.variant) for form in report.arms if _is_trained(form)]
    if forms.count((match.method, match.variant)) > 1:
        words += ["--epsilon", f"{match.privacy.target_epsilon:g}"]
    model = str(report.config["model"].value)
    if is_factory(model):
        words += ["--model", model]
    if report.config["data"].value is None:
        words += ["--data", "FILE"]  # a DataFrame was audited, which has no path
    return shlex.join([*words, "--out", "model"])


def _is_trained(arm: ArmFacts) -> bool:
    """Whether an arm is no control, which reads another arm's series, and no self-check."""
    return arm.source is None and "#" not in arm.key
