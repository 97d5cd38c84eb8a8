"""Which gaps a sentence may tell of: those whose sign is told among all that it chooses from."""

from collections.abc import Iterator, Sequence

from fairaudit.metrics.intervals import among
from fairaudit.metrics.registry import METRICS, costs
from fairaudit.report.measured import ChangedGap
from fairaudit.results.estimates import Comparison, Gap

_Place = tuple[int, str, frozenset[str]]  # comparison, cost, two groups
_CHANGE = "change."


def judged(compared: Sequence[Comparison], metrics: Sequence[str] = ()) -> tuple[Comparison, ...]:
    """The comparisons, each gap in a cost with whether a difference is detected.

    Sentences choose from all methods, costs and all pairs of groups, so all of them share the 5 %: where
    groups do not differ, 95 % of audits say of no pair that it does. What is detected leaves its share to the
    others (Holm 1979, with weights), so that one method's gap is not lost because many were trained. As in
    gates, a metric decides nothing on fewer test rows than its ``least_gated``. Source: docs/methods.md 6.5.

    Args:
        compared: Of all methods.
        metrics: That sentences choose from; all costs if none are named.
    """
    metrics = metrics or costs()
    told = _detected(dict(_judgeable(compared, metrics)))
    return tuple(
        comparison.model_copy(
            update={
                "gaps": tuple(
                    gap.revised(detected=bool(gap.direction) and _place(number, gap) in told)
                    if gap.metric in _told_of(comparison, metrics) and gap.a and gap.b
                    else gap
                    for gap in comparison.gaps
                )
            }
        )
        for number, comparison in enumerate(compared)
    )


def _told_of(comparison: Comparison, metrics: Sequence[str]) -> Sequence[str]:
    """Those that are known of it: a cost is one beside a reference."""
    return [metric for metric in metrics if comparison.reference or not METRICS[metric].cost_of]


def _detected(pairs: dict[_Place, tuple[Gap, float]]) -> set[_Place]:
    """Pairs whose interval excludes 0 at its share of what those that are still open have to share."""
    found: set[_Place] = set()
    while True:
        left = {place: pair for place, pair in pairs.items() if place not in found}
        shared = sum(weight for _, weight in left.values())
        more = {
            place
            for place, (gap, weight) in left.items()
            if gap.direction and among(gap.signed, shared / weight).excludes_zero
        }
        if not more:
            return found
        found |= more


def _judgeable(
    compared: Sequence[Comparison], metrics: Sequence[str]
) -> Iterator[tuple[_Place, tuple[Gap, float]]]:
    """Pairs of groups that are large enough, each with its weight.

    Each metric of each comparison weighs 1, divided among its pairs; a pair that was named beforehand
    weighs 1.
    """
    for number, comparison in enumerate(compared):
        rows = {
            (group.group, metric): estimate.n_test or 0
            for group in comparison.by_group
            for metric, estimate in group.estimates.items()
        }
        for metric in _told_of(comparison, metrics):
            pairs = [
                gap
                for gap in comparison.gaps
                if gap.kind == "pair" and gap.metric == metric and gap.simultaneous.ends is not None
            ]
            for gap in pairs:
                if min(rows.get((name, metric), 0) for name in (gap.a, gap.b)) >= METRICS[metric].least_gated:
                    yield _place(number, gap), (gap, 1.0 if gap.named else 1 / len(pairs))


def _place(number: int, gap: Gap) -> _Place:
    return number, gap.metric, frozenset((gap.a, gap.b))


def changed_gaps(comparisons: Sequence[Comparison]) -> tuple[ChangedGap, ...]:
    """The pairs of groups and metrics whose gap changed, each with its change.

    They are picked from all pairs of groups, metrics and arms, so the intervals hold for all of them: of
    audits in which nothing changed, 95 % name none.
    """
    every = [
        (comparison, gap)
        for comparison in comparisons
        for gap in comparison.gaps
        if gap.kind == "pair" and gap.metric.startswith(_CHANGE) and gap.signed.ends is not None
    ]
    changes = ((comparison, gap, among(gap.signed, len(every))) for comparison, gap in every)
    return tuple(
        ChangedGap(
            arm=comparison.arm,
            reference=comparison.reference,
            grouping=comparison.grouping,
            metric=gap.metric.removeprefix(_CHANGE),
            a=gap.a,
            b=gap.b,
            change=change,
        )
        for comparison, gap, change in changes
        if change.excludes_zero
    )
