"""What training did to each group's gradients: curves, and the last reading of each."""

import math
from collections.abc import Callable, Mapping

from fairaudit.report.decomposition import Curve
from fairaudit.report.document import (
    Block,
    Cell,
    Chart,
    Rank,
    Section,
    Text,
    bare,
    data_table,
    figures,
    table,
)
from fairaudit.report.model import Report
from fairaudit.report.panels import MOST_SERIES, Lines, Point, labels
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import NOTHING, Interval

_MOST_READINGS = 8
_ORDER = (
    *("loss", "gradient_norm", "clipped", "scale", "cos_group_batch", "cos_group_clipped", "norm_group"),
    *("cos_batch_clipped", "norm_batch", "norm_clipped", "threshold"),
)
_TOLD = (
    "The last readings of each (the last window of a long curve), mean over seeds. Where a group's cosine "
    "falls from the batch gradient to the clipped one, clipping turns training away from the group."
)
# reading -> head of its column
_HEADS = {
    "loss": "loss (nats)",
    "gradient_norm": "mean gradient norm of a record",
    "clipped": "clipped (share)",
    "scale": "mean scaling factor",
    "cos_group_batch": "cosine(group gradient, batch gradient)",
    "cos_group_clipped": "cosine(group gradient, clipped batch gradient)",
    "cos_batch_clipped": "cosine(batch gradient, clipped batch gradient)",
    "norm_group": "‖group gradient‖",
    "norm_batch": "‖batch gradient‖",
    "norm_clipped": "‖clipped batch gradient‖",
}
_MOST_PANELS = 8
_MOST_TABLE_ROWS = 1500
# Name, title, how to read it, what it shows.
_LOSS = (
    *("training-loss", "Training loss by group"),
    "Mean over seeds, one panel for each method on the same scale. A group whose curve flattens high, or "
    "rises, is not learned.",
    "Training loss of each group by epoch, one panel for each method.",
)
_NORM = (
    *("gradient-norm", "Gradient norm by group"),
    "Mean norm of a group's per-record gradients before clipping. The group with the longer gradients loses "
    "more to clipping.",
    "Mean gradient norm of each group by epoch, one panel for each method.",
)
_ANGLE = (
    *("angle", "Angle between a group's gradient and the clipped step"),
    "At 0° a step of training moves straight down the group's loss; above 90° it moves up. The angle of the "
    "mean cosine over seeds.",
    "Angle in degrees between each group's gradient and the clipped gradient, by step of training, one panel "
    "for each method.",
)


def section(report: Report) -> Section | None:
    """None where nothing was trained, or where another section says why a group pays."""
    if report.training is None or report.diagnostics.decomposition is not None:
        return None
    arms = {arm.key: report.diagnostics.arms.get(arm.key, ()) for arm in report.arms}  # in the plan's order
    arms = {key: curves for key, curves in arms.items() if curves}
    blocks: list[Block] = [Text("No diagnostics were recorded.")]
    if arms:
        blocks = [Text(_TOLD), *figures(*training_charts(report)), *_tables(arms)]
    return Section("training", "Appendix: training, group by group", Rank.APPENDIX, tuple(blocks))


def _tables(arms: Mapping[str, tuple[Curve, ...]]) -> list[Block]:
    grouped, whole = (_names(arms, by_group=by_group) for by_group in (True, False))
    by_group: list[tuple[Cell, ...]] = []
    by_arm: list[tuple[Cell, ...]] = []
    for arm, curves in arms.items():
        last = {c.name: dict(zip(c.columns, c.values[-1], strict=True)) for c in curves if c.values}
        several = {name: read for name, read in last.items() if len(read) > 1}
        for group in next(iter(several.values()), {}):
            read = (bare(several.get(name, {}).get(group)) for name in grouped)
            by_group.append((plain(arm), plain(group), *read))
        single = {name: next(iter(read.values())) for name, read in last.items() if len(read) == 1}
        by_arm.append((plain(arm), *(bare(single.get(name)) for name in whole)))
    tables: list[Block] = [table(("method", "group", *_heads(grouped)), by_group, most=12)]
    return [*tables, table(("method", *_heads(whole)), by_arm, most=8)] if whole else tables


def _names(arms: Mapping[str, tuple[Curve, ...]], *, by_group: bool) -> list[str]:
    found: dict[str, None] = {}
    for curves in arms.values():
        found.update({c.name: None for c in curves if (len(c.columns) > 1) == by_group})
    known = [name for name in _ORDER if name in found]
    return [*known, *(name for name in found if name not in _ORDER)][:_MOST_READINGS]


def _heads(names: list[str]) -> list[str]:
    return [f"#{_HEADS.get(name) or plain(name.replace('_', ' '))}" for name in names]


def training_charts(report: Report) -> tuple[Chart | None, ...]:
    """What each step did to each group, then what came of it."""
    return (
        _chart(report, "cos_group_clipped", "angle (degrees)", _ANGLE, change=_degrees, by_step=True),
        _chart(report, "loss", "loss (nats)", _LOSS),
        _chart(report, "gradient_norm", "gradient norm", _NORM),
    )


def _chart(
    report: Report,
    reading: str,
    y_title: str,
    words: tuple[str, str, str, str],
    *,
    change: Callable[[float], float] = lambda value: value,
    by_step: bool = False,
) -> Chart | None:
    """One reading over training, a panel for each method; None where no arm has it."""
    per_unit = 1 if by_step or report.training is None else max(report.training.steps_per_epoch, 1)
    curves = {
        arm.key: curve
        for arm in report.arms  # in the plan's order, which the keys of a stored report no longer have
        for curve in report.diagnostics.arms.get(arm.key, ())
        if curve.name == reading
    }
    drawn: dict[str, list[Point]] = {}
    rows: list[tuple[Cell, ...]] = []
    for arm, curve in curves.items():
        names, drawn[arm] = labels(curve.columns), []
        for place, step in enumerate(curve.steps):
            x = step if per_unit == 1 else (step + 1) / per_unit  # a reading at step s comes after s + 1
            for column, group in enumerate(curve.columns):
                number = _number(curve, place, column, change)
                if number.value is not None:
                    rows.append((arm, x, group, number.value))
                    if column < MOST_SERIES:
                        drawn[arm].append(Point(x, names[group], number))
    drawn = {arm: points for arm, points in list(drawn.items())[:_MOST_PANELS] if points}
    if not drawn:
        return None
    titles = labels(list(drawn))
    numbers = [point.number for points in drawn.values() for point in points]
    values = [end for number in numbers for end in (number.value, *(number.ends or ())) if end is not None]
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    between, x_title = (low - margin, high + margin), "step" if by_step else "epoch"
    panels = tuple(
        Lines(titles[arm], x_title, y_title, tuple(points), between=between) for arm, points in drawn.items()
    )
    numbers_below = data_table(("method", x_title, "group", y_title), rows[:_MOST_TABLE_ROWS])
    return Chart(*words, panels, numbers_below)


def _number(curve: Curve, place: int, column: int, change: Callable[[float], float]) -> Interval:
    """The value there with the interval of its mean over seeds."""
    value = curve.values[place][column]
    ends = [rows[place][column] for rows in (curve.low, curve.high) if rows]
    known = sorted(change(end) for end in ends if end is not None)
    low, high = known if len(known) == 2 else (None, None)
    return NOTHING if value is None else Interval(value=change(value), low=low, high=high)


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
