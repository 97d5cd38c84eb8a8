"""Report -> findings: which conditions hold of which arm. No sentence is made here.

A finding is a message of ``report/messages``, whose class has the sentence. An arm is one trained
configuration, a comparison is one arm against its reference, cut by one grouping. A number is
detected if a test finds it beside everything that is judged of its arm;
``comparison.paid`` names the costs over all rows that are detected. A measure is a cost; a cost in
a rate of one class may be there for each class, as ``tpr_cost[2]`` for the class of index 2.

Source: docs/methods.md 6.5 (what counts as detected), 7.2 (health).
"""

from collections.abc import Iterator, Sequence
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
    advice_on_open_rule,
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
# A smaller number is written as 0: 0.0 points of accuracy, 0.000 nats.
SHOWN_AS_ZERO = 0.0005
MOST = 0.5  # share of a cost from which a part is most of it
# The methods of the ablation of clipping, in ``papers``: clipping without noise, then its halves,
# which shorten a batch's gradient and turn it.
CLIPPED, SHORTER, TURNED = "clipped", "magnitude-only", "direction-only"
RULE_CODES = ("rule_failed", "rule_open", "rule_met")


def with_findings(report: Report) -> Report:
    """The report with its findings, which follow from everything else in it.

    They stand in this order: rules, health, models that give a group one answer, lost classes; then
    for each arm and grouping gaps and costs, impact ratios, parts of a cost, turned steps; then
    controls, the ablation, studies.
    """
    findings_so_far: list[FindingMessage] = list(_health_findings(report))
    findings_so_far += _constant_findings(report)
    for arm in report.arms:
        findings_so_far += _lost_classes(report, arm)
    for arm, comparison in usable_arms(report):
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


def arms_with_harm(report: Report) -> set[str]:
    """Keys of the arms with detected harm: a cost, a gap, ill health or a failed rule.

    ``--twins auto`` trains the twins of these arms, which split the harm into its parts.
    """
    codes = codes_of_harm()
    arms = {finding.arm for finding in report.findings if finding.code in codes}
    # Twins split the costs of ``cost_names``. ``paid`` may also name ``disagreement_cost``, which
    # they do not split.
    paying = {one.arm for one in report.costs if set(one.paid) & set(cost_names(one))}
    return arms | paying


def with_rules(report: Report) -> Report:
    """The report with findings on its gates put first, in place of any that it had on them.

    The other findings stay as they are, so that a stored report can be judged by new rules.
    """
    of_rules = [stored(finding) for finding in _rule_findings(report)]
    others = [finding for finding in report.findings if finding.code not in RULE_CODES]
    return report.model_copy(update={"findings": (*of_rules, *others)})


def usable_arms(report: Report) -> Iterator[tuple[ArmFacts, Comparison]]:
    """The arms whose model somebody might use, each with its comparison by every grouping.

    Left out are references, controls (arms with a ``source``, the arm that they copy) and arms
    whose reference is a private arm, which check the audit. If some of the others have an epsilon
    or are trained by code of the user's own, only these are given; else all of them. A comparison
    without a gap in accuracy cost is left out.
    """
    compared = {arm.key for arm in report.arms if arm.reference is not None}
    usable, private = [], []
    for arm in report.arms:
        if arm.key in compared and arm.source is None and arm.reference not in compared:
            usable.append(arm)
            guarantee = report.privacy[arm.key].guarantee
            if guarantee.has_epsilon or guarantee is Guarantee.CLAIMED:
                private.append(arm)
    for arm in private if private else usable:
        for grouping in report.data.groupings:
            comparison = comparison_of(report, arm, grouping.name)
            if comparison is not None and main_gap(comparison) is not None:
                yield arm, comparison


