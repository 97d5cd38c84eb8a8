"""The verdict in one line, then every rule with its outcome and the numbers behind what does not pass."""

import re

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.document import Badge, Block, Callout, Cell, Rank, Section, Text, table
from fairaudit.report.main_gap import with_unit
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.summary import GateRecord, GateTarget
from fairaudit.report.written import UNKNOWN, Scale, gated, interval_alone, value_alone, written

_MOST_RULES = 3
_SPOKEN = {"privacy_cost_gap": "largest gap", "excess_risk_gap": "largest gap in excess risk"}
_MOST_TARGETS = 12


def verdict(report: Report) -> Section | None:
    """What the gates come to."""
    if report.verdict is None:
        return None
    deciding = [gate for gate in report.gates if gate.outcome == report.verdict]
    told = [_decided(gate) for gate in deciding[:_MOST_RULES]]
    if len(deciding) > _MOST_RULES:
        told.append(f"{len(deciding) - _MOST_RULES} more")
    line = Callout(report.verdict, f"{report.verdict.upper()}:", f"{'; '.join(told) or 'no gate'}.")
    return Section("verdict", "", Rank.MAIN, (line,), brief=())


def _decided(gate: GateRecord) -> str:
    """The number nearest to failing, or furthest beyond it, and the limit."""
    name = re.match(r"[\w.\[\]]*", gate.rule)
    metric = name[0] if name else ""
    subject = _SPOKEN.get(metric, metric.replace("_", " ")) or plain(gate.rule, 80)
    worst = gate.targets[0] if gate.targets else None
    if worst is None or worst.value is None:
        reason = gate.reason if worst is None else worst.reason or gate.reason
        return f"{plain(subject, 80)}: {plain(reason or 'undefined', 200)}"
    limit = ""
    if gate.limit is not None:
        spoken = gate.unit in ("fraction", "nats")
        limit = f", limit {with_unit(gate.limit, gate.unit) if spoken else f'{gate.limit:g}'}"
    where = f" ({plain(worst.arm)})" if worst.arm else ""
    return f"{plain(subject, 80)}{where} {written(worst, gated(gate.unit, 1))}{limit}"


def section(report: Report) -> Section | None:
    """None where no gate was set."""
    if not report.gates:
        return None
    rows: list[tuple[Cell, ...]] = []
    for gate in report.gates:
        counts = {o: sum(t.outcome == o for t in gate.targets) for o in ("fail", "inconclusive", "pass")}
        found = ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n) or plain(gate.reason, 200)
        badge = (Badge(gate.outcome, gate.outcome),)
        rows.append((badge, plain(gate.rule, 200), plain(gate.words, 300), found))
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
