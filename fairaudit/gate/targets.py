"""Rule x report -> the numbers that the rule is held against."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fairaudit.errors import ConfigError, did_you_mean, numbered
from fairaudit.gate.grammar import ALL_ROWS, GateRule, GroupSelector
from fairaudit.gate.joint_interval import Variances
from fairaudit.gate.unjudged import unjudged
from fairaudit.gate.vocabulary import Metric
from fairaudit.methods.spec import Guarantee
from fairaudit.metrics.registry import METRICS, part_of
from fairaudit.report.facts import LabelFacts
from fairaudit.report.model import Report
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
        variances: Of the interval, where it is this number's own.
        is_size: An absolute value, so its interval ends at 0.
        reason: Why no gate may read it, or "".
        unjudged: Why it does not pass all the same, or "".
    """

    number: Interval
    n_seeds: int
    variances: Variances | None
    is_size: bool
    reason: str
    unjudged: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a number stands in a report.

    ``group`` is "" for all groups together, ``reference`` where the number is not relative to one.
    """

    arm: str
    reference: str
    grouping: str
    group: str
    reading: TargetReading


@dataclass(frozen=True, slots=True)
class Targets:
    """All numbers of one rule.

    And the groups that an unselective rule leaves out, with the reason.
    """

    judged: tuple[Target, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a rule may use: arm keys, grouping -> group names, and studies."""

    arms: tuple[tuple[str, str], ...]
    groupings: dict[str, tuple[str, ...]]
    studies: frozenset[str] = frozenset()

    def arms_of(self, rule: GateRule) -> set[str]:
        """Keys of the arms that a rule may be about: all that its arm's name begins.

        ``global`` is every arm of the method, ``global@3``, ``global:as-published`` those forms.
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
                the rule is about what a capability measures, and it was not asked for.
        """
        study = rule.metric.study
        if study and study not in self.studies:
            raise ConfigError(
                f"rule {rule.text!r} is about {study}, and none is measured",
                hint=f"run with --{study}",
            )
        if not self.arms_of(rule):
            hint = did_you_mean(rule.arm, dict(self.arms))
            raise ConfigError(f"rule {rule.text!r}: no method {rule.arm!r}", hint=hint)
        if rule.group is None or rule.is_overall:
            return
        grouping = rule.group.grouping
        if grouping not in self.groupings:
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
    rule: GateRule,
    report: Report,
    *,
    trust_claims: bool = False,
    trust_module: bool = False,
) -> Targets:
    """Every number that the rule is about; names are taken to be known.

    Args:
        rule, report: The rule, and the report whose numbers it is held against.
        trust_claims: Whether an epsilon that a trainer claims is a number like the others.
        trust_module: Whether one that rests on a module of the user's own is.
    """
    partial: dict[str, str] = {}
    left_out: dict[str, None] = {}
    study = report.studies.get(rule.metric.study)
    if study is None:
        for arm in report.every_arm:
            if arm.failed:
                seeds = numbered(arm.seeds_planned, "seed")
                partial[arm.key] = f"{len(arm.failed)} of {seeds} of {arm.key} have no result"
    else:
        partial = dict(study.unfinished)
        for key in sorted(_arms(rule, report) - study.trainings.keys()):
            left_out[f"{key}: it takes no part in {rule.metric.study}"] = None
    if rule.metric.kind == "arm":
        lack = ""  # one number of all arms: any missing training leaves it open
        if rule.metric.key == "epsilon_if_all_released":
            lack = next(iter(partial.values()), "")
        exact = _of_guarantees(rule, report, trust_claims=trust_claims, trust_module=trust_module)
        return Targets(
            tuple(_unless(target, partial.get(target.arm) or lack) for target in exact), ()
        )
    targets: list[Target] = []
    assumed = _assumed(rule.metric, report.data.label)
    for comparison in _comparisons(rule, report):
        why = partial.get(comparison.arm) or partial.get(comparison.reference) or assumed
        not_judged = unjudged(rule, report, comparison)
        for target in _of_comparison(rule, comparison, left_out):
            target = _unless(target, why)
            if not rule.metric.is_relative:
                target = replace(target, reference="")
            reading = replace(target.reading, unjudged=not_judged)
            targets.append(replace(target, reading=reading))
    return Targets(tuple(targets), tuple(left_out))