def _rule_findings(report: Report) -> Iterator[FindingMessage]:
    """For each arm a finding for each rule about it; the rules that fail come first.

    Of the numbers of the arm that a rule judges, the finding has the one with the worst outcome.
    """
    for arm in report.arms:
        by_severity: list[tuple[int, FindingMessage]] = []
        for gate in report.gates:
            targets = [target for target in gate.targets if target.arm == arm.key]
            if targets:
                worst = max(targets, key=lambda target: severity(target.outcome))
                # A rule may name one of many groups: then it has one target.
                is_one_of_many = len(targets) > 1 or _number_of_groups(report, worst.grouping) > 2
                finding = _rule_finding(report, arm, gate, worst, is_one_of_many=is_one_of_many)
                by_severity.append((severity(worst.outcome), finding))
        # The sort is stable: equally bad outcomes stay in the order of the rules.
        by_severity.sort(key=lambda entry: -entry[0])
        yield from (finding for _, finding in by_severity)


def _rule_finding(
    report: Report, arm: ArmFacts, gate: GateRecord, worst: GateTarget, *, is_one_of_many: bool
) -> FindingMessage:
    """What one rule says of one arm.

    Args:
        report, arm: The arm, and the report that holds it.
        gate: The rule.
        worst: The arm's number that decides the rule's outcome.
        is_one_of_many: Whether other groups could have decided it, so that these must be named.
    """
    class_of_outcome = {
        "fail": health.RuleFailed,
        "inconclusive": health.RuleOpen,
        "pass": health.RulePassed,
    }
    subject = Subject(
        arm=arm.key,
        reference=worst.reference,
        grouping=worst.grouping,
        groups=worst.groups,
        unit=gate.unit,
    )
    before = _gap_without_privacy(report, arm, gate, worst)
    is_broken_before = before is not None and abs(before.value or 0.0) > gate.limit
    is_open = worst.outcome == "inconclusive"
    return class_of_outcome[worst.outcome](
        subject,
        value=_rule_number(report, arm, gate, worst),
        reason=gate.promise or gate.rule,  # a report of an earlier version has no promise
        is_one_of_many=is_one_of_many,
        rests_on=_rows_of_rate(report, gate, worst),
        before=before if worst.outcome == "fail" and is_broken_before else None,
        advice=advice_on_open_rule(report, gate, worst, arm) if is_open else None,
    )


def _rule_number(report: Report, arm: ArmFacts, gate: GateRecord, target: GateTarget) -> Interval:
    """The number that decides a rule, as the table by group shows it: a gap has its sign."""
    if gate.kind != "gap":
        return interval_of(target)
    judged = _judged_comparison(report, arm, target)
    number = rule_number(judged, gate.metric, target.groups) if judged is not None else None
    return interval_of(target) if number is None else number


def _judged_comparison(report: Report, arm: ArmFacts, target: GateTarget) -> Comparison | None:
    """The comparison in which a rule's number stands, and whose table has the order of groups."""
    if target.reference:
        return _comparison_with(report, target)
    # A target's reference is "" where its number depends on none, as a gap within a model. The
    # table then has its order from one of the arm's comparisons. A reference has no table, only a
    # comparison by itself.
    return comparison_of(report, arm, target.grouping) or _comparison_at(
        report, arm.key, target.grouping
    )


def _comparison_with(report: Report, target: GateTarget) -> Comparison | None:
    """The first comparison that holds a rule's number; None of a guarantee's, which none holds."""
    return next(filter(target.stands_in, report.comparisons), None)


def _comparison_at(report: Report, arm: str | None, grouping: str) -> Comparison | None:
    """The first comparison of an arm by a grouping; None where there is none.

    ``arm``: its key; None of an arm that a report does not name, which has no comparison.
    """
    for comparison in report.comparisons:
        if (comparison.arm, comparison.grouping) == (arm, grouping):
            return comparison
    return None


def _number_of_groups(report: Report, grouping: str) -> int:
    """How many groups the grouping of this name has; 0 for the name "" of a guarantee's number."""
    return sum(len(one.groups) for one in report.data.groupings if one.name == grouping)


def _rows_of_rate(report: Report, gate: GateRecord, target: GateTarget) -> tuple[int, ...]:
    """Test rows that a rule's rate of one class rests on, one count for each of its groups.

    () where the rule is about another number, or a group's count is not known.
    """
    if gate.kind not in ("group", "gap") or not is_rate(gate.metric):
        return ()
    judged = _comparison_with(report, target)
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
    """The gap that a rule judges, measured of the arm's reference by itself, without privacy.

    None where the rule is about no gap, and where it is about a gap in a cost: a cost is a
    difference to the reference, so the reference itself has none. Its sign is by the order of
    groups of the number beside which it stands.
    """
    reference = _comparison_at(report, arm.reference, target.grouping)
    if gate.kind != "gap" or reference is None:
        return None
    table = _judged_comparison(report, arm, target)
    return rule_number(reference, gate.metric, target.groups, table)


