"""What the ablation of clipping shows: its direction and its magnitude, each trained alone."""

from collections.abc import Iterator

from fairaudit.report.findings import Finding
from fairaudit.report.main_gap import COST, is_detected, main_gap, named_gaps
from fairaudit.report.model import Report
from fairaudit.report.phrases import Phrase
from fairaudit.results.estimates import Gap, interval_of

CLIPPED, SHORTER, TURNED = "clipped", "magnitude-only", "direction-only"
PHRASES = {
    "clipping_halves": Phrase(
        "a gap is told apart under clipping without noise, and both halves were trained alone",
        "Clipping alone has a gap of {whole}; its magnitude alone {shorter}, its direction alone "
        "{turned}: told apart for {reason}",
    )
}


def findings(report: Report) -> Iterator[Finding]:
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
    whole = gaps[CLIPPED]
    halves = []
    for half in (SHORTER, TURNED):
        if is_detected(gaps[half]) and gaps[half].direction == whole.direction:
            halves.append(half)
    yield Finding(
        code="clipping_halves",
        arm=CLIPPED,
        grouping=first,
        groups=(whole.a, whole.b),
        measure=COST,
        unit="fraction",
        numbers={
            "whole": interval_of(whole.size),
            "shorter": interval_of(gaps[SHORTER].size),
            "turned": interval_of(gaps[TURNED].size),
        },
        reason=" and ".join(halves) or "neither half by itself",
    )
