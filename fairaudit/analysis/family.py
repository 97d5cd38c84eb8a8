"""Measured comparisons -> those of a report, and which differences its sentences may assert.

What may be told (``disclosure.py``) is judged, once: :func:`reported` is where every comparison of
every report comes from. Asserted is what is detected beside all others of the arm.

A *claim* is a difference that a sentence could assert. All claims of one arm, by all groupings and
beside all references, share one 5 %: another arm in the report changes nothing. A claim is
*detected* where the intervals of its numbers exclude zero at its part of the 5 %. That is shared
equally among *measures*: of each comparison every cost, the costs over all rows, what is decided by
chance, lost classes, and what privacy changes in other metrics. A measure's claims (pairs of
groups, classes) are *rivals* and divide its share. What is detected leaves its part to the others,
so ``measures``, how many measures share the 5 %, counts only what is not detected, and need not be
whole. ``number`` is the place of a comparison among those of its arm. The test leaves every printed
interval as it is. Source: docs/methods.md 6.5.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from fairaudit.analysis.disclosure import Disclosure
from fairaudit.metrics.gaps import judged
from fairaudit.metrics.quantiles import half_width, with_joint_interval
from fairaudit.metrics.registry import (
    DISAGREEMENT,
    DISAGREEMENT_COST,
    METRICS,
    MISALIGNMENT,
    base_metric,
    costs,
    part_of,
)
from fairaudit.report.measures import cost_names
from fairaudit.report.remedies import has_few_seeds, in_two_digits
from fairaudit.report.types.measured import ChangedGap
from fairaudit.results.estimates import (
    ClassShare,
    Comparison,
    Estimate,
    Gap,
    GroupMeasure,
    Measured,
    estimated,
    undefined,
)

ONE_ANSWER = "one_answer"
_CHANGE = "change."  # begins the name of a metric's change from the reference to the arm
RISK = "excess_risk"
LEAST_DEGREES = 1.0  # degrees between two groups' misalignments
_ALL_ROWS = frozenset({""})  # in the place of groups
# Where a claim stands: number of the comparison, metric, names of the groups. So it is the key by
# which claims and what is detected of them are found.
_Place = tuple[int, str, frozenset[str]]

# Up to so many times the test rows at hand a report says how many rows would show a lost class.
_MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class _Claim:
    """One difference that a sentence could assert.

    Args:
        numbers: The intervals of all of them must exclude zero; empty: nothing may be said.
        rivals: How many claims divide the share of its measure, this one included.
        after: The claim that must be detected before this one is tried, by the share which that
            claim then leaves; None: this one has a share of its own.
    """

    numbers: tuple[Estimate, ...]
    rivals: float
    after: _Place | None = None

    def holds(self, measures: float) -> bool:
        """Whether the claim is detected where ``measures`` measures share the 5 %.

        Its own share is then 5 % / (measures * rivals). A claim without numbers is never detected.
        """
        return bool(self.numbers) and all(
            with_joint_interval(number, measures * self.rivals).excludes_zero
            for number in self.numbers
        )


class Family(NamedTuple):
    """What the sentences of a report may assert, of one arm or of all.

    Args:
        comparisons: Those that were judged, in their order, with what is detected in them.
        changed: Gaps within a model that privacy is detected to change, by arm.
    """

    comparisons: tuple[Comparison, ...]
    changed: tuple[ChangedGap, ...]


def reported(
    measured: Sequence[Measured], disclosure: Disclosure, metrics: Sequence[str] = ()
) -> Family:
    """The comparisons as a report holds them: what may be told of what was measured, judged.

    Args:
        measured: The comparisons of all methods.
        disclosure: What may be told.
        metrics: As of :func:`family`.
    """
    return family([disclosure.of_measured(one) for one in measured], metrics)


def family(compared: Sequence[Comparison], metrics: Sequence[str] = ()) -> Family:
    """Judge together, for each arm, everything that sentences choose from.

    Each measure of each comparison of an arm has an equal share of the 5 %, divided among its pairs
    of groups and classes; a pair that was named beforehand counts as a measure. What is detected
    leaves its share to the others (Holm 1979, with weights). So of a method without any difference
    95 % of audits assert none at all. A gap that gates may not read is never detected. A gap in
    another metric is judged beside its own pairs, as it was measured, or by its own interval where
    the pair was named beforehand.

    Args:
        compared: The comparisons of all methods.
        metrics: Whose gaps alone are judged, as those of membership attacks. Empty: everything of
            an audit's report, which is gaps in costs, costs over all rows, lost classes and what
            privacy changes in other metrics.
    """
    by_arm: dict[str, Family] = {}
    for arm in dict.fromkeys(comparison.arm for comparison in compared):
        of_arm = [comparison for comparison in compared if comparison.arm == arm]
        by_arm[arm] = _judged_arm(of_arm, metrics)
    # Each arm's comparisons stand in the order that they had in ``compared``.
    remaining = {arm: iter(judged_arm.comparisons) for arm, judged_arm in by_arm.items()}
    return Family(
        comparisons=tuple(next(remaining[comparison.arm]) for comparison in compared),
        changed=tuple(gap for judged_arm in by_arm.values() for gap in judged_arm.changed),
    )


@dataclass(frozen=True, slots=True)
class _ArmTest:
    """All claims of one arm, and which of them are detected.

    Args:
        claims: By their places.
        detected: Places of the detected ones.
        measures: How many measures share the 5 % in the end.
        metrics: Whose gaps are judged by the test, without their class.
        chosen_from: Place of a comparison and metric -> among how many rivals its largest gap was
            chosen; a metric without a claim is missing.
    """

    claims: Mapping[_Place, _Claim]
    detected: Collection[_Place]
    measures: float
    metrics: Collection[str]
    chosen_from: Mapping[tuple[int, str], float]


def _judged_arm(compared: Sequence[Comparison], metrics: Sequence[str]) -> Family:
    """What sentences may assert of one arm; arguments as of :func:`family`."""
    test = _arm_test(compared, metrics)
    revised: list[Comparison] = []
    changed: list[ChangedGap] = []
    for number, comparison in enumerate(compared):
        gaps = tuple(_judged_gap(number, gap, test) for gap in comparison.gaps)
        changed += _changed_gaps(number, comparison, gaps, test.detected)
        update: dict[str, object] = {"gaps": gaps}
        # Given ``metrics``, gaps alone are judged; and without a reference there is nothing else.
        if comparison.reference and not metrics:
            doubtful = tuple(
                _judged_class(number, share, test.detected, test.measures)
                for share in comparison.doubtful
            )
            groups = [_with_one_answer(group, doubtful) for group in comparison.by_group]
            update |= {"doubtful": doubtful, "by_group": tuple(groups)}
            # Costs detected over all rows; one below 0 is a gain.
            overall = comparison.overall.estimates
            detected_costs = [
                cost for cost in overall if (number, cost, _ALL_ROWS) in test.detected
            ]
            update["paid"] = tuple(
                cost for cost in detected_costs if (overall[cost].value or 0.0) > 0
            )
        revised.append(comparison.model_copy(update=update))
    return Family(tuple(revised), tuple(changed))


def _arm_test(compared: Sequence[Comparison], metrics: Sequence[str]) -> _ArmTest:
    """Collect all claims of one arm and test them together; arguments as of :func:`family`."""
    claims: dict[_Place, _Claim] = {}
    unclaimed = 0.0  # shares of measures that no claim has, in measures; no other claim gets them
    with_gap_claims = (*costs(), MISALIGNMENT)  # metrics whose gaps are claims
    if metrics:
        with_gap_claims = tuple(metrics)
    # No claim replaces another below: its place holds the comparison, the metric and the groups,
    # and each of these functions has metrics of its own, or all rows in the place of groups.
    for number, comparison in enumerate(compared):
        for metric in with_gap_claims:
            claims |= _gap_claims(number, comparison, metric)
        if comparison.reference and not metrics:
            claims |= _retraining_claims(number, comparison)
            lost = _class_claims(number, comparison)
            # Lost classes are one measure. Of the classes that were looked at, the doubtful ones
            # alone make claims; the shares of the others go to nobody.
            unclaimed += 1 - sum(1 / claim.rivals for claim in lost.values())
            claims |= lost
            claims |= _change_claims(number, comparison)
            claims |= _overall_claims(number, comparison)
    detected, measures = _detected(claims, unclaimed)
    # The claims of disagreement come from `_retraining_claims`, not from the loop over metrics.
    tested = with_gap_claims if metrics else (*with_gap_claims, DISAGREEMENT)
    chosen_from: dict[tuple[int, str], float] = {}
    for (number, metric, _), claim in claims.items():
        # The most rivals of any pair: one that the user named has itself as its only rival.
        chosen_from[number, metric] = max(claim.rivals, chosen_from.get((number, metric), 0.0))
    return _ArmTest(claims, detected, measures, tested, chosen_from)


def _judged_gap(number: int, gap: Gap, test: _ArmTest) -> Gap:
    """The gap of comparison ``number`` with whether it is detected, where the test decides that.

    Another gap that the user named is judged by its own interval; any other stays as it was
    measured.
    """
    place = _place(number, gap)
    is_between_groups = bool(gap.a and gap.b)  # not of one group against all rows
    if is_between_groups and _without_class(gap.metric) in test.metrics:
        rivals = None
        if gap.kind == "max":
            rivals = test.chosen_from.get((number, gap.metric))
        elif place in test.claims:
            rivals = test.claims[place].rivals
        least = _least_detected(gap, rivals, test.measures)
        gap = judged(gap, is_detected=place in test.detected)
        return gap.model_copy(update={"minimum_detectable": least})
    # A named pair was chosen from nothing: its own interval, which `judged` reads, decides alone.
    return judged(gap, is_detected=True) if gap.named else gap


def _changed_gaps(
    number: int, comparison: Comparison, gaps: Sequence[Gap], detected: Collection[_Place]
) -> Iterator[ChangedGap]:
    """The gaps within a model that privacy is detected to change; ``gaps``: those judged."""
    for gap in gaps:
        is_detected = _place(number, gap) in detected
        if gap.kind == "pair" and is_detected and gap.metric.startswith(_CHANGE):
            yield ChangedGap(
                arm=comparison.arm,
                reference=comparison.reference,
                grouping=comparison.grouping,
                metric=gap.metric.removeprefix(_CHANGE),
                a=gap.a,
                b=gap.b,
                change=gap.signed,
            )


def _detected(claims: Mapping[_Place, _Claim], unclaimed: float) -> tuple[set[_Place], float]:
    """The places of the detected claims, and how many measures share the 5 % in the end.

    Holm's procedure with weights: a claim of a measure has the weight 1 / rivals, so all claims of
    a measure together weigh 1. A claim that is detected leaves its weight to the others, so these
    are tried again until none is added. Source: docs/methods.md 6.5 (Holm 1979).

    Args:
        claims: Of one arm, by place.
        unclaimed: How many measures, in parts of one, have a share that no claim may get.
    """
    detected: set[_Place] = set()
    while True:
        undetected = {}
        for place, claim in claims.items():
            is_tried = claim.after is None or claim.after in detected
            if is_tried and place not in detected:
                undetected[place] = claim
        measures = unclaimed + sum(1 / claim.rivals for claim in undetected.values())
        newly = [place for place, claim in undetected.items() if claim.holds(measures)]
        if not newly:
            return detected, measures
        detected.update(newly)


def _gap_claims(
    number: int, comparison: Comparison, metric: str, others: int = 0
) -> dict[_Place, _Claim]:
    """The claims that two groups differ in ``metric``, one for each pair that gates may read.

    Where no such pair is left but those that the user named (``compare``), the largest gap is a
    claim, too, and its rivals are all pairs of groups that it was chosen from. A pair that the user
    named is chosen from nothing: its only rival is itself.

    Args:
        number: Place of the comparison.
        comparison: Of one arm, cut by one grouping.
        metric: Without its class.
        others: How many claims of another kind share the measure with these.
    """
    gaps = [gap for gap in comparison.gaps if _without_class(gap.metric) == metric and gap.gated]
    pairs = [gap for gap in gaps if gap.kind == "pair"]
    rivals = len(pairs) + others
    if all(gap.named for gap in pairs):  # also where there is no pair
        # One largest gap, or one of each class for a rate per class.
        largest = [gap for gap in gaps if gap.kind == "max"]
        groups = len([group for group in comparison.by_group if group.n_test])
        rivals = len(largest) * groups * (groups - 1) // 2 + others
        # A largest gap between two named groups has the place of that pair, whose claim, with a
        # share of its own, is made last and so replaces it.
        pairs = [*largest, *pairs]
    claims = {}
    for gap in pairs:
        # Two groups whose misalignments differ by less than a degree make no claim, but the pair
        # was looked at, so it counts among the rivals.
        if not _is_slight(gap):
            claims[_place(number, gap)] = _Claim(_deciding(gap), 1 if gap.named else rivals)
    return claims


def _retraining_claims(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """The claims that more of one group is decided by chance, and that privacy adds to it overall.

    They are one measure, in which the number over all rows is a rival of the pairs of groups.
    Without several trainings on the same rows there are none.
    """
    cost = comparison.overall.estimates.get(DISAGREEMENT_COST)
    if cost is None or cost.ends is None or DISAGREEMENT_COST in comparison.overall.ungated:
        return _gap_claims(number, comparison, DISAGREEMENT)
    claims = _gap_claims(number, comparison, DISAGREEMENT, others=1)
    rivals = max((claim.rivals for claim in claims.values()), default=1)
    claims[number, DISAGREEMENT_COST, _ALL_ROWS] = _Claim((cost,), rivals)
    return claims


def _deciding(gap: Gap) -> tuple[Estimate, ...]:
    """The number whose interval must exclude zero for a sentence to say that two groups differ.

    Of misalignment, in degrees, that is another one: what clipping takes from the groups by turning
    the step (``gap.tested``). Where its sign is not that of the degrees there is none, so nothing
    is said. Source: docs/methods.md 8.3.
    """
    if gap.tested is None:
        return (gap.signed,)
    degrees, taken = gap.signed.value or 0.0, gap.tested.value or 0.0
    has_same_sign = math.copysign(1.0, degrees) == math.copysign(1.0, taken)
    return (gap.tested,) if has_same_sign else ()


def _is_slight(gap: Gap) -> bool:
    """Whether two groups' misalignments are too close for a sentence, whatever their intervals."""
    return (
        _without_class(gap.metric) == MISALIGNMENT and abs(gap.signed.value or 0.0) < LEAST_DEGREES
    )


