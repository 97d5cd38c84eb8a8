"""Chart -> Vega-Lite. No mark relies on colour alone: series differ in shape as well.

A chart has panels. A panel of dots with whiskers has a row, a band of the vertical axis, for each
group, and a colour and shape for each series, as a method; a trend has a line for each series.
"""

from collections.abc import Mapping
from typing import TypeAlias

from fairaudit.report.panels import Bar, Chart, Panel, Trend

Spec: TypeAlias = dict[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier; nothing is fetched
# After Okabe and Ito 2008; each is at least three times as dark as a white page.
PALETTE = ("#0072B2", "#C95700", "#008763", "#B85C8E", "#7A52A8", "#946A00", "#757575")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
MARKS = "●■▲◆✚▼▶"  # which look like these shapes in text
# Unit -> how much an axis spans at least, so that next to nothing does not look like much.
LEAST_WIDTH = {"points": 2.0, "nats": 0.02, "degrees": 2.0}
# A line's dashes by series: lengths in pixels of stroke and gap in turn; () is a solid line.
DASHES = ((), (6, 3), (2, 2), (8, 3, 2, 3), (4, 2), (1, 3), (10, 4))

_LANE, _ROW = 18, 30  # pixels of height: of a further series in a row, of a row of one series
_LABEL_WIDTH = 140
_FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_PAGE_WIDTH = 340
_TREND_HEIGHT = 130
_DOTTED = 12  # points of a line up to which each is marked
_FILE_WIDTH, _FILE_INK = 440, "#222222"
_FILE_FONT = "DejaVu Sans, Liberation Sans, Arial, sans-serif"


def _line_at_zero(channel: str) -> Spec:
    """A dotted line at zero of the axis ``x`` (an upright line) or ``y`` (a level one)."""
    return {
        "data": {"values": [{"at": 0.0}]},
        "mark": {"type": "rule", "strokeDash": [2, 2], "opacity": 0.7, "aria": False},
        "encoding": {channel: {"field": "at", "type": "quantitative"}},
    }


def page_spec(chart: Chart, panel: Panel | Trend) -> Spec:
    """One panel as Vega-Lite for a web page, in the colour of its text."""
    return {
        "$schema": SCHEMA,
        "description": panel_alt(chart, panel),
        "width": _PAGE_WIDTH,
        "autosize": {"type": "fit-x", "contains": "padding"},  # the width includes labels
        **_drawn(chart, panel, legend=None),
        "config": _theme("currentColor", _FONT),
    }


def panel_alt(chart: Chart, panel: Panel | Trend) -> str:
    """What a reader who cannot see one drawing of a chart should know."""
    return f"{chart.alt} {panel.title}"


def file_spec(chart: Chart) -> Spec:
    """A whole chart as Vega-Lite for a picture file: its panels in two columns, dark on white."""
    legend: Spec | None = None
    if len(chart.series) > 1:
        legend = {"title": None, "orient": "top", "symbolOpacity": 1, "columnPadding": 14}
    parts = [
        {"title": panel.title, "width": _FILE_WIDTH, **_drawn(chart, panel, legend=legend)}
        for panel in chart.panels
    ]
    return {
        "$schema": SCHEMA,
        "description": chart.alt,
        "title": {"text": chart.title, "fontSize": 15, "offset": 12},
        "columns": 2,
        "concat": parts,
        "resolve": {"scale": {"color": "shared", "shape": "shared"}},
        "config": {**_theme(_FILE_INK, _FILE_FONT), "background": "white", "padding": 12},
    }


def _drawn(chart: Chart, panel: Panel | Trend, *, legend: Spec | None) -> Spec:
    """The data, marks and height of a panel of either kind.

    Args:
        chart: Has the series, whose places give colours and shapes, and the panels beside this one.
        panel: What to draw.
        legend: How Vega-Lite draws the legend; None for none.
    """
    if isinstance(panel, Trend):
        return _lines(chart, panel, legend=legend)
    return _dots(chart, panel, legend=legend)


def _lines(chart: Chart, trend: Trend, *, legend: Spec | None) -> Spec:
    """A trend's data, marks and height: a line for each series in its colour and dashes.

    Points are marked where a line has few of them. Arguments are those of :func:`_drawn`.
    """
    values = [
        {"at": at, "value": value, "series": line.series}
        for line in trend.lines
        for at, value in line.points
        if value is not None
    ]
    series = list(chart.series)
    of_series = {"field": "series", "type": "nominal", "sort": series, "legend": legend}
    encoding: Spec = {
        "x": {
            "field": "at",
            "type": "quantitative",
            "title": trend.along,
            "axis": {"tickCount": 4},
        },
        "y": {"field": "value", "type": "quantitative", "title": None, "axis": {"tickCount": 4}},
        "color": {**of_series, "scale": {"domain": series, "range": list(PALETTE)}},
    }
    dashes = {"domain": series, "range": [list(dash) for dash in DASHES]}
    shapes = {"domain": series, "range": list(SHAPES)}
    line: Spec = {
        "mark": {"type": "line", "strokeWidth": 2},
        "encoding": {"strokeDash": {**of_series, "scale": dashes}},
    }
    dot: Spec = {
        "mark": {"type": "point", "filled": True, "size": 30, "opacity": 1},
        "encoding": {"shape": {**of_series, "scale": shapes}},
    }
    layers = [line, dot] if len(values) <= _DOTTED * len(trend.lines) else [line]
    group = {"data": {"values": values}, "encoding": encoding, "layer": layers}
    return {"height": _TREND_HEIGHT, "layer": [_line_at_zero("y"), group]}


def _dots(chart: Chart, panel: Panel, *, legend: Spec | None) -> Spec:
    """The panel's data, marks and height: one band per row, and one lane per series in it.

    Arguments are those of :func:`_drawn`.
    """
    series = list(chart.series)
    rows = list(dict.fromkeys(bar.row for bar in panel.bars))  # each once, from the top
    marks = {
        "data": {"values": [_datum(bar) for bar in panel.bars]},
        "encoding": _dot_encoding(series, rows, legend),
        "layer": _dot_layers(chart, panel, legend),
    }
    # A row has a lane for each series, and the room that a row of one lane has beside it.
    height = len(rows) * (_LANE * len(series) + _ROW - _LANE)
    return {"height": height, "layer": [_line_at_zero("x"), marks]}


def _datum(bar: Bar) -> Spec:
    """A number as a row of Vega-Lite's data: its place, value and ends, which may be None."""
    number = bar.number
    return {
        "row": bar.row,
        "series": bar.series,
        "value": number.value,
        "low": number.low,
        "high": number.high,
    }


def _dot_layers(chart: Chart, panel: Panel, legend: Spec | None) -> list[Spec]:
    """The layers of marks, the first at the bottom: whiskers of intervals, then dots.

    Arguments are those of :func:`_drawn`.
    """
    series = list(chart.series)
    axis = {
        "type": "quantitative",
        "title": None,
        "scale": {"domain": list(_domain(chart, panel))},
        "axis": {"tickCount": 5},
    }
    dots: Spec = {
        "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
        "encoding": {
            "x": {**axis, "field": "value"},
            "shape": {
                "field": "series",
                "type": "nominal",
                "sort": series,
                "legend": legend,
                "scale": {"domain": series, "range": list(SHAPES)},
            },
        },
    }
    # Without any interval there are no whiskers: Vega-Lite warns of a mark without numbers.
    if not any(bar.number.ends for bar in panel.bars):
        return [dots]
    whiskers: Spec = {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {"x": {**axis, "field": "low"}, "x2": {"field": "high"}},
        "transform": [{"filter": "isValid(datum.low)"}],
    }
    return [whiskers, dots]


def _dot_encoding(series: list[str], rows: list[str], legend: Spec | None) -> Spec:
    """What dots and whiskers share: a band for each row, colours by series, words on hovering.

    Args:
        series: Names of the series, in the order of colours.
        rows: Names of the rows, from the top.
        legend: As of :func:`_drawn`.
    """
    lane = {"field": "series", "type": "nominal", "sort": series}
    numbers = [
        {"field": name, "type": "quantitative", "format": ".4~g"}
        for name in ("value", "low", "high")
    ]
    encoding: Spec = {
        "y": {
            "field": "row",
            "type": "nominal",
            "sort": rows,
            "title": None,
            "axis": {"labelLimit": _LABEL_WIDTH, "labelPadding": 6, "ticks": False, "grid": False},
        },
        "color": {**lane, "legend": legend, "scale": {"domain": series, "range": list(PALETTE)}},
        "tooltip": [{"field": "row"}, {"field": "series"}, *numbers],
    }
    if len(series) > 1:  # lanes within a band
        encoding["yOffset"] = {**lane, "scale": {"domain": series}}
    return encoding


def _domain(chart: Chart, panel: Panel) -> tuple[float, float]:
    """The ends (low, high) of the axis: the same for all panels of the chart in this unit.

    The axis holds zero, and is at least as wide as the ``LEAST_WIDTH`` of the unit.
    """
    reached = [0.0]
    for other in chart.panels:
        if isinstance(other, Panel) and other.unit == panel.unit:
            for bar in other.bars:
                reached += [bar.number.value or 0.0, *(bar.number.ends or ())]
    low, high = min(reached), max(reached)
    # Half of the width that is missing, for either end.
    missing = max(0.0, LEAST_WIDTH.get(panel.unit, 0.0) - (high - low)) / 2
    return low - missing, high + missing


def _theme(ink: str, font: str) -> Spec:
    """Vega-Lite's config, on a transparent background.

    Args:
        ink: Colour of text and grid, as CSS writes it.
        font: Font families of CSS, the preferred one first.
    """
    words: Mapping[str, object] = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12}
    lines = {"gridColor": ink, "gridOpacity": 0.15, "domainColor": ink, "tickColor": ink}
    return {
        "background": "transparent",
        "font": font,
        "view": {"stroke": None},
        "rule": {"color": ink},
        "axis": {**words, **lines},
        "axisX": {"labelFlush": False, "labelSeparation": 6},
        "legend": {**words, "symbolSize": 80, "labelLimit": 240},
        "title": {"color": ink, "fontSize": 13, "anchor": "start", "fontWeight": 600},
    }
