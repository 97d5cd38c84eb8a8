"""Report -> its summary.

Every sentence of it is made here, from numbers whose interval bears it out.
"""

from collections.abc import Iterator
from typing import get_args

from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import COST as _ACCURACY
from fairaudit.report.main_gap import (
    detected_gap,
    is_detected,
    main_gap,
    read_words,
    scale_of,
    with_unit,
)
from fairaudit.report.model import UNHEALTHY, Report
from fairaudit.report.parts import shortened_arms, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.report.summary import (
    Cost,
    GapSummary,
    GroupCost,
    MethodSummary,
    MisalignmentSummary,
    Outcome,
    PartsSummary,
    Summary,
    SummaryLine,
    verdicts,
    worst,
)
from fairaudit.report.written import Scale, written
from fairaudit.results.estimates import Comparison, Gap, Interval, interval_of

DEGREES = Scale(1.0, lambda value: f"{value:.1f}")
_MOST_NAMED = 3  # groups in one sentence
LITTLE_NOISE = 0.25  # of a cost or gap: a noise part surely below it is small
# What may lower the part that stays without noise, where that part is shown to be there.
_REMEDIES = {
    "clipping": "a larger clipping bound",
    "regularisation": "a smaller penalty",
    "partition": "fewer teachers",
}


def summarized(report: Report) -> Report:
    """The report with its summary, which follows from everything else in it."""
    return report.model_copy(update={"summary": summarize(report)})


def summarize(report: Report) -> Summary:
    """The answer: every method that could be shipped, by every grouping."""
    return Summary(
        methods=tuple(_method(report, arm, c) for arm, c in _shipped(report)),
        verdicts=verdicts(report.gates),
    )


def _shipped(report: Report) -> Iterator[tuple[ArmFacts, Comparison]]:
    """Arms whose model somebody might use, with their comparisons.

    A control copies another arm, and what is compared with a private arm checks the audit. A
    trainer of the user's own is what they ask about. Where nothing else has an established
    guarantee, whatever was compared takes its place.
    """
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    usable, proved = {}, set()
    for arm in report.arms:
        if arm.key in compared and arm.source is None and arm.reference not in compared:
            usable[arm.key] = arm
            if report.privacy[arm.key].guarantee.has_epsilon or arm.is_own_code:
                proved.add(arm.key)
    for key, arm in usable.items():
        if proved and key not in proved:
            continue
        for comparison in report.costs:
            is_own = (comparison.arm, comparison.reference) == (key, arm.reference)
            if is_own and main_gap(comparison) is not None:
                yield arm, comparison


