"""Report -> one HTML file that needs no network: the Markdown's text, the charts and their tables.

The text is the Markdown's own, read by a CommonMark parser with raw HTML switched off, so the two
cannot disagree and a name that is harmless there is harmless here. The page's policy allows two scripts,
by digest, and no connection.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from fairaudit.report.charts import charts
from fairaudit.report.drawing import page_spec
from fairaudit.report.model import Report
from fairaudit.report.names import plain
from fairaudit.report.panels import Cell, Chart
from fairaudit.report.placing import opening, passages
from fairaudit.report.to_markdown import full_text
from fairaudit.results.numbers import DIGITS

_NAME_IN_TABLE = 80


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its anchor, its heading, what stands above its charts, its charts, the rest."""

    anchor: str
    title: str
    lead: Markup
    charts: tuple[Chart, ...]
    rest: Markup


def to_html(report: Report) -> str:
    """The report as one page; no timing, so two runs of one command give the same bytes."""
    text = "\n".join(full_text(report)) + "\n"
    title = f"Cost of private training by group: {plain(report.data.name)}"
    return page(title, report.tool.version, text, charts(report))


def page(title: str, version: str, text: str, drawn: Sequence[Chart]) -> str:
    """Markdown with its charts as one page.

    Args:
        title: Of the page. version: Of the program. text: From its own title on, which is left out.
        drawn: Charts, each of which stands in the section that is its home.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    environment = Environment(
        loader=PackageLoader("fairaudit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = shown
    style, script = (_asset(environment, name) for name in ("report.css", "report.js"))
    runtime = _runtime()
    return environment.get_template("report.html.j2").render(
        title=title,
        version=version,
        opening=_rendered(parser, opening(text)),
        sections=tuple(_sections(parser, text, drawn)),
        style=style,
        script=script,
        runtime=runtime,
        script_digests=[_digest(runtime), _digest(script)],
        specs=_json_block(drawn),
    )


def shown(cell: Cell) -> str:
    """A cell of a data table as text; a dash where nothing is defined."""
    match cell:
        case None:
            return "–"
        case str():
            return plain(cell, _NAME_IN_TABLE)
        case int():
            return f"{cell:,}"
        case _:
            return f"{cell:.{DIGITS}g}"


def _sections(parser: MarkdownIt, text: str, drawn: Sequence[Chart]) -> Iterator[Section]:
    for passage in passages(text, drawn):
        lead, rest = (_rendered(parser, part) for part in (passage.lead, passage.rest))
        yield Section(_anchor(passage.title), passage.title, lead, passage.charts, rest)


def _rendered(parser: MarkdownIt, text: str) -> Markup:
    """HTML of a piece of Markdown; markup in the text comes out as text."""
    html = parser.render(text)
    html = html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return Markup(html.replace("<th", '<th scope="col"').replace('<th scope="col"ead', "<thead"))


def _anchor(title: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else " " for c in title.lower())
    return "-".join(kept.split())


def _json_block(drawn: Sequence[Chart]) -> Markup:
    """Every specification in one JSON text that no name can break out of."""
    specs = {
        f"{chart.name}-{number}": page_spec(panel, description=f"{chart.alt} {panel.title}")
        for chart in drawn
        for number, panel in enumerate(chart.panels)
    }
    text = json.dumps(specs, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def _runtime() -> Markup:
    """Vega-Embed with all it needs, as one script."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return _as_script(script)


def _asset(environment: Environment, name: str) -> Markup:
    if environment.loader is None:  # always set above
        raise AssertionError
    return _as_script(environment.loader.get_source(environment, name)[0])


def _as_script(text: str) -> Markup:
    """Text that may stand inside a script or style element as it is."""
    assert "</script" not in text
    assert "<!--" not in text
    return Markup(text)


def _digest(script: str) -> str:
    """What a content security policy calls this inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
