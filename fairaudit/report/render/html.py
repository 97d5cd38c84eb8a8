"""Document -> one HTML file that needs no network: its text, its charts and their tables.

Beside it charts as picture files.

Every text is escaped as it is put in. The page's policy allows one script, by digest, and no
connection.
"""

import base64
import hashlib
import re
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairaudit.report import document as doc
from fairaudit.report.drawing import MARKS, PALETTE, file_spec, page_spec, panel_alt
from fairaudit.report.model import Report
from fairaudit.report.panels import Chart, Panel, Trend
from fairaudit.report.render.html_groups import group_table
from fairaudit.report.render.html_groups import style as groups_style
from fairaudit.report.render.html_words import Explained
from fairaudit.report.safe_names import visible
from fairaudit.report.sections.order import document
from fairaudit.report.sections.summary import SUMMARY
from fairaudit.report.words import terms

_SCALE = 2.0  # pixels of a PNG per pixel of the drawing, for screens of twice the density


def to_html(report: Report) -> str:
    """The report as one page; no timing, so two runs of one command give the same bytes."""
    return page(document(report))


def notebook(report: Report) -> str:
    """What a notebook shows of a report: title, what was audited, and the summary, as HTML."""
    whole = document(report)
    writer = _Writer()
    parts = [Markup("<style>{}</style>").format(_unescaped(groups_style()))]
    parts += [Markup("<p><strong>{}</strong></p>").format(visible(whole.title))]
    parts += [Markup("<p>{}</p>").format(writer.inline(words)) for words in whole.about]
    for section in whole.sections:
        if section.id == SUMMARY:
            parts.append(writer.blocks(section.blocks))
    return Markup('<div class="fairaudit">\n{}\n</div>').format(Markup("\n").join(parts))


def picture(chart: Chart, kind: str) -> bytes:
    """The chart as an ``svg`` or ``png`` file, dark on white; nothing is fetched."""
    import vl_convert  # it takes a second to import

    spec = file_spec(chart)
    if kind == "svg":
        return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()
    return vl_convert.vegalite_to_png(spec, scale=_SCALE, allowed_base_urls=[])


def page(whole: doc.Document) -> str:
    """Any document as one HTML page."""
    loader = PackageLoader("fairaudit.report.render")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A source is the text, its path and a check for changes; only the text is needed.
    page_style, *_ = loader.get_source(environment, "report.css")
    page_script, *_ = loader.get_source(environment, "report.js")
    style, script = _unescaped(page_style + groups_style()), _unescaped(page_script)
    writer = _Writer()
    sections = []
    for section in whole.sections:
        title = visible(section.title)
        sections.append({"id": section.id, "title": title, "body": writer.blocks(section.blocks)})
    return environment.get_template(
        "report.html.j2"
    ).render(
        title=visible(whole.title),
        about=[writer.inline(words) for words in whole.about],
        foot=writer.inline(whole.foot),
        first=sections[:1],  # the first section stands above the table of contents
        sections=sections[1:],
        style=style,
        script=script,
        script_digest=_policy_digest(script),
    )


