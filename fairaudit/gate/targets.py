"""Rule x report -> the numbers that the rule is held against.

A *study* is what a capability (membership attacks, ``leakage``) measured in trainings of its own; a
report holds its arms' numbers apart. A *way* is the default setting of a method, trained beside the
search for its settings. A *reason* says why no gate may read a number, and is "" where one may.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from fairaudit.errors import ConfigError, did_you_mean, numbered
from fairaudit.gate.grammar import ALL_ROWS, GateRule, GroupSelector
from fairaudit.gate.joint_interval import Variances
from fairaudit.gate.unjudged import unjudged
from fairaudit.gate.vocabulary import Metric
from fairaudit.methods.spec import Guarantee
from fairaudit.metrics.registry import METRICS, part_of
from fairaudit.report.model import Report
from fairaudit.report.types.facts import ClaimFacts, LabelFacts
from fairaudit.results.estimates import NOTHING, Comparison, Estimate, Gap, GroupMeasure, Interval

NO_SUCH_GAP = (
    "the report holds no such gap; of one class's rates among four groups or more it holds the "
    "largest, and the pairs named by --compare"
)
NOT_SPLIT = (
    "the report does not split this cost: none was detected, or there is no noise to take away; "
    "--twins always splits every cost"
)
NOT_SAID = "which value of the label is the favourable outcome was not said: add --favourable VALUE"


@dataclass(frozen=True, slots=True)
class TargetReading:
    """One number of a report, with all that a verdict needs.

    Args:
        number: Its value and 95 % interval.
        n_seeds: How many seeds it rests on.
        variances: Those that its interval is made of; None where there are no such two numbers, as
            for the largest of several gaps, a change, or a guarantee.
        is_size: Whether rules are about its size, whichever sign it has: it is a gap.
        reason: Why no gate may read it, or "".
        unjudged: Why the rule cannot pass even if this number does: rows that no number judges; or
            "".
    """

    number: Interval
    n_seeds: int = 1
    variances: Variances | None = None
    is_size: bool = False
    reason: str = ""
    unjudged: str = ""

    @property
    def judged(self) -> Interval:
        """What a rule is held against: the number, or its size."""
        return self.number.size if self.is_size else self.number

    @classmethod
    def unknown(cls, reason: str) -> Self:
        """A number that the report does not hold, and the reason why."""
        return cls(NOTHING, reason=reason)


@dataclass(frozen=True, slots=True)
class Target:
    """One number that a rule is held against, and where it stands in a report.

    ``groups`` is a group or, for a gap, two; () for all test rows. ``reference`` is "" where the
    number is not relative to one. Of a guarantee ``grouping`` is "", and ``groups`` is ().
    """

    arm: str
    reference: str
    grouping: str
    groups: tuple[str, ...]
    reading: TargetReading


@dataclass(frozen=True, slots=True)
class Targets:
    """All numbers that one rule is held against, and what it leaves out.

    Args:
        judged: The numbers.
        left_out: Groups and arms that a rule which does not name them leaves out, each with its
            reason, as text.
    """

    judged: tuple[Target, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a rule may use.

    Args:
        arms: (key, method) of every arm.
        groupings: Grouping -> names of its groups.
        studies: Capabilities that measured something in trainings of their own.
        lacking: Metric that the planned audit will not measure -> why, or what to do about it.
            Empty for a stored report, whose numbers carry their own reasons.
    """

    arms: tuple[tuple[str, str], ...]
    groupings: dict[str, tuple[str, ...]]
    studies: frozenset[str] = frozenset()
    lacking: Mapping[str, str] = field(default_factory=dict)

    def arms_of(self, rule: GateRule) -> set[str]:
        """Keys of the arms that the rule's arm stands for; all arms where it names none.

        It may be a method (``global``: all of its arms), a form of it at every epsilon
        (``global:as-published``) or one arm's key (``global@3``).
        """
        keys = set()
        for key, method in self.arms:
            if rule.arm in ("", key, method) or key.startswith(f"{rule.arm}@"):
                keys.add(key)
        return keys

    def check(self, rule: GateRule) -> None:
        """Refuse a name that neither the data nor the plan holds.

        Raises:
            ConfigError: An arm, a grouping or a group is unknown; the hint names the nearest. Or
                the rule is about what a capability measures, and that was not measured, or about a
                metric that the planned audit will not measure (``lacking``).
        """
        study = rule.metric.study
        if study and study not in self.studies:
            raise ConfigError(
                f"rule {rule.text!r} is about {study}, and none is measured",
                hint=f"run with --{study}",
            )
        if rule.metric.kind != "arm" and rule.metric.base in self.lacking:
            why = self.lacking[rule.metric.base]
            raise ConfigError(f"rule {rule.text!r} is about what is not measured", hint=why)
        if not self.arms_of(rule):
            hint = did_you_mean(rule.arm, dict(self.arms))
            raise ConfigError(f"rule {rule.text!r}: no method {rule.arm!r}", hint=hint)
        if rule.group is None or rule.is_overall:
            return
        grouping = rule.group.grouping
        if grouping not in self.groupings:
            # Groupings with a group of that name: `@F` was perhaps meant as `@sex=F`.
            owners = [name for name, groups in self.groupings.items() if grouping in groups]
            hint = did_you_mean(grouping, [*self.groupings, ALL_ROWS])
            if owners:
                hint = f"write @{owners[0]}={grouping}"
            raise ConfigError(f"rule {rule.text!r}: no grouping {grouping!r}", hint=hint)
        group_names = self.groupings[grouping]
        for name in rule.group.names:
            if name not in group_names:
                raise ConfigError(
                    f"rule {rule.text!r}: no group {name!r} in {grouping!r}",
                    hint=did_you_mean(name, group_names),
                )


