"""The verdict in one line; nothing where no gate was set."""

from collections.abc import Mapping

from fairaudit.report.document import Callout, Rank, Section
from fairaudit.report.gates import Outcome
from fairaudit.report.model import Report

_SPOKEN: Mapping[Outcome, str] = {
    "pass": "PASS: no gate fails, and none is inconclusive",
    "fail": "FAIL: a gate fails",
    "inconclusive": "INCONCLUSIVE: no gate fails, but the numbers do not settle every one of them",
}


def section(report: Report) -> Section | None:
    """What the gates come to."""
    if report.verdict is None:
        return None
    told = Callout(report.verdict, f"{_SPOKEN[report.verdict]}.", "The gates are listed below.")
    return Section("verdict", "", Rank.MAIN, (told,), brief=())
