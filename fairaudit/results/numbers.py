"""How numbers leave the program: six significant digits, and bounds never tighter than they are."""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer

DIGITS = 6


def rounded(value: float) -> float:
    """The nearest number of six significant digits."""
    return _to_digits(value, ROUND_HALF_EVEN)


def rounded_down(value: float) -> float:
    """The largest number of six significant digits that is not above ``value``."""
    return _to_digits(value, ROUND_FLOOR)


def rounded_up(value: float) -> float:
    """The smallest number of six significant digits that is not below ``value``."""
    return _to_digits(value, ROUND_CEILING)


def _to_digits(value: float, rounding: str) -> float:
    if value == 0:
        return 0.0
    # repr, not the binary value: a number that was rounded before must come back unchanged.
    exact = Decimal(repr(value))
    step = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)
    return float(exact.quantize(step, rounding=rounding))


Figure = Annotated[float, PlainSerializer(rounded, return_type=float, when_used="json")]
LowEnd = Annotated[float, PlainSerializer(rounded_down, return_type=float, when_used="json")]
HighEnd = Annotated[float, PlainSerializer(rounded_up, return_type=float, when_used="json")]
EpsilonFigure = Annotated[float, PlainSerializer(rounded_up, return_type=float, when_used="json")]


class Part(BaseModel):
    """A piece of a report: immutable, closed, without NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