def _method(report: Report, arm: ArmFacts, comparison: Comparison) -> MethodSummary:
    accuracy = _gap_of(comparison, "privacy_cost")
    risk = _gap_of(comparison, "excess_risk")
    assert accuracy is not None, "such comparisons were left out"
    held = report.privacy[arm.key].epsilon
    misalignment = None
    if comparison.grouping == report.data.groupings[0].name:
        misalignment = report.diagnostics.misalignment.get(arm.key)
    is_told_apart = accuracy.worst_off or (risk is not None and risk.worst_off)
    if misalignment is not None and not is_told_apart:
        # Seeds share the file, and any two sets of rows differ in it, coin-flip groups too.
        misalignment = misalignment.model_copy(update={"most": ""})
    parts = _parts_of(report, comparison)
    outcomes: list[tuple[str, Outcome]] = []
    for gate in report.gates:
        groupings = ("", comparison.grouping)
        own = [t for t in gate.targets if t.arm == arm.key and t.grouping in groupings]
        if own:
            outcomes.append((gate.rule, worst(target.outcome for target in own)))
    verdict, decided, outcome = None, "", ""
    if outcomes:
        verdict = worst(outcome for _, outcome in outcomes)
        outcome = f": {verdict.upper()}"
        told = [f"{plain(rule, 200)}: {of_rule}" for rule, of_rule in outcomes]
        if len(outcomes) == 1:
            told = [plain(outcomes[0][0], 200)]
        decided = f"{verdict.upper()} ({'; '.join(told)})."
    size = "Gap: undefined"
    if accuracy.size.value is not None:
        size = f"Gap {written(accuracy.size, scale_of(_ACCURACY))} points"
        if accuracy.limit is not None:
            size += f", limit {with_unit(accuracy.limit, 'fraction')}"
    pays = _who_pays(accuracy, risk)
    sentences = {
        "who pays": pays,
        "gap": f"Accuracy {_gap_words(accuracy)}; excess risk {_gap_words(risk)}.",
        "misalignment": _misalignment(misalignment),
        "clipping or noise": _clipping_or_noise(parts, is_one_of_many=len(comparison.by_group) > 2),
        "verdict": decided,
        "next": next_step(report, arm, accuracy, risk, parts, verdict),
    }
    lines = []
    for topic, text in sentences.items():
        if text:
            lines.append(SummaryLine.model_validate({"topic": topic, "text": text}))
    return MethodSummary(
        arm=arm.key,
        reference=comparison.reference,
        grouping=comparison.grouping,
        epsilon=None if held is None else held.headline,
        accuracy=accuracy,
        excess_risk=risk,
        misalignment=misalignment,
        parts=parts,
        verdict=verdict,
        headline=f"{pays} {size}{outcome}.",
        lines=tuple(lines),
    )


def _gap_of(comparison: Comparison, metric: Cost) -> GapSummary | None:
    gap = main_gap(comparison, metric)
    if gap is None:
        return None
    groups = []
    for group in comparison.by_group:
        estimate = group.estimates.get(metric)
        if estimate is None or estimate.value is None or comparison.note_on(group):
            continue
        cost = interval_of(estimate)
        groups.append(GroupCost(group=group.group, value=cost.value, low=cost.low, high=cost.high))
    groups.sort(key=lambda cost: -(cost.value or 0.0))
    a, b = _ordered(gap)
    return GapSummary(
        metric=metric,
        size=interval_of(gap.size),
        a=a,
        b=b,
        reading=gap.reading,
        limit=gap.limit,
        worst_off=worst_off(comparison, metric),
        groups=tuple(groups),
        overall=interval_of(comparison.overall.estimates.get(metric)),
        minimum_detectable=gap.minimum_detectable,
        reason=gap.size.reason or gap.reason,
    )


def _ordered(gap: Gap) -> tuple[str, str]:
    """Its groups, the one that pays more first."""
    if (gap.signed.value or 0.0) < 0:
        return gap.b, gap.a
    return gap.a, gap.b


def worst_off(comparison: Comparison, metric: str = _ACCURACY) -> tuple[str, ...]:
    """Groups that are shown to pay more than another and not to pay less than any.

    In the order of the data.

    Shown is what an interval leaves of a gap that all pairs of groups, both costs and all methods
    share, so that naming any group wrongly happens in at most one audit of twenty, whatever their
    number.
    """
    more, less = set(), set()
    for gap in comparison.gaps:
        if gap.metric == metric and gap.kind == "pair" and is_detected(gap):
            a, b = _ordered(gap)
            more.add(a)
            less.add(b)
    return tuple(g.group for g in comparison.by_group if g.group in more - less)


def _parts_of(report: Report, comparison: Comparison) -> PartsSummary | None:
    """The parts of the first gap that is detected, else of the first cost over all rows that is."""
    follows = {"step_follows_epsilon": comparison.arm in shortened_arms(report.arms)}
    for metric in get_args(Cost):
        gap = detected_gap(comparison, metric)
        parts = None
        if gap is not None:
            parts = split_gap(comparison, metric, gap)
        if parts is not None:
            return parts.model_copy(update=follows)
    for metric in get_args(Cost):
        parts = split_cost(comparison, comparison.overall, metric)
        if parts is not None and parts.total.low is not None and parts.total.low > 0:
            return parts.model_copy(update=follows)
    return None


