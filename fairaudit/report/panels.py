"""What a chart shows, as plain data.

Nothing here draws, so every rendering reads the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Interval

LABEL_LIMIT = 28  # characters of a name beside an axis
NAMELESS = "(empty)"
MOST_SERIES = 7  # as many as there are colours that everybody can tell apart


@dataclass(frozen=True, slots=True)
class Bar:
    """A number with its interval: ``row`` places it, ``series`` colours it."""

    row: str
    series: str
    number: Interval


@dataclass(frozen=True, slots=True)
class Point:
    """A number at ``x`` of a line; the ends of its interval may be unknown."""

    x: float
    series: str
    number: Interval


@dataclass(frozen=True, slots=True)
class Intervals:
    """Dots with whiskers beside a line at zero.

    Args:
        least: Width of the axis at least, so that next to nothing does not look like much.
    """

    title: str
    x_title: str
    bars: tuple[Bar, ...]
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Lines:
    """One line per series over x on a log scale; ``between`` are the ends of the y axis."""

    title: str
    x_title: str
    y_title: str
    points: tuple[Point, ...]
    between: tuple[float, float]


Panel: TypeAlias = Intervals | Lines


def labels(names: Sequence[str], limit: int = LABEL_LIMIT) -> dict[str, str]:
    """Name -> short visible text; two names never share one, however much they look alike."""
    label_of: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        stem = plain(name, limit).strip() or NAMELESS
        label, number = stem, 2
        while label in taken:
            label, number = f"{stem} ({number})", number + 1
        taken.add(label)
        label_of[name] = label
    return label_of
