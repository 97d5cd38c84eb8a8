"""The verdict, every rule with its outcome, and the numbers behind what does not pass."""

from collections import Counter

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.document import Badge, Block, Cell, Section, Text, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN, gated, interval_alone, value_alone
from fairaudit.report.safe_names import plain
from fairaudit.report.types.verdicts import GateRecord, GateTarget

_MOST_TARGETS = 12


def section(report: Report) -> Section | None:
    """The section on the rules and their outcomes; None where no gate was set."""
    if not report.gates:
        return None
    rules: list[tuple[Cell, ...]] = []
    not_passing: list[tuple[Cell, ...]] = []
    left_out: dict[str, None] = {}  # groups, with the reason, in the order in which they are met
    for gate in report.gates:
        rules.append(_rule_cells(gate))
        not_passing += [_target_cells(gate, t) for t in gate.targets if t.outcome != "pass"]
        left_out |= dict.fromkeys(gate.left_out)
    blocks: list[Block] = []
    if report.verdict is not None:
        verdict = Badge(report.verdict, report.verdict.upper())
        blocks.append(Text(("Verdict: ", verdict, ".")))
    blocks += [table(("outcome", "rule", "in words", "found"), rules, most=20)]
    if not_passing:
        note = (
            "Failed or undecided. A rule about several numbers of a method fails only by the wider "
            "interval that holds for all of them together."
        )
        head = ("rule", "outcome", "method", "group", "#value", "#interval", "reason")
        blocks += [Text(note), table(head, not_passing, most=_MOST_TARGETS)]
    if left_out:
        names = plain("; ".join(left_out), 600)
        blocks.append(Text(f"Not judged unless a rule names them: {names}."))
    return Section("gates", "Gates", tuple(blocks))


def _rule_cells(gate: GateRecord) -> tuple[Cell, ...]:
    """A rule's cells: outcome, the rule as given, in words, and how many numbers have an outcome.

    Where the rule was held against no number, its reason stands in place of the counts.
    """
    outcomes = Counter(target.outcome for target in gate.targets)
    counts = [f"{outcomes[o]} {o}" for o in ("fail", "inconclusive", "pass") if outcomes[o]]
    summary = ", ".join(counts) or plain(gate.reason, 200)
    badge = (Badge(gate.outcome, gate.outcome),)
    return badge, plain(gate.rule, 200), plain(gate.words, 300), summary


def _target_cells(gate: GateRecord, target: GateTarget) -> tuple[Cell, ...]:
    """A number's cells: rule, outcome, method, group, value, interval and reason."""
    arm = plain(target.arm)
    if target.reference not in (REFERENCE, ""):
        arm += f" against {plain(target.reference)}"
    where = " = ".join(plain(part) for part in (target.grouping, target.group) if part)
    scale = gated(gate.unit)
    return (
        plain(gate.rule, 200),
        (Badge(target.outcome, target.outcome),),
        arm,
        where or UNKNOWN,
        value_alone(target, scale),
        interval_alone(target, scale),
        plain(target.reason, 200) or UNKNOWN,
    )
