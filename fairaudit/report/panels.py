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
    """A number with its interval: ``row`` places it, ``series`` colours it.

    The ends may be unknown.
    """

    row: str
    series: str
    number: Interval


@dataclass(frozen=True, slots=True)
class Point:
    """A number at ``x`` of a line; the ends of its interval may be unknown."""

    x: float
    series: str
    number: Interval


def alone(value: float) -> Interval:
    """A number without an interval."""
    return Interval(value=value, low=None, high=None)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Dots with whiskers beside a line at ``origin``.

    Args:
        limits: What rules allow, each a marked line.
        least: Width of the axis at least, so that next to nothing does not look like much.
    """

    title: str
    x_title: str
    bars: tuple[Bar, ...]
    origin: float | None = 0.0
    limits: tuple[float, ...] = ()
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Lines:
    """One line per series over x; ``between`` fixes the y axis, so that panels can be compared.

    ``least`` as of intervals, of the y axis.
    """

    title: str
    x_title: str
    y_title: str
    points: tuple[Point, ...]
    between: tuple[float, float] | None = None
    is_log: bool = False
    origin: float | None = None
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Spot:
    """A model by two numbers; ``is_marked`` puts a ring around it."""

    x: float
    y: float
    series: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Scatter:
    """One dot for each model; ``least`` is the width of both axes at least, as of intervals."""

    title: str
    x_title: str
    y_title: str
    spots: tuple[Spot, ...]
    least: float = 0.0


Panel: TypeAlias = Intervals | Lines | Scatter


def labels(names: Sequence[str], limit: int = LABEL_LIMIT) -> dict[str, str]:
    """Name -> short visible text; two names never share one, however much they look alike."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        stem = plain(name, limit).strip() or NAMELESS
        label, number = stem, 2
        while label in taken:
            label, number = f"{stem} ({number})", number + 1
        taken.add(label)
        found[name] = label
    return found
