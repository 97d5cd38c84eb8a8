"""Rule x report -> the numbers that the rule is held against."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fairaudit.errors import ConfigError, did_you_mean, numbered
from fairaudit.gate.grammar import ALL_ROWS, GateRule, GroupSelector
from fairaudit.gate.joint_interval import Variances
from fairaudit.gate.unjudged import named, unjudged
from fairaudit.gate.vocabulary import Metric
from fairaudit.methods.spec import Guarantee
from fairaudit.metrics.registry import METRICS, part_of
from fairaudit.report.facts import LabelFacts
from fairaudit.report.model import Report
from fairaudit.results.estimates import NOTHING, Comparison, Estimate, Gap, GroupMeasure, Interval

NO_SUCH_GAP = (
    "the report holds no such gap; of one class's rates among four groups or more it holds the largest, and "
    "the pairs named by --compare"
)
NOT_SPLIT = (
    "the report does not split this cost: it was made with --no-twins or by an earlier version, or there is "
    "no noise to take away"
)
NOT_SAID = "which value of the label is the favourable outcome was not said: add --favourable VALUE"


@dataclass(frozen=True, slots=True)
class TargetReading:
    """One number of a report, with all that a verdict needs.

    Args:
        number: Its value and 95 % interval.
        seeds: The value at each seed.
        n_seeds: How many.
        variances: Of the interval, where it is this number's own.
        is_size: An absolute value, so its interval ends at 0.
        reason: Why no gate may read it, or "".
        slack: The most by which rows that could not be judged could move it.
        unjudged: Why a pass is not sure then, or "".
    """

    number: Interval
    seeds: tuple[float | None, ...]
    n_seeds: int
    variances: Variances | None
    is_size: bool
    reason: str
    slack: float = 0.0
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
    """All numbers of one rule, and the groups that an unselective rule leaves out, with the reason."""

    judged: tuple[Target, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a rule may use: arm keys and grouping -> group names; whether models were attacked."""

    arms: tuple[tuple[str, str], ...]
    groupings: dict[str, tuple[str, ...]]
    has_leakage: bool

    def check(self, rule: GateRule) -> None:
        """Refuse a name that neither the data nor the plan holds.

        Raises:
            ConfigError: An arm, a grouping or a group is unknown; the hint names the nearest. Or the rule is
                about leakage, and none is measured.
        """
        if rule.metric.is_of_leakage and not self.has_leakage:
            raise ConfigError(
                f"rule {rule.text!r} is about leakage, and no model is attacked", hint="run with --leakage"
            )
        keys = [key for key, _ in self.arms]
        if rule.arm and not any(_is_arm(rule.arm, key, method) for key, method in self.arms):
            raise ConfigError(
                f"rule {rule.text!r}: no method {rule.arm!r}", hint=did_you_mean(rule.arm, keys)
            )
        if rule.group is None:
            return
        if rule.group.bare:
            self._check_bare(rule, rule.group.bare)
            return
        if rule.group.grouping not in self.groupings:
            hint = did_you_mean(rule.group.grouping, self.groupings)
            raise ConfigError(f"rule {rule.text!r}: no grouping {rule.group.grouping!r}", hint=hint)
        known = self.groupings[rule.group.grouping]
        for name in rule.group.names:
            if name not in known:
                raise ConfigError(
                    f"rule {rule.text!r}: no group {name!r} in {rule.group.grouping!r}",
                    hint=did_you_mean(name, known),
                )

    def _check_bare(self, rule: GateRule, name: str) -> None:
        is_group = any(name in groups for groups in self.groupings.values())
        if name in self.groupings and is_group:
            raise ConfigError(
                f"rule {rule.text!r}: {name!r} is a group and a grouping", hint="write @COLUMN=NAME"
            )
        if not is_group and name not in self.groupings and name != ALL_ROWS:
            known = [ALL_ROWS, *self.groupings, *(n for names in self.groupings.values() for n in names)]
            raise ConfigError(f"rule {rule.text!r}: no group {name!r}", hint=did_you_mean(name, known))