def vocabulary_of(report: Report) -> Vocabulary:
    """The arms, groupings, groups and studies that rules on this report may name."""
    return Vocabulary(
        arms=tuple((arm.key, arm.method) for arm in report.every_arm),
        groupings={g.name: tuple(group.name for group in g.groups) for g in report.data.groupings},
        studies=frozenset(report.studies),
    )


def find_targets(
    rule: GateRule, report: Report, *, trust_claims: bool = False, trust_module: bool = False
) -> Targets:
    """Find every number that the rule is about; ``Vocabulary.check`` has checked its names.

    Args:
        rule: The rule.
        report: The report whose numbers it is held against.
        trust_claims: Whether an epsilon that a user's trainer claims is read like a proved one.
        trust_module: Whether an epsilon that rests on a module of the user's own is.
    """
    incomplete = _incomplete_arms(rule, report)
    if rule.metric.kind == "arm":  # a number of the guarantee, as epsilon
        # A number of all arms together is left open by any training that has no result.
        of_any_arm = ""
        if rule.metric.key == "epsilon_if_all_released":
            of_any_arm = next(iter(incomplete.values()), "")
        exact = _guarantee_targets(
            rule, report, trust_claims=trust_claims, trust_module=trust_module
        )
        guarantees = [
            _with_reason(target, incomplete.get(target.arm) or of_any_arm) for target in exact
        ]
        return Targets(judged=tuple(guarantees), left_out=())
    left_out: dict[str, None] = {}  # an ordered set
    study = report.studies.get(rule.metric.study)  # None for a metric of the audit itself ("")
    if study is not None:
        for key in sorted(_arms(rule, report) - study.trainings.keys()):
            left_out[f"{key}: it takes no part in {rule.metric.study}"] = None
    targets: list[Target] = []
    assumed = _why_assumed(rule.metric, report.data.label)
    for comparison in _comparisons(rule, report):
        why = incomplete.get(comparison.arm) or incomplete.get(comparison.reference) or assumed
        not_judged = unjudged(rule, report, comparison)
        for target in _comparison_targets(rule, comparison, left_out):
            target = _with_reason(target, why)
            if not rule.metric.is_relative:  # the arm's number is the same beside any reference
                target = replace(target, reference="")
            reading = replace(target.reading, unjudged=not_judged)
            targets.append(replace(target, reading=reading))
    return Targets(tuple(targets), tuple(left_out))


def _incomplete_arms(rule: GateRule, report: Report) -> dict[str, str]:
    """Arm -> why gates may not read its numbers: some of its trainings have no result.

    Of a rule about what a study measured, the study's own trainings count.
    """
    study = report.studies.get(rule.metric.study)
    if study is not None:
        return dict(study.unfinished)
    incomplete = {}
    for arm in report.every_arm:
        if arm.failed:
            seeds = numbered(arm.seeds_planned, "seed")
            incomplete[arm.key] = f"{len(arm.failed)} of {seeds} of {arm.key} have no result"
    return incomplete


