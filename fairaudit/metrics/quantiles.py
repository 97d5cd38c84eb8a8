"""Quantiles of Student's t and of the normal law, and the interval that is made of them.

In plain Python: a stored report is judged where numpy and scipy are not installed.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist

from fairaudit.results.estimates import Estimate

_STEP = 1 / 16  # of the quadrature: with it, it errs by less than a float is rounded by
_LARGEST = 690.0  # exponents beyond would overflow
_NEGLIGIBLE = 1e-17  # of a sum
_SMALL = 1e-15  # a step, of what it changes


def half_width(seed_variance: float, record_variance: float, seeds: int, pairs: float = 1) -> float:
    """Half of a 95 % interval: ``sqrt(t^2 seed_variance + z^2 record_variance)``.

    Args:
        seed_variance: V_seed.
        record_variance: Of the test records, V_shared or V_rec.
        seeds: S, for the S - 1 degrees of freedom of t.
        pairs: How many numbers share the 5 % (Bonferroni), not always a whole number. Below 1, as
            where all others are detected and leave their shares to the last, it counts as 1.

    Example:
        >>> round(half_width(0.0, record_variance=1e-4, seeds=5), 4)  # 1.96 times 0.01
        0.0196
    """
    t, z = quantiles(1 - 0.025 / max(1.0, pairs), max(1, seeds - 1))
    return math.sqrt(t**2 * seed_variance + z**2 * record_variance)


def among(one: Estimate, n_joint: float) -> Estimate:
    """The estimate with its interval widened to hold for ``n_joint`` numbers at once (Bonferroni).

    At most 5 % of audits have any of the many whose interval misses the truth, so whichever a
    sentence picks, it is wrong in at most 5 %. An estimate without an interval comes back
    unchanged. Source: docs/methods.md 6.5.

    Example:
        >>> from fairaudit.results.estimates import estimated
        >>> spread = {"training_sd": 0.0, "records_sd": 0.01, "n_seeds": 5, "n_test": 100}
        >>> alone = estimated(0.05, 0.0304, 0.0696, **spread, unit="fraction")
        >>> one_of_ten = among(alone, 10)
        >>> round(one_of_ten.low, 4), round(one_of_ten.high, 4)
        (0.0219, 0.0781)
    """
    if one.value is None or one.low is None or one.high is None:
        return one
    # Never narrower than it was: the interval of a largest gap already allows for all its pairs.
    half = half_width(
        (one.training_sd or 0.0) ** 2, (one.records_sd or 0.0) ** 2, one.n_seeds, n_joint
    )
    return one.model_copy(
        update={"low": min(one.low, one.value - half), "high": max(one.high, one.value + half)}
    )


@lru_cache(maxsize=4096)
def quantiles(level: float, degrees: float) -> tuple[float, float]:
    """Student's t at ``degrees`` of freedom and the standard normal, both at ``level``.

    Args:
        level: At least 1e-100, below 1.
        degrees: At least 1; infinite for the normal law.

    Example:
        >>> tuple(round(quantile, 3) for quantile in quantiles(0.975, 4))
        (2.776, 1.96)
    """
    z = NormalDist().inv_cdf(level)
    if math.isinf(degrees):
        return z, z
    if level < 0.5:
        return -_student(level, degrees, -z), z
    return _student(1.0 - level, degrees, z), z


def _student(beyond: float, degrees: float, z: float) -> float:
    """Student's t that is exceeded with probability ``beyond``, at most one half.

    With f the density without its constant and J the integral of f beyond t over f(t),

        beyond = f(t) J(t) / (2 J(0)),    f(t) = (1 + t^2 / degrees)^(-(degrees + 1) / 2),

    and that is solved for t = sqrt(degrees) sinh(w) by Newton's method on its logarithm. It is
    concave in w, for the density of w is a power of 1 / cosh. So a start on either side will do,
    and from the first step on w falls to the solution.

    Args:
        beyond: Above 0.
        degrees: Of freedom, at least 1.
        z: The normal law's, to start from.
    """
    power, spread = (degrees + 1.0) / 2.0, math.sqrt(degrees)
    goal = math.log(2.0 * beyond) + math.log(_reach(0.0, degrees))
    w = math.asinh(z / spread)
    for number in range(100):
        t = spread * math.sinh(w)
        reach = _reach(t, degrees)
        excess = math.log(reach) - power * math.log1p(t * t / degrees) - goal
        step = excess * reach / math.hypot(spread, t)
        w += step
        if abs(step) < _SMALL * w or (number and step >= 0.0):  # it rises by rounding alone
            break
    return spread * math.sinh(w)


def _reach(t: float, degrees: float) -> float:
    """The integral of Student's density over what lies beyond ``t``, in units of its value at t.

    That is of ``(1 + y (2 t + y) / (degrees + t^2))^(-(degrees + 1) / 2)`` over y from 0 on, by
    double exponential quadrature: every term is positive, so nothing cancels. Source: Takahasi and
    Mori 1974.
    """
    power, scale = (degrees + 1.0) / 2.0, degrees + t * t
    square = scale * math.expm1(1.0 / power)
    unit = square / (t + math.sqrt(t * t + square))  # where the integrand is 1 / e
    total = 0.0
    for node, weight in _nodes():
        y = unit * node
        term = weight * math.exp(-power * math.log1p(y * (2.0 * t + y) / scale))
        total += term
        if node > 1.0 and term < _NEGLIGIBLE * total:
            break
    return unit * total


@lru_cache(maxsize=1)
def _nodes() -> tuple[tuple[float, float], ...]:
    """Places and weights of the quadrature over the positive numbers, ascending."""
    return tuple(_made())


def _made() -> Iterator[tuple[float, float]]:
    """Places ``exp(pi/2 sinh u)`` for equally spaced u, from 1e-19 on, and their weights."""
    place = -4.0
    while math.pi / 2 * math.sinh(place) < _LARGEST:
        node = math.exp(math.pi / 2 * math.sinh(place))
        yield node, node * math.pi / 2 * math.cosh(place) * _STEP
        place += _STEP