def vocabulary_of(report: Report) -> Vocabulary:
    """The names that the report knows."""
    return Vocabulary(
        arms=tuple((arm.key, arm.method) for arm in report.every_arm),
        groupings={g.name: tuple(group.name for group in g.groups) for g in report.data.groupings},
        has_leakage=report.leakage is not None,
    )


def find_targets(rule: GateRule, report: Report, *, trust_claims: bool = False) -> Targets:
    """Every number that the rule is about; names are taken to be known.

    Args:
        rule, report: Which.
        trust_claims: Whether an epsilon that a trainer claims is a number like the others.
    """
    partial = {
        arm.key: f"{len(arm.failed)} of {numbered(arm.seeds_planned, 'seed')} of {arm.key} have no result"
        for arm in report.every_arm
        if arm.failed
    }
    left_out: dict[str, None] = {}
    if rule.metric.is_of_leakage and report.leakage:
        partial = report.leakage.unfinished
        spared = sorted(_arms(rule, report) - {arm.arm for arm in report.leakage.arms})
        left_out = {f"{key}: it was not attacked": None for key in spared}
    if rule.metric.kind == "arm":
        whole = next(iter(partial.values()), "") if rule.metric.key == "epsilon_if_all_released" else ""
        found = _of_guarantees(rule, report, trust_claims=trust_claims)
        return Targets(tuple(_unless(target, partial.get(target.arm) or whole) for target in found), ())
    judged: list[Target] = []
    assumed = _assumed(rule.metric, report.data.label)
    for comparison in _comparisons(rule, report):
        why = partial.get(comparison.arm) or partial.get(comparison.reference) or assumed
        reference = comparison.reference if rule.metric.is_relative else ""
        told = [
            replace(_unless(target, why), reference=reference)
            for target in _of_comparison(rule, comparison, left_out)
        ]
        judged += told if report.training else [_doubted(t, rule, report, comparison) for t in told]
    return Targets(tuple(judged), tuple(left_out))


def limits(
    report: Report, rules: Sequence[GateRule], compared: Sequence[Comparison]
) -> tuple[Comparison, ...]:
    """Comparisons of the report with the largest size that rules allow each gap: the least of several.

    A limit on the largest gap is one on every pair of groups.
    """
    about = [(rule, _arms(rule, report)) for rule in rules if rule.limits_gaps]

    def limit(comparison: Comparison, gap: Gap) -> float | None:
        found = [
            rule.number
            for rule, arms in about
            if rule.metric.key == gap.metric and comparison.arm in arms and _is_about(rule, comparison, gap)
        ]
        return min(found, default=None)

    def read(comparison: Comparison) -> Comparison:
        limited = [(gap, limit(comparison, gap)) for gap in comparison.gaps]
        gaps = tuple(gap if gap.limit == least else gap.revised(limit=least) for gap, least in limited)
        return comparison.model_copy(update={"gaps": gaps})

    return tuple(map(read, compared))


def _is_about(rule: GateRule, comparison: Comparison, gap: Gap) -> bool:
    if not _fits(rule.group, comparison):
        return False
    names = named(rule.group, comparison)
    if not names:
        return gap.kind in ("pair", "max")
    if len(names) == 1:
        return gap.kind == "population" and gap.a == names[0]
    return gap.kind == "pair" and {gap.a, gap.b} == set(names)


def _unless(target: Target, why: str) -> Target:
    """The target, which no gate may read if there is a reason why not."""
    return replace(target, reading=replace(target.reading, reason=target.reading.reason or why))


def _doubted(target: Target, rule: GateRule, report: Report, comparison: Comparison) -> Target:
    """The target with what rows that are not in it could do to it."""
    slack, said = unjudged(rule, target.group, report, comparison)
    return replace(target, reading=replace(target.reading, slack=slack, unjudged=said)) if said else target


def _assumed(metric: Metric, label: LabelFacts) -> str:
    """Why a number that turns on which outcome is the good one is not gated, or "".

    Of two classes, a difference of rates is the same for either; a ratio is not.
    """
    if not label.is_assumed or metric.kind == "arm" or "[" in metric.key:
        return ""
    turns = "favourable" in METRICS[metric.base].needs
    is_mirrored = metric.unit != "ratio" and metric.kind != "group" and len(label.classes) <= 2
    return NOT_SAID if turns and not is_mirrored else ""


