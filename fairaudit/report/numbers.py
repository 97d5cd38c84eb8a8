"""How numbers, arms and guarantees are written, wherever a report is read."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from fairaudit.messages.names import arms_text
from fairaudit.methods.catalog import REFERENCE, Guarantee
from fairaudit.privacy.events import shown_up
from fairaudit.report.safe_names import plain
from fairaudit.report.types.facts import ArmPrivacy, AttackFacts
from fairaudit.results.estimates import Comparison, Estimate, GroupMeasure, Interval

UNKNOWN = "–"
_ROUNDING = 1e-15  # below it a sum or difference of numbers of about 1 is zero but for rounding


def number(value: float | None, decimals: int = 3) -> str:
    """A number for a cell; a dash where it is undefined, never 0."""
    if value is None:
        return UNKNOWN
    text = f"{value:.{decimals}f}"
    if float(text) == 0:  # no -0.000
        return text.removeprefix("-")
    return text


def figure(value: float | None, digits: int = 4) -> str:
    """A number at so many significant digits; a dash where it is undefined, never 0.

    A number that is zero but for rounding is 0.
    """
    if value is None:
        return UNKNOWN
    if abs(value) < _ROUNDING:
        return "0"
    return f"{value:.{digits}g}"


short = partial(figure, digits=3)  # for numbers that span many orders of magnitude


def count(value: int | None) -> str:
    """A count for a cell; a dash where it is suppressed."""
    if value is None:
        return UNKNOWN
    return f"{value:,}"


class Scale(NamedTuple):
    """How numbers of one kind are written.

    Args:
        factor: What they are multiplied by.
        digits: Scaled number -> text.
        suffix: What follows a value, as `` %``.
        exact: Scaled number -> text, of a number without uncertainty; it then stands without an
            interval. None: exact numbers are written as all others.
        is_spoken: Whether a missing value or interval is said in words; else a dash stands for a
            missing value.
    """

    factor: float
    digits: Callable[[float], str]
    suffix: str = ""
    exact: Callable[[float], str] | None = None
    is_spoken: bool = False


OWN_UNIT = Scale(1.0, number)
POINTS = Scale(100.0, partial(number, decimals=1), is_spoken=True)
PERCENT_DIGITS = Scale(100.0, partial(number, decimals=1))
PERCENT = Scale(100.0, partial(number, decimals=0), suffix=" %")
HUNDREDTHS = Scale(1.0, partial(number, decimals=2))
DEGREES = Scale(1.0, partial(number, decimals=1))
THOUSANDTHS = Scale(1e3, short)
READINGS = Scale(1.0, short)  # they span many orders of magnitude
CHANGES = Scale(1.0, figure)
# An exact number that a gate was held against, which is an epsilon or 1, is never understated.
GATED = Scale(1.0, figure, exact=shown_up)


def gated(unit: str, decimals: int = 2) -> Scale:
    """How the numbers of a gate are written.

    Args:
        unit: Theirs, as ``fraction`` or ``nats``; "" for those of a guarantee.
        decimals: Of fractions, which are written in points.
    """
    if unit == "fraction":
        return Scale(100.0, partial(number, decimals=decimals), suffix=" points")
    if unit == "nats":
        return GATED._replace(suffix=" nats")
    return GATED


def written(estimate: Interval | None, scale: Scale = OWN_UNIT, *, unknown: str = "") -> str:
    """A number with its interval, ``2.9 [1.2, 4.6]``; never 0 for what is undefined.

    Args:
        estimate: None where it was not measured.
        scale: How to write it.
        unknown: What stands for an undefined one; "": ``undefined`` with the reason where the scale
            is spoken, else a dash.
    """
    if estimate is None or estimate.value is None:
        if unknown:
            return unknown
        return _missing(estimate) if scale.is_spoken else UNKNOWN
    value = value_alone(estimate, scale)
    if scale.exact is not None and estimate.is_exact:
        return value
    if estimate.ends is not None:
        return f"{value} {interval_alone(estimate, scale)}"
    if scale.is_spoken:
        return f"{value} (no interval)"
    return value


def _missing(estimate: Interval | None) -> str:
    """Why there is no number: ``not measured``, or ``undefined`` with its reason, if any."""
    if estimate is None:
        return "not measured"
    reason = estimate.reason if isinstance(estimate, Estimate) else ""
    return f"undefined: {reason}" if reason else "undefined"


def value_alone(estimate: Interval, scale: Scale) -> str:
    """The number without its interval, with the scale's suffix; a dash where it is undefined."""
    if estimate.value is None:
        return UNKNOWN
    return _digits(estimate, scale)(scale.factor * estimate.value) + scale.suffix


