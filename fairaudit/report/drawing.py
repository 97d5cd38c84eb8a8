"""Panel -> Vega-Lite. No mark relies on colour alone: series differ in shape or dash as well."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fairaudit.report.panels import Intervals, Lines, Panel, Scatter
from fairaudit.results.estimates import Interval

Spec: TypeAlias = dict[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier; nothing is fetched
# Okabe and Ito 2008, without black and yellow: those vanish on a dark or a light page
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3])

_DOT: Mapping[str, object] = {"type": "point", "filled": True, "size": 75, "opacity": 1}
_LANE, _ROW, _LINE_HEIGHT = 18, 30, 220  # pixels
_NOMINAL_SERIES: Mapping[str, object] = {"field": "series", "type": "nominal"}
_FEW_TICKS: Mapping[str, object] = {"tickCount": 8}
_LEGEND_LETTERS = 60  # of one line beside a narrow panel
_MARGIN, _ASIDE = 1.25, 1.03  # factors on a log scale
_LIMIT_COLOUR = PALETTE[1]
_FEW = 40  # points of a line up to which each of them gets a dot
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


def file_spec(panels: Sequence[Panel], *, title: str, description: str) -> Spec:
    """For a picture file: all panels in two columns, dark on white."""
    parts = [{"title": panel.title, "width": _FILE_WIDTH, **drawn(panel)} for panel in panels]
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
        case Scatter():
            return _scatter(panel)


def _intervals(panel: Intervals) -> Spec:
    """One band per row, and one lane per series in it."""
    values: list[Spec] = []
    held: list[float | None] = [panel.origin, *panel.limits]
    has_ends = False
    for bar in panel.bars:
        values.append({"row": bar.row, "series": bar.series, **_figures(bar.number)})
        held += [bar.number.value, *(bar.number.ends or ())]
        has_ends = has_ends or bar.number.ends is not None
    scale = _wide(held, panel.least)
    layers: list[Spec] = []
    if panel.origin is not None:
        layers.append(_line_at("x", panel.origin))
    if has_ends:  # an axis of no numbers would be a warning
        ends = {"x": _x("low", panel.x_title, scale), "x2": {"field": "high"}}
        layers.append(_whisker({"type": "rule", "strokeWidth": 2}, ends))
    shape = _shape(_series(values))
    layers.append(
        {"mark": _DOT, "encoding": {"x": _x("value", panel.x_title, scale), "shape": shape}}
    )
    for limit in panel.limits:
        layers.append(_line_at("x", limit, color=_LIMIT_COLOUR, strokeWidth=2))
    series = _series(values)
    rows = list(dict.fromkeys(value["row"] for value in values))
    shared: Spec = {
        "y": {
            **{"field": "row", "type": "nominal", "sort": rows, "title": None},
            "axis": {"labelLimit": 190, "labelPadding": 6, "ticks": False, "grid": False},
        },
        "color": _colour(series),
        "tooltip": [{"field": "row", "type": "nominal"}, *_tooltip(("value", "low", "high"))],
    }
    if len(series) > 1:
        shared["yOffset"] = {**_NOMINAL_SERIES, "sort": series}
    return _layered(values, layers, shared, len(rows) * (_LANE * len(series) + _ROW - _LANE))


def _figures(number: Interval) -> Spec:
    return {"value": number.value, "low": number.low, "high": number.high}


def _whisker(mark: Spec, encoding: Spec) -> Spec:
    return {"mark": mark, "encoding": encoding, "transform": [{"filter": "isValid(datum.low)"}]}


def _lines(panel: Lines) -> Spec:
    series = list(dict.fromkeys(point.series for point in panel.points))
    values: list[Spec] = []
    held: list[float | None] = [panel.origin]
    has_ends = False
    for point in panel.points:
        at = point.x
        if panel.is_log:  # beside each other, or their whiskers would hide each other
            at *= _ASIDE ** (series.index(point.series) - (len(series) - 1) / 2)
        place = {"x": point.x, "at": at, "series": point.series}
        values.append({**place, **_figures(point.number)})
        held += [point.number.value, *(point.number.ends or ())]
        has_ends = has_ends or point.number.ends is not None
    scale: Spec = _wide(held, panel.least)
    if panel.between is not None:
        scale = {"domain": list(panel.between)}
    y: Spec = {"field": "value", "type": "quantitative", "title": panel.y_title, "scale": scale}
    dash = {
        **_NOMINAL_SERIES,
        "legend": _legend(series),
        "scale": {"domain": series, "range": list(DASHES)},
    }
    layers: list[Spec] = []
    if panel.origin is not None:
        layers.append(_line_at("y", panel.origin))
    line = {"type": "line", "strokeWidth": 2}
    layers.append({"mark": line, "encoding": {"y": y, "strokeDash": dash}})
    mark: Spec = {"type": "area", "opacity": 0.2}
    if len(values) <= _FEW * len(series):
        mark = {"type": "rule", "strokeWidth": 1.5}
        layers.append({"mark": {**_DOT, "size": 45}, "encoding": {"y": y, "shape": _shape(series)}})
    if has_ends:
        layers.append(_whisker(mark, {"y": {**y, "field": "low"}, "y2": {"field": "high"}}))
    shared: Spec = {
        "x": _steps(panel),
        "color": _colour(series),
        "tooltip": _tooltip(("x", "value", "low", "high")),
    }
    return _layered(values, layers, shared, _LINE_HEIGHT)


def _steps(panel: Lines) -> Spec:
    """The axis of x, on a log scale with the points alone."""
    x: Spec = {"field": "at", "type": "quantitative", "title": panel.x_title}
    if not panel.is_log:
        return {**x, "scale": {"zero": False, "nice": False}, "axis": {"grid": False}}
    known = sorted({point.x for point in panel.points})
    ends = [known[0] / _MARGIN, known[-1] * _MARGIN]
    scale = {"type": "log", "domain": ends, "nice": False}
    return {**x, "scale": scale, "axis": {"values": known}}


def _scatter(panel: Scatter) -> Spec:
    values: list[Spec] = []
    for spot in panel.spots:
        place = {"x": spot.x, "value": spot.y}
        values.append({**place, "series": spot.series, "marked": spot.is_marked})
    series = _series(values)
    x = _x("x", panel.x_title, _wide([spot.x for spot in panel.spots], panel.least))
    scale = _wide([0.0, *(spot.y for spot in panel.spots)], panel.least)
    y: Spec = {"field": "value", "type": "quantitative", "title": panel.y_title, "scale": scale}
    dot = {**_DOT, "size": 55, "opacity": 0.75}
    ring = {**_DOT, "filled": False, "size": 190, "strokeWidth": 2, "shape": "circle"}
    layers: list[Spec] = [
        {"mark": dot, "encoding": {"shape": _shape(series)}},
        {"mark": ring, "transform": [{"filter": "datum.marked"}]},
    ]
    shared: Spec = {"x": x, "y": y, "color": _colour(series), "tooltip": _tooltip(("x", "value"))}
    return _layered(values, layers, shared, _LINE_HEIGHT)


def _layered(values: Sequence[Spec], layers: Sequence[Spec], shared: Spec, height: int) -> Spec:
    """Layers over one data set; a layer with data of its own has no part in the shared encoding."""
    own: list[Spec] = []
    common: list[Spec] = []
    for layer in layers:
        (own if "data" in layer else common).append(layer)
    group: Spec = {"data": {"values": list(values)}, "encoding": shared, "layer": common}
    return {"height": height, "layer": [*own, group]}


def _series(values: Sequence[Spec]) -> list[str]:
    """The different ones, in their order."""
    return list(dict.fromkeys(str(value["series"]) for value in values))


def _x(field: str, title: str, scale: Spec | None = None) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale or {"zero": False},
        "axis": _FEW_TICKS,
    }


def _wide(numbers: Sequence[float | None], least: float) -> Spec:
    """The scale of an axis at least so wide; one that ends at zero goes on to the other side."""
    known = [number for number in numbers if number is not None]
    if not known:
        return {"zero": False}
    low, high = min(known), max(known)
    missing = least - (high - low)
    if missing <= 0:
        return {"zero": False}
    below = missing / 2
    if low == 0:
        below = 0.0
    elif high == 0:
        below = missing
    return {"zero": False, "domain": [low - below, high + missing - below]}


def _colour(series: Sequence[str]) -> Spec:
    return {
        **_NOMINAL_SERIES,
        "sort": list(series),
        "legend": _legend(series),
        "scale": {"domain": list(series), "range": list(PALETTE)},
    }


def _shape(series: Sequence[str]) -> Spec:
    return {
        **_NOMINAL_SERIES,
        "legend": _legend(series),
        "scale": {"domain": list(series), "range": list(SHAPES)},
    }


def _legend(series: Sequence[str]) -> Spec | None:
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


def _line_at(channel: str, value: float, **mark: object) -> Spec:
    return {
        "data": {"values": [{"at": value}]},
        "mark": {"type": "rule", "strokeDash": [2, 2], "opacity": 0.7, "aria": False, **mark},
        "encoding": {channel: {"field": "at", "type": "quantitative"}},
    }


def _theme(ink: str, font: str) -> Spec:
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