def _change_claims(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """The claims that privacy changes the gap between two groups in a metric of the model itself.

    Only in metrics that no cost is made of: of the accuracy the privacy cost says the same. All
    pairs of comparison ``number``, whatever their metric, are rivals in one measure.
    """
    of_costs = {METRICS[cost].cost_of for cost in costs()}
    pairs = []
    for gap in comparison.gaps:
        is_change = gap.metric.startswith(_CHANGE) and base_metric(gap.metric) not in of_costs
        # A pair without an interval could not be detected, so it is no rival either.
        if is_change and gap.kind == "pair" and gap.signed.ends:
            pairs.append(gap)
    claims = {}
    for gap in pairs:
        if gap.gated:  # a pair that gates may not read is a rival, but makes no claim
            claims[_place(number, gap)] = _Claim((gap.signed,), len(pairs))
    return claims


def _overall_claims(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """The claims that there is a cost over all rows: one measure, whose costs are tried in turn.

    Each has the whole share once the one before it is detected. The loss comes first, for it shows
    changes that are too small to move a rate, which counts whole rows.
    """
    overall = comparison.overall
    claims: dict[_Place, _Claim] = {}
    before = None  # place of the cost that must be detected first
    # sorted() is stable: the loss first, the others in their order.
    for cost in sorted(cost_names(comparison), key=lambda cost: cost != RISK):
        if cost not in overall.ungated and overall.estimates[cost].ends:
            place = (number, cost, _ALL_ROWS)
            claims[place] = _Claim((overall.estimates[cost],), 1, before)
            before = place
    return claims


def _class_claims(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """The claims that a group lost a class, one for each class that is doubtful by its estimate.

    Both numbers of a claim must exclude zero: ``kept``, the arm's share less a fifth of the
    reference's, from above, and the reference's share from below.
    """
    claims = {}
    for share in comparison.doubtful:
        if share.kept.ends and share.reference.ends:
            # Rivals are all pairs of group and class that were looked at, doubtful or not.
            claim = _Claim((share.kept, share.reference), share.looked_at)
            claims[_place_of_class(number, share)] = claim
    return claims


def _least_detected(gap: Gap, rivals: float | None, measures: float) -> float | None:
    """The gap that the test would detect with power .80: h + t_.80 SE (docs/methods.md 6.7).

    The measured gap holds it with h of its own interval (of the largest with that of all pairs). In
    the place of that h comes the half-width that the test needs beside all other claims.

    Args:
        gap: As it was measured.
        rivals: How many claims divide the share of the gap's measure; None: the gap makes no claim,
            and the measured number stays.
        measures: How many measures share the 5 %.
    """
    least = gap.minimum_detectable
    if least is None or rivals is None:
        return least
    training, records = gap.signed.training_sd or 0.0, gap.signed.records_sd or 0.0
    variances, seeds = (training**2, records**2), gap.signed.n_seeds
    pairs = rivals if gap.kind == "max" else 1  # among how many h of the measured gap was shared
    least += half_width(*variances, seeds, measures * rivals)
    return least - half_width(*variances, seeds, pairs)


def _judged_class(
    number: int, share: ClassShare, detected: Collection[_Place], measures: float
) -> ClassShare:
    """The doubtful class of comparison ``number`` with whether it is lost.

    If the class is not shown to be lost, ``rows_needed`` is about how many test rows of the group
    it would take to show that: up to ``_MOST_ROWS`` times those at hand, and only where seeds are
    enough, for few seeds leave the question open whatever the rows.
    """
    is_lost = _place_of_class(number, share) in detected
    rows = None
    if not is_lost and share.kept.ends and share.reference.ends and not has_few_seeds(share.kept):
        ratios = []  # half of the interval over the value, of both numbers of the claim
        for estimate in (share.kept, share.reference):
            joint = with_joint_interval(estimate, measures * share.looked_at)
            half = (joint.high or 0.0) - (joint.value or 0.0)  # `or` is for mypy: `ends` exist
            ratios.append(half / abs(joint.value or 1.0))
        # An interval excludes 0 where half of it is below the value; it shrinks with the root of
        # the rows, so they must grow by the square of the ratio.
        times = max(1.0, *ratios) ** 2
        if times <= _MOST_ROWS:
            rows = in_two_digits(ceil((share.kept.n_test or 0) * times))
    return share.model_copy(update={"is_lost": is_lost, "rows_needed": rows})


def _with_one_answer(group: GroupMeasure, doubtful: Sequence[ClassShare]) -> GroupMeasure:
    """The group with the metric ``one_answer``: 1 where it lost all classes but one, else 0.

    Undefined where as many classes are doubtful but not all of them are shown to be lost. Without a
    privacy cost, from which seeds and test rows are taken, the group comes back unchanged.

    Args:
        group: A group's numbers.
        doubtful: The doubtful classes of all groups, already judged.
    """
    cost = group.estimates.get("privacy_cost")
    if cost is None:
        return group
    shares = [share for share in doubtful if share.group == group.group]
    lost = sum(bool(share.is_lost) for share in shares)  # never None here: all were judged
    # How many classes either model predicts for the group: the same number stands in each share.
    # Without a share nothing is lost, whatever number stands here.
    classes = min((share.given for share in shares), default=2)
    all_but_one = max(1, classes - 1)
    is_one_answer = lost >= all_but_one
    could_be_one_answer = len(shares) >= all_but_one
    if cost.ends is None:  # also where a seed lacks the group
        answer = undefined(cost.reason, "ratio", cost.n_test)
    elif could_be_one_answer and not is_one_answer:
        rows = max((share.rows_needed or 0 for share in shares), default=0)
        reason = (
            f"about {rows:,} test rows of the group would tell" if rows else "it has no interval"
        )
        answer = undefined(reason, "ratio", cost.n_test)
    else:
        value = float(is_one_answer)  # decided by the test, so it is exact: both ends are the value
        answer = estimated(
            value,
            value,
            value,
            training_sd=None,
            records_sd=None,
            n_seeds=cost.n_seeds,
            n_test=cost.n_test or 0,
            unit="ratio",
        )
    return group.model_copy(update={"estimates": {**group.estimates, ONE_ANSWER: answer}})


def _without_class(metric: str) -> str:
    """The metric's name without its class: ``tpr_cost`` of ``tpr_cost[2]``.

    The part of a cost, as ``privacy_cost.noise``, keeps its whole name: it is no cost itself, so it
    must not equal one.
    """
    return metric if part_of(metric) else metric.partition("[")[0]


def _place(number: int, gap: Gap) -> _Place:
    """The place of the claim that the groups of this gap differ."""
    return number, gap.metric, frozenset((gap.a, gap.b))


def _place_of_class(number: int, share: ClassShare) -> _Place:
    """The place of the claim that the group lost this class."""
    return number, f"{ONE_ANSWER}[{share.answer}]", frozenset((share.group,))
