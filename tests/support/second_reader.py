"""Reads what a report says to people, without the code that wrote it.

Tables to cells, cells to numbers.
"""

import re
from html.parser import HTMLParser

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


class _Page(HTMLParser):
    """Tables by the heading above them; those of a figure by its id."""

    def __init__(self):
        super().__init__()
        self.tables, self.section, self.figure = Tables(), "", ""
        self.row, self.cell, self.head, self.rows, self.title = None, None, None, [], False

    def handle_starttag(self, tag, attributes):
        if tag == "figure":
            self.figure = dict(attributes)["id"]
        elif tag == "table":
            self.head, self.rows = None, []
        elif tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            self.cell = ""
        elif tag == "h2":
            self.title, self.section = True, ""

    def handle_endtag(self, tag):
        if tag == "figure":
            self.figure = ""
        elif tag in ("td", "th"):
            self.row.append(self.cell.strip())
            self.cell = None
        elif tag == "tr" and self.head is None:
            self.head = self.row
        elif tag == "tr":
            self.rows.append(self.row)
        elif tag == "table":
            self.tables.add(self.figure or self.section, self.head, self.rows)
        elif tag == "h2":
            self.title = False

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data
        elif self.title:
            self.section += data


def of_html(text):
    page = _Page()
    page.feed(text)
    return page.tables
