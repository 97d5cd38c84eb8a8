"""(Report, rules) -> verdict: the worst of what the rules say.

A target is one number of a report that a rule is held against; its outcome is pass, fail or
inconclusive.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fairaudit.errors import EXIT_GATE_FAILED, EXIT_INCONCLUSIVE, EXIT_OK, ConfigError
from fairaudit.gate.grammar import GateRule
from fairaudit.gate.judge import change, judge, refuse_other_label
from fairaudit.gate.targets import Target, Targets, find_targets, vocabulary_of
from fairaudit.report.conditions import with_rules
from fairaudit.report.model import Report
from fairaudit.report.render.junit import described
from fairaudit.report.safe_names import plain
from fairaudit.report.types.verdicts import GateRecord, GateTarget, Outcome, severity, worst

InconclusiveIs = Literal["fail", "pass"]


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """One record per rule, and the worst of them: a failure of one method is a failure.

    Args:
        gates: One for each rule.
        outcome: The worst of them.
        rules: Those that were checked; empty for the gates of a stored report.
    """

    gates: tuple[GateRecord, ...]
    outcome: Outcome
    rules: tuple[GateRule, ...] = ()

    def __repr__(self) -> str:
        """The verdict, then every rule with its outcome and its worst number."""
        lines = [f"Verdict {self.outcome}"]
        for gate in self.gates:
            line = f" {gate.outcome:<12} {plain(gate.rule, 200)}"
            if gate.targets:  # the first is the worst: `_record` has sorted them
                line += f" ({described(gate.targets[0], gate.unit)})"
            lines.append(line)
        return "\n".join(lines)

    def exit_code(self, inconclusive: InconclusiveIs | None = None) -> int:
        """0 for pass, 1 for fail, 3 for inconclusive.

        Args:
            inconclusive: What an inconclusive outcome counts as instead; None: as itself.
        """
        outcome = self.outcome
        if outcome == "inconclusive" and inconclusive is not None:
            outcome = inconclusive
        codes = {"pass": EXIT_OK, "fail": EXIT_GATE_FAILED, "inconclusive": EXIT_INCONCLUSIVE}
        return codes[outcome]


def check(
    report: Report,
    rules: Sequence[GateRule],
    baseline: Report | None = None,
    *,
    trust_claims: bool = False,
    trust_module: bool = False,
) -> Verdict:
    """Judge a report by rules: each rule's outcome in every number that it is about.

    Args:
        report: As it was read from its file: gates judge the numbers that people can read.
        rules: At least one.
        baseline: An earlier report, likewise, for rules about a change (``.delta``), or None.
        trust_claims: Whether an epsilon that a user's trainer claims, unchecked, is judged; else it
            is inconclusive.
        trust_module: Whether an epsilon that rests on a module of the user's own is judged.

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
        if rule.is_change and baseline is not None:  # checked above; mypy cannot know
            earlier = find_targets(
                rule, baseline, trust_claims=trust_claims, trust_module=trust_module
            )
            targets = _changes(rule, (report, targets), (baseline, earlier))
        gates.append(_record(rule, report, targets))
    return Verdict(tuple(gates), worst(gate.outcome for gate in gates), tuple(rules))


def judged(
    report: Report,
    rules: Sequence[GateRule],
    baseline: Report | None = None,
    *,
    trust_claims: bool = False,
    trust_module: bool = False,
) -> Report:
    """A report just made, with the rules' verdict in it; unchanged where there is no rule.

    The rules see the rounded numbers that its file will hold, so that `run` and `gate` say the
    same. Arguments as of :func:`check`.

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
    """The report with the verdict in it, for its pages and its file.

    Findings say what the rules say of each arm.
    """
    return with_rules(
        report.model_copy(update={"gates": verdict.gates, "verdict": verdict.outcome})
    )


def exit_code(report: Report, inconclusive: InconclusiveIs | None = None) -> int:
    """The exit code that the verdict in a report gives a program; 0 where it has no rules.

    ``inconclusive``: what an inconclusive verdict counts as instead; None: as itself.
    """
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
    """Judge every number that a rule is about: the worst outcome is the rule's.

    Args:
        rule: The rule.
        report: Decides the rule's words: where nothing was trained no method is private.
        candidates: The numbers, and the groups and arms that are left out.
    """
    # Only the numbers of one arm share an interval's 5 %: auditing another method beside this one
    # must not change its outcome. An exact number (an epsilon) has no interval to share.
    uncertain = Counter(
        target.arm for target in candidates.judged if not target.reading.number.is_exact
    )
    targets = [judge(rule, target, n_joint=uncertain[target.arm]) for target in candidates.judged]
    outcome = worst(target.outcome for target in targets)
    # Each reason once, in order; the record names three of them at most.
    reasons = dict.fromkeys(t.reason for t in targets if t.outcome == outcome and t.reason)
    # By metric and kind a page finds the numbers of this report that the rule judged. A rule about
    # a change judged none of them, so both are "" (``GateRecord``).
    metric, kind = rule.metric.key, rule.metric.kind

    def sort_key(target: GateTarget) -> tuple[int, float]:
        """Sorts the worst outcome first, within it the number furthest beyond the limit.

        A target without a number is the last of its outcome.
        """
        by_outcome = -severity(target.outcome)
        if target.value is None:
            return by_outcome, math.inf
        return by_outcome, -target.value if rule.fails_above else target.value

    return GateRecord(
        rule=rule.text,
        words=rule.words("any private method" if report.training else ""),
        outcome=outcome,
        reason="; ".join(list(reasons)[:3]) if targets else "nothing in the report fits the rule",
        targets=tuple(sorted(targets, key=sort_key)),
        left_out=candidates.left_out,
        unit=rule.metric.unit,
        limit=rule.number,
        metric="" if rule.is_change else metric,
        kind="" if rule.is_change else kind,
        promise=rule.promise,
    )


def _changes(
    rule: GateRule, now: tuple[Report, Targets], before: tuple[Report, Targets]
) -> Targets:
    """The targets of a report with each number replaced by its change since the baseline.

    A number that the baseline lacks gets a reason, which makes its outcome inconclusive.

    Args:
        rule: The rule, about a change.
        now, before: The report and the baseline, each with the rule's targets in it.
    """
    (report, current), (baseline, earlier) = now, before
    readings = {_place(rule, target): target.reading for target in earlier.judged}
    changed = []
    for target in current.judged:
        keys = filter(None, (target.arm, target.reference))  # a reference of "" is none
        same = report.shares_trainings(baseline, *keys, study=rule.metric.study)
        earlier_reading = readings.get(_place(rule, target))
        reading = change(target.reading, earlier_reading, same_trainings=same)
        changed.append(replace(target, reading=reading))
    return Targets(tuple(changed), current.left_out)


def _place(rule: GateRule, target: Target) -> tuple[str, str, str, tuple[str, ...]]:
    """The key by which a target is found in another report: arm, reference, grouping, groups.

    The groups are () for a rule about the largest gap, which may lie between others there.
    """
    is_largest_gap = rule.metric.kind != "group" and not rule.groups
    groups = () if is_largest_gap else target.groups
    return target.arm, target.reference, target.grouping, groups