class _Writer:
    """Writes the blocks of a page in their order; each term is explained where it first stands."""

    def __init__(self) -> None:
        self._text = Explained(terms())

    def blocks(self, blocks: Sequence[doc.Block]) -> Markup:
        """Some blocks as HTML, one after another."""
        return Markup("\n").join(self._block(block) for block in blocks)

    def _block(self, block: doc.Block) -> Markup:
        """One block of the document as HTML; a table of too many rows can be unfolded."""
        match block:
            case doc.Text():
                return Markup("<p>{}</p>").format(self.inline(block.words))
            case doc.Heading():
                return Markup("<h3>{}</h3>").format(self.inline(block.words))
            case doc.Bullets():
                items = [Markup("<li>{}</li>").format(self.inline(item)) for item in block.items]
                return Markup("<ul>\n{}\n</ul>").format(Markup("\n").join(items))
            case doc.Listing():
                return Markup("<pre><code>{}</code></pre>").format(visible(block.text))
            case doc.Table():
                if block.most is None or len(block.rows) <= block.most:
                    return self._table(block)
                return Markup("<details>\n<summary>All {:,} rows</summary>\n{}\n</details>").format(
                    len(block.rows), self._table(block)
                )
            case doc.ByGroup():
                return group_table(block, self._text)
            case doc.Folded():
                return Markup("<details>\n<summary>{}</summary>\n{}\n</details>").format(
                    self.inline(block.title), self.blocks(block.blocks)
                )
            case doc.Figures():
                shown = () if block.is_drawn_by_table else block.charts
                if not shown:
                    return Markup("")
                return Markup('<div class="figures">\n{}\n</div>').format(
                    Markup("\n").join(map(_figure, shown))
                )

    def _table(self, block: doc.Table) -> Markup:
        """A table as HTML; columns and cells of numbers have the class that aligns them right."""
        lines = [Markup('<div class="scroll"><table>')]
        head = Markup("")
        for column in block.columns:
            title = self._text(column.title)
            head += Markup('<th scope="col"{}>{}</th>').format(
                _number_class(column.is_number), title
            )
        lines.append(Markup("<thead><tr>{}</tr></thead>\n<tbody>").format(head))
        for row in block.rows:
            cells = Markup("")
            for cell, column in zip(row, block.columns, strict=True):
                is_value = cell is None or isinstance(cell, (int, float, doc.Quantity))
                kind = _number_class(column.is_number or is_value)
                cells += Markup("<td{}>{}</td>").format(kind, self.inline(cell))
            lines.append(Markup("<tr>{}</tr>").format(cells))
        lines.append(Markup("</tbody>\n</table></div>"))
        return Markup("\n").join(lines)

    def inline(self, cell: doc.Cell) -> Markup:
        """Words, or a table's cell in words, as escaped HTML."""
        text = Markup("")
        for run in doc.runs_of(cell):
            match run:
                case str():
                    text += self._text(run)
                case doc.Strong():
                    text += Markup("<strong>{}</strong>").format(self._text(run.text))
                case doc.Code():
                    text += Markup("<code>{}</code>").format(visible(run.text))
                case doc.Badge():
                    shown = self._text(run.text)
                    text += Markup('<span class="badge {}">{}</span>').format(run.kind, shown)
        return text


def _figure(chart: Chart) -> Markup:
    """A chart as a figure: its legend, then a drawing for each panel.

    The legend has a mark of each series' shape in its colour, which the style sheet has as
    ``--s0``, ``--s1``, ...
    """
    legend = Markup("")
    if len(chart.series) > 1:
        # There are as many marks as a chart may have series.
        for number, (name, mark) in enumerate(zip(chart.series, MARKS, strict=False)):
            item = Markup('<span><span style="color:var(--s{})">{}</span> {}</span>\n')
            legend += item.format(number, mark, visible(name))
    panels = Markup("")
    for panel in chart.panels:
        panels += Markup(
            '<div class="panel">\n<p class="title">{}</p>\n'
            '<div class="chart" role="img" aria-label="{}">{}</div>\n</div>\n'
        ).format(visible(panel.title), visible(panel_alt(chart, panel)), _drawing(chart, panel))
    return Markup(
        '<figure id="{}" aria-label="{}">\n<p class="legend">{}</p>\n'
        '<div class="panels">\n{}</div>\n<figcaption>{}</figcaption>\n</figure>'
    ).format(chart.name, visible(chart.title), legend, panels, visible(chart.reading))


def _number_class(is_number: bool) -> Markup:
    """The attribute of a cell: the class of numbers, or nothing."""
    return Markup(' class="number"' if is_number else "")


# Attributes that a drawing repeats at each mark and that a page does not need: its style sheet has
# the font, and the label of the figure's panel has the words for screen readers.
_REPEATED = re.compile(r' (?:role|aria-[a-z]+|pointer-events|font-family)="[^"]*"')


def _drawing(chart: Chart, panel: Panel | Trend) -> Markup:
    """A panel as inline SVG, in colours that the page's style sheet sets for light and dark.

    Screen readers skip it, for the element around it has its words. The library that draws it
    escapes the names that it writes.
    """
    import vl_convert  # it takes a second to import, and a page without charts needs none

    drawn = vl_convert.vegalite_to_svg(page_spec(chart, panel), allowed_base_urls=[])
    drawn = _REPEATED.sub("", drawn)
    for number, colour in enumerate(PALETTE):
        drawn = drawn.replace(f'"{colour}"', f'"var(--s{number})"')
    return Markup(drawn.replace("<svg ", '<svg aria-hidden="true" ', 1))


def _unescaped(text: str) -> Markup:
    """The program's own script or style as it is: nothing in it may end its element early."""
    assert "</script" not in text
    assert "<!--" not in text
    return Markup(text)


def _policy_digest(script: str) -> str:
    """The name by which the page's content security policy allows this inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
