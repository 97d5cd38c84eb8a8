"""Every rule with its outcome, then the numbers behind each that does not pass."""

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.document import Badge, Block, Cell, Rank, Section, Text, table
from fairaudit.report.gates import GateTarget
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import UNKNOWN, Scale, gated, interval_alone, value_alone

_MOST_TARGETS = 12


def section(report: Report) -> Section | None:
    """None where no gate was set."""
    if not report.gates:
        return None
    rows = [
        (
            (Badge(gate.outcome, gate.outcome),),
            plain(gate.rule, 200),
            plain(gate.words, 300),
            _summary(gate.targets, gate.reason),
        )
        for gate in report.gates
    ]
    blocks: list[Block] = [table(("outcome", "rule", "in words", "found"), rows, most=20)]
    open_targets = [
        (plain(gate.rule, 80), *_cells(target, gated(gate.unit)))
        for gate in report.gates
        for target in gate.targets
        if target.outcome != "pass"
    ]
    if open_targets:
        told = "What does not pass. The shared interval holds for all numbers of a rule together."
        head = ("rule", "outcome", "method", "group", "#value", "#interval", "#shared interval", "reason")
        blocks += [Text(told), table(head, open_targets, most=_MOST_TARGETS)]
    left_out = dict.fromkeys(name for gate in report.gates for name in gate.left_out)
    if left_out:
        blocks.append(Text(f"Not judged unless a rule names them: {plain('; '.join(left_out), 600)}."))
    return Section("gates", "Gates", Rank.SECOND, tuple(blocks))


def _summary(targets: tuple[GateTarget, ...], reason: str) -> str:
    counts = {o: sum(t.outcome == o for t in targets) for o in ("fail", "inconclusive", "pass")}
    told = ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n)
    return told or plain(reason, 200)


def _cells(target: GateTarget, scale: Scale) -> tuple[Cell, ...]:
    own = "" if target.reference in (REFERENCE, "", None) else f" against {plain(target.reference)}"
    where = " = ".join(plain(part) for part in (target.grouping, target.group) if part)
    return (
        (Badge(target.outcome, target.outcome),),
        plain(target.arm) + own,
        where or UNKNOWN,
        value_alone(target, scale),
        interval_alone(target, scale),
        interval_alone(target.shared, scale),
        plain(target.reason, 200) or UNKNOWN,
    )
