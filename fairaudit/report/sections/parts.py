"""Costs and gaps in their parts: what is there without noise, what the noise adds, what would help."""

from collections.abc import Iterator, Sequence

from fairaudit.metrics.metric_names import COSTS
from fairaudit.report.document import Block, Cell, Quantity, Rank, Section, Text, bullets, table
from fairaudit.report.main_gap import main_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.parts import CostSplit, part_sentences, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison


def section(report: Report) -> Section | None:
    """None where no comparison is split."""
    rows = [row for comparison in report.costs for row in _rows(comparison)]
    sentences = [plain(sentence, 600) for sentence in part_sentences(report)]
    is_told = report.summary is not None and bool(report.summary.methods)  # the summary says it, too
    brief = () if is_told else tuple(Text(sentence) for sentence in sentences)
    if not rows:
        return None
    costs = [
        f"#{title}{part} ({unit})"
        for title, unit in (("cost", "points"), ("excess risk", "nats"))
        for part in ("", " without noise", " from noise")
    ]
    blocks: tuple[Block, ...] = (
        Text(
            "Every private training was repeated without noise, all else equal. Less noise alone does not "
            "remove the cost without noise; the cost from noise falls as epsilon grows."
        ),
        *bullets([*(sentences or ["No gap is detected that could be taken apart."]), *_following(report)]),
        table(("method", "of", *costs), rows, most=16),
    )
    return Section("parts", "Clipping or noise", Rank.SECOND, blocks, brief)


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
        cells = _cells([split_gap(comparison, metric, gap) for metric in COSTS])
        if cells:
            yield (arm, f"gap: {plain(gap.a)}, {plain(gap.b)}", *cells)
    for group in (*comparison.by_group, comparison.overall):
        cells = _cells([split_cost(comparison, group, metric) for metric in COSTS])
        if cells:
            yield (arm, plain(group.group) if group.group else "all rows", *cells)


def _cells(splits: Sequence[CostSplit | None]) -> tuple[Quantity, ...]:
    """Six numbers, or none where nothing is split."""
    cells = [
        Quantity(estimate, scale_of(split.metric))
        for split in splits
        if split is not None
        for estimate in (split.total, split.still, split.noise)
    ]
    return tuple(cells) if len(cells) == 3 * len(splits) else ()
