"""Costs and gaps in their parts: what is there without noise, what the noise adds, what would help."""

from collections.abc import Iterator, Sequence

from fairaudit.metrics.registry import METRICS, costs
from fairaudit.report.document import Block, Cell, Quantity, Rank, Section, Text, bullets, table
from fairaudit.report.main_gap import detected_gap, main_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.parts import CostSplit, shortened_arms, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.report.written import written
from fairaudit.results.estimates import Comparison, Gap

# What may lower the part that stays without noise.
_REMEDIES = {
    "clipping": "a larger clipping bound or more steps may",
    "regularisation": "a smaller penalty may",
    "partition": "fewer teachers may",
}


def section(report: Report) -> Section | None:
    """None where no comparison is split."""
    rows = [row for comparison in report.costs for row in _rows(comparison)]
    sentences = [plain(sentence, 600) for sentence in part_sentences(report)]
    is_told = report.summary is not None and bool(report.summary.methods)  # the summary says it, too
    brief = () if is_told else tuple(Text(sentence) for sentence in sentences)
    if not rows:
        return None
    heads = [
        f"#{spec.title}{part} ({spec.counted})"
        for spec in (METRICS[cost] for cost in costs())
        for part in ("", " without noise", " from noise")
    ]
    blocks: tuple[Block, ...] = (
        Text(
            "Every private training was repeated without noise, all else equal. Less noise alone does not "
            "remove the cost without noise; the cost from noise falls as epsilon grows."
        ),
        *bullets([*(sentences or ["No gap is detected that could be taken apart."]), *_following(report)]),
        table(("method", "of", *heads), rows, most=16),
    )
    return Section("parts", "Clipping or noise", Rank.SECOND, blocks, brief)


def part_sentences(report: Report) -> Iterator[str]:
    """For each method: would a larger epsilon remove its gap? Nothing where no gap is detected."""
    for comparison in report.costs:
        for metric in costs():
            gap = detected_gap(comparison, metric)
            split = None if gap is None else split_gap(comparison, metric, gap)
            if gap is not None and split is not None:
                shortened = comparison.arm in shortened_arms(report.arms)
                yield f"{_who(comparison, gap, report)}: {_answer(split, shortened=shortened)}"
                break


def _answer(split: CostSplit, *, shortened: bool) -> str:
    """Would a larger epsilon remove the gap?"""
    unit = METRICS[split.metric].counted_of
    total, still, noise = (
        written(part, scale_of(split.metric)) for part in (split.total, split.still, split.noise)
    )
    remedy, limit = _REMEDIES[split.name], "no epsilon removes{} at these settings"
    if shortened:  # by a rule, so a larger epsilon comes with other settings
        remedy = f"{remedy}, and so may a larger epsilon, at which the default step is longer"
        limit = "less noise alone does not remove{}"
    if split.is_still and split.is_noise:
        return (
            f"of the gap of {total} {unit}, {still} are there without any noise, which {limit.format('')} "
            f"({remedy}); {noise} come from the noise and fall as epsilon grows"
        )
    if split.is_still:
        return (
            f"without any noise the gap is {still}, of {total} {unit}: {limit.format(' that')}; "
            f"{remedy}. What the noise adds, {noise}, is not told from zero"
        )
    if split.is_noise:
        return (
            f"the noise adds {noise} to the gap of {total} {unit}, which falls as epsilon grows. Without "
            f"noise it is {still}, not shown to be there"
        )
    return (
        f"of the gap of {total} {unit}, {still} are there without noise and {noise} come from it: neither "
        "is told from zero, so cannot tell whether a larger epsilon removes it"
    )


def _who(comparison: Comparison, gap: Gap, report: Report) -> str:
    several = len({other.grouping for other in report.costs}) > 1
    who = f"{comparison.arm}, {comparison.grouping}" if several else comparison.arm
    return f"{who}, {gap.a} against {gap.b}" if len(comparison.by_group) > 2 else who


def _following(report: Report) -> Iterator[str]:
    """What of a sweep's settings moves with epsilon, and the part without noise with it."""
    settings = {arm.key: arm.settings for arm in report.arms}
    told: dict[str, tuple[str, ...]] = {}
    for sweep in report.sweep:
        points = [settings[point.arm] for point in sweep.points]
        names = [name for name in points[0] if len({point.get(name) for point in points}) > 1]
        told[sweep.method] = tuple(name for name in names if not name.endswith("noise_multiplier"))
    for moving in dict.fromkeys(told.values()):
        if moving:
            which, verb = ", ".join(map(plain, moving)), "follows" if len(moving) == 1 else "follow"
            methods = ", ".join(plain(method) for method in told if told[method] == moving)
            yield (
                f"{methods}: {which} {verb} "
                "epsilon, so what is left without noise is that of each epsilon's own settings."
            )


def _rows(comparison: Comparison) -> Iterator[tuple[Cell, ...]]:
    arm, gap = plain(comparison.arm), main_gap(comparison)
    if gap is not None and gap.a and gap.b:
        cells = _cells([split_gap(comparison, metric, gap) for metric in costs()])
        if cells:
            yield (arm, f"gap: {plain(gap.a)}, {plain(gap.b)}", *cells)
    for group in (*comparison.by_group, comparison.overall):
        cells = _cells([split_cost(comparison, group, metric) for metric in costs()])
        if cells:
            yield (arm, plain(group.group) if group.group else "all rows", *cells)


def _cells(splits: Sequence[CostSplit | None]) -> tuple[Quantity, ...]:
    """Three numbers for each cost, or none where nothing is split."""
    cells = [
        Quantity(estimate, scale_of(split.metric))
        for split in splits
        if split is not None
        for estimate in (split.total, split.still, split.noise)
    ]
    return tuple(cells) if len(cells) == 3 * len(splits) else ()
