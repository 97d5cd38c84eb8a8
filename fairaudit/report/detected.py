"""Which gaps in cost a sentence may tell of: those whose sign is told among all that it chooses from."""

from collections.abc import Sequence

from fairaudit.metrics.names import COSTS, LEAST_FOR_LOSS
from fairaudit.metrics.simultaneous import among
from fairaudit.results.estimates import Comparison, Gap


def judged(compared: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons, each gap in a cost with whether a difference is detected.

    Sentences choose from all methods and from both costs, so the intervals hold for all of them: where groups
    do not differ, 95 % of audits say of no pair that it does. As in gates, a loss of fewer test rows than
    ``LEAST_FOR_LOSS`` decides nothing. Source: docs/methods.md 6.5.
    """
    many = len(COSTS) * sum(bool(comparison.reference) for comparison in compared)
    return tuple(
        comparison.model_copy(
            update={
                "gaps": tuple(
                    gap.revised(detected=_is_detected(comparison, gap, many))
                    if gap.metric in COSTS and comparison.reference and gap.a and gap.b
                    else gap
                    for gap in comparison.gaps
                )
            }
        )
        for comparison in compared
    )


def _is_detected(comparison: Comparison, gap: Gap, many: int) -> bool:
    pairs = 1 if gap.named else _pairs(comparison, gap.metric)
    shown = bool(gap.direction) and among(gap.signed, many * pairs).excludes_zero
    if gap.metric == COSTS[0]:
        return shown
    found = [g.estimates.get(gap.metric) for g in comparison.by_group if g.group in (gap.a, gap.b)]
    rows = [0 if estimate is None else estimate.n_test or 0 for estimate in found]
    return shown and min(rows, default=0) >= LEAST_FOR_LOSS


def _pairs(comparison: Comparison, metric: str) -> int:
    """Pairs of groups that are large enough, which share the 5 %."""
    pairs = (gap for gap in comparison.gaps if gap.kind == "pair" and gap.metric == metric)
    return max(1, sum(gap.simultaneous.ends is not None for gap in pairs))
