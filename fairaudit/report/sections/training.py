"""What training did to each group's gradients: curves, and the last reading of each."""

import math
from collections.abc import Callable, Iterator, Mapping

from fairaudit.report.decomposition import Curve
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Section,
    Table,
    Text,
    bare,
    data_table,
    figures,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.panels import MOST_SERIES, Lines, Point, labels
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Interval

_MOST_READINGS = 6
# reading -> head of its column, in the order of the columns
_HEADS = {
    "loss": "loss (nats)",
    "gradient_norm": "mean gradient norm of a record",
    "clipped": "clipped (share)",
    "scale": "mean scaling factor",
    "cos_group_batch": "cosine(group gradient, batch gradient)",
    "cos_group_clipped": "cosine(group gradient, clipped batch gradient)",
    "norm_group": "‖group gradient‖",
}
_MOST_PANELS = 8
_MOST_TABLE_ROWS = 1500


def section(report: Report) -> Section | None:
    """None where nothing was trained, or where another section says why a group pays."""
    if report.training is None or report.diagnostics.decomposition is not None:
        return None
    # In the plan's order, which the keys of a stored report no longer have.
    arms = {arm.key: report.diagnostics.arms.get(arm.key, ()) for arm in report.arms}
    blocks: tuple[Block, ...] = (Text("No diagnostics were recorded."),)
    if any(arms.values()):
        told = "Last readings, means over seeds."
        blocks = (Text(told), *figures(*training_charts(report)), _last_readings(arms))
    return Section("training", "Appendix: training, group by group", blocks)


def _last_readings(arms: Mapping[str, tuple[Curve, ...]]) -> Table:
    """Of each group, the first of them; those of whole batches are in the JSON."""
    readings: dict[tuple[str, str], dict[str, float | None]] = {}
    read: dict[str, None] = {}
    for arm, curves in arms.items():
        for curve in curves:
            if len(curve.columns) < 2 or not curve.values:
                continue
            read[curve.name] = None
            for group, value in zip(curve.columns, curve.values[-1], strict=True):
                readings.setdefault((arm, group), {})[curve.name] = value
    names = [name for name in _HEADS if name in read]
    names += [name for name in sorted(read) if name not in _HEADS]
    names = names[:_MOST_READINGS]
    titles = [f"#{_HEADS.get(name) or plain(name.replace('_', ' '))}" for name in names]
    rows: list[tuple[Cell, ...]] = []
    for (arm, group), values in readings.items():
        rows.append((plain(arm), plain(group), *(bare(values.get(name)) for name in names)))
    return table(("method", "group", *titles), rows, most=12)


def training_charts(report: Report) -> tuple[Chart | None, ...]:
    """What each step did to each group, then what came of it."""
    angle = _chart(
        report,
        "cos_group_clipped",
        "angle (degrees)",
        name="angle",
        title="Angle between a group's gradient and the clipped step",
        reading="At 0° a step of training moves straight down the group's loss; above 90° it "
        "moves up.",
        alt="Angle in degrees between each group's gradient and the clipped gradient, by step of "
        "training, one panel for each method.",
        change=_degrees,
        by_step=True,
    )
    loss = _chart(
        report,
        "loss",
        "loss (nats)",
        name="training-loss",
        title="Training loss by group",
        reading="Mean over seeds. A group whose curve flattens high, or rises, is not learned.",
        alt="Training loss of each group by epoch, one panel for each method.",
    )
    norm = _chart(
        report,
        "gradient_norm",
        "gradient norm",
        name="gradient-norm",
        title="Gradient norm by group",
        reading="Mean norm of a group's per-record gradients before clipping.",
        alt="Mean gradient norm of each group by epoch, one panel for each method.",
    )
    return angle, loss, norm


def _chart(
    report: Report,
    curve_name: str,
    y_title: str,
    *,
    name: str,
    title: str,
    reading: str,
    alt: str,
    change: Callable[[float], float] = float,
    by_step: bool = False,
) -> Chart | None:
    """One reading over training, a panel for each method; None where no arm has it."""
    steps_per_epoch = 1
    if report.training is not None and not by_step:
        steps_per_epoch = max(report.training.steps_per_epoch, 1)
    drawn: dict[str, list[Point]] = {}
    rows: list[tuple[Cell, ...]] = []
    for arm in report.arms:  # in the plan's order, which the keys of a stored report no longer have
        for curve in report.diagnostics.arms.get(arm.key, ()):
            if curve.name != curve_name:
                continue
            points = drawn.setdefault(arm.key, [])
            for x, group, label, number in _readings(curve, steps_per_epoch, change):
                rows.append((arm.key, x, group, number.value))
                if label:
                    points.append(Point(x, label, number))
    shown = [key for key, points in drawn.items() if points][:_MOST_PANELS]
    if not shown:
        return None
    ends: list[float] = []
    for key in shown:
        for point in drawn[key]:
            ends += point.number.ends or (point.number.value or 0.0,)
    margin = 0.05 * (max(ends) - min(ends)) or 0.05 * abs(max(ends)) or 0.5
    between = min(ends) - margin, max(ends) + margin
    x_title = "step" if by_step else "epoch"
    titles = labels(shown)
    panels = [Lines(titles[k], x_title, y_title, tuple(drawn[k]), between) for k in shown]
    numbers = data_table(("method", x_title, "group", y_title), rows[:_MOST_TABLE_ROWS])
    return Chart(name, title, reading, alt, tuple(panels), numbers)


def _readings(
    curve: Curve, steps_per_epoch: int, change: Callable[[float], float]
) -> Iterator[tuple[float, str, str, Interval]]:
    """Where it stands, its group, the group's label where it is drawn, and mean with interval."""
    names = labels(curve.columns[:MOST_SERIES])
    for place, step in enumerate(curve.steps):
        # a reading at step s comes after s + 1
        x = step if steps_per_epoch == 1 else (step + 1) / steps_per_epoch
        for column, group in enumerate(curve.columns):
            value = curve.values[place][column]
            if value is None:
                continue
            ends = [side[place][column] for side in (curve.low, curve.high) if side]
            low, high = None, None
            if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
                low, high = sorted((change(ends[0]), change(ends[1])))
            label = names.get(group, "")
            yield x, group, label, Interval(value=change(value), low=low, high=high)


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
