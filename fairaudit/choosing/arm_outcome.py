"""Rules of a gate, tested for one arm at a one-sided level: which numbers, and with what outcome.

A rule is a failing condition, as ``privacy_cost_gap > 2pt``; it may be about several numbers, one
for each group or pair of groups. A number passes where its limit at the level keeps the rule,
breaks the rule where the limit on its other side breaks it, and is undecided between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from fairaudit.choosing.sequence import FUTILITY, Number
from fairaudit.choosing.tested import Outcome, TestedNumber
from fairaudit.errors import ConfigError
from fairaudit.gate.grammar import GateRule, GroupSelector
from fairaudit.gate.targets import Target, TargetReading, find_targets
from fairaudit.report.model import Report
from fairaudit.results.estimates import Comparison, Estimate

_OF_ONE_MODEL = ("epsilon", "epsilon_rdp", "delta")  # the exact numbers that a rule may be about
_ORDER: tuple[Outcome, ...] = ("passes", "undecided", "breaks")  # the best first


def refuse_unfit(rules: Sequence[GateRule]) -> None:
    """Refuse rules that cannot be tested for one arm at a level.

    Raises:
        ConfigError: There is no rule; or one needs a baseline, is about a plain number without an
            interval, names an arm, or is not about a single private model.
    """
    if not rules:
        raise ConfigError(
            "no rule is given, so nothing can be chosen",
            hint="add --fail-on 'privacy_cost_gap > 2pt'",
        )
    for rule in rules:
        metric = rule.metric
        about_all = metric.kind == "arm" and metric.key not in _OF_ONE_MODEL
        is_of_reference = metric.key.startswith("reference.")
        why = hint = ""  # "": nothing is against the rule
        if rule.is_change:
            why, hint = "is about a change since a report", "leave .delta out"
        elif rule.statistic != "interval":
            why = "is about a plain number without an interval"
            hint = f"write {metric.name} alone"
        elif rule.arm:
            why, hint = "names an arm, but every method must keep every rule", "leave : out"
        elif about_all:
            why, hint = "is about all models of an audit, not about one", "use epsilon"
        elif is_of_reference:
            why = "is not about a private model on test rows"
            hint = f"use {metric.name.rpartition('.')[2]}"
        if why:
            raise ConfigError(f"rule {rule.text!r} {why}", hint=hint)


def numbers_of(
    rules: Sequence[GateRule], report: Report, arm: str, level: float
) -> tuple[TestedNumber, ...]:
    """Test every number that the rules are about, for the arm of that key, one-sided at ``level``.

    A rule that finds no number to judge gives one without a value, which is undecided, so that the
    arm cannot pass.
    """
    numbers = []
    for rule in rules:
        targets: list[Target] = []
        for part in _by_pair(rule, report, arm):
            targets += find_targets(part, report).judged
        if not targets:
            why = "no group, or no two groups, with enough test rows"
            # Of no reference, no grouping and no group.
            targets = [Target(arm, "", "", (), TargetReading.unknown(why))]
        for target in targets:
            numbers.append(_judged(rule, target, level))
    return tuple(numbers)


def outcome_of(numbers: Sequence[TestedNumber]) -> Outcome:
    """The outcome of an arm: the worst of its numbers, for it passes only where all of them do."""
    return max((number.outcome for number in numbers), key=_ORDER.index)


def lacks_limit(numbers: Sequence[TestedNumber]) -> bool:
    """Whether some number has no limit to test, which more seeds would not change."""
    return any(number.bound is None for number in numbers)


def left_out(rules: Sequence[GateRule], report: Report, arm: str) -> tuple[str, ...]:
    """Groups that no rule about groups judges because they are too small, each with the reason.

    Each is a line ``GROUPING = GROUP: REASON``; lines are sorted. ``arm``: key of the arm.
    """
    lines = set()  # several rules and references leave out the same group
    for rule in rules:
        if rule.metric.kind == "arm":  # about epsilon or delta, and not about groups
            continue
        for comparison in _comparisons(rule, report, arm):
            for group in comparison.by_group:
                reason = comparison.note_on(group)
                if reason:
                    lines.add(f"{comparison.grouping} = {group.group}: {reason}")
    return tuple(sorted(lines))


def _by_pair(rule: GateRule, report: Report, arm: str) -> Iterator[GateRule]:
    """The rule for this arm; if it is about the largest of several gaps, a rule for each pair.

    The largest gap keeps a limit where each gap does, each by its own interval. A rule that is not
    about a gap, or names its groups, stays one rule. So does one by a grouping for which the arm
    has no comparison: the search for its numbers then says why there are none.
    """
    rule = replace(rule, arm=arm)
    if rule.metric.kind != "gap":
        yield rule
        return
    # An arm has a comparison for each reference: the pairs of groups are the same in all.
    by_grouping = {c.grouping: c for c in _comparisons(rule, report, arm)}
    if rule.group and (rule.group.names or not by_grouping):
        yield rule
        return
    for grouping, comparison in by_grouping.items():
        gated = [group.group for group in comparison.by_group if not comparison.note_on(group)]
        for pair in combinations(gated, 2):
            yield replace(rule, group=GroupSelector(grouping, pair))


def _comparisons(rule: GateRule, report: Report, arm: str) -> Iterator[Comparison]:
    """The arm's comparisons by the rule's grouping, or by every grouping if the rule names none.

    There is one for each reference of the arm. A comparison without a reference measures the arm
    alone and is left out.
    """
    for comparison in report.comparisons:
        named = rule.group is None or comparison.grouping == rule.group.grouping
        if comparison.arm == arm and comparison.reference and named:
            yield comparison


def _judged(rule: GateRule, target: Target, level: float) -> TestedNumber:
    """Test one number, the target, at a one-sided ``level``.

    The result has the two limits that decide: ``bound``, at the level, must keep the rule for a
    pass; ``other_bound``, the 95 % limit on the other side, breaks the rule where it is beyond.
    Both are None where the number has no interval: then it is undecided, and ``reason`` says why.
    """
    reading, estimate = target.reading, target.reading.number
    value, bound, other_bound, reason = estimate.value, None, None, reading.reason
    outcome: Outcome = "undecided"
    if not reason and estimate.is_exact:  # as an epsilon is: both limits are the number itself
        bound = other_bound = reading.judged.value
        assert bound is not None, "an exact number has a value"
        outcome = "breaks" if rule.fails(bound) else "passes"
    elif not reason:
        number = _number(target)
        if number is None:
            reason = "it has no interval"
        else:
            outcome = number.judged(rule.fails, fails_above=rule.fails_above, level=level)
            limits, other_limits = number.limits(level), number.plain_limits(FUTILITY)
            if rule.fails_above:
                bound, other_bound = limits.high, other_limits.low
            else:
                bound, other_bound = limits.low, other_limits.high
    groups = target.groups
    # Of a gap whose order the rule does not give, the group of the larger value comes first.
    if reading.is_size and not rule.groups and (value or 0.0) < 0:
        value, groups = estimate.scaled(-1).value, groups[::-1]
    return TestedNumber(
        rule=rule.text,
        metric=rule.metric.name,
        limit=rule.number,
        reference=target.reference,
        grouping=target.grouping,
        group=(" less " if reading.is_size else ", ").join(groups),
        unit=rule.metric.unit,
        is_size=reading.is_size,
        value=value,
        bound=bound,
        other_bound=other_bound,
        outcome=outcome,
        reason=reason,
    )


def _number(target: Target) -> Number | None:
    """The target's mean over seeds with its variances, which its limits are made of.

    None where it has no interval, as with fewer than two seeds.
    """
    estimate = target.reading.number
    if not isinstance(estimate, Estimate) or estimate.value is None or estimate.ends is None:
        return None
    if estimate.training_sd is None or estimate.conservative_sd is None or estimate.n_seeds < 2:
        return None
    return Number(
        abs(estimate.value) if target.reading.is_size else estimate.value,
        estimate.training_sd**2,
        (estimate.own_records_sd or 0.0) ** 2,  # unknown: none of V_seed is taken for records'
        estimate.conservative_sd**2,
        estimate.n_seeds,
        is_size=target.reading.is_size,
    )
