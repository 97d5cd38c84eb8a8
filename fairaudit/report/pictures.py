"""Charts as picture files, and the Markdown that shows them."""

from collections.abc import Sequence

import vl_convert

from fairaudit.report.drawing import file_spec
from fairaudit.report.names import markdown
from fairaudit.report.panels import Chart
from fairaudit.report.placing import HOMES, passages

_ALT_LIMIT = 300
_SCALE = 2.0  # pixels of a PNG per pixel of the drawing


def picture(chart: Chart, kind: str) -> bytes:
    """The chart as an ``svg`` or ``png`` file, dark on white; nothing is fetched."""
    spec = file_spec(chart.panels, title=chart.title, description=chart.alt)
    if kind == "svg":
        return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()
    return vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])


def lines_taken(charts: Sequence[Chart]) -> int:
    """Most lines that :func:`with_pictures` adds: one, and an empty one, for the charts of a section."""
    return 2 * len({HOMES.get(chart.name, ()) for chart in charts})


def with_pictures(text: str, charts: Sequence[Chart], *, folder: str, kind: str) -> str:
    """The Markdown report with every chart shown in its section.

    Args:
        text: The report. charts: Its charts.
        folder: Where the files are, seen from the report. kind: Their ending.
    """
    parts = [text.partition("\n## ")[0].rstrip("\n")]
    for passage in passages(text, charts):
        shown = [f"![{markdown(c.alt, _ALT_LIMIT)}]({folder}/{c.name}.{kind})" for c in passage.charts]
        body = [part for part in (passage.lead, " ".join(shown), passage.rest) if part]
        parts.append("\n\n".join([f"## {passage.title}", *body]))
    return "\n\n".join(parts) + "\n"
