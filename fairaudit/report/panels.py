"""What a chart shows, as plain data.

Nothing here draws, so every rendering reads the same numbers.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Interval

LABEL_LIMIT = 18  # characters of a name beside an axis
NAMELESS = "(empty)"
MOST_SERIES = 7  # as many as there are colours that everybody can tell apart
N = TypeVar("N", bound=Hashable)  # a name, or several that say together what is meant


@dataclass(frozen=True, slots=True)
class Bar:
    """A number with its interval: ``row`` places it, ``series`` colours it."""

    row: str
    series: str
    number: Interval


@dataclass(frozen=True, slots=True)
class Panel:
    """Dots with whiskers beside a line at zero.

    Args:
        title: What is measured, with its unit.
        unit: Panels of a chart in one unit have one axis.
        bars: The numbers.
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: (where, value) in rising order; a value is None where it is not known."""

    series: str
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """Curves over a training.

    Args:
        title: What is read, with its unit.
        along: What the horizontal axis counts.
        lines: One for each series.
    """

    title: str
    along: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of a report, above the table that holds its numbers.

    Args:
        name: Of its file and its place in the page: letters, digits and dashes.
        title: What it shows.
        reading: How to read it.
        alt: What a reader who cannot see it should know.
        series: What colours and shapes stand for, in their order.
        panels: Drawings side by side.
    """

    name: str
    title: str
    reading: str
    alt: str
    series: tuple[str, ...]
    panels: tuple[Panel | Trend, ...]


def labels(
    names: Sequence[N], limit: int = LABEL_LIMIT, *, text_of: Callable[[N], str] = str
) -> dict[N, str]:
    """Name -> its label, a visible text which no two names share.

    Args:
        names: What to label; one that comes again has one label.
        limit: Characters of a label, but for a number that keeps it apart from an equal one.
        text_of: Name -> how it is written, which two names may share.
    """
    label_of: dict[N, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        stem = plain(text_of(name), limit).strip() or NAMELESS
        label, number = stem, 2
        while label in taken:
            label, number = f"{stem} ({number})", number + 1
        taken.add(label)
        label_of[name] = label
    return label_of
