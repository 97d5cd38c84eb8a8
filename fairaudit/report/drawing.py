"""Panel -> Vega-Lite. No mark relies on colour alone: series differ in shape or dash as well."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fairaudit.report.panels import Intervals, Lines, Panel
from fairaudit.results.estimates import Interval

Spec: TypeAlias = dict[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier; nothing is fetched
# Okabe and Ito 2008, without black and yellow: those vanish on a dark or a light page
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = (
    [1, 0],
    [6, 3],
    [2, 2],
    [
        8,
        3,
        2,
        3,
    ],
    [4, 4],
    [10, 4],
    [1, 3],
)

_DOT: Mapping[str, object] = {
    "type": "point",
    "filled": True,
    "size": 75,
    "opacity": 1,
}
_LANE, _ROW, _LINE_HEIGHT = 18, 30, 220  # pixels
_NOMINAL_SERIES: Mapping[str, object] = {"field": "series", "type": "nominal"}
_LEGEND_LETTERS = 60  # of one line beside a narrow panel
_MARGIN, _ASIDE = 1.25, 1.03  # factors on a log scale
_FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_FILE_WIDTH, _FILE_INK = 440, "#222222"
_FILE_FONT = "DejaVu Sans, Liberation Sans, Arial, sans-serif"


def page_spec(panel: Panel, *, description: str) -> Spec:
    """For a web page: as wide as its place, and in the page's own ink, whatever the theme."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **drawn(panel),
        "config": _theme("currentColor", _FONT),
    }


def file_spec(
    panels: Sequence[Panel],
    *,
    title: str,
    description: str,
) -> Spec:
    """For a picture file: all panels in two columns, dark on white."""
    parts = [
        {
            "title": panel.title,
            "width": _FILE_WIDTH,
            **drawn(panel),
        }
        for panel in panels
    ]
    return {
        "$schema": SCHEMA,
        "description": description,
        "title": {"text": title, "fontSize": 15, "offset": 12},
        "columns": 2 if len(parts) > 1 else 1,
        "concat": parts,
        "resolve": {
            "scale": {"color": "independent", "shape": "independent", "strokeDash": "independent"}
        },
        "config": {**_theme(_FILE_INK, _FILE_FONT), "background": "white", "padding": 12},
    }


def drawn(panel: Panel) -> Spec:
    """The panel's data, marks and height; width, title and colours of the page are the caller's."""
    match panel:
        case Intervals():
            return _intervals(panel)
        case Lines():
            return _lines(panel)


def _intervals(panel: Intervals) -> Spec:
    """One band per row, and one lane per series in it."""
    values = []
    held = [0.0]
    has_ends = False
    for bar in panel.bars:
        values.append(
            {
                "row": bar.row,
                "series": bar.series,
                **_figures(bar.number),
            }
        )
        held += [bar.number.value or 0.0, *(bar.number.ends or ())]
        has_ends = has_ends or bar.number.ends is not None
    low, high = min(held), max(held)
    missing = max(0.0, panel.least - (high - low)) / 2
    axis: Spec = {
        "type": "quantitative",
        "title": panel.x_title,
        "scale": {"domain": [low - missing, high + missing]},
        "axis": {"tickCount": 8},
    }
    layers = [_line_at_zero("x")]
    if has_ends:  # an axis of no numbers would be a warning
        ends = {"x": {**axis, "field": "low"}, "x2": {"field": "high"}}
        layers.append(_whisker(ends))
    series = list(dict.fromkeys(str(value["series"]) for value in values))
    dots = {"x": {**axis, "field": "value"}, "shape": _shape(series)}
    layers.append({"mark": _DOT, "encoding": dots})
    rows = list(dict.fromkeys(value["row"] for value in values))
    shared: Spec = {
        "y": {
            **{"field": "row", "type": "nominal", "sort": rows, "title": None},
            "axis": {"labelLimit": 190, "labelPadding": 6, "ticks": False, "grid": False},
        },
        "color": _colour(series),
        "tooltip": [
            {"field": "row", "type": "nominal"},
            *_tooltip(
                (
                    "value",
                    "low",
                    "high",
                )
            ),
        ],
    }
    if len(series) > 1:
        shared["yOffset"] = {**_NOMINAL_SERIES, "sort": series}
    return _layered(
        values,
        layers,
        shared,
        len(rows) * (_LANE * len(series) + _ROW - _LANE),
    )


def _figures(number: Interval) -> Spec:
    return {"value": number.value, "low": number.low, "high": number.high}


def _whisker(encoding: Spec) -> Spec:
    """The layer that draws intervals; points without an interval get none."""
    return {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": encoding,
        "transform": [{"filter": "isValid(datum.low)"}],
    }


