"""Report -> its summary. Every sentence of it is made here, from numbers whose interval bears it out."""

from collections.abc import Iterator, Sequence

from fairaudit.metrics.metric_names import COSTS
from fairaudit.report.advice import next_step
from fairaudit.report.facts import ArmFacts
from fairaudit.report.gates import Outcome, verdicts, worst
from fairaudit.report.main_gap import detected_gap, is_detected, main_gap, read_words, scale_of, with_unit
from fairaudit.report.model import Report
from fairaudit.report.parts import CostSplit, part_name, shortened_arms, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.report.summary import (
    Cost,
    GapSummary,
    GroupCost,
    MethodSummary,
    MisalignmentSummary,
    PartsSummary,
    Summary,
    SummaryLine,
)
from fairaudit.report.written import Scale, written
from fairaudit.results.estimates import Comparison, Estimate, Interval
from fairaudit.results.ways import key_of

DEGREES = Scale(1.0, lambda value: f"{value:.1f}")
_MOST_NAMED = 3  # groups in one sentence
_ACCURACY = COSTS[0]
_ASK = "no limit given (--fail-on 'privacy_cost_gap > 2 points' sets one)"


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
    if misalignment is not None and not any(
        found.worst_off for found in (accuracy, risk) if found is not None
    ):
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
    pays, gaps, judged = _who_pays(accuracy, risk), _gaps(accuracy, risk), _verdict(outcomes)
    said = {
        "who pays": pays,
        "gap": gaps,
        "settings": _settings(report, comparison),
        "misalignment": _misalignment(misalignment, report, arm, comparison),
        "clipping or noise": _clipping_or_noise(
            parts, is_split=bool(part_name(comparison)), is_one_of_many=len(comparison.by_group) > 2
        ),
        "verdict": judged,
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
    return f"Both models' settings were searched for. The gap is {' and '.join(told)}." if told else ""


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
        size=_ends(size),
        a=a,
        b=b,
        reading=gap.reading,
        limit=gap.limit,
        worst_off=worst_off(comparison, metric),
        groups=tuple(GroupCost(group=name, value=e.value, low=e.low, high=e.high) for name, e in known),
        overall=_ends(comparison.overall.estimates.get(metric)),
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
    for metric in COSTS:
        gap = detected_gap(comparison, metric)
        split = None if gap is None else split_gap(comparison, metric, gap)
        if split is not None and gap is not None:
            a, b = (gap.a, gap.b) if (gap.signed.value or 0.0) > 0 else (gap.b, gap.a)
            return _part("gap", split, (a, b), follows=follows)
    for metric in COSTS:
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
            "total": _ends(split.total),
            "still": _ends(split.still),
            "noise": _ends(split.noise),
            "is_still": split.is_still,
            "is_noise": split.is_noise,
            "noise_at_most": noise / total if noise is not None and total else None,
            "step_follows_epsilon": follows,
        }
    )


def _who_pays(accuracy: GapSummary, risk: GapSummary | None) -> str:
    for found in filter(None, (accuracy, risk)):
        if found.worst_off:
            told = [_group_pays(each, found, named=place > 0) for place, each in enumerate(_mentioned(found))]
            told += [f"and {more:,} more groups"] if (more := len(found.worst_off) - _MOST_NAMED) > 0 else []
            lead = "" if found is accuracy else "No group is shown to lose more accuracy; in loss, "
            return f"{lead}{', '.join(told)}."
    if accuracy.size.ends is None:
        return f"Cannot tell who pays: {plain(accuracy.reason or 'there is no interval', 200)}."
    overall = written(accuracy.overall, scale_of(_ACCURACY))
    if accuracy.overall.excludes_zero:
        verb = "lose" if (accuracy.overall.value or 0.0) > 0 else "gain"
        size = written(_positive(accuracy.overall), scale_of(_ACCURACY))
        return (
            f"No group is shown to pay more than another; all rows together {verb} {size} points of accuracy."
        )
    return (
        "No group is shown to pay more than another, and no cost is detected over all rows "
        f"({overall} points)."
    )


def _mentioned(found: GapSummary) -> list[GroupCost]:
    """Those who pay, and where there are few groups the others, too."""
    paying = [each for each in found.groups if each.group in found.worst_off]
    others = [each for each in found.groups if each.group not in found.worst_off]
    return [*paying[:_MOST_NAMED], *(others if len(found.groups) <= _MOST_NAMED else ())]


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


def _gaps(accuracy: GapSummary, risk: GapSummary | None) -> str:
    told = []
    for found, name in ((accuracy, "Accuracy"), (risk, "excess risk")):
        if found is None or found.size.value is None:
            told.append(f"{name}: undefined")
            continue
        unit = "points" if found.metric == _ACCURACY else "nats"
        told.append(f"{name} {written(found.size, scale_of(found.metric))} {unit}: {_read(found)}")
    return "; ".join(told) + "."


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


def _headline_gap(accuracy: GapSummary, verdict: Outcome | None) -> str:
    if accuracy.size.value is None:
        return "Gap: undefined." if verdict is None else f"Gap: undefined: {verdict.upper()}."
    limit = "" if accuracy.limit is None else f", limit {with_unit(accuracy.limit, 'fraction')}"
    outcome = "" if verdict is None else f": {verdict.upper()}"
    return f"Gap {written(accuracy.size, scale_of(_ACCURACY))} points{limit}{outcome}."


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


def _verdict(outcomes: Sequence[tuple[str, Outcome]]) -> str:
    if not outcomes:
        return _ASK[0].upper() + _ASK[1:] + "."
    overall = worst(outcome for _, outcome in outcomes)
    told = "; ".join(f"{plain(rule, 200)}: {outcome}" for rule, outcome in outcomes)
    return (
        f"{overall.upper()} ({told})."
        if len(outcomes) > 1
        else f"{overall.upper()} ({plain(outcomes[0][0], 200)})."
    )


def _positive(interval: Interval) -> Interval:
    """The interval of the size: as it is, or mirrored where the number is below zero."""
    return (
        interval
        if interval.value is None or interval.value >= 0 or interval.ends is None
        else Interval(value=-interval.value, low=-interval.ends.high, high=-interval.ends.low)
    )


def _ends(estimate: Estimate | None) -> Interval:
    """The number and its interval alone."""
    if estimate is None:
        return Interval(value=None, low=None, high=None)
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high)
