"""Charts of what was read of a training's steps: misalignment, and curves over training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from fairaudit.errors import numbered
from fairaudit.metrics.registry import METRICS, MISALIGNMENT
from fairaudit.report.misalignment import StepReadings
from fairaudit.report.model import Report
from fairaudit.report.panels import MOST_SERIES, Bar, Chart, Line, Panel, Trend, labels
from fairaudit.report.safe_names import GROUP_LIMIT, group_text, plain
from fairaudit.report.types.decomposition import (
    BATCH_NORM,
    CLIPPINGS,
    ArmCauses,
    BoundRecord,
    Curve,
)
from fairaudit.report.types.facts import GroupingFacts
from fairaudit.results.estimates import interval_of

_METHOD_LIMIT = 60  # characters of a name in a legend
_THOUSANDTHS = 1e3  # of a nat, in one nat
# Name of a curve -> the title of its panel, and what its numbers are multiplied by.
_BY_EPOCH = {
    "loss": ("loss (nats)", 1.0),
    "gradient_norm": ("gradient norm", 1.0),
    "clipped": ("clipped (% of records)", 100.0),
    "group_bound": ("clipping bound of the group", 1.0),
}
_BY_CHECKPOINT = {
    "eta_lambda": ("step times largest eigenvalue", 1.0),
    "excess_norm": ("clipping bias (gradient norm)", 1.0),
    "noise_norm": ("noise on the group's mean (norm)", 1.0),
    "hessian_trace": ("Hessian trace", 1.0),
    "clip": ("clipping (thousandths of a nat)", _THOUSANDTHS),
    "direction_star": ("direction, turned first (thousandths of a nat)", _THOUSANDTHS),
    "magnitude_star": ("magnitude, turned first (thousandths of a nat)", _THOUSANDTHS),
}
# Key of ``BoundRecord.curves`` -> its name in a legend.
_BOUND_LABELS = {"bound": "bound", "curved": "bound with eigenvalues", "truth": "truth"}
_TERMS = ("direction", "magnitude", "step_noise")  # of a step, read at the checkpoints


def misalignment_chart(report: Report) -> Chart | None:
    """Misalignment in degrees by group and method, with intervals: a panel for each grouping.

    None where no steps were read.
    """
    read = [readings for readings in report.diagnostics.steps if not readings.reason]
    methods = labels([readings.arm for readings in read], _METHOD_LIMIT)
    series = tuple(methods.values())[:MOST_SERIES]
    panels = []
    for grouping in report.data.groupings:
        compared = [c for c in report.costs if c.grouping == grouping.name]
        groups = [group.group for comparison in compared for group in comparison.by_group]
        rows = labels(groups, GROUP_LIMIT, text_of=partial(group_text, grouping.name))
        bars = []
        for comparison in compared:
            method = methods.get(comparison.arm, "")
            if method not in series:
                continue
            for group in comparison.by_group:
                number = interval_of(group.estimates.get(MISALIGNMENT))
                if number.value is not None:
                    bars.append(Bar(rows[group.group], method, number))
        if bars:
            panels.append(Panel(f"by {plain(grouping.name)} (degrees)", "degrees", tuple(bars)))
    if not panels:
        return None
    return Chart(
        name="misalignment",
        title="Gradient misalignment by group",
        reading="Right of the dotted line clipping turns steps away from the group, left of it "
        "towards the group. Whiskers are 95 % intervals over seeds and training rows.",
        alt="Degrees by which clipping turns steps away from each group, with 95 % intervals.",
        series=series,
        panels=tuple(panels),
    )


def misalignment_trends(report: Report) -> Iterator[Chart]:
    """Misalignment at the checkpoints: a chart for each grouping, a panel for each method.

    A panel has a line for each group, up to ``MOST_SERIES`` of them.
    """
    for number, grouping in enumerate(report.data.groupings, start=1):
        legend = _group_labels(grouping)
        series = tuple(legend.values())[:MOST_SERIES]
        panels = []
        for readings in report.diagnostics.steps:
            if readings.grouping == grouping.name:
                lines = _reading_lines(readings, MISALIGNMENT, legend, series)
                if lines:
                    panels.append(Trend(f"{plain(readings.arm)} (degrees)", "step", lines))
        if panels:
            yield Chart(
                name=f"misalignment-over-training-{number}",
                title=f"Misalignment over training, by {plain(grouping.name)}",
                reading=f"Means over seeds at the steps that were read.{_left_out(legend, series)}",
                alt=f"Misalignment over training by {plain(grouping.name)}.",
                series=series,
                panels=tuple(panels),
            )


def curve_charts(report: Report) -> Iterator[Chart]:
    """How the training of each method went, by the first grouping: a chart for each method.

    Panels of loss, gradient norm, clipped share and the groups' clipping bounds by epoch, then of
    direction, magnitude and noise of a step at the checkpoints. A method that lacks a curve lacks
    the panel.
    """
    grouping = report.data.groupings[0]
    legend = _group_labels(grouping)
    series = tuple(legend.values())[:MOST_SERIES]
    steps = {s.arm: s for s in report.diagnostics.steps if s.grouping == grouping.name}
    for number, arm in enumerate(report.arms, start=1):
        curves = report.diagnostics.arms.get(arm.key, ())
        panels = list(_curve_trends(curves, _BY_EPOCH, legend, series))
        if arm.key in steps:
            for term in _TERMS:
                lines = _reading_lines(steps[arm.key], term, legend, series, _THOUSANDTHS)
                if lines:
                    title = f"{METRICS[term].title} of a step (thousandths of a nat)"
                    panels.append(Trend(title, "step", lines))
        if panels:
            yield Chart(
                name=f"curves-{number}",
                title=f"{plain(arm.key)} over training",
                reading=f"{plain(arm.key)}: means over seeds, on training rows.",
                alt=f"{plain(arm.key)} over training.",
                series=series,
                panels=tuple(panels),
            )


def cause_charts(report: Report) -> Iterator[Chart]:
    """What ``--diagnostics full`` read at the checkpoints: up to three charts for each method.

    Readings by group (the step's length times the largest eigenvalue, clipping bias and noise, the
    terms of the split that turns first); the length of the batch's gradient; bounds with the truth.
    """
    decomposition = report.diagnostics.decomposition
    if decomposition is None:
        return
    for number, arm in enumerate(report.arms, start=1):
        causes = decomposition.arms.get(arm.key)
        if causes is not None:
            for chart in (
                _checkpoint_chart(report, arm.key, number, causes),
                _batch_chart(arm.key, number, causes),
                _bound_chart(arm.key, number, causes),
            ):
                if chart is not None:
                    yield chart


def _checkpoint_chart(report: Report, arm: str, number: int, causes: ArmCauses) -> Chart | None:
    """Readings of an arm's checkpoints by group; None where there are none.

    ``number``: The arm's place among those of the report, which the chart's name ends in.
    """
    legend = _group_labels(report.data.groupings[0])
    series = tuple(legend.values())[:MOST_SERIES]
    panels = tuple(_curve_trends(causes.curves, _BY_CHECKPOINT, legend, series))
    if not panels:
        return None
    return Chart(
        name=f"causes-{number}",
        title=f"{plain(arm)}: readings at the checkpoints",
        reading=f"{plain(arm)}: means over seeds. The bounds ask for a step "
        "times largest eigenvalue of at most 1.",
        alt=f"Readings of {plain(arm)} at the checkpoints.",
        series=series,
        panels=panels,
    )


def _batch_chart(arm: str, number: int, causes: ArmCauses) -> Chart | None:
    """The mean length of an arm's batch gradient at the checkpoints, before and after clipping.

    None where no such curve was read.
    """
    lines: list[Line] = []
    for curve in causes.curves:
        if curve.name == BATCH_NORM:  # its columns are CLIPPINGS, the series of the chart
            for column, label in enumerate(curve.columns):
                values = [by_column[column] for by_column in curve.values]
                lines.append(_line(label, curve.steps, values))
    if not lines:
        return None
    return Chart(
        name=f"batches-{number}",
        title=f"{plain(arm)}: length of the batch's gradient",
        reading=f"{plain(arm)}: means over batches and seeds.",
        alt=f"Length of the batch's gradient under {plain(arm)}.",
        series=CLIPPINGS,
        panels=(Trend("norm of the batch's gradient", "step", tuple(lines)),),
    )


def _bound_chart(arm: str, number: int, causes: ArmCauses) -> Chart | None:
    """Each bound of an arm with the truth, at the checkpoints; None where no bound was read."""
    panels = tuple(_bound_trend(bound) for bound in causes.bounds if bound.steps)
    if not panels:
        return None
    return Chart(
        name=f"bounds-{number}",
        title=f"{plain(arm)}: bounds beside the truth",
        reading=f"{plain(arm)}: means over seeds. A bound that holds is nowhere above the truth.",
        alt=f"Bounds of {plain(arm)} beside the truth over training.",
        series=tuple(_BOUND_LABELS.values()),
        panels=panels,
    )


def _bound_trend(bound: BoundRecord) -> Trend:
    """A panel with three lines over training: a bound, its form with eigenvalues, and the truth."""
    lines = []
    for name, label in _BOUND_LABELS.items():
        values = bound.curves.get(name, ())
        # A bound as its paper prints it has no form with eigenvalues: that line has no points.
        steps = bound.steps[: len(values)]
        lines.append(_line(label, steps, values, _THOUSANDTHS))
    between = f"{plain(bound.a, 20)} minus {plain(bound.b, 20)}"
    return Trend(f"{bound.name}, {between} (thousandths of a nat)", "step", tuple(lines))


def _curve_trends(
    curves: Iterable[Curve],
    titles: Mapping[str, tuple[str, float]],
    legend: Mapping[str, str],
    series: Sequence[str],
) -> Iterator[Trend]:
    """A panel for each curve that has a line for each group, in the order of ``titles``.

    Args:
        curves: Curves of one arm.
        titles: Name of a curve -> title of its panel, and what its numbers are multiplied by.
        legend: Name of a group -> what the legend calls it.
        series: The labels that have a colour; other groups have no line.
    """
    by_name = {curve.name: curve for curve in curves}
    for name, (title, factor) in titles.items():
        curve = by_name.get(name)
        if curve is None or curve.columns == ("",):  # one number for whole batches
            continue
        lines = []
        for column, group in enumerate(curve.columns):
            label = legend.get(group, "")
            if label in series:
                values = [by_group[column] for by_group in curve.values]
                lines.append(_line(label, curve.steps, values, factor))
        if lines:
            yield Trend(title, "step", tuple(lines))


def _reading_lines(
    readings: StepReadings,
    name: str,
    legend: Mapping[str, str],
    series: Sequence[str],
    factor: float = 1.0,
) -> tuple[Line, ...]:
    """A line for each group of one reading at the checkpoints; () where no group has a value.

    Args:
        readings: Of one arm, by one grouping.
        name: Of the reading, as ``misalignment``.
        legend, series, factor: As of :func:`_curve_trends`.
    """
    lines = []
    for group in readings.groups:
        label = legend.get(group.group, "")
        values = group.curves.get(name, ())
        if label in series and any(value is not None for value in values):
            lines.append(_line(label, readings.steps, values, factor))
    return tuple(lines)


def _line(
    label: str, steps: Sequence[int], values: Sequence[float | None], factor: float = 1.0
) -> Line:
    """A line through a value at each step, times ``factor``; it has a hole where one is None."""
    scaled = [None if value is None else factor * value for value in values]
    return Line(label, tuple(zip(steps, scaled, strict=True)))


def _group_labels(grouping: GroupingFacts) -> dict[str, str]:
    """Name of a group -> what a legend calls it; no two groups share a label."""
    names = [group.name for group in grouping.groups]
    return labels(names, text_of=partial(group_text, grouping.name))


def _left_out(legend: Mapping[str, str], series: Sequence[str]) -> str:
    """How many groups have no line, in words that begin with a blank; "" where all have one."""
    more = len(legend) - len(series)
    if more <= 0:
        return ""
    return f" {numbered(more, 'more group is', 'more groups are')} in the table."
