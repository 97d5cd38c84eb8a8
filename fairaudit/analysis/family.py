"""Which differences a sentence may tell of: those told from zero among all that it chooses from.

One family for the report: every method, grouping, pair of groups and primary measure, what all rows
lose, whether a group lost an answer, and what privacy changes in other metrics. Source:
docs/methods.md 6.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from fairaudit.metrics.intervals import among, half_width
from fairaudit.metrics.registry import METRICS, base_metric, costs, part_of
from fairaudit.report.main_gap import cost_names
from fairaudit.report.measured import ChangedGap
from fairaudit.results.estimates import (
    ClassShare,
    Comparison,
    Estimate,
    Gap,
    GroupMeasure,
    estimated,
    undefined,
)

ONE_ANSWER = "one_answer"
_CHANGE = "change."
RISK = "excess_risk"
_ALL_ROWS = frozenset({""})  # in the place of groups
_Place = tuple[int, str, frozenset[str]]  # comparison, what is measured, groups


@dataclass(frozen=True, slots=True)
class _Claim:
    """One difference that a sentence could tell of.

    Args:
        numbers: All of them must be told from zero.
        rivals: Of how many it is one, in its measure of its method.
        after: The claim whose share it has once that is told; None: it has its own.
    """

    numbers: tuple[Estimate, ...]
    rivals: float
    after: _Place | None = None

    def holds(self, measures: float) -> bool:
        """Whether it is told where so many measures share the 5 %."""
        return all(among(number, measures * self.rivals).excludes_zero for number in self.numbers)


class Family(NamedTuple):
    """The comparisons with what is detected in them, and gaps within a model that changed."""

    comparisons: tuple[Comparison, ...]
    changed: tuple[ChangedGap, ...]


def family(compared: Sequence[Comparison], metrics: Sequence[str] = ()) -> Family:
    """Judge everything that sentences choose from, together.

    Each measure of each comparison has an equal share of the 5 %, divided among its pairs of groups
    and classes; a pair that was named beforehand counts as a measure. What is detected leaves its
    share to the others (Holm 1979, with weights). So where nothing differs, 95 % of audits tell of
    no difference at all. What gates may not read decides nothing here either.

    Args:
        compared: Of all methods.
        metrics: That sentences choose from; those of the report if none are named.
    """
    claims: dict[_Place, _Claim] = {}
    silent = 0.0  # measures of which nothing can be told, whose share is no one else's
    for number, comparison in enumerate(compared):
        for metric in metrics or costs():
            claims |= _of_gaps(number, comparison, metric)
        if comparison.reference and not metrics:
            lost = _of_classes(number, comparison)
            # Lost classes are one measure; what its claims leave of the share goes to nobody.
            silent += 1 - sum(1 / claim.rivals for claim in lost.values())
            claims |= lost | _of_changes(number, comparison) | _of_all_rows(number, comparison)
    detected, measures = _detected(claims, silent)
    revised, changed = [], []
    for number, comparison in enumerate(compared):
        gaps = []
        for gap in comparison.gaps:
            if gap.a and gap.b and _name(gap.metric) in (metrics or costs()):
                gap = _revised(number, comparison, gap, claims, detected, measures)
            gaps.append(gap)
            place = _place(number, gap)
            if gap.kind == "pair" and place in detected and gap.metric.startswith(_CHANGE):
                n_joint = measures * claims[place].rivals
                changed.append(
                    ChangedGap(
                        arm=comparison.arm,
                        reference=comparison.reference,
                        grouping=comparison.grouping,
                        metric=gap.metric.removeprefix(_CHANGE),
                        a=gap.a,
                        b=gap.b,
                        change=among(gap.signed, n_joint),
                    )
                )
        update: dict[str, object] = {"gaps": tuple(gaps)}
        if comparison.reference and not metrics:
            doubtful = [
                _decided(number, share, detected, measures) for share in comparison.doubtful
            ]
            update["doubtful"] = tuple(doubtful)
            update["by_group"] = tuple(_answering(group, doubtful) for group in comparison.by_group)
            overall = comparison.overall.estimates
            paid = [cost for cost in overall if (number, cost, _ALL_ROWS) in detected]
            update["paid"] = tuple(cost for cost in paid if (overall[cost].value or 0.0) > 0)
        revised.append(comparison.model_copy(update=update))
    return Family(tuple(revised), tuple(changed))


def _detected(claims: Mapping[_Place, _Claim], silent: float) -> tuple[set[_Place], float]:
    """The claims that hold, and how many measures share the 5 % once those are told.

    Holm's steps: a claim that holds leaves its share to the others, so all are tried again until
    none is added.
    """
    detected: set[_Place] = set()
    while True:
        left = {}
        for place, claim in claims.items():
            if place not in detected and (claim.after is None or claim.after in detected):
                left[place] = claim
        measures = silent + sum(1 / claim.rivals for claim in left.values())
        more = [place for place, claim in left.items() if claim.holds(measures)]
        if not more:
            return detected, measures
        detected.update(more)


def _of_gaps(
    number: int,
    comparison: Comparison,
    metric: str,
) -> dict[_Place, _Claim]:
    """Pairs of groups that are large enough; of very many, the one that differs most."""
    gaps = [gap for gap in comparison.gaps if _name(gap.metric) == metric and gap.size.ends]
    pairs = [gap for gap in gaps if gap.kind == "pair"]
    rivals = len(pairs)
    if not pairs:  # too many to be told: the largest gap was chosen from all of them
        pairs = [gap for gap in gaps if gap.kind == "max"]
        groups = len([group for group in comparison.by_group if group.n_test])
        rivals = len(pairs) * groups * (groups - 1) // 2
    claims = {}
    for gap in pairs:
        if gap.gated:  # others claim nothing, and their part of the share stays unused
            claims[_place(number, gap)] = _Claim((gap.signed,), 1 if gap.named else rivals)
    return claims


def _of_changes(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """Pairs of groups by metrics within a model, of which no cost is."""
    of_costs = {METRICS[cost].cost_of for cost in costs()}
    pairs = []
    for gap in comparison.gaps:
        is_change = gap.metric.startswith(_CHANGE) and base_metric(gap.metric) not in of_costs
        if is_change and gap.kind == "pair" and gap.signed.ends:
            pairs.append(gap)
    return {_place(number, gap): _Claim((gap.signed,), len(pairs)) for gap in pairs}


def _of_all_rows(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """Every cost over all rows: one measure, in which one after another is looked at.

    The loss comes first, for it shows what rates, in steps of a row, do not.
    """
    overall = comparison.overall
    claims: dict[_Place, _Claim] = {}
    before = None
    for cost in sorted(cost_names(comparison), key=lambda cost: cost != RISK):
        if cost not in overall.ungated and overall.estimates[cost].ends:
            place = (number, cost, _ALL_ROWS)
            claims[place] = _Claim((overall.estimates[cost],), 1, before)
            before = place
    return claims


def _of_classes(number: int, comparison: Comparison) -> dict[_Place, _Claim]:
    """Classes that a group may have lost: less than a fifth of a share that is above 0."""
    claims = {}
    for share in comparison.doubtful:
        if share.kept.ends and share.reference.ends:
            claim = _Claim((share.kept, share.reference), share.looked_at)
            claims[_place_of_class(number, share)] = claim
    return claims


def _revised(
    number: int,
    comparison: Comparison,
    gap: Gap,
    claims: Mapping[_Place, _Claim],
    detected: set[_Place],
    measures: float,
) -> Gap:
    """The gap, with whether it is detected and an interval for all claims at once.

    ``number``: that of the comparison. ``measures``: how many share the 5 %; each divides its share
    among ``rivals`` pairs of groups. The largest gap ("max") rests on every pair of its metric.
    """
    is_detected = _place(number, gap) in detected
    bounds = []
    rivals = 0.0
    for candidate in comparison.gaps:
        is_basis = candidate is gap or (gap.kind == "max" and candidate.kind == "pair")
        claim = claims.get(_place(number, candidate))
        if is_basis and candidate.metric == gap.metric and claim is not None:
            rivals = claim.rivals
            joint = among(candidate.signed, measures * rivals)
            bounds.append(max(abs(joint.low or 0.0), abs(joint.high or 0.0)))
    if not bounds:
        return gap.revised(detected=is_detected)
    least = gap.minimum_detectable
    if least is not None:  # the joint interval's half width in the place of the one it was made of
        training, records = gap.signed.training_sd or 0.0, gap.signed.records_sd or 0.0
        used = rivals if gap.kind == "max" else 1
        for sign, n_joint in ((1, measures * rivals), (-1, used)):
            least += sign * half_width(
                training**2,
                records**2,
                gap.signed.n_seeds,
                n_joint,
            )
    return gap.revised(
        detected=is_detected,
        joint_high=max(bounds),
        minimum_detectable=least,
    )


def _decided(
    number: int,
    share: ClassShare,
    detected: set[_Place],
    measures: float,
) -> ClassShare:
    """Whether the class is lost; if that cannot be told, with how many rows it could be."""
    is_lost = _place_of_class(number, share) in detected
    n_joint = measures * share.looked_at
    numbers = {
        name: among(getattr(share, name), n_joint) for name in ("private", "reference", "kept")
    }
    rows = None
    if not is_lost and share.kept.ends and share.reference.ends:
        widths = []
        for estimate in (numbers["kept"], numbers["reference"]):
            half = (estimate.high or 0.0) - (estimate.value or 0.0)
            widths.append(half / abs(estimate.value or 1.0))
        # Told from 0 where half an interval is below the value; it shrinks with the root of the
        # rows.
        rows = ceil((share.kept.n_test or 0) * max(1.0, *widths) ** 2)
    update = {**numbers, "is_lost": is_lost, "rows_needed": rows}
    return share.model_copy(update=update)


def _answering(group: GroupMeasure, doubtful: Sequence[ClassShare]) -> GroupMeasure:
    """The group with whether one answer is all that it gets: 1, 0, or not known."""
    cost = group.estimates.get("privacy_cost")
    if cost is None:
        return group
    shares = [share for share in doubtful if share.group == group.group]
    lost = sum(bool(share.is_lost) for share in shares)  # never None here: all were judged
    classes = min((share.given for share in shares), default=2)
    all_but_one = max(1, classes - 1)
    is_one_answer = lost >= all_but_one
    could_be_one_answer = len(shares) >= all_but_one
    if cost.value is None:
        answer = undefined(cost.reason, "ratio", cost.n_test)
    elif could_be_one_answer and not is_one_answer:
        rows = max((share.rows_needed or 0 for share in shares), default=0)
        reason = f"{rows} test rows of the group would tell" if rows else "it has no interval"
        answer = undefined(reason, "ratio", cost.n_test)
    else:
        value = float(is_one_answer)
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


def _name(metric: str) -> str:
    """Without its class: ``tpr_cost`` of ``tpr_cost[2]``; parts of a cost keep their name."""
    return metric if part_of(metric) else metric.partition("[")[0]


def _place(number: int, gap: Gap) -> _Place:
    return number, gap.metric, frozenset((gap.a, gap.b))


def _place_of_class(number: int, share: ClassShare) -> _Place:
    return number, f"{ONE_ANSWER}[{share.answer}]", frozenset((share.group,))
