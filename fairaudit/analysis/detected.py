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

    Sentences choose from all methods, costs and all pairs of groups, so all of them share the 5 %:
    where groups do not differ, 95 % of audits say of no pair that it does. What is detected leaves
    its share to the others (Holm 1979, with weights), so that one method's gap is not lost because
    many were trained. As in gates, a metric decides nothing on fewer test rows than its
    ``least_gated``. Source: docs/methods.md 6.5.

    Args:
        compared: Of all methods.
        metrics: That sentences choose from; all costs if none are named.
    """
    metrics = metrics or costs()
    told = _detected(dict(_judgeable(compared, metrics)))
    revised = []
    for number, comparison in enumerate(compared):
        gaps = []
        for gap in comparison.gaps:
            if gap.metric in _told_of(comparison, metrics) and gap.a and gap.b:
                is_told = bool(gap.direction) and _place(number, gap) in told
                gap = gap.revised(detected=is_told)
            gaps.append(gap)
        revised.append(comparison.model_copy(update={"gaps": tuple(gaps)}))
    return tuple(revised)


def _told_of(comparison: Comparison, metrics: Sequence[str]) -> Sequence[str]:
    """Those that are known of it: a cost is one beside a reference."""
    return [metric for metric in metrics if comparison.reference or not METRICS[metric].cost_of]


def _detected(pairs: dict[_Place, tuple[Gap, float]]) -> set[_Place]:
    """Pairs whose interval excludes 0 at its share of what the open pairs have to share."""
    found: set[_Place] = set()
    left = dict(pairs)
    while True:
        shared = sum(weight for _, weight in left.values())
        more = []
        for place, (gap, weight) in left.items():
            if gap.direction and among(gap.signed, shared / weight).excludes_zero:
                more.append(place)
        if not more:
            return found
        for place in more:
            found.add(place)
            del left[place]


def _judgeable(
    compared: Sequence[Comparison], metrics: Sequence[str]
) -> Iterator[tuple[_Place, tuple[Gap, float]]]:
    """Pairs of groups that are large enough, each with its weight.

    Each metric of each comparison weighs 1, divided among its pairs; a pair that was named
    beforehand weighs 1.
    """
    for number, comparison in enumerate(compared):
        by_group = {group.group: group for group in comparison.by_group}
        for metric in _told_of(comparison, metrics):
            pairs = []
            for gap in comparison.gaps:
                if gap.kind == "pair" and gap.metric == metric and gap.simultaneous.ends:
                    pairs.append(gap)
            for gap in pairs:
                rows = []
                for name in (gap.a, gap.b):
                    estimate = by_group[name].estimates.get(metric) if name in by_group else None
                    rows.append((estimate.n_test if estimate else None) or 0)
                if min(rows) >= METRICS[metric].least_gated:
                    yield _place(number, gap), (gap, 1.0 if gap.named else 1 / len(pairs))


def _place(number: int, gap: Gap) -> _Place:
    return number, gap.metric, frozenset((gap.a, gap.b))


def changed_gaps(comparisons: Sequence[Comparison]) -> tuple[ChangedGap, ...]:
    """The pairs of groups and metrics whose gap changed, each with its change.

    They are picked from all pairs of groups, metrics and arms, so the intervals hold for all of
    them: of audits in which nothing changed, 95 % name none.
    """
    every = []
    for comparison in comparisons:
        for gap in comparison.gaps:
            if gap.kind == "pair" and gap.metric.startswith(_CHANGE) and gap.signed.ends:
                every.append((comparison, gap))
    changed = []
    for comparison, gap in every:
        change = among(gap.signed, len(every))
        if change.excludes_zero:
            changed.append(
                ChangedGap(
                    arm=comparison.arm,
                    reference=comparison.reference,
                    grouping=comparison.grouping,
                    metric=gap.metric.removeprefix(_CHANGE),
                    a=gap.a,
                    b=gap.b,
                    change=change,
                )
            )
    return tuple(changed)
