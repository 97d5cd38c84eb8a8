"""Quantiles of Student's t and of the normal law, and the interval that is made of them.

In plain Python: a stored report is judged where numpy and scipy are not installed.
"""

import math
from functools import lru_cache
from statistics import NormalDist

from fairaudit.results.estimates import Estimate

# Step of the double exponential quadrature: its error is then below the rounding of a float.
_QUADRATURE_STEP = 1 / 16
_LARGEST_EXPONENT = 690.0  # exp overflows a little beyond (at 709)
_NEGLIGIBLE_TERM = 1e-17  # relative to the sum so far: below the precision of a float
_NEWTON_TOLERANCE = 1e-15  # relative: a step of Newton's method that is smaller ends it
_NEWTON_STEPS = 100  # never reached: it takes about six


def half_width(seed_variance: float, record_variance: float, seeds: int, pairs: float = 1) -> float:
    """Half of a 95 % interval: ``sqrt(t^2 seed_variance + z^2 record_variance)``.

    t and z are the quantiles of Student's t and of the normal law at ``1 - 0.025 / pairs``.
    Source: docs/methods.md 6.3.

    Args:
        seed_variance: V_seed.
        record_variance: Of the test records, V_shared or V_rec.
        seeds: S, for the S - 1 degrees of freedom of t.
        pairs: How many numbers share the 5 % (Bonferroni), not always a whole number. Below 1, as
            where all others are detected and leave their shares to the last, it is taken for 1.

    Example:
        >>> round(half_width(0.0, record_variance=1e-4, seeds=5), 4)  # 1.96 times 0.01
        0.0196
    """
    t, z = quantiles(1 - 0.025 / max(1.0, pairs), max(1, seeds - 1))
    return math.sqrt(t**2 * seed_variance + z**2 * record_variance)


def with_joint_interval(one: Estimate, n_joint: float) -> Estimate:
    """The estimate with its interval widened to hold for ``n_joint`` numbers at once (Bonferroni).

    With all of them widened so, the interval of any number misses the truth in at most 5 % of
    audits, so a sentence may pick whichever it likes. An estimate without an interval comes back
    unchanged. Source: docs/methods.md 6.5.

    Args:
        one: One of the numbers, with its own 95 % interval.
        n_joint: How many there are, not always a whole number.

    Example:
        >>> from fairaudit.results.estimates import estimated
        >>> spread = {"training_sd": 0.0, "records_sd": 0.01, "n_seeds": 5, "n_test": 100}
        >>> own = estimated(0.05, 0.0304, 0.0696, **spread, unit="fraction")
        >>> one_of_ten = with_joint_interval(own, 10)
        >>> round(one_of_ten.low, 4), round(one_of_ten.high, 4)
        (0.0219, 0.0781)
    """
    if one.value is None or one.low is None or one.high is None:
        return one
    # The None of a part without spread (one model) counts as 0.
    half = half_width(
        (one.training_sd or 0.0) ** 2, (one.records_sd or 0.0) ** 2, one.n_seeds, n_joint
    )
    # Never narrower than it was: the interval of a largest gap already allows for all its pairs.
    low, high = min(one.low, one.value - half), max(one.high, one.value + half)
    return one.model_copy(update={"low": low, "high": high})


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
    if level < 0.5:  # t is symmetric about 0, and `_student_quantile` takes the upper tail
        return -_student_quantile(level, degrees, -z), z
    return _student_quantile(1.0 - level, degrees, z), z


def _student_quantile(tail: float, degrees: float, z: float) -> float:
    """Student's t that is exceeded with probability ``tail``.

    With f the density without its constant (f(0) = 1) and J the Mills ratio (:func:`_mills_ratio`),

        tail = f(t) J(t) / (2 J(0)),    f(t) = (1 + t^2 / degrees)^(-(degrees + 1) / 2).

    Newton's method solves the logarithm of this for w, with t = sqrt(degrees) sinh(w). The
    logarithm is concave in w, because the density of w is a power of 1 / cosh. So any start
    converges, and w falls at every step after the first.

    Args:
        tail: Above 0, at most one half.
        degrees: Of freedom, at least 1.
        z: The normal law's quantile, from which the method starts.
    """
    power, root = (degrees + 1.0) / 2.0, math.sqrt(degrees)
    goal = math.log(2.0 * tail) + math.log(_mills_ratio(0.0, degrees))
    w = math.asinh(z / root)
    for number in range(_NEWTON_STEPS):
        t = root * math.sinh(w)
        ratio = _mills_ratio(t, degrees)
        excess = math.log(ratio) - power * math.log1p(t * t / degrees) - goal
        # The derivative by w is -(dt/dw) / ratio, with dt/dw = root cosh(w) = hypot(root, t).
        step = excess * ratio / math.hypot(root, t)
        w += step
        # After the first step w falls in theory: if it rises, rounding is all that is left.
        if abs(step) < _NEWTON_TOLERANCE * w or (number > 0 and step >= 0.0):
            break
    return root * math.sinh(w)


def _mills_ratio(t: float, degrees: float) -> float:
    """Mills ratio of Student's t: the integral of its density beyond ``t`` over the density at t.

    That is the integral of ``(1 + y (2 t + y) / (degrees + t^2))^(-(degrees + 1) / 2)`` over y >= 0
    (y is the distance beyond t), by double exponential quadrature. Every term is positive, so
    nothing cancels. Source: Takahasi and Mori 1974.
    """
    power, scale = (degrees + 1.0) / 2.0, degrees + t * t
    # The nodes are scaled so that 1 falls on the y at which the integrand is 1 / e.
    square = scale * math.expm1(1.0 / power)
    unit = square / (t + math.sqrt(t * t + square))
    total = 0.0
    for node, weight in _quadrature_nodes():
        y = unit * node
        term = weight * math.exp(-power * math.log1p(y * (2.0 * t + y) / scale))
        total += term
        if node > 1.0 and term < _NEGLIGIBLE_TERM * total:  # from here on terms only fall
            break
    return unit * total


@lru_cache(maxsize=1)
def _quadrature_nodes() -> tuple[tuple[float, float], ...]:
    """Nodes and weights of the double exponential quadrature over the positive numbers, ascending.

    The nodes are ``exp(pi/2 sinh u)`` at equally spaced u from -4 on, so from 1e-19 on; a weight is
    the derivative by u times the spacing.
    """
    nodes = []
    u = -4.0
    while math.pi / 2 * math.sinh(u) < _LARGEST_EXPONENT:
        node = math.exp(math.pi / 2 * math.sinh(u))
        nodes.append((node, node * math.pi / 2 * math.cosh(u) * _QUADRATURE_STEP))
        u += _QUADRATURE_STEP
    return tuple(nodes)
