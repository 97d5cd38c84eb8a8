"""Reads what a report says to people, without the code that wrote it.

Tables to cells, cells to numbers.
"""

import html
import re

NUMBER = r"-?[\d,]*\.?\d+(?:e-?\d+)?"


def numbers(cell):
    """The numbers of a cell with the digits after the point that each shows.

    ``-`` and ``–`` are none.
    """
    found = re.findall(NUMBER, cell)
    return [
        (float(text.replace(",", "")), len(text.partition(".")[2].partition("e")[0]))
        for text in found
    ]


def says(cell, *values, factor=1.0):
    """Whether a cell shows these values, each rounded to as many digits as stand there."""
    shown = numbers(cell)
    return len(shown) == len(values) and all(
        abs(number - factor * value) <= 0.5000001 * 10.0**-digits
        for (number, digits), value in zip(shown, values, strict=True)
    )


def interval(estimate):
    return estimate["value"], estimate["low"], estimate["high"]


class Tables(dict):
    """Section -> its tables, each a list of rows, each a list of (heading, cell)."""

    def add(self, section, head, rows):
        self.setdefault(section, []).append([list(zip(head, row, strict=True)) for row in rows])

    def rows(self, section, *titles, number=0):
        """Rows as dicts; every title must be a heading of the table."""
        found = [dict(row) for row in self[section][number]]
        assert found
        assert set(titles) <= set(found[0])
        return found


def of_markdown(text):
    tables, section, lines = Tables(), "", [*text.splitlines(), ""]
    block = []
    for line in lines:
        if line.startswith("## "):
            section = line[3:]
        if line.startswith("|"):
            block.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif block:
            head, ruler, *rows = block
            assert all(set(mark) <= set("-:") for mark in ruler)
            tables.add(section, head, rows)
            block = []
    return tables


PIECES = re.compile(
    r'<h2[^>]*>(.*?)</h2>|<figure[^>]* id="([^"]*)"|</figure>|<table.*?</table>', re.S
)


def of_html(text):
    """Tables by the heading above them; those of a figure by its id."""
    tables, section, figure = Tables(), "", ""
    for piece in PIECES.finditer(text):
        if piece[1]:
            section = shown(piece[1])
        elif piece[0].startswith("<table"):
            rows = re.findall(r"<tr.*?</tr>", piece[0], re.S)
            cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.S) for row in rows]
            head, *body = [[shown(cell) for cell in row] for row in cells]
            tables.add(figure or section, head, body)
        else:
            figure = piece[2] or ""
    return tables


def shown(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()
