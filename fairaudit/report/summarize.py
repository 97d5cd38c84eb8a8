"""Report -> its summary. Every sentence of it is made here, from numbers whose interval bears it out."""

from collections.abc import Iterator, Sequence
from typing import get_args

from fairaudit.errors import numbered
from fairaudit.report.facts import ArmFacts
from fairaudit.report.main_gap import COST as _ACCURACY
from fairaudit.report.main_gap import detected_gap, is_detected, main_gap, read_words, scale_of, with_unit
from fairaudit.report.model import UNHEALTHY, Report
from fairaudit.report.parts import CostSplit, part_name, shortened_arms, split_cost, split_gap
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
from fairaudit.results.estimates import Comparison, Interval, interval_of, key_of

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
        methods=tuple(_method(report, arm, c) for arm, c in _shipped(report)), verdicts=verdicts(report.gates)
    )


def _shipped(report: Report) -> Iterator[tuple[ArmFacts, Comparison]]:
    """Arms whose model somebody might use, with their comparisons.

    A control copies another arm, and what is compared with a private arm checks the audit. A trainer of the
    user's own is what they ask about. Where nothing else has an established guarantee, whatever was compared
    takes its place.
    """
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    own = [a for a in report.arms if a.key in compared and a.source is None and a.reference not in compared]
    proved = [a for a in own if report.privacy[a.key].guarantee.has_epsilon or a.trainer]
    for arm in proved or own:
        for comparison in report.costs:
            own_cost = (comparison.arm, comparison.reference) == (arm.key, arm.reference)
            if own_cost and main_gap(comparison) is not None:
                yield arm, comparison


def _method(report: Report, arm: ArmFacts, comparison: Comparison) -> MethodSummary:
    accuracy = _gap_of(comparison, "privacy_cost")
    risk = _gap_of(comparison, "excess_risk")
    assert accuracy is not None, "such comparisons were left out"
    held = report.privacy[arm.key].epsilon
    first = report.data.groupings[0].name
    misalignment = report.diagnostics.misalignment.get(arm.key) if comparison.grouping == first else None
    # Seeds share the file, and any two sets of rows differ in it: coin-flip groups are told apart, too.
    if misalignment is not None and not any(f.worst_off for f in (accuracy, risk) if f is not None):
        misalignment = misalignment.model_copy(update={"most": ""})
    parts = _parts_of(report, comparison)
    outcomes = [
        (gate.rule, worst(own))
        for gate in report.gates
        if (
            own := [
                target.outcome
                for target in gate.targets
                if target.arm == arm.key and target.grouping in ("", comparison.grouping)
            ]
        )
    ]
    verdict = worst(outcome for _, outcome in outcomes) if outcomes else None
    pays = _who_pays(accuracy, risk)
    said = {
        "who pays": pays,
        "gap": _gaps(accuracy, risk),
        "settings": _settings(report, comparison),
        "misalignment": _misalignment(misalignment, report, arm, comparison),
        "clipping or noise": _clipping_or_noise(
            parts, is_split=bool(part_name(comparison)), is_one_of_many=len(comparison.by_group) > 2
        ),
        "verdict": _verdict(outcomes),
        "next": next_step(report, arm, accuracy, risk, parts, verdict),
    }
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
        headline=f"{pays} {_headline_gap(accuracy, verdict)}",
        lines=tuple(
            SummaryLine.model_validate({"topic": t, "text": text}) for t, text in said.items() if text
        ),
    )


def _settings(report: Report, tuned: Comparison) -> str:
    """The gap at settings that were not sought, beside a search's; "" without one."""
    told = []
    for way, words in (("default", "the default settings"), ("reused", "the reference's best setting")):
        name = key_of(tuned.arm, way), key_of(tuned.reference, way), tuned.grouping
        found = next((c for c in report.every_comparison if (c.arm, c.reference, c.grouping) == name), None)
        gap = None if found is None else main_gap(found)
        if gap is not None:
            told.append(f"{written(gap.size, scale_of(_ACCURACY))} points at {words}")
    if not told or report.tuning is None:
        return ""
    gain = _gain(report.tuning.gain(tuned.arm, tuned.grouping))
    return f"Both models' settings were searched for. The gap is {' and '.join(told)}.{gain}"