def interval_alone(estimate: Interval, scale: Scale) -> str:
    """The interval without its number, as ``[low, high]`` on this scale; a dash without one."""
    if estimate.ends is None:
        return UNKNOWN
    digits = _digits(estimate, scale)
    low, high = estimate.ends
    return f"[{digits(scale.factor * low)}, {digits(scale.factor * high)}]"


def _digits(estimate: Interval, scale: Scale) -> Callable[[float], str]:
    """The function of the scale that writes this number: an exact number may have its own."""
    if scale.exact is not None and estimate.is_exact:
        return scale.exact
    return scale.digits


def with_unit(value: float | None, unit: str) -> str:
    """A number with its unit, for a sentence: fractions in points, losses in nats, else bare.

    A dash where it is None.
    """
    if value is None:
        return UNKNOWN
    if unit == "nats":
        return f"{number(value)} nats"
    if unit != "fraction":
        return number(value)
    points = number(100 * value, decimals=1).removesuffix(".0")
    if abs(value) < 1e-3:  # one decimal would leave nothing of it
        points = f"{100 * value:.3g}"
    if points == "1":
        return f"{points} point"
    return f"{points} points"


def versus(comparison: Comparison) -> str:
    """The arm of a comparison, and its reference where that is not ``sgd``."""
    arm = plain(comparison.arm)
    if comparison.reference == REFERENCE:
        return arm
    return f"{arm} against {plain(comparison.reference)}"


def change_text(group: GroupMeasure, metric: str) -> str:
    """A metric of the reference, then of the arm that is compared with it: ``0.813 → 0.801``."""
    before, after = group.value(f"reference.{metric}"), group.value(metric)
    return f"{number(before)} → {number(after)}"


def attack_sentence(privacy: Mapping[str, ArmPrivacy]) -> str:
    """The sentence on how many members the guarantees of these arms let an attack identify.

    "" where no guarantee is proved.

    Args:
        privacy: Key of an arm -> its guarantee.
    """
    attacks = {}
    for key, facts in privacy.items():
        if facts.guarantee is Guarantee.ESTABLISHED and facts.attack:
            attacks[key] = facts.attack
    return spoken_rates(attacks)


def spoken_rates(attacks: Mapping[str, Sequence[AttackFacts]]) -> str:
    """The sentence on how many members an attack can identify at most, by rate of false alarms.

    Arms whose rates are written alike stand together.

    Args:
        attacks: Key of an arm -> what its guarantee allows, at the same false alarms for every arm.
            Empty: the sentence is "".
    """
    if not attacks:
        return ""
    keys_of: dict[str, list[str]] = {}  # rates as they are written -> keys of arms with these rates
    for key, rates in attacks.items():
        identified = _main_and_others(map(_percent_up, rates))
        keys_of.setdefault(identified, []).append(key)
    first = next(iter(attacks.values()))  # any arm's: all have the same false alarms
    alarms = _main_and_others(f"{100 * rate.false_positive_rate:g} %" for rate in first)
    clauses = []
    for identified, keys in keys_of.items():
        arms = f" ({arms_text(keys)})" if len(attacks) > 1 else ""
        clauses.append(f"{identified} of training records{arms}")
    return (
        f"No attack that wrongly accuses {alarms} of outsiders can identify more than "
        f"{'; '.join(clauses)}; a guess finds {alarms}"
    )


def _main_and_others(texts: Iterable[str]) -> str:
    """The first text, and the others in brackets behind it."""
    main, *others = texts
    if others:
        return f"{main} ({', '.join(others)})"
    return main


def _percent_up(rate: AttackFacts) -> str:
    """The share of members that are found, in per cent, rounded up to two significant digits.

    So no attacker is made to look weaker than he may be.
    """
    percent = 100 * rate.true_positive_rate  # above 0: a guess finds the share of false alarms
    unit = 10.0 ** (math.floor(math.log10(percent)) - 1)  # that of the second digit
    # 1e-9: a number of two digits stays as it is, though the division is inexact.
    return f"{min(100.0, math.ceil(percent / unit - 1e-9) * unit):.3g} %"
