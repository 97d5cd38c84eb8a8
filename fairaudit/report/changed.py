"""Gaps within a model that private training is shown to change."""

from collections.abc import Sequence

from fairaudit.metrics.simultaneous import among
from fairaudit.report.measured import ChangedGap
from fairaudit.results.estimates import Comparison

_CHANGE = "change."


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