def _gain(found: Comparison | None) -> str:
    """What the private model's own search gained over all rows, in words; "" where nobody measured it."""
    gain = None if found is None else found.overall.estimates.get(_ACCURACY)
    if gain is None or gain.ends is None:
        return ""
    points = f"{written(gain, scale_of(_ACCURACY))} points"
    if not gain.excludes_zero:
        return f" That searching changes the private model's accuracy is not shown ({points})."
    return f" Searching {'gains' if gain.ends.low > 0 else 'loses'} the private model accuracy ({points})."


def _gap_of(comparison: Comparison, metric: Cost) -> GapSummary | None:
    gap = main_gap(comparison, metric)
    if gap is None:
        return None
    size, value = gap.size, gap.signed.value
    a, b = (gap.b, gap.a) if value is not None and value < 0 else (gap.a, gap.b)
    taking_part = [g for g in comparison.by_group if metric in g.estimates and not comparison.note_on(g)]
    known = [(g.group, e) for g in taking_part if (e := g.estimates[metric]).value is not None]
    known.sort(key=lambda pair: -(pair[1].value or 0.0))
    return GapSummary(
        metric=metric,
        size=interval_of(size),
        a=a,
        b=b,
        reading=gap.reading,
        limit=gap.limit,
        worst_off=worst_off(comparison, metric),
        groups=tuple(GroupCost(group=name, value=e.value, low=e.low, high=e.high) for name, e in known),
        overall=interval_of(comparison.overall.estimates.get(metric)),
        minimum_detectable=gap.minimum_detectable,
        rows_needed=gap.rows_needed,
        seeds_needed=gap.seeds_needed,
        reason=size.reason or gap.reason,
    )


def worst_off(comparison: Comparison, metric: str = _ACCURACY) -> tuple[str, ...]:
    """Groups that are shown to pay more than another and not to pay less than any, in the order of the data.

    Shown is what an interval leaves of a gap that all pairs of groups, both costs and all methods share, so
    that naming any group wrongly happens in at most one audit of twenty, whatever their number.
    """
    shown = [
        (gap.a, gap.b) if (gap.signed.value or 0.0) > 0 else (gap.b, gap.a)
        for gap in comparison.gaps
        if gap.metric == metric and gap.kind == "pair" and is_detected(gap)
    ]
    more, less = {pair[0] for pair in shown}, {pair[1] for pair in shown}
    return tuple(g.group for g in comparison.by_group if g.group in more - less)


def _parts_of(report: Report, comparison: Comparison) -> PartsSummary | None:
    """The parts of the first gap that is detected, else of the first cost over all rows that is."""
    follows = comparison.arm in shortened_arms(report.arms)
    for metric in get_args(Cost):
        gap = detected_gap(comparison, metric)
        split = None if gap is None else split_gap(comparison, metric, gap)
        if split is not None and gap is not None:
            a, b = (gap.a, gap.b) if (gap.signed.value or 0.0) > 0 else (gap.b, gap.a)
            return _part("gap", split, (a, b), follows=follows)
    for metric in get_args(Cost):
        split = split_cost(comparison, comparison.overall, metric)
        if split is not None and split.total.low is not None and split.total.low > 0:
            return _part("cost", split, ("", ""), follows=follows)
    return None


def _part(of: str, split: CostSplit, groups: tuple[str, str], *, follows: bool) -> PartsSummary:
    total, noise = split.total.value, split.noise.high
    return PartsSummary.model_validate(
        {
            "of": of,
            "metric": split.metric,
            "a": groups[0],
            "b": groups[1],
            "name": split.name,
            "total": interval_of(split.total),
            "still": interval_of(split.still),
            "noise": interval_of(split.noise),
            "is_still": split.is_still,
            "is_noise": split.is_noise,
            "noise_at_most": noise / total if noise is not None and total else None,
            "step_follows_epsilon": follows,
        }
    )