def _is_arm(wanted: str, key: str, method: str) -> bool:
    """``global`` is every arm of the method, ``global@3`` and ``global:as-published`` those forms of it."""
    return wanted in (key, method) or (key.startswith(wanted + "@") and ":" in wanted)


def _arms(rule: GateRule, report: Report) -> set[str]:
    """The arms a rule is about: those it names, else all that are meant to be private.

    A method whose settings were sought is its tuned arm; the ways beside the search have names of their own.
    """
    if rule.arm:
        exact = {arm.key for arm in report.every_arm if arm.key == rule.arm}
        forms = [arm for arm in report.every_arm if _is_arm(rule.arm, arm.key, arm.method)]
        own = {arm.key for arm in forms if arm in report.arms}
        return exact or own or {arm.key for arm in forms}
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    # An arm measured against another private arm is a check of the audit, not a result.
    checks = {arm.key for arm in report.arms if arm.reference in compared}
    return (compared - checks) or {arm.key for arm in report.arms}


def _comparisons(rule: GateRule, report: Report) -> Iterator[Comparison]:
    """The comparisons of these arms; a number that has nothing to do with the reference is read once."""
    wanted = _arms(rule, report)
    is_overall = rule.group is not None and rule.group.bare == ALL_ROWS
    lacking = _without_part(rule.metric, report)
    seen: set[tuple[str, str, str]] = set()
    for comparison in report.attacks if rule.metric.is_of_leakage else report.every_comparison:
        place = (
            comparison.arm,
            comparison.reference if rule.metric.is_relative else "",
            "" if is_overall else comparison.grouping,
        )
        own = comparison.arm, comparison.reference
        if (
            comparison.arm in wanted
            and own not in lacking
            and place not in seen
            and _fits(rule.group, comparison)
        ):
            seen.add(place)
            yield comparison


def _without_part(metric: Metric, report: Report) -> set[tuple[str, str]]:
    """Comparisons that a rule about a part of a cost leaves out: what their method does has another name.

    An arm of which nothing is split is none of them: a rule about it is inconclusive.
    """
    if not part_of(metric.key):
        return set()
    split = {c.arm for c in report.every_comparison if f"{metric.base}.noise" in c.overall.estimates}
    return {
        (c.arm, c.reference)
        for c in report.every_comparison
        if c.arm in split and metric.key not in c.overall.estimates
    }


def _holds_part(metric: Metric, comparison: Comparison) -> bool:
    """Whether the cost is split, where the metric is a part of one."""
    return not part_of(metric.key) or f"{metric.base}.noise" in comparison.overall.estimates


def _fits(selector: GroupSelector | None, comparison: Comparison) -> bool:
    if selector is None or selector.bare in (ALL_ROWS, comparison.grouping):
        return True
    if selector.bare:
        return any(group.group == selector.bare for group in comparison.by_group)
    return selector.grouping == comparison.grouping


def _of_guarantees(rule: GateRule, report: Report, *, trust_claims: bool) -> Iterator[Target]:
    wanted = _arms(rule, report)
    for key, facts in report.every_guarantee.items():
        if key not in wanted or (facts.guarantee.value == "none" and not rule.arm):
            continue
        held = facts.epsilon
        value = {
            "epsilon": held.headline if held else None,
            "epsilon_rdp": held.rdp if held else None,
            "epsilon_if_all_released": facts.epsilon_if_all_released,
            "delta": facts.delta,
        }[rule.metric.key]
        if facts.guarantee is Guarantee.UNCHECKED:
            value = None  # no more than a claim
        reason = "" if value is not None else f"guarantee: {facts.guarantee.value}"
        if facts.claim is not None and rule.metric.key in ("epsilon", "delta"):
            claimed = {"epsilon": facts.claim.epsilon, "delta": facts.claim.delta}[rule.metric.key]
            value = claimed if trust_claims else None
            reason = "" if value is not None else reason if claimed is not None else "the trainer claims none"
        exact = Interval(value=value, low=value, high=value)
        reading = TargetReading(exact, (value,), 1, None, is_size=False, reason=reason)
        yield Target(key, "", "", "", reading)


