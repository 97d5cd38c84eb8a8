"""The Markdown report's verdict and gates."""

from collections.abc import Iterator, Mapping

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.gates import GateTarget, Outcome
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.tables import Row, table
from fairaudit.report.written import GATED, interval_alone, value_alone

SPOKEN: Mapping[Outcome, str] = {
    "pass": "PASS: no gate fails, and none is inconclusive",
    "fail": "FAIL: a gate fails",
    "inconclusive": "INCONCLUSIVE: no gate fails, but the numbers do not settle every one of them",
}
_MOST_TARGETS = 12


def verdict_section(report: Report) -> Iterator[str]:
    """The verdict in one line; nothing where no gate was set."""
    if report.verdict is not None:
        yield f"**{SPOKEN[report.verdict]}.** The gates are listed below."


def gates_section(report: Report) -> Iterator[str]:
    """Every rule with its outcome, then the numbers behind each that does not pass."""
    if not report.gates:
        return
    yield "## Gates"
    yield ""
    rows: list[Row] = [
        (
            gate.outcome,
            markdown(gate.rule, 200),
            markdown(gate.words, 300),
            _summary(gate.targets, gate.reason),
        )
        for gate in report.gates
    ]
    yield from table(("outcome", "rule", "in words", "found"), rows, most=20)
    open_targets = [
        (markdown(gate.rule, 80), *_cells(target))
        for gate in report.gates
        for target in gate.targets
        if target.outcome != "pass"
    ]
    if open_targets:
        yield ""
        yield "What does not pass. The shared interval holds for all numbers of a rule together."
        yield ""
        head = ("rule", "outcome", "arm", "group", "#value", "#interval", "#shared interval", "reason")
        yield from table(head, open_targets, most=_MOST_TARGETS)
    left_out = dict.fromkeys(name for gate in report.gates for name in gate.left_out)
    if left_out:
        yield ""
        yield f"Not judged unless a rule names them: {markdown('; '.join(left_out), 600)}."


def _summary(targets: tuple[GateTarget, ...], reason: str) -> str:
    counts = {o: sum(t.outcome == o for t in targets) for o in ("fail", "inconclusive", "pass")}
    told = ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n)
    return told or markdown(reason, 200)


def _cells(target: GateTarget) -> Row:
    own = "" if target.reference in (REFERENCE, "", None) else f" against {markdown(target.reference)}"
    where = " = ".join(markdown(part) for part in (target.grouping, target.group) if part)
    return (
        target.outcome,
        markdown(target.arm) + own,
        where or "–",
        value_alone(target, GATED),
        interval_alone(target, GATED),
        interval_alone(target.shared, GATED),
        markdown(target.reason, 200) or "–",
    )
