"""The verdict in one line, with the figures of the rules that decide it; nothing where no gate was set."""

import re

from fairaudit.report.document import Callout, Rank, Section
from fairaudit.report.gates import GateRecord
from fairaudit.report.main_gap import with_unit
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import gated, written

_MOST_RULES = 3
_SPOKEN = {"privacy_cost_gap": "largest gap", "excess_risk_gap": "largest gap in excess risk"}


def section(report: Report) -> Section | None:
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
    limit = "" if gate.limit is None else f", limit {_limit(gate.limit, gate.unit)}"
    where = f" ({plain(worst.arm)})" if worst.arm else ""
    return f"{plain(subject, 80)}{where} {written(worst, gated(gate.unit, 1))}{limit}"


def _limit(limit: float, unit: str) -> str:
    return with_unit(limit, unit) if unit in ("fraction", "nats") else f"{limit:g}"