def _assumed(metric: Metric, label: LabelFacts) -> str:
    """Why a number that turns on which outcome is the good one is not gated, or ""."""
    if not label.is_assumed or "[" in metric.key or "favourable" not in METRICS[metric.base].needs:
        return ""
    # Of two classes, a difference of rates is the same for either outcome; a ratio is not.
    is_difference = metric.unit != "ratio" and metric.kind != "group"
    return "" if is_difference and len(label.classes) <= 2 else NOT_SAID


def limits(
    report: Report, rules: Sequence[GateRule], compared: Sequence[Comparison]
) -> tuple[Comparison, ...]:
    """Comparisons of the report with the largest size that rules allow each gap.

    The least of several.

    A limit on the largest gap is one on every pair of groups.
    """
    about = [(rule, _arms(rule, report)) for rule in rules if rule.limits_gaps]
    revised = []
    for comparison in compared:
        gaps = []
        for gap in comparison.gaps:
            numbers = []
            for rule, arms in about:
                is_of_arm = comparison.arm in arms and _fits(rule.group, comparison)
                if is_of_arm and _is_about(rule, comparison, gap):
                    numbers.append(rule.number)
            limit = min(numbers, default=None)
            gaps.append(gap if gap.limit == limit else gap.revised(limit=limit))
        revised.append(comparison.model_copy(update={"gaps": tuple(gaps)}))
    return tuple(revised)


def _is_about(rule: GateRule, comparison: Comparison, gap: Gap) -> bool:
    """Whether a gap is in the rule's metric, and between the groups that it names if it does."""
    if rule.metric.key != gap.metric:
        return False
    names = rule.groups
    if not names:
        return gap.kind != "population"
    if len(names) == 1:
        return gap.kind == "population" and gap.a == names[0]
    return gap.kind == "pair" and {gap.a, gap.b} == set(names)


def _unless(target: Target, why: str) -> Target:
    """The target, which no gate may read if there is a reason why not."""
    return replace(target, reading=replace(target.reading, reason=target.reading.reason or why))


def _arms(rule: GateRule, report: Report) -> set[str]:
    """The arms a rule is about: those it names, else all that are meant to be private.

    A method whose settings were sought is its tuned arm; the ways beside the search have names of
    their own.
    """
    if rule.arm:
        forms = vocabulary_of(report).arms_of(rule)
        if rule.arm in forms:
            return {rule.arm}
        tuned = forms & report.privacy.keys()
        return tuned or forms
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    # An arm measured against another private arm is a check of the audit, not a result.
    checks = {arm.key for arm in report.arms if arm.reference in compared}
    return (compared - checks) or {arm.key for arm in report.arms}


def _comparisons(rule: GateRule, report: Report) -> Iterator[Comparison]:
    """The comparisons of these arms.

    A number that has nothing to do with the reference is read once. Of a rule about a part of a
    cost, the methods are left out whose part has another name; an arm of which nothing is split is
    none of them: a rule about it is inconclusive.
    """
    arms = _arms(rule, report)
    key = rule.metric.key
    study = report.studies.get(rule.metric.study)
    compared = report.every_comparison if study is None else study.comparisons
    read: set[tuple[str, str, str]] = set()
    for comparison in compared:
        if comparison.arm not in arms or not _fits(rule.group, comparison):
            continue
        is_part_of_split = part_of(key) and _holds_part(rule.metric, comparison)
        if is_part_of_split and key not in comparison.overall.estimates:
            continue  # its parts have other names
        reference = comparison.reference if rule.metric.is_relative else ""
        grouping = "" if rule.is_overall else comparison.grouping
        place = comparison.arm, reference, grouping
        if place not in read:
            read.add(place)
            yield comparison


def _holds_part(metric: Metric, comparison: Comparison) -> bool:
    """Whether the cost is split, where the metric is a part of one."""
    return not part_of(metric.key) or f"{metric.base}.noise" in comparison.overall.estimates


def _fits(selector: GroupSelector | None, comparison: Comparison) -> bool:
    return selector is None or selector.grouping in (ALL_ROWS, comparison.grouping)


