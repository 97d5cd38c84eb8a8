"""Charts as picture files."""

import vl_convert

from fairaudit.report.document import Chart
from fairaudit.report.drawing import file_spec

_SCALE = 2.0  # pixels of a PNG per pixel of the drawing


def picture(chart: Chart, kind: str) -> bytes:
    """The chart as an ``svg`` or ``png`` file, dark on white; nothing is fetched."""
    spec = file_spec(chart.panels, title=chart.title, description=chart.alt)
    if kind == "svg":
        return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()
    return vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])