def _constant_findings(report: Report) -> Iterator[FindingMessage]:
    """A finding for every model and group to which the model gives one and the same answer.

    A finding is about one model by itself; references have findings, too. Its class depends on
    whose model it is and on whether the answer is certain, see :func:`_constant_kind`.
    """
    constant: dict[tuple[str, str, str], ConstantAnswer] = {}  # by arm, grouping and group
    for comparison in report.comparisons:
        for one in comparison.constant:
            constant[comparison.arm, comparison.grouping, one.group] = one
    classes = [label_class.name for label_class in report.data.label.classes]
    for arm in report.arms:  # so that findings stand in the order of the arms
        for (key, grouping, group), one in constant.items():
            if key != arm.key:
                continue
            of_reference = constant.get((arm.reference or "", grouping, group))
            is_like_reference = (
                of_reference is not None
                and of_reference.is_certain
                and of_reference.answer == one.answer
            )
            subject = Subject(
                arm=arm.key,
                grouping=grouping,
                groups=(group,),
                measure="selection_rate",
                answer=group_text(report.data.label.column, classes[one.answer]),
                unit="fraction",
            )
            finding_class = _constant_kind(arm, one, has_costs=bool(report.costs))
            yield finding_class(
                subject,
                other=interval_of(one.other),
                truth=_bare_number(one.truth),
                reason=health.LIKE_REFERENCE if is_like_reference else "",
            )


def _constant_kind(
    arm: ArmFacts, one: ConstantAnswer, *, has_costs: bool
) -> type[health.ConstantFinding]:
    """The class of the finding that a model gives a group one answer.

    Where only the estimates say so, the finding is that it is not known. If the reference of other
    arms gives one answer, their costs in accuracy and rates cannot be read, and the finding on the
    reference says so. In a report without costs a reference is a model like any other.

    Args:
        arm: Whose model it is.
        one: The group and its answer.
        has_costs: Whether the report compares arms with their references.
    """
    if not one.is_certain:
        return health.ConstantUnknown
    if arm.reference is None and has_costs:
        return health.ConstantReference
    return health.ConstantAnswers if one.is_every_row else health.NearlyConstant


def _lost_classes(report: Report, arm: ArmFacts) -> Iterator[FindingMessage]:
    """Findings on the classes that an arm hardly predicts any more, compared with its references.

    An arm may be compared with several references. Each class and group has one finding: by the
    comparison with the model that would be shipped without privacy, else by the first other one
    that shows the loss.
    """
    main: list[Comparison] = []  # with the model that would be shipped, one for each grouping
    others: list[Comparison] = []
    for grouping in report.data.groupings:
        shown = comparison_of(report, arm, grouping.name)
        for comparison in report.costs:
            if (comparison.arm, comparison.grouping) == (arm.key, grouping.name):
                (main if comparison is shown else others).append(comparison)
    already_told = set()
    for comparison in (*main, *others):
        for finding in _lost_class_findings(report, arm, comparison):
            subject = finding.subject
            identity = finding.code, subject.grouping, subject.groups, subject.answer
            if identity not in already_told:
                already_told.add(identity)
                yield finding


def _lost_class_findings(
    report: Report, arm: ArmFacts, comparison: Comparison
) -> Iterator[FindingMessage]:
    """Findings on the classes that a group is predicted less than a fifth as often as before.

    Before is under the reference of the comparison. The finding is ``one_answer`` where all classes
    but one are lost, ``class_lost`` for one of several, ``answer_unknown`` where the estimate alone
    says that a class is lost and no test shows it.
    """
    # The metric ``one_answer`` is 1 where a group has lost all classes but one.
    answers = {group.group: group.value("one_answer") for group in comparison.by_group}
    classes = [label_class.name for label_class in report.data.label.classes]
    # Groups with one class left that have their finding: one, not one for every class lost.
    named = set()
    # The class that the reference predicts most often comes first.
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
        finding_class: type[health.OneAnswerLeft | health.ClassLost] = health.ClassLost
        if answers.get(share.group) == 1:
            if share.group in named:
                continue
            named.add(share.group)
            finding_class = health.OneAnswerLeft
        yield finding_class(subject, share=now, reference=before, advice=advice_for(report, arm))


