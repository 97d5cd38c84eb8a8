"""How a number with its interval is written, wherever a report is read."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from fairaudit.privacy.events import shown_up
from fairaudit.results.estimates import Estimate, Interval

UNKNOWN = "–"


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


class Scale(NamedTuple):
    """How numbers of one kind are written.

    Args:
        factor: What they are multiplied by.
        digits: Number -> text.
        suffix: What follows a value.
        exact: How a number without uncertainty is written, which then needs no interval; None as any other.
        is_spoken: What is not known is said in words; else by a dash.
    """

    factor: float
    digits: Callable[[float], str]
    suffix: str = ""
    exact: Callable[[float], str] | None = None
    is_spoken: bool = False


OWN_UNIT = Scale(1.0, number)
POINTS = Scale(100.0, partial(number, decimals=1), is_spoken=True)
PERCENT = Scale(100.0, partial(number, decimals=0), suffix=" %")
THOUSANDTHS = Scale(1e3, short)
READINGS = Scale(1.0, short)  # they span many orders of magnitude
CHANGES = Scale(1.0, figure)
# An exact number that a gate was held against, which is an epsilon or 1, is never understated.
GATED = Scale(1.0, figure, exact=shown_up)


def gated(unit: str, decimals: int = 2) -> Scale:
    """How a number of a gate is written: fractions in points, with so many decimals of them."""
    if unit == "fraction":
        return Scale(100.0, partial(number, decimals=decimals), suffix=" points")
    return GATED._replace(suffix=" nats") if unit == "nats" else GATED


def written(estimate: Interval | None, scale: Scale = OWN_UNIT, *, unknown: str = "") -> str:
    """A number with its interval, ``2.9 [1.2, 4.6]``; never 0 for what is undefined.

    Args:
        estimate: None where it was not measured.
        scale: How to write it.
        unknown: What stands for an undefined one; "" for what is usual on this scale.
    """
    if estimate is None or estimate.value is None:
        return unknown or (_said(estimate) if scale.is_spoken else UNKNOWN)
    value = value_alone(estimate, scale)
    if scale.exact is not None and estimate.is_exact:
        return value
    if estimate.ends is None:
        return f"{value} (no interval)" if scale.is_spoken else value
    return f"{value} {interval_alone(estimate, scale)}"


def value_alone(estimate: Interval, scale: Scale) -> str:
    """The number without its interval."""
    if estimate.value is None:
        return UNKNOWN
    return _digits(estimate, scale)(scale.factor * estimate.value) + scale.suffix


def interval_alone(estimate: Interval, scale: Scale) -> str:
    """The interval without its number."""
    if estimate.ends is None:
        return UNKNOWN
    low, high = (_digits(estimate, scale)(scale.factor * end) for end in estimate.ends)
    return f"[{low}, {high}]"


def _digits(estimate: Interval, scale: Scale) -> Callable[[float], str]:
    return scale.exact if scale.exact is not None and estimate.is_exact else scale.digits


def _said(estimate: Interval | None) -> str:
    if estimate is None:
        return "not measured"
    reason = estimate.reason if isinstance(estimate, Estimate) else ""
    return f"undefined: {reason}" if reason else "undefined"
