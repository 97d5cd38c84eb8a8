"""Report -> findings: which conditions hold of which arm. No sentence is made here.

A finding is a message of ``report/messages``, whose class has the sentence. An arm is one trained
configuration, a comparison is one arm against its reference, cut by one grouping. A number is
detected if a test finds it beside everything that is judged of its arm;
``comparison.paid`` names the costs over all rows that are detected. A measure is a cost that
findings are about. A knob is what an advice is about, as "bound up" for a larger clipping bound.

Source: docs/methods.md 6.5 (what counts as detected), 7.2 (health).
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from fairaudit.methods.catalog import Guarantee, find
from fairaudit.metrics.registry import CONSTANT, MISALIGNMENT, costs_of_constant, spec_of
from fairaudit.report.group_rows import comparison_of, rule_number
from fairaudit.report.measures import (
    COST,
    better_words,
    change_words,
    compared_pairs,
    cost_names,
    cost_of,
    detected_gap,
    is_detected,
    is_rate,
    main_gap,
    measure_text,
    measures,
    named_gaps,
)
from fairaudit.report.messages import causes, costs, health
from fairaudit.report.messages.base import FindingMessage, Subject, stored
from fairaudit.report.messages.catalog import codes_of_harm
from fairaudit.report.model import Report
from fairaudit.report.numbers import count
from fairaudit.report.parts import detected_split
from fairaudit.report.remedies import (
    LEAST_SEEDS,
    RISK,
    advice_for,
    deciding,
    has_few_seeds,
    training_losses,
)
from fairaudit.report.safe_names import group_text
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.verdicts import GateRecord, GateTarget, severity
from fairaudit.results.estimates import (
    ClassShare,
    Comparison,
    ConstantAnswer,
    Gap,
    Interval,
    interval_of,
)

RISES_BY = 0.01  # of the training loss, relative: a smaller rise is the noise of batches
RATIO, FOUR_FIFTHS = "impact_ratio", 0.8  # below which a ratio is often asked to be explained
# A gain below it is written as 0, in points of a hundredth and in thousandths of nats alike.
SHOWN_AS_ZERO = 0.0005
MOST = 0.5  # share of a cost from which a part is most of it
# The arms of the ablation of clipping, methods of ``papers``.
CLIPPED, SHORTER, TURNED = "clipped", "magnitude-only", "direction-only"
RULE_CODES = ("rule_failed", "rule_open", "rule_met")


def with_findings(report: Report) -> Report:
    """The report with its findings, which follow from everything else in it.

    They stand in this order: rules, health, then by arm lost classes, gaps, parts; controls; the
    ablation; those of studies.
    """
    findings_so_far: list[FindingMessage] = list(_health_findings(report))
    findings_so_far += _constant_findings(report)
    for arm in report.arms:
        findings_so_far += _lost_classes(report, arm)
    for arm, comparison in shipped(report):
        findings_so_far += _gap_findings(report, comparison)
        findings_so_far += _ratio_findings(report, comparison)
        findings_so_far += _part_findings(report, arm, comparison)
        findings_so_far += _turn_findings(report, comparison)
    findings_so_far += _control_findings(report)
    findings_so_far += _ablation_findings(report)
    for study in report.studies.values():
        findings_so_far += study.findings(report)
    findings = tuple(map(stored, findings_so_far))
    return with_rules(report.model_copy(update={"findings": findings}))


def asking_why(report: Report) -> set[str]:
    """Keys of the arms with detected harm: a cost, a gap, ill health or a failed rule.

    ``--twins auto`` trains the twins of these arms, which split the harm into its parts.
    """
    codes = codes_of_harm()
    arms = {finding.arm for finding in report.findings if finding.code in codes}
    # What is decided by chance is a cost that twins do not split.
    paying = {one.arm for one in report.costs if set(one.paid) & set(cost_names(one))}
    return arms | paying


def with_rules(report: Report) -> Report:
    """The report with findings on its gates put first, in place of any that it had on them.

    So it serves a report whose rules were judged after its other findings were made.
    """
    of_rules = [stored(finding) for finding in _rule_findings(report)]
    others = [finding for finding in report.findings if finding.code not in RULE_CODES]
    return report.model_copy(update={"findings": (*of_rules, *others)})


def shipped(report: Report) -> Iterator[tuple[ArmFacts, Comparison]]:
    """(arm, comparison) of arms whose model somebody might use, where groups could be compared.

    Left out are references, controls (``source``: they copy another arm) and arms compared with a
    private arm, which check the audit. Of the rest only arms with an epsilon, or that train by code
    of the user's own, are given; where there is none of these, all.
    """
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    usable, proved = {}, []
    for arm in report.arms:
        if arm.key in compared and arm.source is None and arm.reference not in compared:
            usable[arm.key] = arm
            guarantee = report.privacy[arm.key].guarantee
            if guarantee.has_epsilon or guarantee is Guarantee.CLAIMED:
                proved.append(arm.key)
    for key in proved or usable:
        for grouping in report.data.groupings:
            comparison = comparison_of(report, usable[key], grouping.name)
            if comparison is not None and main_gap(comparison) is not None:
                yield usable[key], comparison


def _rule_findings(report: Report) -> Iterator[FindingMessage]:
    """For each arm what each rule says of it, with its worst number; those that fail come first.

    Nothing of an arm that no rule is about.
    """
    by_outcome = {
        "fail": health.RuleFailed,
        "inconclusive": health.RuleOpen,
        "pass": health.RulePassed,
    }
    for arm in report.arms:
        by_severity: list[tuple[int, FindingMessage]] = []
        for gate in report.gates:
            targets = [target for target in gate.targets if target.arm == arm.key]
            if not targets:
                continue
            worst = max(targets, key=lambda target: severity(target.outcome))
            is_open = worst.outcome == "inconclusive"
            subject = Subject(
                arm=arm.key,
                reference=worst.reference,
                grouping=worst.grouping,
                groups=worst.groups,
                unit=gate.unit,
            )
            before = _gap_without_privacy(report, arm, gate, worst)
            is_broken_before = before is not None and abs(before.value or 0.0) > gate.limit
            finding = by_outcome[worst.outcome](
                subject,
                value=_rule_number(report, gate, worst),
                reason=gate.promise or gate.rule,
                is_one_of_many=len(targets) > 1 or _groups_of(report, worst.grouping) > 2,
                rests_on=_rows_of_rate(report, gate, worst),
                before=before if worst.outcome == "fail" and is_broken_before else None,
                advice=deciding(report, gate, worst, arm) if is_open else None,
            )
            by_severity.append((-severity(worst.outcome), finding))
        yield from (finding for _, finding in sorted(by_severity, key=lambda place: place[0]))


def _rule_number(report: Report, gate: GateRecord, target: GateTarget) -> Interval:
    """The number that decides a rule, as the table by group shows it: a gap has its sign."""
    judged = _comparison_at(report, target.arm, target.grouping, target.reference)
    number = None
    if gate.kind == "gap" and judged is not None:
        number = rule_number(judged, gate.metric, target.groups)
    return interval_of(target) if number is None else number


def _comparison_at(
    report: Report, arm: str | None, grouping: str, reference: str | None = None
) -> Comparison | None:
    """The comparison of an arm by a grouping; ``reference``: its own, None for the first."""
    for comparison in report.comparisons:
        is_here = (comparison.arm, comparison.grouping) == (arm, grouping)
        if is_here and reference in (None, comparison.reference):
            return comparison
    return None


def _groups_of(report: Report, grouping: str) -> int:
    """How many groups a grouping has."""
    return sum(len(one.groups) for one in report.data.groupings if one.name == grouping)


def _rows_of_rate(report: Report, gate: GateRecord, target: GateTarget) -> tuple[int, ...]:
    """How many test rows of each group a rate of one class is about; () of any other number."""
    if gate.kind not in ("group", "gap") or not is_rate(gate.metric):
        return ()
    judged = _comparison_at(report, target.arm, target.grouping, target.reference or None)
    rows = {}
    for group in judged.by_group if judged is not None else ():
        number = group.estimates.get(gate.metric)
        if number is not None and number.n_test is not None:
            rows[group.group] = number.n_test
    if not all(group in rows for group in target.groups):
        return ()
    return tuple(rows[group] for group in target.groups)


def _gap_without_privacy(
    report: Report, arm: ArmFacts, gate: GateRecord, target: GateTarget
) -> Interval | None:
    """The gap that a rule judges, of the arm's reference; None where it has none.

    A cost has none: it is a difference to the reference.
    """
    reference = _comparison_at(report, arm.reference, target.grouping)
    if gate.kind != "gap" or reference is None:
        return None
    return rule_number(reference, gate.metric, target.groups)


def _constant_findings(report: Report) -> Iterator[FindingMessage]:
    """A finding for every model and group that it gives one answer, whatever its reference does.

    Of a reference the costs beside it cannot be read in accuracy and rates; of a private model they
    are those of this configuration. Where that is not certain, it cannot be told.
    """
    constant: dict[tuple[str, str, str], ConstantAnswer] = {}  # by arm, grouping and group
    for comparison in report.comparisons:
        for one in comparison.constant:
            constant[comparison.arm, comparison.grouping, one.group] = one
    classes = [label_class.name for label_class in report.data.label.classes]
    for arm in report.arms:
        for (key, grouping, group), one in constant.items():
            if key != arm.key:
                continue
            of_reference = constant.get((arm.reference or "", grouping, group))
            is_alike = (
                of_reference is not None
                and of_reference.is_certain
                and of_reference.answer == one.answer
            )
            of_answer = _constant_kind(arm, one, has_costs=bool(report.costs))
            subject = Subject(
                arm=arm.key,
                grouping=grouping,
                groups=(group,),
                measure="selection_rate",
                answer=group_text(report.data.label.column, classes[one.answer]),
                unit="fraction",
            )
            yield of_answer(
                subject,
                other=interval_of(one.other),
                truth=_bare_number(one.truth),
                reason=health.LIKE_REFERENCE if is_alike else "",
            )


def _constant_kind(
    arm: ArmFacts, one: ConstantAnswer, *, has_costs: bool
) -> type[health.ConstantFinding]:
    """Which finding on one answer for a whole group it is, by whose it is and how sure."""
    if not one.is_certain:
        return health.ConstantUnknown
    if arm.reference is None and has_costs:
        return health.ConstantReference
    return health.ConstantAnswers if one.is_every_row else health.NearlyConstant


def _lost_classes(report: Report, arm: ArmFacts) -> Iterator[FindingMessage]:
    """The classes that an arm hardly predicts any more, beside any reference that it stands beside.

    Each is told once, first beside the model that would be shipped without privacy.
    """
    compared = []
    for grouping in report.data.groupings:
        first = comparison_of(report, arm, grouping.name)
        for comparison in report.costs:
            if (comparison.arm, comparison.grouping) == (arm.key, grouping.name):
                compared.append((comparison is not first, comparison))
    places = set()
    for _, comparison in sorted(compared, key=lambda place: place[0]):
        for finding in _lost_class_findings(report, arm, comparison):
            subject = finding.subject
            place = finding.code, subject.grouping, subject.groups, subject.answer
            if place not in places:
                places.add(place)
                yield finding


def _lost_class_findings(
    report: Report, arm: ArmFacts, comparison: Comparison
) -> Iterator[FindingMessage]:
    """Classes that a group is predicted as less than a fifth as often as by the reference.

    ``one_answer`` where all classes but one are lost so, ``class_lost`` for one of several,
    ``answer_unknown`` where the estimate says so and its interval does not.
    """
    answers = {group.group: group.value("one_answer") for group in comparison.by_group}
    classes = [label_class.name for label_class in report.data.label.classes]
    named = set()  # groups with one class left, which is said once and not for every class lost
    for share in sorted(comparison.doubtful, key=lambda share: -(share.reference.value or 0.0)):
        subject = replace(
            _subject(report, comparison, "selection_rate", (share.group,)),
            answer=group_text(report.data.label.column, classes[share.answer]),
        )
        now, before = interval_of(share.private), interval_of(share.reference)
        if not share.is_lost:
            rows = share.rows_needed
            yield health.LossUnknown(
                subject,
                share=now,
                reference=before,
                rows=None if rows is None else _bare_number(rows),
                reason=_why_unknown(share),
            )
            continue
        lost: type[health.OneAnswerLeft | health.ClassLost] = health.ClassLost
        if answers.get(share.group) == 1:
            if share.group in named:
                continue
            named.add(share.group)
            lost = health.OneAnswerLeft
        yield lost(subject, share=now, reference=before, advice=advice_for(report, arm))


def _why_unknown(share: ClassShare) -> str:
    """Why it is not known whether a class is lost, or what would tell."""
    if share.rows_needed is not None:
        return health.rows_would_tell(share.rows_needed, share.group)
    if has_few_seeds(share.kept):
        return health.too_few_seeds(share.kept.n_seeds, LEAST_SEEDS)
    return health.NO_INTERVAL if share.kept.ends is None else health.WIDE_INTERVAL


def _gap_findings(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """Every measure in which two groups are detected to differ, the largest gap first.

    Then, of measures without such a gap, the detected costs over all rows. Where no gap is detected
    at all, for each measure how large a gap could be, or why that is not known.
    """
    gaps = []
    for metric in measures(comparison):
        gap = detected_gap(comparison, metric)
        if gap is not None:
            gaps.append(gap)
        pair = () if gap is None else {gap.a, gap.b}
        gaps += [g for g in named_gaps(comparison, metric) if {g.a, g.b} != pair]
    detected = [gap for gap in gaps if is_detected(gap)]
    detected.sort(  # rates, which people know, before losses
        key=lambda gap: (spec_of(gap.metric).unit != "fraction", -abs(gap.signed.value or 0.0))
    )
    for gap in detected:
        yield _gap_finding(report, comparison, gap)
    paid: dict[tuple[str, str], Gap] = {}  # the one that pays more, the other -> the first such gap
    for gap in detected:
        a, b = gap.larger_first.a, gap.larger_first.b
        if (cost_of(comparison, a, gap.metric).value or 0.0) > 0.0:
            paid.setdefault((a, b), gap)
            if (b, a) in paid:
                subject = _subject(report, comparison, paid[b, a].metric, (b, a))
                other = measure_text(gap.metric, report.data.label)
                yield costs.PayersDiffer(subject, reason=other)
                break
    apart = {gap.metric for gap in detected}
    for metric in measures(comparison):
        if metric in comparison.paid and metric not in apart:
            of_cost = costs.RateFell if is_rate(metric) else costs.CostDetected
            size = interval_of(comparison.overall.estimates[metric])
            yield of_cost(_subject(report, comparison, metric), size=size)
    if detected:
        return
    yield from _undetected(report, comparison)


def _undetected(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """Where no gap is detected: how large one could be, what is not certain, what is not known."""
    tests = compared_pairs(report, comparison.arm, measures(comparison))
    for metric in measures(comparison):
        gap = main_gap(comparison, metric)
        if gap is None:
            continue
        shown, reading = interval_of(gap.larger_first.signed), gap.reading
        subject = _subject(report, comparison, metric)
        if reading == "cannot tell":
            yield costs.GapUnknown(subject, reason=gap.signed.reason or gap.reason)
            continue
        most = max(map(abs, shown.ends or (0.0,)))
        pair = (gap.a, gap.b) if gap.kind == "pair" else None
        small = [group.group for group in comparison.by_group if comparison.note_on(group)]
        between = costs.compared_groups(comparison.grouping, pair, small)
        yield costs.NoGapDetected(subject, size=shown, most=_bare_number(most), reason=between)
        if reading == "not certain":
            # Who would pay more, in the words of a gap that is detected.
            words = _gap_finding(report, comparison, gap).item_text
            groups = gap.larger_first.a, gap.larger_first.b
            subject = replace(subject, groups=groups, change=words)
            yield costs.GapNotCertain(subject, size=shown, reason=count(tests))


def _gap_finding(report: Report, comparison: Comparison, gap: Gap) -> FindingMessage:
    """The finding on two groups that are detected to differ, the one that pays more first."""
    groups = gap.larger_first.a, gap.larger_first.b
    size = interval_of(gap.larger_first.signed)
    cost_a, cost_b = (cost_of(comparison, group, gap.metric) for group in groups)
    gain_a, gain_b = cost_a.scaled(-1), cost_b.scaled(-1)
    rate = is_rate(gap.metric)
    if cost_a.value is None or cost_b.value is None or cost_b.value > -SHOWN_AS_ZERO:
        subject = _subject(report, comparison, gap.metric, groups)
        of_costs = costs.RateGap if rate else costs.GapDetected
        return of_costs(subject, size=size, cost_a=cost_a, cost_b=cost_b)
    if cost_a.value < 0:
        subject = _subject(report, comparison, gap.metric, groups, is_better=rate)
        of_gains = costs.RateGapRisen if rate else costs.GapOfGains
        return of_gains(subject, size=size, gain_a=gain_a, gain_b=gain_b)
    subject = _subject(report, comparison, gap.metric, groups)
    if rate:
        better = better_words(gap.metric)
        return costs.RateGapOpposed(subject, size=size, cost_a=cost_a, gain_b=gain_b, reason=better)
    return costs.GapOpposed(subject, size=size, cost_a=cost_a, gain_b=gain_b)


def _part_findings(
    report: Report, arm: ArmFacts, comparison: Comparison
) -> Iterator[FindingMessage]:
    """Which part makes most of the first detected gap, else of the first detected cost.

    A part is the length of the steps, clipping, noise or what stands for them in other methods.
    Nothing where the cost was not split, or no part is both detected and at least half of it.
    """
    split = detected_split(comparison)
    if split is None:
        return
    groups = (split.a, split.b) if split.a else ()
    subject = _subject(report, comparison, split.metric, groups)
    for part in split.asked(step_by_rule=arm.step_by_rule):
        if part.is_above and (part.number.value or 0.0) >= MOST * (split.total.value or 0.0):
            yield causes.FROM_PART[part.name](
                subject,
                total=split.total,
                parts=tuple((known.name, known.number) for known in split.known),
                reason=find(arm.method).part_words,
                advice=advice_for(report, arm),
            )


def _ratio_findings(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """A finding for each group whose impact ratio privacy takes across four fifths.

    Certain where both intervals lie beside four fifths, else by the estimates.
    """
    for group in comparison.by_group:
        before, after = (
            interval_of(group.estimates.get(name)) for name in ("reference.impact_ratio", RATIO)
        )
        if comparison.note_on(group) or before.value is None or after.value is None:
            continue
        was, now = before.value >= FOUR_FIFTHS, after.value >= FOUR_FIFTHS
        if was == now:
            continue
        is_certain = all(
            number.ends is not None and not number.ends.low <= FOUR_FIFTHS <= number.ends.high
            for number in (before, after)
        )
        of_ratio: type[costs.RatioFinding] = costs.RatioUnsure
        if is_certain:
            of_ratio = costs.RatioRises if now else costs.RatioFalls
        subject = _subject(report, comparison, RATIO, (group.group,))
        yield of_ratio(subject, before=before, after=after)


def _turn_findings(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """A finding where clipping is detected to turn the steps away from one group more than others.

    Nothing where it is not shown to turn them away from that group at all.
    """
    gap = detected_gap(comparison, MISALIGNMENT)
    if gap is None:
        return
    first, second = gap.larger_first.a, gap.larger_first.b
    turn_a, turn_b = (cost_of(comparison, group, MISALIGNMENT) for group in (first, second))
    if (turn_a.low or 0.0) <= 0 or turn_b.value is None:
        return
    subject = _subject(report, comparison, MISALIGNMENT, (first, second))
    if turn_b.value >= 0:
        yield causes.TurnedAway(subject, turn_a=turn_a, turn_b=turn_b)
    else:
        yield causes.TurnedToOther(subject, turn_a=turn_a, turn_b=turn_b.scaled(-1))


def _control_findings(report: Report) -> Iterator[FindingMessage]:
    """A finding for each method trained beside its control, by whether their gaps differ.

    A method that scales gradients by a threshold clips less than DP-SGD. Its control is DP-SGD that
    clips as little, so a smaller gap than the control's is an advantage of the method itself.
    Nothing where neither gap is detected.
    """
    first = report.data.groupings[0].name
    by_arm = {c.arm: c for c in report.costs if c.grouping == first}
    methods = {arm.key: arm.method for arm in report.arms}
    for control in report.arms:
        # The method that is copied, and its control, whose clipping matches it.
        copied, matched = by_arm.get(control.source or ""), by_arm.get(control.key)
        if copied is None or matched is None:
            continue
        if not find(methods[copied.arm]).scales_by_threshold:
            continue
        gap, matched_gap = main_gap(copied), main_gap(matched)
        if gap is None or matched_gap is None:
            continue
        gap = gap.larger_first
        if (matched_gap.a, matched_gap.b) == (gap.b, gap.a):
            matched_gap = matched_gap.reversed
        ends, matched_ends = gap.signed.size.ends, matched_gap.signed.size.ends
        if ends is None or matched_ends is None:
            continue
        if not is_detected(gap) and not is_detected(matched_gap):
            continue
        of_control: type[causes.ControlFinding] = causes.ControlAlike
        if matched_ends.low > ends.high:
            of_control = causes.ControlWorse
        elif matched_ends.high < ends.low:
            of_control = causes.ControlBetter
        yield of_control(
            replace(_subject(report, copied, COST), reference=control.key),
            size=interval_of(gap.signed),
            matched=interval_of(matched_gap.signed),
        )


def _ablation_findings(report: Report) -> Iterator[FindingMessage]:
    """The finding that says which half of clipping has a gap like all of clipping.

    The halves are that clipping shortens a batch's gradient and that it turns it, each trained
    without the other. A half has such a gap where its own is detected and is to the disadvantage of
    the same group. There is no finding where one of the three arms was not trained, or clipping as
    a whole has no detected gap. Only the first grouping is looked at.
    """
    first = report.data.groupings[0].name
    methods = {arm.key: arm.method for arm in report.arms}
    gaps: dict[str, Gap] = {}  # method -> its gap in accuracy cost
    for comparison in report.costs:
        # The gap of the pair that was named beforehand, where one was; else the main gap.
        gap = next(iter(named_gaps(comparison)), main_gap(comparison, COST))
        if comparison.grouping == first and gap is not None:
            gaps[methods[comparison.arm]] = gap
    if not gaps.keys() >= {CLIPPED, SHORTER, TURNED} or not is_detected(gaps[CLIPPED]):
        return
    whole = gaps[CLIPPED].larger_first
    for half in (SHORTER, TURNED):  # in the order of the whole
        if (gaps[half].a, gaps[half].b) == (whole.b, whole.a):
            gaps[half] = gaps[half].reversed
    halves = []
    for half in (SHORTER, TURNED):
        if is_detected(gaps[half]) and gaps[half].direction == whole.direction:
            halves.append(half)
    subject = Subject(
        arm=CLIPPED, grouping=first, groups=(whole.a, whole.b), measure=COST, unit="fraction"
    )
    yield causes.ClippingHalves(
        subject,
        whole=interval_of(whole.signed),
        shorter=interval_of(gaps[SHORTER].signed),
        turned=interval_of(gaps[TURNED].signed),
        reason=" and ".join(halves) or causes.NEITHER_HALF,
    )


def _health_findings(report: Report) -> Iterator[FindingMessage]:
    """Findings on trainings that went wrong: their costs may be due to settings, not to privacy."""
    yield from _undertrained_reference(report)
    first = report.data.groupings[0].name
    arms = {arm.key: arm for arm in report.arms}
    checked = set()
    for comparison in report.comparisons:
        arm = arms[comparison.arm]
        if comparison.grouping != first:
            continue
        if arm.key not in checked:  # once, beside however many references it stands
            checked.add(arm.key)
            yield from _worse_than_constant(report, arm, comparison)
            yield from _rising_loss(report, arm, comparison)
        yield from _failed_self_check(report, arm, comparison)


def _undertrained_reference(report: Report) -> Iterator[FindingMessage]:
    """A finding if the reference predicts worse than scikit-learn's baseline on the same rows.

    Then a cost against that reference says nothing.
    """
    check = report.sklearn_baseline
    reference, baseline = check.reference_accuracy, check.baseline_accuracy
    if check.undertrained and reference is not None and baseline is not None:
        for arm in report.arms:
            if arm.key == check.arm:
                yield health.ReferenceUndertrained(
                    Subject(arm=arm.key, measure="accuracy", unit="fraction"),
                    own=_bare_number(reference),
                    other=_bare_number(baseline),
                    reason=check.baseline,
                    advice=advice_for(report, arm),
                )


def _worse_than_constant(
    report: Report, arm: ArmFacts, comparison: Comparison
) -> Iterator[FindingMessage]:
    """A finding if the model is worse than predicting the training rows' class shares for all.

    Over all rows and by the estimate; of several costs (accuracy, loss) the first that is worse.
    """
    for cost in costs_of_constant():
        worse = comparison.overall.estimates.get(f"{cost}.{CONSTANT}")
        if worse is not None and worse.value is not None and worse.value > 0:
            yield health.WorseThanConstant(
                _subject(report, comparison, cost),
                worse=interval_of(worse),
                reason=health.WORSE if (worse.low or 0.0) > 0 else health.NOT_BETTER,
                advice=advice_for(report, arm),
            )
            return


def _rising_loss(report: Report, arm: ArmFacts, comparison: Comparison) -> Iterator[FindingMessage]:
    """A finding if the last quarter of training has a larger mean loss than the first half.

    Nothing of fewer than four epochs, or where losses were not read.
    """
    losses = training_losses(report, arm.key)
    if len(losses) < 4:
        return
    first, last = fmean(losses[: len(losses) // 2]), fmean(losses[-(len(losses) // 4) :])
    if last > first * (1 + RISES_BY):
        yield health.LossRises(
            _subject(report, comparison, RISK),
            first=_bare_number(first),
            last=_bare_number(last),
            advice=advice_for(report, arm),
        )


def _failed_self_check(
    report: Report, arm: ArmFacts, comparison: Comparison
) -> Iterator[FindingMessage]:
    """A finding if an arm compared with another run of itself shows a gap.

    ``--self-check`` adds such comparisons. Their true gap is 0, so the intervals are too narrow.
    """
    private_references = [
        candidate
        for candidate in report.arms
        if candidate.key == comparison.reference and candidate.reference
    ]
    gap = main_gap(comparison)
    if not private_references or private_references[0].method != arm.method or gap is None:
        return
    if gap.signed.excludes_zero:
        subject = _subject(report, comparison, gap.metric)
        yield health.SelfCheckFailed(subject, size=interval_of(gap.signed))


def _subject(
    report: Report,
    comparison: Comparison,
    measure: str,
    groups: tuple[str, ...] = (),
    *,
    is_better: bool = False,
) -> Subject:
    """One measure of one comparison, as a finding is about it.

    Args:
        report: Holds the comparison, and says what the classes are called.
        comparison: The one that it is about.
        measure: Name of the cost, as ``tpr_cost[2]`` for the class of index 2.
        groups: The one that pays more first.
        is_better: Whether the rate behind the cost got better; else it worsened.
    """
    label = report.data.label
    place = measure.partition("[")[2].removesuffix("]")
    answer = ""  # the class that a rate is about
    if place:
        answer = label.classes[int(place)].name
    elif "positive" in spec_of(measure).needs:
        answer = label.favourable or label.positive or ""
    change = ""
    if is_rate(measure):
        worse, better = change_words(measure, label)
        change = better if is_better else worse
    return Subject(
        arm=comparison.arm,
        reference=comparison.reference,
        grouping=comparison.grouping,
        groups=groups,
        measure=measure,
        of=measure_text(measure, label),
        change=change,
        answer=answer,
        unit=spec_of(measure).unit,
    )


def _bare_number(value: float | None) -> Interval:
    """A number as findings hold one, without an interval."""
    return Interval(value=value, low=None, high=None)
