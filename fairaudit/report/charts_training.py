"""Charts of the training itself, by group: loss and gradient norm by epoch, angle by step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from fairaudit.report.decomposition import Curve
from fairaudit.report.document import Cell, Chart, data_table
from fairaudit.report.model import Report
from fairaudit.report.panels import MOST_SERIES, Lines, Point, labels
from fairaudit.results.estimates import Interval

_MOST_PANELS = 8
_MOST_TABLE_ROWS = 1500

Change = Callable[[float], float]


def training_charts(report: Report) -> tuple[Chart | None, ...]:
    """What each step did to each group, then what came of it."""
    return angle_chart(report), loss_chart(report), norm_chart(report)


def loss_chart(report: Report) -> Chart | None:
    """Training loss of each group by epoch."""
    return _chart(
        report,
        "loss",
        Chart(
            name="training-loss",
            title="Training loss by group",
            reading="Mean over seeds, one panel for each method on the same scale. A group whose curve "
            "flattens high, or rises, is not learned.",
            alt="Training loss of each group by epoch, one panel for each method.",
            panels=(),
            table=data_table(("method", "epoch", "group", "loss (nats)"), ()),
        ),
        y_title="loss (nats)",
    )


def norm_chart(report: Report) -> Chart | None:
    """Gradient norm of each group by epoch."""
    return _chart(
        report,
        "gradient_norm",
        Chart(
            name="gradient-norm",
            title="Gradient norm by group",
            reading="Mean norm of a group's per-record gradients before clipping. The group with the longer "
            "gradients loses more to clipping.",
            alt="Mean gradient norm of each group by epoch, one panel for each method.",
            panels=(),
            table=data_table(("method", "epoch", "group", "gradient norm"), ()),
        ),
        y_title="gradient norm",
    )


def angle_chart(report: Report) -> Chart | None:
    """Angle between a group's gradient and what clipping left, by step."""
    return _chart(
        report,
        "cos_group_clipped",
        Chart(
            name="angle",
            title="Angle between a group's gradient and the clipped step",
            reading="At 0° a step of training moves straight down the group's loss; above 90° it moves up. "
            "The angle of the mean cosine over seeds.",
            alt="Angle in degrees between each group's gradient and the clipped gradient, by step of "
            "training, one panel for each method.",
            panels=(),
            table=data_table(("method", "step", "group", "angle (degrees)"), ()),
        ),
        y_title="angle (degrees)",
        change=_degrees,
        by_step=True,
    )


def _chart(
    report: Report,
    name: str,
    frame: Chart,
    *,
    y_title: str,
    change: Change = lambda value: value,
    by_step: bool = False,
) -> Chart | None:
    """``frame`` with the panels and the table of one reading; None where no arm has it."""
    per_unit = 1 if by_step or report.training is None else max(report.training.steps_per_epoch, 1)
    curves = {
        arm.key: curve
        for arm in report.arms  # in the plan's order, which the keys of a stored report no longer have
        for curve in report.diagnostics.arms.get(arm.key, ())
        if curve.name == name
    }
    drawn: dict[str, tuple[Point, ...]] = {}
    rows: list[tuple[Cell, ...]] = []
    for arm, curve in curves.items():
        names = labels(curve.columns)
        known = list(_known(curve, per_unit, change))
        rows += [(arm, x, group, value.value) for x, group, value in known]
        shown = set(curve.columns[:MOST_SERIES])
        drawn[arm] = tuple(Point(x, names[g], value) for x, g, value in known if g in shown)
    drawn = {arm: points for arm, points in list(drawn.items())[:_MOST_PANELS] if points}
    if not drawn:
        return None
    titles = labels(list(drawn))
    numbers = [point.number for points in drawn.values() for point in points]
    values = [end for number in numbers for end in (number.value, *(number.ends or ())) if end is not None]
    between = _range(values)
    x_title = "step" if by_step else "epoch"
    panels = tuple(
        Lines(titles[arm], x_title, y_title, points, between=between) for arm, points in drawn.items()
    )
    head = [column.title for column in frame.table.columns]
    return replace(frame, panels=panels, table=data_table(head, rows[:_MOST_TABLE_ROWS]))


def _known(curve: Curve, per_unit: int, change: Change) -> Iterator[tuple[float, str, Interval]]:
    """Step or epoch, group, and the value there with the interval of its mean over seeds."""
    for place, step in enumerate(curve.steps):
        x = step if per_unit == 1 else (step + 1) / per_unit  # a reading at step s comes after s + 1
        for column, group in enumerate(curve.columns):
            value = curve.values[place][column]
            ends = [rows[place][column] for rows in (curve.low, curve.high) if rows]
            known = sorted(change(end) for end in ends if end is not None)
            if value is not None:
                low, high = known if len(known) == 2 else (None, None)
                yield x, group, Interval(value=change(value), low=low, high=high)


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return low - margin, high + margin


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