def _of_comparison(rule: GateRule, comparison: Comparison, left_out: dict[str, None]) -> Iterator[Target]:
    if rule.metric.kind != "group":
        yield _gap_target(rule, comparison)
        return
    selector = rule.group
    if selector is not None and selector.bare == ALL_ROWS:
        yield _group_target(rule, comparison, comparison.overall)
        return
    wanted = named(selector, comparison)
    for group in comparison.by_group:
        own_reason = comparison.note_on(group)
        if wanted is not None and group.group not in wanted:
            continue
        if wanted is None and own_reason and group.unpredicted == 0:
            left_out[f"{comparison.grouping} = {group.group}: {own_reason}"] = None
            continue
        yield _group_target(rule, comparison, group)


def _group_target(rule: GateRule, comparison: Comparison, group: GroupMeasure) -> Target:
    estimate = group.estimates.get(rule.metric.key)
    reason = group.reason if not group.gated else group.ungated.get(rule.metric.key, "")
    reason = _unpredicted([group]) or reason or ("" if _holds_part(rule.metric, comparison) else NOT_SPLIT)
    reading = read_estimate(estimate, reason, is_size=False, own_variances=True)
    return Target(comparison.arm, comparison.reference, comparison.grouping, group.group, reading)


def _gap_target(rule: GateRule, comparison: Comparison) -> Target:
    gap = _find_gap(rule, comparison)
    if gap is None:
        why = NO_SUCH_GAP if _holds_part(rule.metric, comparison) else NOT_SPLIT
        nothing = TargetReading(NOTHING, (), 1, None, is_size=True, reason=why)
        return Target(comparison.arm, comparison.reference, comparison.grouping, "", nothing)
    is_pair = gap.kind in ("pair", "population")
    among = [g for g in comparison.by_group if gap.kind != "pair" or g.group in (gap.a, gap.b)]
    reason = _unpredicted(among) or ("" if gap.gated else gap.reason)
    reading = read_estimate(gap.absolute, reason, is_size=True, own_variances=is_pair)
    between = ", ".join(filter(None, (gap.a, gap.b)))
    return Target(comparison.arm, comparison.reference, comparison.grouping, between, reading)


def _unpredicted(groups: Sequence[GroupMeasure]) -> str:
    """Why rows that were to be judged cannot be, or "": whoever predicts may not choose them."""
    counts = [group.unpredicted for group in groups]
    if None in counts:
        return "rows have no prediction"
    lacking = sum(n for n in counts if n)
    return f"{lacking:,} row{'s' * (lacking != 1)} without a prediction" if lacking else ""


def _find_gap(rule: GateRule, comparison: Comparison) -> Gap | None:
    """The largest gap, or the one between the groups that the rule names."""
    of_metric = [gap for gap in comparison.gaps if gap.metric == rule.metric.key]
    pairs = [gap for gap in of_metric if gap.kind == "pair"]
    if rule.metric.kind == "mean_gap":
        mean = next((gap for gap in of_metric if gap.kind == "mean"), None)
        return mean or (pairs[0] if len(pairs) == 1 else None)  # of two groups there is one gap
    names = named(rule.group, comparison)
    if not names:
        if len(pairs) == 1 and len(comparison.by_group) == 2:
            return pairs[0]  # the largest gap, with the variances of its own interval
        return next((gap for gap in of_metric if gap.kind == "max"), None)
    if len(names) == 1:
        return next((g for g in of_metric if g.kind == "population" and g.a == names[0]), None)
    return next((g for g in pairs if {g.a, g.b} == set(names)), None)


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
        said = reason or "the report holds no such number"
        return TargetReading(NOTHING, (), 1, None, is_size=is_size, reason=said)
    said = reason or estimate.reason or ("undefined" if estimate.value is None else "")
    variances = None
    is_bounded = estimate.ends is not None
    if own_variances and is_bounded and estimate.training_sd is not None and estimate.records_sd is not None:
        variances = Variances(estimate.training_sd**2, estimate.records_sd**2)
    return TargetReading(
        number=estimate,
        seeds=estimate.by_seed,
        n_seeds=max(1, estimate.n_seeds),
        variances=variances,
        is_size=is_size,
        reason=said,
    )