def _who_pays(accuracy: GapSummary, risk: GapSummary | None) -> str:
    for found in filter(None, (accuracy, risk)):
        if found.worst_off:
            paying = [each for each in found.groups if each.group in found.worst_off][:_MOST_NAMED]
            if len(found.groups) <= _MOST_NAMED:  # where there are few groups the others, too
                paying += [each for each in found.groups if each.group not in found.worst_off]
            told = [_group_pays(each, found, named=place > 0) for place, each in enumerate(paying)]
            told += [f"and {more:,} more groups"] if (more := len(found.worst_off) - _MOST_NAMED) > 0 else []
            lead = "" if found is accuracy else "No group is shown to lose more accuracy; in loss, "
            return f"{lead}{', '.join(told)}."
    if accuracy.size.ends is None:
        return f"Cannot tell who pays: {plain(accuracy.reason or 'there is no interval', 200)}."
    nobody = "No group is shown to pay more than another"
    if accuracy.overall.excludes_zero:
        verb = "lose" if (accuracy.overall.value or 0.0) > 0 else "gain"
        size = written(_positive(accuracy.overall), scale_of(_ACCURACY))
        return f"{nobody}; all rows together {verb} {size} points of accuracy."
    overall = written(accuracy.overall, scale_of(_ACCURACY))
    return f"{nobody}, and no cost is detected over all rows ({overall} points)."


def _group_pays(cost: GroupCost, found: GapSummary, *, named: bool) -> str:
    """What one group pays; of accuracy is said once, where it was not named before."""
    unit = "nats" if found.metric != _ACCURACY else "points" if named else "points of accuracy"
    name, size = plain(cost.group), written(_positive(cost), scale_of(found.metric))
    if cost.excludes_zero:
        what = ("loses", "gains") if found.metric == _ACCURACY else ("pays", "is better by")
        return f"{name} {what[(cost.value or 0.0) < 0]} {size} {unit}"
    if cost.group in found.worst_off:
        own = written(cost, scale_of(found.metric))
        return f"{name} fares worse, though its own cost of {own} {unit} is not told from zero"
    return f"{name}: none detected"


def _read(found: GapSummary) -> str:
    """The reading in words, with whom a gap that is detected is worse for."""
    unit = "fraction" if found.metric == _ACCURACY else "nats"
    said = read_words(found.reading, found.size, found.limit, unit)
    if found.reading == "cannot tell" and found.reason:
        said += f" ({plain(found.reason, 200)})"
    if found.is_detected:
        return said.replace("difference detected", f"worse for {plain(found.a)}", 1)
    if found.worst_off:  # of three groups another pair may be told apart where the largest gap is not
        between = f"between {plain(found.a)} and {plain(found.b)}"
        return said.replace("none detected", f"not detected {between}", 1).replace(
            "cannot tell", f"cannot tell {between}", 1
        )
    return said


def _misalignment(
    found: MisalignmentSummary | None, report: Report, arm: ArmFacts, comparison: Comparison
) -> str:
    if found is None or not found.groups:
        if arm.trainer:
            return "Not read: gradients of your own code are not seen."
        first = report.data.groupings[0].name
        read = report.diagnostics.misalignment
        if comparison.grouping != first and arm.key in read:
            return f"Read for the groups of {plain(first)} only."
        if report.settings_tried is not None:
            return "Not read: readings are of one setting, and a search tried several."
        off = report.training is not None and report.diagnostics.level == "off"
        return (
            "Not read (--diagnostics basic reads it)."
            if off
            else "Not read: no steps that clip, or too few of them."
        )
    angles = sorted(found.groups.items(), key=lambda item: -(item[1].value or 0.0))
    shown = angles if len(angles) <= _MOST_NAMED else [angles[0], angles[-1]]
    told = ", ".join(f"{plain(name)} {written(angle, DEGREES)}" for name, angle in shown)
    least = "" if len(shown) == len(angles) else " (the largest and the smallest)"
    most = f"most for {plain(found.most)}" if found.most else "for whom most beyond this file, cannot tell"
    return f"Clipping turns the step away from a group's gradient, in degrees: {told}{least}; {most}."


def _clipping_or_noise(parts: PartsSummary | None, *, is_split: bool, is_one_of_many: bool) -> str:
    if parts is None:
        nothing = "Nothing is detected that could be split, so cannot tell whether a larger epsilon helps."
        return nothing if is_split else ""
    unit = "points" if parts.metric == _ACCURACY else "nats"
    total, still, noise = (
        written(part, scale_of(parts.metric)) for part in (parts.total, parts.still, parts.noise)
    )
    what = "cost over all rows" if parts.of == "cost" else "gap"
    if parts.of == "gap" and is_one_of_many:
        what = f"gap between {plain(parts.a)} and {plain(parts.b)}"
    flags = ["" if shown else " (not told from zero)" for shown in (parts.is_still, parts.is_noise)]
    return (
        f"Of the {what} of {total} {unit}, {still} are there without noise, from {parts.name}{flags[0]}; "
        f"noise adds {noise}{flags[1]}."
    )