def _why_assumed(metric: Metric, label: LabelFacts) -> str:
    """Why the metric is not gated where nobody said which outcome is favourable, or "".

    "" also for a metric that does not turn on that.
    """
    # A rate of one numbered class (``selection_rate[2]``) turns on no outcome.
    if not label.is_assumed or "[" in metric.key or "favourable" not in METRICS[metric.base].needs:
        return ""
    # Of two classes, a difference of rates has the same size for either outcome; a ratio has not.
    is_difference = metric.unit != "ratio" and metric.kind != "group"
    return "" if is_difference and len(label.classes) <= 2 else NOT_SAID


def _is_about(rule: GateRule, comparison: Comparison, gap: Gap) -> bool:
    """Whether the rule is about this gap: its metric, and the groups where it names some.

    Two names are a pair, one is a group against all rows (``population``). Without names the rule
    is about the largest gap and so about every pair.
    """
    if rule.metric.key != gap.metric:
        return False
    names = rule.groups
    if not names:
        return gap.kind != "population"
    if len(names) == 1:
        return gap.kind == "population" and gap.a == names[0]
    return gap.kind == "pair" and {gap.a, gap.b} == set(names)


def _with_reason(target: Target, why: str) -> Target:
    """The target with ``why`` as the reason that no gate may read it, unless it has one already.

    "" changes nothing.
    """
    return replace(target, reading=replace(target.reading, reason=target.reading.reason or why))


def _arms(rule: GateRule, report: Report) -> set[str]:
    """Keys of the arms that a rule is about: those it names, else all that are meant to be private.

    A rule names a method, a form of it at every epsilon, or one arm's key. A method whose settings
    were searched stands for its tuned arm; the way beside the search is meant only by its own key.
    """
    audited = {arm.key for arm in report.arms}  # not the ways, which ``every_arm`` has as well
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    # An arm measured against another private arm is a check of the audit, not a result: it is meant
    # only where nothing else is.
    checks = {arm.key for arm in report.arms if arm.reference in compared}
    if not rule.arm:
        # Without a compared arm, as where one model's predictions were given, all are meant.
        return (compared - checks) or audited
    named = vocabulary_of(report).arms_of(rule)
    if rule.arm in named:  # the key of one arm, which may be that of a way or of a check
        return {rule.arm}
    tuned = named & audited  # empty where ways alone have such an arm
    results = (tuned or named) - checks
    return results or named


def _comparisons(rule: GateRule, report: Report) -> Iterator[Comparison]:
    """The comparisons in which a rule's numbers stand, of the arms and grouping that it is about.

    An arm may be compared with several references; a number that does not depend on the reference
    is read in the first of them, and one of all test rows by the first grouping alone. For a rule
    about a part of a cost, an arm whose cost is split into parts of other names is left out. An arm
    whose cost is not split stays, so that the rule is inconclusive.
    """
    arms = _arms(rule, report)
    key = rule.metric.key
    study = report.studies.get(rule.metric.study)
    compared = report.every_comparison if study is None else study.comparisons
    read: set[tuple[str, str, str]] = set()  # arm, reference, grouping of those yielded
    for comparison in compared:
        if comparison.arm not in arms or not _fits(rule.group, comparison):
            continue
        is_split = part_of(key) and _holds_part(rule.metric, comparison)
        if is_split and key not in comparison.overall.estimates:
            continue  # the cost is split, but into parts of other names than the rule's
        # "" stands for any reference, and for any grouping, that gives the same number.
        reference = comparison.reference if rule.metric.is_relative else ""
        grouping = "" if rule.is_overall else comparison.grouping
        place = comparison.arm, reference, grouping
        if place not in read:
            read.add(place)
            yield comparison


def _holds_part(metric: Metric, comparison: Comparison) -> bool:
    """Whether the comparison splits the cost of which the metric is a part.

    True for a metric that is no part of a cost. Every split has a part of the noise.
    """
    return not part_of(metric.key) or f"{metric.base}.noise" in comparison.overall.estimates