def _of_guarantees(
    rule: GateRule, report: Report, *, trust_claims: bool, trust_module: bool
) -> Iterator[Target]:
    """Epsilon or delta of every arm that the rule names; no value where it is not to be trusted.

    ``trust_claims``, ``trust_module``: as of :func:`find_targets`.
    """
    arms = _arms(rule, report)
    ways = report.every_guarantee.keys() - report.privacy.keys()  # of them nothing is composed
    released = None
    if report.training is not None:
        released = report.training.epsilon_if_all_released
    for key, facts in report.every_guarantee.items():
        if key not in arms or (facts.guarantee is Guarantee.NONE and not rule.arm):
            continue
        value = None
        if rule.metric.key == "delta":
            value = facts.delta
        elif facts.epsilon is not None:
            value = facts.epsilon.headline
            if rule.metric.key == "epsilon_rdp":
                value = facts.epsilon.rdp
        if rule.metric.key == "epsilon_if_all_released" and facts.epsilon is not None:
            value = None if key in ways else released
        # What is not proved counts as no number, unless the caller trusts it.
        is_unsure = facts.guarantee.rests_on_module and not trust_module
        if is_unsure or facts.guarantee is Guarantee.UNCHECKED:
            value = None
        reason = "" if value is not None else f"guarantee: {facts.guarantee.value}"
        if facts.claim is not None and rule.metric.key in ("epsilon", "delta"):
            claimed = facts.claim.epsilon if rule.metric.key == "epsilon" else facts.claim.delta
            value = claimed if trust_claims else None
            if value is not None:
                reason = ""
            elif claimed is None:
                reason = "the trainer claims none"
        exact = Interval(value=value, low=value, high=value)
        reading = TargetReading(
            exact,
            1,
            None,
            is_size=False,
            reason=reason,
        )
        yield Target(key, "", "", "", reading)


def _of_comparison(
    rule: GateRule, comparison: Comparison, left_out: dict[str, None]
) -> Iterator[Target]:
    """The numbers of one comparison; small groups that no rule names go to ``left_out``."""
    if rule.metric.kind != "group":
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
    """A group's number, with the reason where it cannot be judged."""
    key = rule.metric.key
    small = group.ungated.get(key, "") if group.gated else group.reason
    reason = _unpredicted([group]) or small
    if not reason and not _holds_part(rule.metric, comparison):
        reason = NOT_SPLIT
    estimate = group.estimates.get(key)
    reading = read_estimate(estimate, reason, is_size=False, own_variances=True)
    return Target(
        comparison.arm,
        comparison.reference,
        comparison.grouping,
        group.group,
        reading,
    )


def _gap_target(rule: GateRule, comparison: Comparison) -> Target:
    """The largest gap, or the one between the groups that the rule names."""
    gaps = [gap for gap in comparison.gaps if _is_about(rule, comparison, gap)]
    if not rule.groups:
        pairs = [gap for gap in gaps if gap.kind == "pair"]
        gaps = [gap for gap in gaps if gap.kind == "max"]
        if len(pairs) == 1 and len(comparison.by_group) == 2:
            gaps = pairs  # the only gap, with the variances of its own interval
    place = comparison.arm, comparison.reference, comparison.grouping
    if not gaps:
        why = NO_SUCH_GAP if _holds_part(rule.metric, comparison) else NOT_SPLIT
        return Target(
            *place,
            "",
            TargetReading(
                NOTHING,
                1,
                None,
                is_size=True,
                reason=why,
            ),
        )
    gap = gaps[0]
    between = [name for name in (gap.a, gap.b) if name]
    among = list(comparison.by_group)
    if gap.kind == "pair":
        among = [group for group in among if group.group in between]
    reason = _unpredicted(among) or ("" if gap.gated else gap.reason)
    is_pair = gap.kind in ("pair", "population")
    reading = read_estimate(
        gap.absolute,
        reason,
        is_size=True,
        own_variances=is_pair,
    )
    return Target(*place, ", ".join(between), reading)


def _unpredicted(groups: Sequence[GroupMeasure]) -> str:
    """Why rows that were to be judged cannot be, or "": whoever predicts may not choose them."""
    if any(group.unpredicted != 0 for group in groups):
        return "rows without a prediction"
    return ""


def read_estimate(
    estimate: Estimate | None, reason: str, *, is_size: bool, own_variances: bool
) -> TargetReading:
    """A report's estimate as a verdict needs it.

    Args:
        estimate: None where the report holds none.
        reason: Why gates may not read it, or "".
        is_size: An absolute value.
        own_variances: Its variances are those of its interval.
    """
    if estimate is None:
        why = reason or "the report holds no such number"
        return TargetReading(
            NOTHING,
            1,
            None,
            is_size=is_size,
            reason=why,
        )
    why = reason or estimate.reason
    if not why and estimate.value is None:
        why = "undefined"
    variances = None
    training, records = estimate.training_sd, estimate.records_sd
    if own_variances and estimate.ends is not None and training is not None and records is not None:
        variances = Variances(training**2, records**2)
    n_seeds = max(1, estimate.n_seeds)
    return TargetReading(
        estimate,
        n_seeds,
        variances,
        is_size=is_size,
        reason=why,
    )
