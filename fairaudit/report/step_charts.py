"""Charts of what was read of a training's steps: misalignment, and curves over training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairaudit.metrics.registry import METRICS, MISALIGNMENT
from fairaudit.report.misalignment import StepReadings
from fairaudit.report.model import Report
from fairaudit.report.panels import MOST_SERIES, Bar, Chart, Line, Panel, Trend, labels
from fairaudit.report.safe_names import group_text, plain
from fairaudit.report.types.decomposition import BATCH_NORM, CLIPPINGS, BoundRecord, Curve
from fairaudit.report.types.facts import GroupingFacts
from fairaudit.results.estimates import interval_of

_METHOD_LIMIT = 60  # characters of a name in a legend
_THOUSANDTHS = 1e3
# What is read by epoch -> title of its curve, factor.
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
# Curve of a bound -> its name in a legend.
_OF_BOUND = {"bound": "bound", "curved": "bound with eigenvalues", "truth": "truth"}
_TERMS = ("direction", "magnitude", "step_noise")  # of a step, read at the checkpoints


def misalignment_chart(report: Report) -> Chart | None:
    """Degrees by group and method with intervals, a panel for each grouping; None without any."""
    read = [one for one in report.diagnostics.steps if not one.reason]
    methods = labels([one.arm for one in read], _METHOD_LIMIT)
    series = tuple(methods.values())[:MOST_SERIES]
    panels = []
    for grouping in report.data.groupings:
        bars = []
        for comparison in report.costs:
            name = methods.get(comparison.arm, "")
            if comparison.grouping != grouping.name or name not in series:
                continue
            for group in comparison.by_group:
                number = interval_of(group.estimates.get(MISALIGNMENT))
                if number.value is not None:
                    bars.append(Bar(group_text(grouping.name, group.group), name, number))
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
    """Degrees at the checkpoints, a line for each group; a chart for each grouping."""
    for number, grouping in enumerate(report.data.groupings, start=1):
        read = [one for one in report.diagnostics.steps if one.grouping == grouping.name]
        names = _labels_of(grouping)
        series = tuple(names.values())[:MOST_SERIES]
        panels = []
        for one in read:
            lines = _lines_of(one, MISALIGNMENT, names, series)
            if lines:
                panels.append(Trend(f"{plain(one.arm)} (degrees)", "step", lines))
        if panels:
            yield Chart(
                name=f"misalignment-over-training-{number}",
                title=f"Misalignment over training, by {plain(grouping.name)}",
                reading=f"Means over seeds at the steps that were read.{_left_out(names, series)}",
                alt=f"Misalignment over training by {plain(grouping.name)}.",
                series=series,
                panels=tuple(panels),
            )


def curve_charts(report: Report) -> Iterator[Chart]:
    """Curves of each method by the first grouping, for who wants to see how a training went.

    Loss, gradient norm and clipped share by epoch, then direction, magnitude and noise of a step at
    the checkpoints.
    """
    grouping = report.data.groupings[0]
    names = _labels_of(grouping)
    series = tuple(names.values())[:MOST_SERIES]
    steps = {s.arm: s for s in report.diagnostics.steps if s.grouping == grouping.name}
    for number, arm in enumerate(report.arms, start=1):
        panels = list(_epoch_trends(report.diagnostics.arms.get(arm.key, ()), names, series))
        one = steps.get(arm.key)
        for term in _TERMS if one is not None else ():
            lines = _lines_of(one, term, names, series, _THOUSANDTHS) if one is not None else ()
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
    """What ``--diagnostics full`` read at the checkpoints of each method, beside the terms.

    By group: the step's length times the largest eigenvalue, clipping bias and noise, the terms of
    the split that turns first; then each bound beside the truth.
    """
    decomposition = report.diagnostics.decomposition
    names = _labels_of(report.data.groupings[0])
    series = tuple(names.values())[:MOST_SERIES]
    for number, arm in enumerate(report.arms, start=1):
        causes = None if decomposition is None else decomposition.arms.get(arm.key)
        if causes is None:
            continue
        panels = list(_trends(causes.curves, _BY_CHECKPOINT, names, series))
        if panels:
            yield Chart(
                name=f"causes-{number}",
                title=f"{plain(arm.key)}: readings at the checkpoints",
                reading=f"{plain(arm.key)}: means over seeds. The bounds ask for a step "
                "times largest eigenvalue of at most 1.",
                alt=f"Readings of {plain(arm.key)} at the checkpoints.",
                series=series,
                panels=tuple(panels),
            )
        lengths = _named_lines(causes.curves, BATCH_NORM)
        if lengths:
            yield Chart(
                name=f"batches-{number}",
                title=f"{plain(arm.key)}: length of the batch's gradient",
                reading=f"{plain(arm.key)}: means over batches and seeds.",
                alt=f"Length of the batch's gradient under {plain(arm.key)}.",
                series=CLIPPINGS,
                panels=(Trend("norm of the batch's gradient", "step", lengths),),
            )
        panels = [_bound_trend(bound) for bound in causes.bounds if bound.steps]
        if panels:
            yield Chart(
                name=f"bounds-{number}",
                title=f"{plain(arm.key)}: bounds beside the truth",
                reading=f"{plain(arm.key)}: means over seeds. A bound that holds is nowhere above "
                "the truth.",
                alt=f"Bounds of {plain(arm.key)} beside the truth over training.",
                series=tuple(_OF_BOUND.values()),
                panels=tuple(panels),
            )


def _named_lines(curves: Iterable[Curve], name: str) -> tuple[Line, ...]:
    """A line for each column of the curve of that name; () without it."""
    for curve in curves:
        if curve.name == name:
            columns = zip(*curve.values, strict=True)
            return tuple(
                Line(title, tuple(zip(curve.steps, values, strict=True)))
                for title, values in zip(curve.columns, columns, strict=True)
            )
    return ()


def _bound_trend(bound: BoundRecord) -> Trend:
    """A bound and what it bounds, over training."""
    lines = []
    for name, label in _OF_BOUND.items():
        values = bound.curves.get(name, ())
        points = zip(bound.steps, values, strict=False)
        lines.append(Line(label, tuple((s, _scaled(v, _THOUSANDTHS)) for s, v in points)))
    between = f"{plain(bound.a, 20)} minus {plain(bound.b, 20)}"
    return Trend(f"{bound.name}, {between} (thousandths of a nat)", "step", tuple(lines))


def _epoch_trends(
    curves: Iterable[Curve], names: dict[str, str], series: Sequence[str]
) -> Iterator[Trend]:
    """The curves by epoch of one method, those that have a line for each group."""
    return _trends(curves, _BY_EPOCH, names, series)


def _trends(
    curves: Iterable[Curve],
    titles: Mapping[str, tuple[str, float]],
    names: dict[str, str],
    series: Sequence[str],
) -> Iterator[Trend]:
    """Curves that have a line for each group, in the order of their titles."""
    by_name = {curve.name: curve for curve in curves}
    for name, (title, factor) in titles.items():
        curve = by_name.get(name)
        if curve is None or curve.columns == ("",):
            continue
        lines = []
        for place, column in enumerate(curve.columns):
            label = names.get(column, "")
            values = [row[place] for row in curve.values]
            points = zip(curve.steps, values, strict=True)
            if label in series:
                lines.append(Line(label, tuple((s, _scaled(v, factor)) for s, v in points)))
        if lines:
            yield Trend(title, "step", tuple(lines))


def _lines_of(
    read: StepReadings, name: str, names: dict[str, str], series: Sequence[str], factor: float = 1.0
) -> tuple[Line, ...]:
    """The lines of a reading at the checkpoints, of groups that have a colour; () without any."""
    lines = []
    for group in read.groups:
        label = names.get(group.group, "")
        values = group.curves.get(name, ())
        if label in series and any(value is not None for value in values):
            points = zip(read.steps, values, strict=True)
            lines.append(Line(label, tuple((s, _scaled(v, factor)) for s, v in points)))
    return tuple(lines)


def _labels_of(grouping: GroupingFacts) -> dict[str, str]:
    """Name of a group -> what a legend calls it."""
    shown = labels([group_text(grouping.name, group.name) for group in grouping.groups])
    return dict(zip((group.name for group in grouping.groups), shown.values(), strict=False))


def _scaled(value: float | None, factor: float) -> float | None:
    """The value in another unit; None where it is not known."""
    return None if value is None else factor * value


def _left_out(names: dict[str, str], series: Sequence[str]) -> str:
    """How many groups have no line, in words that begin with a blank; "" where all have one."""
    more = len(names) - len(series)
    return f" {more} more groups are in the table." if more > 0 else ""