def _fits(selector: GroupSelector | None, comparison: Comparison) -> bool:
    """Whether a rule with this group selector is about the comparison's grouping.

    Without a selector it is about every grouping; all test rows stand in any of them.
    """
    return selector is None or selector.grouping in (ALL_ROWS, comparison.grouping)


def _guarantee_targets(
    rule: GateRule, report: Report, *, trust_claims: bool, trust_module: bool
) -> Iterator[Target]:
    """Epsilon or delta of every arm that the rule is about, exact numbers without an interval.

    Where a guarantee is not to be trusted there is no value, and the reason says so. An arm without
    any guarantee is left out unless the rule names it. Arguments as of :func:`find_targets`.
    """
    arms = _arms(rule, report)
    for key, privacy in report.every_guarantee.items():
        if key not in arms or (privacy.guarantee is Guarantee.NONE and not rule.arm):
            continue
        value = _guaranteed(rule, report, key)
        # A number that is not proved counts as none. The caller may trust one that rests on a
        # module of the user's own; a claim is looked at below.
        is_unsure = privacy.guarantee.rests_on_module and not trust_module
        if is_unsure or privacy.guarantee is Guarantee.UNCHECKED:
            value = None
        reason = "" if value is not None else f"guarantee: {privacy.guarantee.value}"
        if is_unsure:
            reason += "; --trust-module judges it"
        if privacy.claim is not None and rule.metric.key in ("epsilon", "delta"):
            value, reason = _claimed(rule, privacy.claim, reason, trust_claims=trust_claims)
        exact = Interval(value=value, low=value, high=value)
        yield Target(key, "", "", (), TargetReading(exact, reason=reason))


def _guaranteed(rule: GateRule, report: Report, arm: str) -> float | None:
    """The number of an arm's guarantee that the rule is about; None where there is none."""
    privacy = report.every_guarantee[arm]
    if rule.metric.key == "delta":
        return privacy.delta
    if privacy.epsilon is None:
        return None
    if rule.metric.key == "epsilon_rdp":
        return privacy.epsilon.rdp
    if rule.metric.key == "epsilon_if_all_released":
        # This epsilon is of all models of the audit together. A way's models are not among them.
        # Without a training (predictions were given) there is none.
        is_way = arm not in report.privacy
        if is_way or report.training is None:
            return None
        return report.training.epsilon_if_all_released
    return privacy.epsilon.headline


def _claimed(
    rule: GateRule, claim: ClaimFacts, unproved: str, *, trust_claims: bool
) -> tuple[float | None, str]:
    """The epsilon or delta that a trainer of the user's own claims, and why it is not read, or "".

    Args:
        rule: Is about epsilon or delta.
        claim: What the trainer says.
        unproved: Why the number counts as none without the claim.
        trust_claims: Whether the claim is read like a proved number.
    """
    is_about_epsilon = rule.metric.key == "epsilon"
    claimed = claim.epsilon if is_about_epsilon else claim.delta
    if claimed is None:
        return None, "the trainer claims none"
    if not trust_claims:
        return None, f"{unproved}; --trust-claimed-epsilon judges what the trainer claims"
    # At a larger delta an epsilon is smaller, so the claimed one says nothing of epsilon at the
    # delta that was asked for. A claim without a delta is taken for one at 0.
    if is_about_epsilon and (claim.delta or 0) > claim.asked_delta:
        reason = (
            f"claimed at delta {claim.delta:g}, which is more than the {claim.asked_delta:g} "
            "asked for"
        )
        return None, reason
    return claimed, ""


def _comparison_targets(
    rule: GateRule, comparison: Comparison, left_out: dict[str, None]
) -> Iterator[Target]:
    """The numbers of one comparison that the rule is held against.

    Groups that are too small, and that the rule does not name, are added to ``left_out`` with the
    reason.
    """
    if rule.metric.kind != "group":
        if not rule.groups:
            for group in comparison.by_group:
                note = comparison.note_on(group)
                # One that lacks predictions is not left out: it keeps the rule from passing.
                if note and group.unpredicted == 0:
                    left_out[f"{comparison.grouping} = {group.group}: {note}"] = None
        yield _gap_target(rule, comparison)
        return
    if rule.is_overall:
        yield _group_target(rule, comparison, comparison.overall)
        return
    for group in comparison.by_group:
        if rule.groups and group.group not in rule.groups:
            continue
        too_small = comparison.note_on(group)
        # One that lacks predictions is judged however small, so that the rule cannot pass.
        if too_small and group.unpredicted == 0 and not rule.groups:
            left_out[f"{comparison.grouping} = {group.group}: {too_small}"] = None
        else:
            yield _group_target(rule, comparison, group)