def _who_pays(accuracy: GapSummary, risk: GapSummary | None) -> str:
    if accuracy.worst_off:
        return f"{_payers(accuracy)}."
    if risk is not None and risk.worst_off:
        return f"No group is shown to lose more accuracy; in loss, {_payers(risk)}."
    if accuracy.size.ends is None:
        return f"Cannot tell who pays: {plain(accuracy.reason or 'there is no interval', 200)}."
    nobody = "No group is shown to pay more than another"
    overall = accuracy.overall
    if not overall.excludes_zero:
        size = written(overall, scale_of(_ACCURACY))
        return f"{nobody}, and no cost is detected over all rows ({size} points)."
    verb = "gain"
    if (overall.value or 0.0) > 0:
        verb = "lose"
    size = written(_positive(overall), scale_of(_ACCURACY))
    return f"{nobody}; all rows together {verb} {size} points of accuracy."


def _payers(gap: GapSummary) -> str:
    """The groups that are worst off, and where there are few groups the others, too."""
    paying = [group for group in gap.groups if group.group in gap.worst_off]
    more = len(paying) - _MOST_NAMED
    paying = paying[:_MOST_NAMED]
    if len(gap.groups) <= _MOST_NAMED:
        paying += [group for group in gap.groups if group.group not in gap.worst_off]
    told = [_group_pays(group, gap) for group in paying]
    if more > 0:
        told.append(f"and {more:,} more groups")
    return ", ".join(told)


def _group_pays(cost: GroupCost, gap: GapSummary) -> str:
    name, size = plain(cost.group), written(_positive(cost), scale_of(gap.metric))
    if not cost.excludes_zero:
        if cost.group not in gap.worst_off:
            return f"{name}: none detected"
        own = written(cost, scale_of(gap.metric))
        return f"{name} pays more than another group, whether anything by itself is open ({own})"
    is_cost = (cost.value or 0.0) > 0
    if gap.metric == _ACCURACY:
        return f"{name} {'loses' if is_cost else 'gains'} {size} points of accuracy"
    return f"{name} {'pays' if is_cost else 'is better by'} {size} nats"


def _gap_words(gap: GapSummary | None) -> str:
    """Its size, and the reading in words with whom a gap that is detected is worse for."""
    if gap is None or gap.size.value is None:
        return "undefined"
    kind, unit = "nats", "nats"
    if gap.metric == _ACCURACY:
        kind, unit = "fraction", "points"
    read = read_words(gap.reading, gap.size, gap.limit, kind)
    if gap.reading == "cannot tell" and gap.reason:
        read += f" ({plain(gap.reason, 200)})"
    if gap.is_detected:
        read = read.replace("difference detected", f"worse for {plain(gap.a)}", 1)
    elif gap.worst_off:
        # Of three groups another pair may be told apart where the largest gap is not.
        between = f"between {plain(gap.a)} and {plain(gap.b)}"
        for words in ("none detected", "cannot tell"):
            told = words.replace("none", "not")
            read = read.replace(words, f"{told} {between}", 1)
    return f"{written(gap.size, scale_of(gap.metric))} {unit}: {read}"


def _misalignment(found: MisalignmentSummary | None) -> str:
    if found is None or not found.groups:
        return ""
    angles = sorted(found.groups.items(), key=lambda item: -(item[1].value or 0.0))
    end = "."
    if len(angles) > _MOST_NAMED:
        angles = [angles[0], angles[-1]]
        end = " (the largest and the smallest)."
    if found.most:
        end = f"; most for {plain(found.most)}{end}"
    told = ", ".join(f"{plain(name)} {written(angle, DEGREES)}" for name, angle in angles)
    return f"Clipping turns the step from each group's gradient, in degrees: {told}{end}"


