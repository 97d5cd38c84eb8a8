"""Costs and gaps in their parts: step, what else the method does, noise."""

from fairaudit.metrics.registry import METRICS, NOISE, STEP, beside_constant
from fairaudit.report.document import Cell, Quantity, Section, Text, table
from fairaudit.report.main_gap import main_gap, scale_of
from fairaudit.report.model import Report
from fairaudit.report.parts import Split, split_cost, split_gap
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import NOTHING

TOLD = (
    "Trained again without noise, and with plain steps of the same length; the parts sum to the "
    "cost. Clipping stands for whatever a method does without noise; where it has no part of the "
    "step, that is in it."
)
WHERE_DETECTED = "Only methods of which a cost was detected were split (--twins always: all)."


def section(report: Report) -> Section | None:
    """None where no comparison is split."""
    rows: list[tuple[Cell, ...]] = []
    for comparison in report.costs:
        arm, gap = plain(comparison.arm), main_gap(comparison)
        if gap is not None and gap.a and gap.b:
            splits = [split_gap(comparison, metric, gap) for metric in beside_constant()]
            if None not in splits:
                rows.append((arm, f"gap: {plain(gap.a)}, {plain(gap.b)}", *_cells(splits)))
        for group in (*comparison.by_group, comparison.overall):
            splits = [split_cost(comparison, group, metric) for metric in beside_constant()]
            if None not in splits:
                rows.append(
                    (
                        arm,
                        plain(group.group) or "all rows",
                        *_cells(splits),
                    )
                )
    if not rows:
        return None
    head = ["method", "of"]
    for cost in beside_constant():
        title, unit = METRICS[cost].title, METRICS[cost].counted
        head += [f"#{title} from {part} ({unit})" for part in ("step", "clipping", "noise")]
    told = TOLD
    if report.config["twins"].value == "auto":
        told = f"{TOLD} {WHERE_DETECTED}"
    return Section(
        "parts",
        "Step, clipping or noise",
        (
            Text(told),
            table(
                head,
                rows,
                most=16,
            ),
        ),
    )


def _cells(splits: list[Split | None]) -> list[Quantity]:
    """Three numbers for each cost."""
    cells = []
    for split in splits:
        if split is not None:
            scale = scale_of(split.metric)
            numbers = {"step": NOTHING}
            for part in split.parts:
                place = part.name if part.name in (STEP, NOISE) else "clipping"
                numbers[place] = part.number
            cells += [Quantity(numbers[place], scale) for place in ("step", "clipping", "noise")]
    return cells