def _group_target(rule: GateRule, comparison: Comparison, group: GroupMeasure) -> Target:
    """A group's number of the rule's metric, with the reason where no gate may read it."""
    key = rule.metric.key
    too_few = group.ungated.get(key, "") if group.gated else group.reason
    reason = _unpredicted([group]) or too_few
    if not reason and not _holds_part(rule.metric, comparison):
        reason = NOT_SPLIT
    estimate = group.estimates.get(key)
    reading = read_estimate(estimate, reason, is_size=False, own_variances=True)
    names = (group.group,) if group.group else ()
    return Target(comparison.arm, comparison.reference, comparison.grouping, names, reading)


def _gap_target(rule: GateRule, comparison: Comparison) -> Target:
    """The largest gap of the rule's metric, or the one between the groups that the rule names.

    Where the report holds no such gap, the target has no value, and the reason says why.
    """
    gaps = [gap for gap in comparison.gaps if _is_about(rule, comparison, gap)]
    if not rule.groups:
        pairs = [gap for gap in gaps if gap.kind == "pair"]
        gaps = [gap for gap in gaps if gap.kind == "max"]
        if len(pairs) == 1 and len(comparison.by_group) == 2:
            gaps = pairs  # the only gap, with the variances of its own interval
    place = comparison.arm, comparison.reference, comparison.grouping
    if not gaps:
        why = NO_SUCH_GAP if _holds_part(rule.metric, comparison) else NOT_SPLIT
        of_all_rows = comparison.overall.estimates.get(rule.metric.key)
        if of_all_rows is not None and of_all_rows.value is None and of_all_rows.reason:
            why = of_all_rows.reason  # the metric itself was not measured
        return Target(*place, (), TargetReading.unknown(why))
    gap = gaps[0].larger_first
    if rule.groups == (gap.b, gap.a):  # a named pair in its order
        gap = gap.reversed
    names = tuple(name for name in (gap.a, gap.b) if name)  # b is "" for all rows
    # Groups whose missing predictions leave the gap open: of a pair both. The largest gap, and one
    # against all rows, depend on every group.
    groups = list(comparison.by_group)
    if gap.kind == "pair":
        groups = [group for group in groups if group.group in names]
    reason = _unpredicted(groups) or ("" if gap.gated else gap.reason)
    is_chosen = gap.kind == "max"  # its interval may be made of other pairs' ends
    reading = read_estimate(gap.signed, reason, is_size=True, own_variances=not is_chosen)
    return Target(*place, names, reading)


def _unpredicted(groups: Sequence[GroupMeasure]) -> str:
    """Why the groups' numbers are not gated: given predictions lack some of their rows; else "".

    Otherwise whoever gives predictions could leave out the rows on which the model is wrong.
    """
    if any(group.unpredicted != 0 for group in groups):  # None is a suppressed count above 0
        return "rows without a prediction"
    return ""


def read_estimate(
    estimate: Estimate | None, reason: str, *, is_size: bool, own_variances: bool
) -> TargetReading:
    """A report's estimate with what a verdict needs to know of it.

    Args:
        estimate: None where the report holds none; then the reading has no value.
        reason: Why gates may not read it, or "".
        is_size: Whether rules are about its size.
        own_variances: Whether its interval is made of its two variances; that of the largest of
            several gaps is not.
    """
    if estimate is None:
        return TargetReading.unknown(reason or "the report holds no such number")
    why = reason or estimate.reason
    if not why and estimate.value is None:
        why = "undefined"
    variances = None
    training, records = estimate.training_sd, estimate.records_sd
    if own_variances and estimate.ends is not None and training is not None and records is not None:
        variances = Variances(training**2, records**2)
    n_seeds = max(1, estimate.n_seeds)  # an undefined estimate has 0 seeds
    return TargetReading(estimate, n_seeds, variances, is_size=is_size, reason=why)