def _clipping_or_noise(parts: PartsSummary | None, *, is_one_of_many: bool) -> str:
    if parts is None:
        return ""
    unit, scale = "nats", scale_of(parts.metric)
    if parts.metric == _ACCURACY:
        unit = "points"
    what = "gap"
    if parts.of == "cost":
        what = "cost over all rows"
    elif is_one_of_many:
        what = f"gap between {plain(parts.a)} and {plain(parts.b)}"
    still, noise = written(parts.still, scale), written(parts.noise, scale)
    still_open = " (not told from zero)"
    if parts.is_still:
        still_open = ""
    noise_open = " (not told from zero)"
    if parts.is_noise:
        noise_open = ""
    return (
        f"Of the {what} of {written(parts.total, scale)} {unit}, {still} are there without noise, "
        f"from {parts.name}{still_open}; noise adds {noise}{noise_open}."
    )


def _positive(interval: Interval) -> Interval:
    """The interval of the size: as it is, or mirrored where the number is below zero."""
    if interval.value is None or interval.value >= 0 or interval.ends is None:
        return interval
    return Interval(value=-interval.value, low=-interval.ends.high, high=-interval.ends.low)


def next_step(
    report: Report,
    arm: ArmFacts,
    accuracy: GapSummary,
    risk: GapSummary | None,
    parts: PartsSummary | None,
    verdict: Outcome | None,
) -> str:
    """One sentence on what to do, from what is shown and from nothing else."""
    ill = [w for w in report.warnings if w.code == "reference_undertrained"]
    ill += [w for w in report.unhealthy if w.arm == arm.key and w.code != "mostly_clipping"]
    if ill:
        why = UNHEALTHY.get(ill[0].code, "the non-private model is undertrained")
        if ill[0].fix:
            return f"Repair the training first ({why}): {plain(ill[0].fix, 300)}."
        return ""
    is_detected = accuracy.is_detected or (risk is not None and risk.is_detected)
    if verdict == "pass" and accuracy.limit_met is not False:
        return "All limits are met: keep them as a gate in CI."
    if parts is not None and (parts.of == "gap" or not is_detected):
        advice = _of_parts(parts)
        if advice:
            return advice
    if is_detected and accuracy.limit is None and verdict is None:
        return "Say how large a gap is tolerable: --fail-on 'privacy_cost_gap > 2 points'."
    if accuracy.is_detected:
        if verdict == "inconclusive":
            return "More seeds or test rows would narrow the interval."
        return ""
    if accuracy.size.value is None:
        return ""
    if accuracy.size.ends is None:
        return f"Nothing can be told without an interval: {plain(accuracy.reason, 200)}."
    if accuracy.limit is not None and accuracy.limit_met is None:
        limit = with_unit(accuracy.limit, "fraction")
        return f"For a verdict on {limit} narrow the interval: more test rows or --seeds."
    if accuracy.minimum_detectable is None:
        return ""
    least = with_unit(accuracy.minimum_detectable, "fraction")
    return f"This audit would have found a gap of {least}; smaller ones need more rows or seeds."


def _of_parts(parts: PartsSummary) -> str:
    """What the parts that are shown to be there say of epsilon and of the method's own settings."""
    it = f"the {parts.of}"
    if not parts.is_still:
        if parts.is_noise:
            return f"A larger epsilon, or more rows, lowers what noise adds to {it}."
        return ""
    remedy = f"Try {_REMEDIES[parts.name]}, which may lower {it}"
    if parts.step_follows_epsilon:
        return f"{remedy} (so may a larger epsilon, whose default step is longer)."
    if parts.is_noise:
        return f"{remedy}; a larger epsilon lowers what noise adds to it."
    if parts.noise_at_most is not None and parts.noise_at_most <= LITTLE_NOISE:
        return f"{remedy}; a larger epsilon would not help, for noise adds little to it."
    return f"{remedy}; whether a larger epsilon helps, cannot tell."