def _gaps(accuracy: GapSummary, risk: GapSummary | None) -> str:
    told = []
    for found, name in ((accuracy, "Accuracy"), (risk, "excess risk")):
        if found is None or found.size.value is None:
            told.append(f"{name}: undefined")
            continue
        unit = "points" if found.metric == _ACCURACY else "nats"
        told.append(f"{name} {written(found.size, scale_of(found.metric))} {unit}: {_read(found)}")
    return "; ".join(told) + "."


def _verdict(outcomes: Sequence[tuple[str, Outcome]]) -> str:
    if not outcomes:
        return "No limit given (--fail-on 'privacy_cost_gap > 2 points' sets one)."
    several = "; ".join(f"{plain(rule, 200)}: {outcome}" for rule, outcome in outcomes)
    told = several if len(outcomes) > 1 else plain(outcomes[0][0], 200)
    return f"{worst(outcome for _, outcome in outcomes).upper()} ({told})."


def _headline_gap(accuracy: GapSummary, verdict: Outcome | None) -> str:
    outcome = "" if verdict is None else f": {verdict.upper()}"
    if accuracy.size.value is None:
        return f"Gap: undefined{outcome}."
    limit = "" if accuracy.limit is None else f", limit {with_unit(accuracy.limit, 'fraction')}"
    return f"Gap {written(accuracy.size, scale_of(_ACCURACY))} points{limit}{outcome}."


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
    ill = [w for w in report.warnings if w.code == "reference_undertrained"] + [
        w for w in report.unhealthy if w.arm == arm.key and w.code != "mostly_clipping"
    ]
    if ill:
        why = UNHEALTHY.get(ill[0].code, "the non-private model is undertrained")
        return f"Repair the training first ({why}): {plain(ill[0].fix, 300)}." if ill[0].fix else ""
    detected = [found for found in (accuracy, risk) if found is not None and found.is_detected]
    if verdict == "pass" and accuracy.limit_met is not False:
        return "Nothing that the limits ask for; keep them as a gate in CI."
    if parts is not None and (parts.of == "gap" or not detected):
        advice = _of_parts(parts)
        if advice:
            return advice
    if detected and accuracy.limit is None and verdict is None:
        return "Say how large a gap is tolerable: --fail-on 'privacy_cost_gap > 2 points'."
    return _to_settle(accuracy, verdict)


def _of_parts(parts: PartsSummary) -> str:
    """What the parts that are shown to be there say of epsilon and of the method's own settings."""
    it = "the gap" if parts.of == "gap" else "the cost"
    small = parts.noise_at_most is not None and parts.noise_at_most <= LITTLE_NOISE
    if parts.is_still:
        remedy = f"try {_REMEDIES[parts.name]}, which may lower {it}"
        if parts.step_follows_epsilon:
            remedy += " (so may a larger epsilon, whose default step is longer)"
        elif parts.is_noise:
            remedy += "; a larger epsilon lowers what noise adds to it"
        elif small:
            remedy += "; a larger epsilon would not help, for noise adds little to it"
        else:
            remedy += "; whether a larger epsilon helps, cannot tell"
        return remedy[0].upper() + remedy[1:] + "."
    if parts.is_noise:
        return f"A larger epsilon, or more rows, lowers what noise adds to {it}."
    return ""


def _to_settle(found: GapSummary, verdict: Outcome | None) -> str:
    """What would tell a gap of the size that was seen."""
    if found.is_detected:
        return "More seeds or test rows would narrow the interval." if verdict == "inconclusive" else ""
    if found.limit is not None and found.limit_met is None and found.size.ends is not None:
        limit = with_unit(found.limit, "fraction")
        return (
            f"For a verdict the interval must leave {limit} on one side: more test rows or --seeds narrow it."
        )
    needs = []
    if found.rows_needed is not None:
        needs.append(f"{numbered(found.rows_needed, 'test row')} per group")
    if found.seeds_needed is not None:
        needs.append(numbered(found.seeds_needed, "seed"))
    if found.size.value is not None and found.size.ends is None:
        return f"Nothing can be told without an interval: {plain(found.reason, 200)}."
    if needs:
        return f"To detect a gap of the size seen, {' or '.join(needs)} would be needed."
    if found.minimum_detectable is not None:
        least = with_unit(found.minimum_detectable, "fraction")
        return f"This audit finds gaps from {least} on; smaller ones need more test rows or seeds."
    return ""
