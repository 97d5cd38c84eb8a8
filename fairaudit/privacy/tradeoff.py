"""Epsilon in words: whom an attacker can rightly accuse of having been in the training records.

An attacker decides from the trained model whether one person's record was in it. Of those who were
not, he accuses a share: the false positive rate. Of those who were, he can then accuse no more than
a share that the privacy curve fixes, whatever he knows beside: for every epsilon

    true positive rate <= delta(epsilon) + exp(epsilon) * false positive rate,

and the least of these over all epsilons, negative ones included, is the exact trade-off of the
accounted mechanism. Source: Wasserman and Zhou 2010, Theorem 2.4; Dong, Roth and Su 2022,
Proposition 2.13.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.privacy.accounting import CURVE_DELTA, LARGEST_CURVE, Accountant, privacy_curve
from fairaudit.privacy.events import Gaussian, PrivacyEvent
from fairaudit.privacy.selection import SelectionEvent, delta_of_divergences, epsilon_of_divergences

FALSE_POSITIVE_RATES = (0.01, 0.001)
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_WIDTH = 1e-3  # of epsilon, in which a minimum is flat


class Profile(NamedTuple):
    """A privacy curve: epsilon -> the least delta that is proved beside it, and where it is of use.

    ``least`` is 0 where it knows no negative epsilons.
    """

    delta: Callable[[float], float]
    least: float
    most: float


class AttackRate(NamedTuple):
    """The most that an attacker can do at one rate of false accusations; both are fractions."""

    false_positive_rate: float
    true_positive_rate: float


@lru_cache(maxsize=1024)
def attack_rates(
    event: PrivacyEvent | SelectionEvent,
    accountant: Accountant = "pld",
    rates: tuple[float, ...] = FALSE_POSITIVE_RATES,
) -> tuple[AttackRate, ...]:
    """What an attacker on one trained model can reach at each rate of false accusations.

    Args:
        event: What one run releases, or a charged search, which Renyi accounting alone bounds.
        accountant: ``pld`` for the exact trade-off, never too small and right to 1e-4; ``rdp`` for
            an upper bound from the curve of Renyi accounting, where there is no other.
        rates: Of false accusations.
    """
    if isinstance(event, SelectionEvent):
        # Of the two places in which a record may be, the one that leaves an attacker more.
        places = [_rates(_of_divergences(each), rates) for each in event.divergences()]
        return tuple(
            max(both, key=lambda rate: rate.true_positive_rate)
            for both in zip(*places, strict=True)
        )
    if isinstance(event, Gaussian) and event.noise_multiplier > 0.0 and accountant == "pld":
        mu = math.sqrt(event.count) / event.noise_multiplier
        return tuple(AttackRate(at, of_gaussian(mu, at)) for at in rates)
    return _rates(profile(event, accountant), rates)


def _rates(curve: Profile | None, rates: tuple[float, ...]) -> tuple[AttackRate, ...]:
    return tuple(AttackRate(at, 1.0 if curve is None else of_profile(curve, at)) for at in rates)


def profile(event: PrivacyEvent, accountant: Accountant = "pld") -> Profile | None:
    """The whole privacy curve of one run; one (epsilon, delta) is a point of it.

    None: nothing is proved.
    """
    found = privacy_curve(event, accountant)
    if found is None:
        return None
    delta, most = found
    return Profile(
        lambda epsilon: float(delta(epsilon)), 0.0 if accountant == "rdp" else -most, most
    )


def _of_divergences(divergences: NDArray[np.float64]) -> Profile | None:
    size = epsilon_of_divergences(divergences, CURVE_DELTA)
    if size > LARGEST_CURVE:
        return None
    return Profile(
        lambda epsilon: delta_of_divergences(divergences, epsilon), 0.0, 2.0 * size + 5.0
    )


def of_gaussian(mu: float, false_positive_rate: float) -> float:
    """The most powerful test between N(0, 1) and N(mu, 1): exact for Gaussian releases.

    Source: Dong, Roth and Su 2022, Definition 2.6.
    """
    normal = NormalDist()
    return normal.cdf(normal.inv_cdf(false_positive_rate) + mu)


def of_profile(curve: Profile, false_positive_rate: float) -> float:
    """The least upper bound on the true positive rate that a privacy curve proves."""

    def accused(epsilon: float) -> float:
        return curve.delta(epsilon) + math.exp(epsilon) * false_positive_rate

    def spared(epsilon: float) -> float:
        """The same seen from those who are not accused, for a curve without negative epsilons."""
        return 1.0 - math.exp(-epsilon) * (1.0 - curve.delta(epsilon) - false_positive_rate)

    found = min(1.0, _least(accused, curve))
    if curve.least < 0.0:
        return found
    return min(found, _least(spared, curve))


def _least(bound: Callable[[float], float], curve: Profile) -> float:
    """The minimum, by golden sections.

    The bound is convex in exp(epsilon), and any value of it is true.
    """
    low, high = curve.least, curve.most
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = bound(left), bound(right)
    least = min(bound(low), at_left, at_right)
    while high - low > _WIDTH:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = bound(right)
        least = min(least, at_left, at_right)
    return least
