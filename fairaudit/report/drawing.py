"""Panel -> Vega-Lite. No mark relies on colour alone: series differ in shape or dash as well."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fairaudit.report.panels import Amounts, Intervals, Lines, Panel, PanelChanges, Scatter
from fairaudit.results.estimates import Interval

Spec: TypeAlias = dict[str, object]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier; nothing is fetched
# Okabe and Ito 2008, without black and yellow: those vanish on a dark or a light page
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3])

_LANE, _ROW, _LINE_HEIGHT = 18, 30, 220  # pixels
_NOMINAL_SERIES: Mapping[str, object] = {"field": "series", "type": "nominal"}
_FEW_TICKS: Mapping[str, object] = {"tickCount": 8}
_LEGEND_LETTERS = 60  # of one line beside a narrow panel
_MARGIN, _ASIDE = 1.25, 1.03  # factors on a log scale
_LIMIT_COLOUR = PALETTE[1]
_FEW = 40  # points of a line up to which each of them gets a dot
_FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_FILE_WIDTH, _FILE_INK, _FILE_FONT = 440, "#222222", "DejaVu Sans, Liberation Sans, Arial, sans-serif"


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
        "resolve": {"scale": {"color": "independent", "shape": "independent", "strokeDash": "independent"}},
        "config": {**_theme(_FILE_INK, _FILE_FONT), "background": "white", "padding": 12},
    }


def drawn(panel: Panel) -> Spec:
    """The panel's data, marks and height; width, title and colours of the page are the caller's."""
    match panel:
        case Intervals():
            return _intervals(panel)
        case PanelChanges():
            return _changes(panel)
        case Amounts():
            return _amounts(panel)
        case Lines():
            return _lines(panel)
        case Scatter():
            return _scatter(panel)


def _intervals(panel: Intervals) -> Spec:
    values: list[Spec] = [{"row": b.row, "series": b.series, **_figures(b.number)} for b in panel.bars]
    series = _series([b.series for b in panel.bars])
    dots = {"type": "point", "filled": True, "size": 75, "opacity": 1}
    held = [number for b in panel.bars for number in (b.number.value, *(b.number.ends or ()))]
    scale = _wide([*held, panel.origin, *panel.limits], panel.least)
    layers: list[Spec] = [
        {"mark": dots, "encoding": {"x": _x("value", panel.x_title, scale), "shape": _shape(series)}}
    ]
    if any(b.number.ends for b in panel.bars):  # an axis of no numbers would be a warning
        ends = {"x": _x("low", panel.x_title, scale), "x2": {"field": "high"}}
        whisker: Spec = {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": ends}
        layers.insert(0, {**whisker, "transform": [{"filter": "isValid(datum.low)"}]})
    if panel.origin is not None:
        layers.insert(0, _line_at("x", panel.origin))
    for limit in panel.limits:
        layers += _limit_at(limit)
    return _in_rows(values, layers, ("value", "low", "high"))


def _figures(number: Interval) -> Spec:
    return {"value": number.value, "low": number.low, "high": number.high}


def _changes(panel: PanelChanges) -> Spec:
    values: list[Spec] = [
        {"row": c.row, "series": c.series, "before": c.before, "after": c.after} for c in panel.changes
    ]
    shape = _shape(_series([c.series for c in panel.changes]))
    scale = _wide([end for c in panel.changes for end in (c.before, c.after)], panel.least)
    dot = {"type": "point", "size": 75, "opacity": 1, "strokeWidth": 2}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
            "encoding": {"x": _x("before", panel.x_title, scale), "x2": {"field": "after"}},
        },
        *(
            {
                "mark": {**dot, "filled": is_filled},
                "encoding": {"x": _x(field, panel.x_title, scale), "shape": shape},
            }
            for field, is_filled in (("before", False), ("after", True))
        ),
    ]
    return _in_rows(values, layers, ("before", "after"))


def _amounts(panel: Amounts) -> Spec:
    values: list[Spec] = [{"row": b.row, "series": b.series, "value": b.number.value} for b in panel.bars]
    x = {**_x("value", panel.x_title), "stack": "zero" if panel.is_stacked else None}
    layers: list[Spec] = [{"mark": "bar", "encoding": {"x": x}}, _line_at("x", 0.0)]
    return _in_rows(values, layers, ("value",), is_dodged=not panel.is_stacked)


def _lines(panel: Lines) -> Spec:
    series = _series([p.series for p in panel.points])
    values: list[Spec] = []
    for p in panel.points:
        # On a log scale beside each other, or their whiskers would hide each other.
        aside = _ASIDE ** (series.index(p.series) - (len(series) - 1) / 2)
        at = p.x * aside if panel.is_log else p.x
        values.append({"x": p.x, "at": at, "series": p.series, **_figures(p.number)})
    x: Spec = {"field": "at", "type": "quantitative", "title": panel.x_title}
    if panel.is_log:
        known = sorted({p.x for p in panel.points})
        ends = [known[0] / _MARGIN, known[-1] * _MARGIN]
        x |= {"scale": {"type": "log", "domain": ends, "nice": False}, "axis": {"values": known}}
    else:
        x |= {"scale": {"zero": False, "nice": False}, "axis": {"grid": False}}
    held = [number for p in panel.points for number in (p.number.value, *(p.number.ends or ()))]
    wide = _wide([*held, panel.origin], panel.least)
    scale: Spec = wide if panel.between is None else {"domain": list(panel.between)}
    y: Spec = {"field": "value", "type": "quantitative", "title": panel.y_title, "scale": scale}
    dash = {**_NOMINAL_SERIES, "legend": _legend(series), "scale": {"domain": series, "range": list(DASHES)}}
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": y, "strokeDash": dash}}
    ]
    if len(values) <= _FEW * len(series):
        dots = {"type": "point", "filled": True, "size": 45, "opacity": 1}
        layers.append({"mark": dots, "encoding": {"y": y, "shape": _shape(series)}})
    if any(p.number.ends for p in panel.points):
        span = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
        few = len(values) <= _FEW * len(series)
        mark: Spec = {"type": "rule", "strokeWidth": 1.5} if few else {"type": "area", "opacity": 0.2}
        whisker: Spec = {"mark": mark, "encoding": span}
        layers.append({**whisker, "transform": [{"filter": "isValid(datum.low)"}]})
    if panel.origin is not None:
        layers.insert(0, _line_at("y", panel.origin))
    shared: Spec = {"x": x, "color": _colour(series), "tooltip": _tooltip(("x", "value", "low", "high"))}
    return _layered(values, layers, shared, _LINE_HEIGHT)


def _scatter(panel: Scatter) -> Spec:
    values: list[Spec] = [
        {"x": s.x, "value": s.y, "series": s.series, "marked": s.is_marked} for s in panel.spots
    ]
    series = _series([s.series for s in panel.spots])
    x = _x("x", panel.x_title, _wide([s.x for s in panel.spots], panel.least))
    scale = _wide([*(s.y for s in panel.spots), 0.0], panel.least)
    y: Spec = {"field": "value", "type": "quantitative", "title": panel.y_title, "scale": scale}
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 0.75}
    ring = {"type": "point", "filled": False, "size": 190, "strokeWidth": 2, "opacity": 1, "shape": "circle"}
    layers: list[Spec] = [
        {"mark": dot, "encoding": {"shape": _shape(series)}},
        {"mark": ring, "transform": [{"filter": "datum.marked"}]},
    ]
    shared: Spec = {"x": x, "y": y, "color": _colour(series), "tooltip": _tooltip(("x", "value"))}
    return _layered(values, layers, shared, _LINE_HEIGHT)


def _in_rows(
    values: Sequence[Spec], layers: Sequence[Spec], numbers: Sequence[str], *, is_dodged: bool = True
) -> Spec:
    """One band per row, and one lane per series in it."""
    series = _series([str(value["series"]) for value in values])
    rows = _series([str(value["row"]) for value in values])
    shared: Spec = {
        "y": {
            **{"field": "row", "type": "nominal", "sort": rows, "title": None},
            "axis": {"labelLimit": 190, "labelPadding": 6, "ticks": False, "grid": False},
        },
        "color": _colour(series),
        "tooltip": [{"field": "row", "type": "nominal"}, *_tooltip(numbers)],
    }
    lanes = len(series) if is_dodged else 1
    if lanes > 1:
        shared["yOffset"] = {**_NOMINAL_SERIES, "sort": series}
    return _layered(values, layers, shared, len(rows) * (_LANE * lanes + _ROW - _LANE))


def _layered(values: Sequence[Spec], layers: Sequence[Spec], shared: Spec, height: int) -> Spec:
    """Layers over one data set; a layer with data of its own has no part in the shared encoding."""
    own = [layer for layer in layers if "data" in layer]
    common = [layer for layer in layers if "data" not in layer]
    group: Spec = {"data": {"values": list(values)}, "encoding": shared, "layer": common}
    return {"height": height, "layer": [*own, group]}


def _series(names: Sequence[str]) -> list[str]:
    """The different ones, in their order."""
    return list(dict.fromkeys(names))


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
    if not known or (missing := least - (max(known) - min(known))) <= 0:
        return {"zero": False}
    low = 0.0 if min(known) == 0 else missing if max(known) == 0 else missing / 2
    return {"zero": False, "domain": [min(known) - low, max(known) + missing - low]}


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
    return {"title": None, "orient": "top", "columns": columns, "symbolOpacity": 1, "columnPadding": 14}


def _tooltip(numbers: Sequence[str]) -> list[Spec]:
    figures: list[Spec] = [{"field": name, "type": "quantitative", "format": ".4~g"} for name in numbers]
    return [dict(_NOMINAL_SERIES), *figures]


def _line_at(channel: str, value: float) -> Spec:
    return {
        "data": {"values": [{"at": value}]},
        "mark": {"type": "rule", "strokeDash": [2, 2], "opacity": 0.7, "aria": False},
        "encoding": {channel: {"field": "at", "type": "quantitative"}},
    }


def _limit_at(limit: float) -> list[Spec]:
    """A marked line, and what it is."""
    data = {"values": [{"at": limit, "said": f"limit {limit:g}"}]}
    x: Spec = {"field": "at", "type": "quantitative"}
    text: Spec = {"type": "text", "align": "left", "dx": 4, "y": 6, "color": _LIMIT_COLOUR, "aria": False}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "color": _LIMIT_COLOUR, "strokeWidth": 2, "strokeDash": [6, 3]},
            "encoding": {"x": x, "description": {"field": "said", "type": "nominal"}},
        },
        {"data": data, "mark": text, "encoding": {"x": x, "text": {"field": "said", "type": "nominal"}}},
    ]


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