def _lines(panel: Lines) -> Spec:
    """A line per series over a logarithmic x axis (epsilon), with points and interval whiskers."""
    series = list(dict.fromkeys(point.series for point in panel.points))
    values = []
    for point in panel.points:  # beside each other, or their whiskers would hide each other
        at = point.x * _ASIDE ** (series.index(point.series) - (len(series) - 1) / 2)
        place = {"x": point.x, "at": at, "series": point.series}
        values.append({**place, **_figures(point.number)})
    y: Spec = {"type": "quantitative", "title": panel.y_title}
    y["scale"] = {"domain": list(panel.between)}
    value = {**y, "field": "value"}
    dash = {
        **_NOMINAL_SERIES,
        "legend": _legend(series),
        "scale": {"domain": series, "range": list(DASHES)},
    }
    line = {"type": "line", "strokeWidth": 2}
    layers = [
        _line_at_zero("y"),
        {"mark": line, "encoding": {"y": value, "strokeDash": dash}},
        {"mark": {**_DOT, "size": 45}, "encoding": {"y": value, "shape": _shape(series)}},
    ]
    if any(point.number.ends is not None for point in panel.points):
        layers.append(_whisker({"y": {**y, "field": "low"}, "y2": {"field": "high"}}))
    xs = sorted({point.x for point in panel.points})
    ends = [xs[0] / _MARGIN, xs[-1] * _MARGIN]
    shared: Spec = {
        "x": {
            **{"field": "at", "type": "quantitative", "title": panel.x_title},
            "scale": {"type": "log", "domain": ends, "nice": False},
            "axis": {"values": xs},
        },
        "color": _colour(series),
        "tooltip": _tooltip(("x", "value", "low", "high")),
    }
    return _layered(values, layers, shared, _LINE_HEIGHT)


def _layered(
    values: Sequence[Spec],
    layers: Sequence[Spec],
    shared: Spec,
    height: int,
) -> Spec:
    """Layers over one data set; a layer with data of its own has no part in the shared encoding."""
    own: list[Spec] = []
    common: list[Spec] = []
    for layer in layers:
        (own if "data" in layer else common).append(layer)
    group: Spec = {
        "data": {"values": list(values)},
        "encoding": shared,
        "layer": common,
    }
    return {"height": height, "layer": [*own, group]}


def _colour(series: Sequence[str]) -> Spec:
    """The colour channel: a colour of the palette per series, in their order."""
    return {
        **_NOMINAL_SERIES,
        "sort": list(series),
        "legend": _legend(series),
        "scale": {"domain": list(series), "range": list(PALETTE)},
    }


def _shape(series: Sequence[str]) -> Spec:
    """The shape channel: a marker per series, so that series differ without colour as well."""
    return {
        **_NOMINAL_SERIES,
        "legend": _legend(series),
        "scale": {"domain": list(series), "range": list(SHAPES)},
    }


def _legend(series: Sequence[str]) -> Spec | None:
    """A legend in as many columns as fit; None for a single series, which needs none."""
    if len(series) < 2:
        return None
    columns = max(1, _LEGEND_LETTERS // (max(len(name) for name in series) + 4))
    return {
        "title": None,
        "orient": "top",
        "columns": columns,
        "symbolOpacity": 1,
        "columnPadding": 14,
    }


def _tooltip(numbers: Sequence[str]) -> list[Spec]:
    figures: list[Spec] = [
        {"field": name, "type": "quantitative", "format": ".4~g"} for name in numbers
    ]
    return [dict(_NOMINAL_SERIES), *figures]


def _line_at_zero(channel: str) -> Spec:
    """A dashed line at 0 across the chart; ``channel`` is the axis ("x" or "y") that 0 is on."""
    return {
        "data": {"values": [{"at": 0.0}]},
        "mark": {
            "type": "rule",
            "strokeDash": [2, 2],
            "opacity": 0.7,
            "aria": False,
        },
        "encoding": {channel: {"field": "at", "type": "quantitative"}},
    }


def _theme(ink: str, font: str) -> Spec:
    """Vega-Lite's config: colours of text and grid from ``ink``, on a transparent background."""
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12}
    lines = {"gridColor": ink, "gridOpacity": 0.15, "domainColor": ink, "tickColor": ink}
    return {
        "background": "transparent",
        "font": font,
        "view": {"stroke": None},
        "rule": {"color": ink},
        "axis": {**words, **lines, "titleFontSize": 12, "titleFontWeight": "normal"},
        "axisX": {"labelFlush": False, "labelSeparation": 6},
        "legend": {**words, "symbolSize": 80, "labelLimit": 240},
        "title": {"color": ink, "fontSize": 13, "anchor": "start", "fontWeight": 600},
    }
