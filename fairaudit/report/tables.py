"""Markdown tables that stay readable: escaped cells, a cap on rows, and a word on what was left out."""

from collections.abc import Iterator, Sequence

from fairaudit.errors import numbered

Row = tuple[str, ...]
UNKNOWN = "–"


def table(head: Sequence[str], rows: Sequence[Row], *, most: int) -> Iterator[str]:
    """Lines of a table; text cells must be escaped already.

    Args:
        head: Column titles; a title that starts with ``#`` marks a column of numbers.
        rows: Cells, as many as titles.
        most: Rows shown; the rest is in the JSON, and the line below says so.
    """
    yield "| " + " | ".join(title.removeprefix("#") for title in head) + " |"
    yield "|" + "|".join("---:" if title.startswith("#") else "---" for title in head) + "|"
    for row in rows[:most]:
        yield "| " + " | ".join(row) + " |"
    if len(rows) > most:
        yield ""
        yield f"{numbered(len(rows) - most, 'more row is', 'more rows are')} in report.json."


def number(value: float | None, decimals: int = 3) -> str:
    """A number for a cell; a dash where it is undefined, never 0."""
    if value is None:
        return UNKNOWN
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def figure(value: float | None) -> str:
    """A number at four significant digits; a dash where it is undefined, never 0."""
    return UNKNOWN if value is None else f"{value:.4g}"


def short(value: float | None) -> str:
    """A number at three significant digits, for figures that span many orders of magnitude."""
    return UNKNOWN if value is None else f"{value:.3g}"


def count(value: int | None) -> str:
    """A count for a cell; a dash where it is suppressed."""
    return UNKNOWN if value is None else f"{value:,}"
