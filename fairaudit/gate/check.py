"""(Report, rules) -> verdict: the worst of what the rules say."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fairaudit.errors import EXIT_GATE_FAILED, EXIT_INCONCLUSIVE, EXIT_OK, ConfigError
from fairaudit.gate.grammar import GateRule
from fairaudit.gate.judge import change, judge, refuse_other_label
from fairaudit.gate.targets import Target, Targets, find_targets, limits, vocabulary_of
from fairaudit.report.conditions import with_rules
from fairaudit.report.model import Report
from fairaudit.report.render.junit import described
from fairaudit.report.safe_names import plain
from fairaudit.report.verdicts import GateRecord, GateTarget, Outcome, severity, worst

InconclusiveIs = Literal["fail", "pass"]


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """One record per rule, and the worst of them: a failure of one method is a failure.

    Args:
        gates: One for each rule.
        outcome: The worst of them.
        rules: Themselves, where they are known.
    """

    gates: tuple[GateRecord, ...]
    outcome: Outcome
    rules: tuple[GateRule, ...] = ()

    def __repr__(self) -> str:
        """The verdict, then every rule with its outcome and its worst number."""
        lines = [f"Verdict {self.outcome}"]
        for gate in self.gates:
            line = f" {gate.outcome:<12} {plain(gate.rule, 200)}"
            if gate.targets:
                line += f" ({described(gate.targets[0], gate.unit)})"
            lines.append(line)
        return "\n".join(lines)

    def exit_code(self, inconclusive: InconclusiveIs | None = None) -> int:
        """0 pass, 1 fail, 3 inconclusive, unless the caller says what that counts as."""
        counted = inconclusive if self.outcome == "inconclusive" and inconclusive else self.outcome
        return {"pass": EXIT_OK, "fail": EXIT_GATE_FAILED, "inconclusive": EXIT_INCONCLUSIVE}[
            counted
        ]


def check(
    report: Report,
    rules: Sequence[GateRule],
    baseline: Report | None = None,
    *,
    trust_claims: bool = False,
    trust_module: bool = False,
) -> Verdict:
    """Hold a report against rules.

    Args:
        report: As it was read from its file: gates judge the numbers that people can read.
        rules: At least one.
        baseline: An earlier report, likewise, for rules about a change.
        trust_claims: Whether an epsilon that a trainer claims, unchecked, is judged.
        trust_module: Whether one that rests on a module of the user's own is.

    Raises:
        ConfigError: A rule names what the report does not hold, or needs a baseline; the baseline
            is of another label.
    """
    refuse_without_baseline(rules, has_baseline=baseline is not None)
    if baseline is not None:
        refuse_other_label(baseline, report)
    vocabulary = vocabulary_of(report)
    gates = []
    for rule in rules:
        vocabulary.check(rule)
        targets = find_targets(rule, report, trust_claims=trust_claims, trust_module=trust_module)
        if rule.is_change and baseline is not None:
            earlier = find_targets(
                rule, baseline, trust_claims=trust_claims, trust_module=trust_module
            )
            targets = _changes(rule, (report, targets), (baseline, earlier))
        gates.append(_record(rule, report, targets))
    return Verdict(
        tuple(gates),
        worst(gate.outcome for gate in gates),
        tuple(rules),
    )


def judged(
    report: Report,
    rules: Sequence[GateRule],
    baseline: Report | None = None,
    *,
    trust_claims: bool = False,
    trust_module: bool = False,
) -> Report:
    """A report just made, with what the rules say of its file; unchanged where there is no rule.

    The rules see the rounded numbers of the file, so that `run` and `gate` say the same.

    Raises:
        ConfigError: As :func:`check`.
    """
    if not rules:
        return report
    return with_verdict(
        report,
        check(
            as_stored(report), rules, baseline, trust_claims=trust_claims, trust_module=trust_module
        ),
    )


def with_verdict(report: Report, verdict: Verdict) -> Report:
    """The report with its gates, its gaps and findings read by the limits that the rules set."""
    studies = {}
    for name, study in report.studies.items():
        compared = limits(report, verdict.rules, study.comparisons)
        studies[name] = study.model_copy(update={"comparisons": compared})
    return with_rules(
        report.model_copy(
            update={
                "gates": verdict.gates,
                "verdict": verdict.outcome,
                "comparisons": limits(report, verdict.rules, report.comparisons),
                "studies": studies,
            }
        )
    )


def exit_code(report: Report, inconclusive: InconclusiveIs | None = None) -> int:
    """What the gates of a report end a program with; 0 where none was set."""
    if report.verdict is None:
        return EXIT_OK
    return Verdict(report.gates, report.verdict).exit_code(inconclusive)


def refuse_without_baseline(rules: Sequence[GateRule], *, has_baseline: bool) -> None:
    """Refuse a rule about a change where there is nothing to compare with.

    Raises:
        ConfigError: A rule has ``.delta`` and there is no baseline.
    """
    lone = [rule for rule in rules if rule.is_change and not has_baseline]
    if lone:
        raise ConfigError(
            f"rule {lone[0].text!r} needs an earlier report", hint="add --baseline REPORT.json"
        )


def as_stored(report: Report) -> Report:
    """The report as its JSON file holds it; a report that was read comes back unchanged."""
    return Report.model_validate_json(report.model_dump_json())


def _record(rule: GateRule, report: Report, candidates: Targets) -> GateRecord:
    """The rule's outcome in all numbers that it judges, the worst of them first."""
    # Shared within an arm alone: another method beside it must not undo what is shown of this one.
    uncertain = Counter(
        target.arm for target in candidates.judged if not target.reading.number.is_exact
    )
    targets = [
        judge(
            rule,
            target,
            among=uncertain[target.arm],
        )
        for target in candidates.judged
    ]
    outcome = worst(target.outcome for target in targets)
    reasons = dict.fromkeys(t.reason for t in targets if t.outcome == outcome and t.reason)

    def place(target: GateTarget) -> tuple[int, float]:
        """The worst outcome first, then the number that lies furthest beyond the limit."""
        if target.value is None:
            return -severity(target.outcome), math.inf
        return -severity(target.outcome), -target.value if rule.fails_above else target.value

    return GateRecord(
        rule=rule.text,
        words=rule.words("any private method" if report.training else ""),
        outcome=outcome,
        reason="; ".join(list(reasons)[:3]) if targets else "nothing in the report fits the rule",
        targets=tuple(sorted(targets, key=place)),
        left_out=candidates.left_out,
        unit=rule.metric.unit,
        limit=rule.number,
    )


def _changes(
    rule: GateRule,
    now: tuple[Report, Targets],
    before: tuple[Report, Targets],
) -> Targets:
    """The targets of a report as changes since the baseline."""
    (report, current), (baseline, earlier) = now, before
    readings = {_place(rule, target): target.reading for target in earlier.judged}
    changed = []
    for target in current.judged:
        keys = filter(None, (target.arm, target.reference))
        same = report.shares_trainings(baseline, *keys, study=rule.metric.study)
        earlier_reading = readings.get(_place(rule, target))
        reading = change(target.reading, earlier_reading, same_trainings=same)
        changed.append(replace(target, reading=reading))
    return Targets(tuple(changed), current.left_out)


def _place(rule: GateRule, target: Target) -> tuple[str, str, str, str]:
    """Where a target stands in any report; the largest gap may lie between other groups there."""
    names_groups = rule.metric.kind == "group" or (rule.group is not None and rule.group.names)
    return target.arm, target.reference, target.grouping, target.group if names_groups else ""
