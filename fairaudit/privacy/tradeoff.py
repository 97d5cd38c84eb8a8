"""Epsilon in words: whom an attacker can rightly accuse of having been in the training records.

An attacker decides from the trained model whether one person's record was in it. Of the people who
were not, he accuses a share: the false positive rate. Of those who were, he can accuse no more than
a share that the privacy curve fixes (the true positive rate), whatever else he knows: for every
epsilon

    true positive rate <= delta(epsilon) + exp(epsilon) * false positive rate,

and the least of these over all epsilons, negative ones included, is the exact trade-off of the
accounted mechanism. The privacy curve is the function delta(epsilon). Source: Wasserman and Zhou
2010, Theorem 2.4; Dong, Roth and Su 2022, Proposition 2.13.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from statistics import NormalDist

from fairaudit.privacy.accounting import CURVE_DELTA, LARGEST_CURVE, PrivacyCurve, privacy_curve
from fairaudit.privacy.events import Gaussian, PrivacyEvent
from fairaudit.privacy.selection import (
    Float64,
    SelectionEvent,
    delta_of_divergences,
    epsilon_of_divergences,
)

FALSE_POSITIVE_RATES = (0.01, 0.001)  # of a membership attack, at which its power is stated
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # ratio of golden-section search
_WIDTH = 1e-3  # the range of epsilon at which the search ends; a minimum is flat within it


@lru_cache(maxsize=1024)
def attack_rates(
    event: PrivacyEvent | SelectionEvent, rates: tuple[float, ...] = FALSE_POSITIVE_RATES
) -> tuple[float, ...]:
    """Upper bounds on an attacker's true positive rate, one at each false positive rate.

    Args:
        event: What one training releases, for which the bound is exact (never too small, right to
            1e-4); or what a search releases, which Renyi accounting alone bounds.
        rates: False positive rates, fractions.

    Returns:
        True positive rates, fractions, in the order of ``rates``; 1 where nothing is proved.
    """
    # In closed form. Without noise nothing is proved: ``privacy_curve`` gives None then.
    if isinstance(event, Gaussian) and event.noise_multiplier > 0.0:
        mu = math.sqrt(event.count) / event.noise_multiplier
        return tuple(rate_of_gaussian(mu, at) for at in rates)
    if isinstance(event, SelectionEvent):
        # For a fit record and for a validation record: the worse one counts.
        curves = [_curve_of_divergences(divergences) for divergences in event.divergences()]
    else:
        curves = [privacy_curve(event)]
    return tuple(max(rate_of_curve(curve, at) for curve in curves) for at in rates)


def _curve_of_divergences(divergences: Float64) -> PrivacyCurve | None:
    """The privacy curve that Renyi divergences ``[len(ORDERS)]`` imply, for epsilons from 0.

    Its range ends where that of ``privacy_curve`` does, and begins at 0: Renyi divergences say
    nothing at negative epsilons. None where epsilon at ``CURVE_DELTA`` is above LARGEST_CURVE.
    """
    rough_epsilon = epsilon_of_divergences(divergences, CURVE_DELTA)
    if rough_epsilon > LARGEST_CURVE:
        return None
    delta = partial(delta_of_divergences, divergences)
    return PrivacyCurve(delta, least=0.0, most=2.0 * rough_epsilon + 5.0)


def rate_of_gaussian(mu: float, false_positive_rate: float) -> float:
    """The true positive rate of the most powerful test between N(0, 1) and N(mu, 1).

    Exact for Gaussian releases about all records, where mu is sqrt(count) / noise multiplier.
    Source: Dong, Roth and Su 2022, Definition 2.6.
    """
    normal = NormalDist()
    return normal.cdf(normal.inv_cdf(false_positive_rate) + mu)


def rate_of_curve(curve: PrivacyCurve | None, false_positive_rate: float) -> float:
    """The least upper bound on the true positive rate that a privacy curve proves.

    1 where there is no curve: nothing is proved.
    """
    if curve is None:
        return 1.0

    def accused(epsilon: float) -> float:
        """The bound on the true positive rate that one epsilon proves (the module's formula)."""
        return curve.delta(epsilon) + math.exp(epsilon) * false_positive_rate

    def spared(epsilon: float) -> float:
        """The bound that one epsilon proves by those who are not accused.

        With the roles of the two kinds of people exchanged the formula is 1 - false positive rate
        <= delta(epsilon) + exp(epsilon) * (1 - true positive rate). Solved for the true positive
        rate it stands in for the negative epsilons that a curve does not know.
        """
        return 1.0 - math.exp(-epsilon) * (1.0 - curve.delta(epsilon) - false_positive_rate)

    least = min(1.0, _least(accused, curve))
    if curve.least < 0.0:
        return least
    return min(least, _least(spared, curve))


def _least(bound: Callable[[float], float], curve: PrivacyCurve) -> float:
    """The minimum of ``bound(epsilon)`` over the curve's epsilons, by golden-section search.

    Of an exact curve the bound (``accused``) is convex in exp(epsilon), so it has one minimum. Of
    Renyi divergences either bound may have several minima. A bound holds at every epsilon, so a
    minimum that is missed gives a looser bound and never a wrong one.
    """
    # The minimum lies between low and high; left and right are the two points inside at which the
    # bound is known. Each round cuts off the part beyond whichever of the two has the larger bound.
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