def _why_unknown(share: ClassShare) -> str:
    """Why no test shows that a class is lost: how many test rows would, else what is lacking."""
    if share.rows_needed is not None:
        return health.rows_would_tell(share.rows_needed, share.group)
    if has_few_seeds(share.kept):
        return health.too_few_seeds(share.kept.n_seeds, LEAST_SEEDS)
    return health.NO_INTERVAL if share.kept.ends is None else health.WIDE_INTERVAL


def _gap_findings(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """Findings on who pays: first the detected gaps, as :func:`_detected_gaps` orders them.

    Then, where the group that pays more differs by measure, one finding that says so. Then detected
    costs over all rows, of measures without a detected gap. Where no gap is detected in any
    measure, there is a finding for each measure on how large a gap could be, or why that is not
    known.
    """
    detected = _detected_gaps(comparison)
    for gap in detected:
        yield _gap_finding(report, comparison, gap)
    yield from _payers_differ(report, comparison, detected)
    with_gap = {gap.metric for gap in detected}
    for metric in measures(comparison):
        if metric in comparison.paid and metric not in with_gap:
            finding_class = costs.RateFell if is_rate(metric) else costs.CostDetected
            size = interval_of(comparison.overall.estimates[metric])
            yield finding_class(_subject(report, comparison, metric), size=size)
    if not detected:
        yield from _undetected(report, comparison)


def _detected_gaps(comparison: Comparison) -> list[Gap]:
    """The detected gaps of all measures.

    Of each measure these are the gap that sentences explain (:func:`detected_gap`) and the gaps of
    other pairs that ``--compare`` named. Gaps in accuracy and rates, which people know, stand
    before gaps in loss; among either kind the largest stands first.
    """
    gaps = []
    for metric in measures(comparison):
        gap = detected_gap(comparison, metric)
        if gap is not None:
            gaps.append(gap)
        pair = () if gap is None else {gap.a, gap.b}
        for named in named_gaps(comparison, metric):
            if is_detected(named) and {named.a, named.b} != pair:
                gaps.append(named)

    def rank(gap: Gap) -> tuple[bool, float]:
        is_in_loss = spec_of(gap.metric).unit != "fraction"
        return is_in_loss, -abs(gap.signed.value or 0.0)

    return sorted(gaps, key=rank)


def _payers_differ(
    report: Report, comparison: Comparison, detected: Sequence[Gap]
) -> Iterator[FindingMessage]:
    """One finding if group a pays more than b by one measure, and b more than a by another.

    A gap counts if the group of its larger cost pays, that is, if this cost is above zero.
    """
    first_gap: dict[tuple[str, str], Gap] = {}  # (who pays more, the other) -> the first such gap
    for gap in detected:
        a, b = gap.larger_first.a, gap.larger_first.b
        if (cost_of(comparison, a, gap.metric).value or 0.0) > 0.0:
            first_gap.setdefault((a, b), gap)
            if (b, a) in first_gap:
                subject = _subject(report, comparison, first_gap[b, a].metric, (b, a))
                other = measure_text(gap.metric, report.data.label)
                yield costs.PayersDiffer(subject, reason=other)
                return


def _undetected(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """For each measure, where none has a detected gap: how large a gap could be, or why not known.

    A gap whose interval excludes zero has a second finding, ``not_certain``.
    """
    tests = compared_pairs(report, comparison.arm, measures(comparison))
    for metric in measures(comparison):
        gap = main_gap(comparison, metric)
        if gap is None:
            continue
        size = interval_of(gap.larger_first.signed)
        subject = _subject(report, comparison, metric)
        if gap.reading == "cannot tell":
            yield costs.GapUnknown(subject, reason=gap.signed.reason or gap.reason)
            continue
        # The end of the interval that lies farther from 0: a larger gap is ruled out. There is an
        # interval, for a gap without one reads "cannot tell".
        most = max(map(abs, size.ends or (0.0,)))
        pair = (gap.a, gap.b) if gap.kind == "pair" else None
        small = [group.group for group in comparison.by_group if comparison.note_on(group)]
        between = costs.compared_groups(comparison.grouping, pair, small)
        yield costs.NoGapDetected(subject, size=size, most=_bare_number(most), reason=between)
        if gap.reading == "not certain":
            # ``change`` says who would pay more, in the words for a gap that is detected.
            words = _gap_finding(report, comparison, gap).item_text
            groups = gap.larger_first.a, gap.larger_first.b
            subject = replace(subject, groups=groups, change=words)
            yield costs.GapNotCertain(subject, size=size, reason=count(tests))


def _gap_finding(report: Report, comparison: Comparison, gap: Gap) -> FindingMessage:
    """The finding on the gap between two groups, the one that pays more first.

    Its sentence depends on whether both pay, both gain, or one pays and the other gains, and on
    whether the measure is the change of a rate of one class.
    """
    groups = gap.larger_first.a, gap.larger_first.b
    size = interval_of(gap.larger_first.signed)
    cost_a, cost_b = (cost_of(comparison, group, gap.metric) for group in groups)
    gain_a, gain_b = cost_a.scaled(-1), cost_b.scaled(-1)  # a gain is a cost below 0
    rate = is_rate(gap.metric)
    # Group b pays, too, or gains so little that the gain would be written as 0.
    if cost_a.value is None or cost_b.value is None or cost_b.value > -SHOWN_AS_ZERO:
        subject = _subject(report, comparison, gap.metric, groups)
        class_of_costs = costs.RateGap if rate else costs.GapDetected
        return class_of_costs(subject, size=size, cost_a=cost_a, cost_b=cost_b)
    if cost_a.value < 0:  # both gain
        subject = _subject(report, comparison, gap.metric, groups, is_better=rate)
        class_of_gains = costs.RateGapRisen if rate else costs.GapOfGains
        return class_of_gains(subject, size=size, gain_a=gain_a, gain_b=gain_b)
    subject = _subject(report, comparison, gap.metric, groups)
    if rate:
        better = better_words(gap.metric)
        return costs.RateGapOpposed(subject, size=size, cost_a=cost_a, gain_b=gain_b, reason=better)
    return costs.GapOpposed(subject, size=size, cost_a=cost_a, gain_b=gain_b)


def _part_findings(
    report: Report, arm: ArmFacts, comparison: Comparison
) -> Iterator[FindingMessage]:
    """A finding for each part that makes most of the first detected gap, else of the first cost.

    A part is the length of the steps, clipping, noise or what stands for them in other methods
    (docs/methods.md 7.1). It has a finding if its interval lies above zero and it is at least half
    of the gap or cost. Nothing where no cost is detected, or it was not split.
    """
    split = detected_split(comparison)
    if split is None:
        return
    groups = (split.a, split.b) if split.a else ()
    subject = _subject(report, comparison, split.metric, groups)
    for part in split.causes(step_by_rule=arm.step_by_rule):
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

    The crossing is certain if four fifths lies in neither of two intervals, that of the ratio
    without privacy and that with it; else the finding says that it is by the estimates alone.
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
        finding_class: type[costs.RatioFinding] = costs.RatioUnsure
        if is_certain:
            finding_class = costs.RatioRises if now else costs.RatioFalls
        subject = _subject(report, comparison, RATIO, (group.group,))
        yield finding_class(subject, before=before, after=after)


def _turn_findings(report: Report, comparison: Comparison) -> Iterator[FindingMessage]:
    """A finding if clipping is detected to turn the steps away from one group more than another.

    The measure is an angle in degrees, below 0 where steps are turned towards a group
    (docs/methods.md 8). Nothing where the first group's own interval does not lie above 0, for then
    steps are not shown to be turned away from it.
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
    clips as little, so a smaller gap than the control's is an advantage of the method itself
    (docs/methods.md 3.4). Nothing where neither gap is detected. Only the first grouping is looked
    at.
    """
    first = report.data.groupings[0].name
    by_arm = {one.arm: one for one in report.costs if one.grouping == first}
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
        # Both gaps as the same group less the other, so that their signs can be compared.
        gap = gap.larger_first
        if (matched_gap.a, matched_gap.b) == (gap.b, gap.a):
            matched_gap = matched_gap.reversed
        ends, matched_ends = gap.signed.size.ends, matched_gap.signed.size.ends
        if ends is None or matched_ends is None:
            continue
        if not is_detected(gap) and not is_detected(matched_gap):
            continue
        # The gaps differ if the intervals of their sizes do not overlap.
        finding_class: type[causes.ControlFinding] = causes.ControlAlike
        if matched_ends.low > ends.high:
            finding_class = causes.ControlWorse
        elif matched_ends.high < ends.low:
            finding_class = causes.ControlBetter
        yield finding_class(
            replace(_subject(report, copied, COST), reference=control.key),
            size=interval_of(gap.signed),
            matched=interval_of(matched_gap.signed),
        )


def _ablation_findings(report: Report) -> Iterator[FindingMessage]:
    """The finding that says which half of clipping has a gap like all of clipping.

    Clipping shortens a batch's gradient and turns it. The ablation trains an arm with both halves
    (``clipped``) and one with each half alone (docs/methods.md 8.7). A half has a gap like all of
    clipping if its own gap is detected and is to the disadvantage of the same group. There is no
    finding where one of the three arms was not trained, or all of clipping has no detected gap.
    Only the first grouping is looked at.
    """
    first = report.data.groupings[0].name
    methods = {arm.key: arm.method for arm in report.arms}
    # Method -> its gap in accuracy cost. The methods of the ablation have one arm each, for they
    # have no epsilon.
    gaps: dict[str, Gap] = {}
    for comparison in report.costs:
        # The gap of a pair that was named beforehand, where one was; else the main gap.
        gap = next(iter(named_gaps(comparison)), main_gap(comparison, COST))
        if comparison.grouping == first and gap is not None:
            gaps[methods[comparison.arm]] = gap
    if not gaps.keys() >= {CLIPPED, SHORTER, TURNED} or not is_detected(gaps[CLIPPED]):
        return
    whole = gaps[CLIPPED].larger_first
    for half in (SHORTER, TURNED):  # as the same group less the other as in ``whole``
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
    """Findings on trainings that went wrong: their costs may be due to settings, not to privacy.

    Source: docs/methods.md 7.2.
    """
    yield from _undertrained_reference(report)
    first = report.data.groupings[0].name
    arms = {arm.key: arm for arm in report.arms}
    checked = set()
    for comparison in report.comparisons:
        arm = arms[comparison.arm]
        if comparison.grouping != first:
            continue
        if arm.key not in checked:  # once for an arm that is compared with several references
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

    It is judged over all rows, by the estimate. Of several costs (accuracy, loss) the first that is
    worse is told, and whether its interval shows it.
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
    """A finding if the training loss rises.

    It rises if the mean over the last quarter of the epochs is more than 1 % above the mean over
    the first half. Nothing where losses were not read.
    """
    losses = training_losses(report, arm.key)
    if len(losses) < 4:  # then a quarter is less than one epoch
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
    arms = {one.key: one for one in report.arms}
    other = arms.get(comparison.reference)
    # An arm that has a reference itself is a private one: here, another run of the same method.
    is_self_check = other is not None and bool(other.reference) and other.method == arm.method
    gap = main_gap(comparison)
    if is_self_check and gap is not None and gap.signed.excludes_zero:
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
    """What a finding on one measure of one comparison is about, with the words for the measure.

    Args:
        report: Holds the comparison, and says what the classes are called.
        comparison: The one that it is about.
        measure: Name of the cost, as ``tpr_cost[2]`` for the class of index 2.
        groups: The one that pays more first.
        is_better: Whether the rate behind the cost got better; else it worsened.
    """
    label = report.data.label
    class_index = measure.partition("[")[2].removesuffix("]")
    answer = ""  # the class that a rate is about
    if class_index:
        answer = label.classes[int(class_index)].name
    elif "positive" in spec_of(measure).needs:  # a rate is about the favourable class, if known
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
