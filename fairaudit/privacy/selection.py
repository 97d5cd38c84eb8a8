"""What it costs to train at several settings and release the best: Papernot and Steinke 2022.

A search draws K, then releases the best by its score of K independent draws of one mechanism: a
candidate from a public prior, its training on the fit rows, its score on the validation rows. That
K is random is what makes the search cheap: the best of a fixed K tells that the K-1 others were
worse. It is charged by Renyi divergences. docs/tuning.md 3.

K is the number of tries. A record is in the fit rows or in the validation rows, and the search has
an epsilon for either. The base is the epsilon that each candidate's training is calibrated to; it
is smaller than the search's. Divergences are arrays of one value, in nats, for each of ``ORDERS``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fairaudit.errors import PrivacyError
from fairaudit.privacy.accounting import ORDERS, checked_delta, quiet, rounded_up
from fairaudit.privacy.events import Gaussian, PrivacyEvent, shown_up

_ALMOST_ZERO = 1e-300  # a delta so small that even a tiny divergence gives an epsilon above 0
Float64 = NDArray[np.float64]
SCORE = "score"  # name of its release
_LESS = "use a larger --epsilon, a smaller --tune, or --tune-privacy uncharged"
# A search's epsilon lies within this fraction below its target; that of a training within 0.2 %.
TOLERANCE = 5e-3
_DIGITS = 4  # of a base: arms of one schedule then ask for the same noise, which is computed once
# Where no noise meets the smaller bases, the search for a base ends once log(base) is this close.
_NEAR = 0.02
_SMALLEST, _LARGEST = 1e-3, 1e6  # the smallest base, the largest noise multiplier of a score


def renyi_divergences(event: PrivacyEvent) -> Float64:
    """Renyi divergences ``[len(ORDERS)]`` of one run, for adding or removing a record.

    They are infinite without noise. Where nothing is sampled they are order * steps / (2 sigma^2).
    """
    sigma = event.effective_noise_multiplier
    if sigma == 0.0:
        return np.full(len(ORDERS), math.inf)
    if isinstance(event, Gaussian) or event.steps_per_epoch == 1:
        return np.asarray(ORDERS) * (event.steps / (2.0 * sigma**2))
    # Of 12 digits, so that noises that differ by rounding find the same entry in the cache.
    step = _step_divergences(event.steps_per_epoch, float(f"{sigma:.12g}"))
    return np.asarray(step) * event.steps


def epsilon_of_divergences(divergences: Float64, delta: float) -> float:
    """The least epsilon at ``delta`` that divergences ``[len(ORDERS)]`` imply."""
    checked_delta(delta)
    with quiet():
        from dp_accounting.rdp import rdp_privacy_accountant  # lazily: 2 s

        # (epsilon, the order that gives it)
        return float(rdp_privacy_accountant.compute_epsilon(ORDERS, divergences, delta)[0])


def delta_of_divergences(divergences: Float64, epsilon: float) -> float:
    """The least delta at ``epsilon`` that divergences ``[len(ORDERS)]`` imply."""
    with quiet():
        from dp_accounting.rdp import rdp_privacy_accountant  # lazily: 2 s

        # (delta, the order that gives it)
        return float(rdp_privacy_accountant.compute_delta(ORDERS, divergences, epsilon)[0])


@lru_cache(maxsize=256)
def _step_divergences(steps_per_epoch: int, sigma: float) -> tuple[float, ...]:
    """Renyi divergences at ``ORDERS`` of one step on a Poisson sample, from dp_accounting."""
    values = []
    with quiet():
        import dp_accounting  # lazily: 2 s
        from dp_accounting import rdp  # lazily: 2 s

        step = dp_accounting.PoissonSampledDpEvent(
            1.0 / steps_per_epoch, dp_accounting.GaussianDpEvent(sigma)
        )
        for order in ORDERS:
            # At one order a the accountant's epsilon is divergence + log(1 - 1/a) - log(delta a) /
            # (a - 1), which is solved for the divergence. The accountant's property ``rdp`` has the
            # divergence too, and differs by rounding (below 1e-12); to read that would change the
            # last digits of epsilons. Source: Canonne, Kamath and Steinke 2020, Proposition 12.
            epsilon = float(rdp.RdpAccountant([order]).compose(step).get_epsilon(_ALMOST_ZERO))
            correction = math.log1p(-1.0 / order) - math.log(_ALMOST_ZERO * order) / (order - 1.0)
            values.append(max(0.0, epsilon - correction))  # rounding may leave it below 0
    return tuple(values)


@dataclass(frozen=True)
class Selection:
    """The distribution of K, the number of tries: truncated negative binomial, at least 1.

    Args:
        mean: Of K, above 1.
        shape: eta, at least 0; 0 is the logarithmic distribution, 1 the geometric one.

    Source: Papernot and Steinke 2022, Definition 1.
    """

    mean: float
    shape: float

    def __post_init__(self) -> None:
        if not (1.0 < self.mean < math.inf and 0.0 <= self.shape < math.inf):
            raise ValueError(
                f"no distribution of tries has mean {self.mean:g} and shape {self.shape:g}"
            )

    def __str__(self) -> str:
        return f"{self.mean:g} tries on average (truncated negative binomial, shape {self.shape:g})"

    @cached_property
    def gamma(self) -> float:
        """The distribution's parameter gamma, in (0, 1), that gives the mean; by bisection."""
        # Of log(gamma); the mean falls as gamma grows, to 1 at gamma = 1.
        low, high = -60.0, 0.0
        for _ in range(200):  # more halvings than a float has bits
            middle = 0.5 * (low + high)
            if self._mean(math.exp(middle)) > self.mean:
                low = middle
            else:
                high = middle
        return math.exp(0.5 * (low + high))

    def _mean(self, gamma: float) -> float:
        """Mean of the truncated negative binomial with this shape, eta, and that gamma.

        It is eta (1 - gamma) / (gamma (1 - gamma^eta)), and for eta = 0 the limit of that,
        (1 - gamma) / (gamma log(1 / gamma)).
        """
        if gamma >= 1.0:  # the limit of both formulas
            return 1.0
        if self.shape == 0.0:
            return (1.0 - gamma) / (gamma * -math.log(gamma))
        return self.shape * (1.0 - gamma) / (gamma * -math.expm1(self.shape * math.log(gamma)))

    def tries(self, most: int) -> Float64:
        """P(min(K, most) = k) for k = 1..most, ``[most]``; the last is P(K >= most).

        For eta = 0, P(K = k) is (1 - gamma)^k / (k log(1 / gamma)). Else it is (1 - gamma)^k /
        (gamma^-eta - 1) times the product of (j - 1 + eta) / j over j = 1..k.
        """
        k = np.arange(1, most + 1)
        log_ratio = math.log1p(-self.gamma)
        if self.shape == 0.0:
            chances = np.exp(k * log_ratio) / (k * -math.log(self.gamma))
        else:
            growth = np.cumsum(np.log((k - 1 + self.shape) / k))
            chances = np.exp(k * log_ratio + growth) / math.expm1(
                -self.shape * math.log(self.gamma)
            )
        chances[-1] = 1.0 - chances[:-1].sum()  # all that lies at ``most`` or beyond
        probabilities: Float64 = chances
        return probabilities

    def draw(self, stream: np.random.Generator) -> int:
        """Draw K, the number of tries of one search, by inversion of one uniform of the stream."""
        # More tries than this have a probability of about exp(-45), below a uniform number's last
        # bit, 2^-53; a larger shape makes many tries more likely.
        most = math.ceil((45.0 + 10.0 * self.shape) / self.gamma)
        # Without the last sum, which rounding may leave below 1: a uniform beyond all others is
        # ``most`` tries.
        cumulative = np.cumsum(self.tries(most)[:-1])
        return int(np.searchsorted(cumulative, stream.random(), side="right")) + 1

    def chances(self, n: int) -> Float64:
        """Probability that the j-th best of n candidates is the best of K of them, ``[n]``.

        An audit trains n candidates and weights them by these, which gives the expectation over
        searches: over K, cut at n, and over which K of the n are drawn, without replacement.
        """
        return self.tries(n) @ best_of_some(n)  # the sum over k, [n] @ [n, n]

    def divergences(self, base: Float64) -> Float64:
        """Renyi divergences of the best of K draws at ``ORDERS``, from those of one draw, ``base``.

        At order a the bound is D(a) + log(mean) / (a - 1) + (1 + eta) times the least over orders b
        of (1 - 1/b) D(b) + log(1 / gamma) / b, where D is ``base``. Divergences grow with the
        order, so the bound of a larger order holds as well.

        Source: Papernot and Steinke 2022, Theorem 2.
        """
        orders = np.asarray(ORDERS)
        least_over_b = np.min((1.0 - 1.0 / orders) * base - math.log(self.gamma) / orders)
        bound = base + math.log(self.mean) / (orders - 1.0) + (1.0 + self.shape) * least_over_b
        # At each order the least bound of that order and all larger ones.
        least: Float64 = np.minimum.accumulate(bound[::-1])[::-1]
        return least

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Epsilon of the best of K draws, for a record that every draw may read.

        Args:
            events: What a draw may release: one event for every kind of candidate that the prior
                has. Which one is drawn does not depend on data, so at each order a draw's
                divergence is at most the largest of theirs.
            delta: In (0, 1).
        """
        return epsilon_of_divergences(self.worst_divergences(events), delta)

    def worst_divergences(self, events: Sequence[PrivacyEvent]) -> Float64:
        """Renyi divergences of the best of K draws, each of which may release any of ``events``.

        At each order a draw counts with the largest divergence of all events.
        """
        return self.divergences(np.max([renyi_divergences(event) for event in events], axis=0))


@dataclass(frozen=True, slots=True)
class SelectionEvent:
    """Everything that a charged search releases, as data.

    A record is either a fit record, which only trainings read, or a validation record, which only
    scores read.

    Args:
        selection: The distribution of the number of tries.
        trainings: What a candidate's training may release: one event for each kind of candidate.
        score: What a candidate's score releases.
    """

    selection: Selection
    trainings: tuple[PrivacyEvent, ...]
    score: Gaussian

    def epsilons(self, delta: float) -> tuple[float, float]:
        """The search's epsilon for a fit record, and for a validation record."""
        fit = self.selection.epsilon(self.trainings, delta)
        validation = self.selection.epsilon([self.score], delta)
        return fit, validation

    def epsilon(self, delta: float) -> float:
        """The search's epsilon for any record, the larger of the two."""
        return max(self.epsilons(delta))

    def divergences(self) -> tuple[Float64, Float64]:
        """Renyi divergences at ``ORDERS``, for a fit record and for a validation record."""
        of_fit_record = self.selection.worst_divergences(self.trainings)
        of_validation_record = self.selection.worst_divergences([self.score])
        return of_fit_record, of_validation_record


def best_of_some(n: int) -> Float64:
    """Probability that the best of k candidates is the j-th best of all n, at ``[k - 1, j - 1]``.

    The k are drawn from the n without replacement: the other k - 1 must be among the n - j worse
    ones. The result is ``[n, n]``, for :meth:`Selection.chances`.
    """
    probabilities = np.zeros((n, n))
    for k in range(1, n + 1):
        for j in range(1, n - k + 2):  # of k candidates the best is at worst the (n - k + 1)-th
            probabilities[k - 1, j - 1] = math.comb(n - j, k - 1) / math.comb(n, k)
    return probabilities


def base_epsilon(
    selection: Selection,
    events: Callable[[float], Sequence[PrivacyEvent]],
    delta: float,
    target: float,
) -> float:
    """The base: the epsilon of one training with which a whole search meets a target epsilon.

    The search's epsilon grows nearly in proportion to the base. So the next base to try is the last
    one times target / reached epsilon, or the geometric middle of the range that is known to hold
    the answer, where the former lies outside of it.

    Args:
        selection: The distribution of the number of tries.
        events: From a base to what candidates may release whose noise is calibrated to it. It
            raises PrivacyError where no noise meets the base.
        delta: In (0, 1).
        target: Not exceeded; missed by at most half a per cent.

    Raises:
        PrivacyError: No noise meets it: the search alone costs more, or what it leaves to a
            training is less than noise can meet there.
    """
    _refuse_below_least(selection, delta, target)
    # The logarithm of the base lies between low and high. A base is below the target, for a search
    # costs more than one of its trainings.
    low, high = math.log(_SMALLEST), math.log(target)
    unmet: PrivacyError | None = None  # why no noise meets the base at ``low``; None: some does
    log_base = math.log(0.5 * target)
    for _ in range(40):
        base = _rounded_down(math.exp(log_base))
        try:
            reached = selection.epsilon(events(base), delta)
        except PrivacyError as too_small:  # as where side queries alone cost more than the base
            low, unmet = max(low, math.log(base)), too_small
            log_base = 0.5 * (low + high)
            if high - low < _NEAR:
                break
            continue
        if (1.0 - TOLERANCE) * target <= reached <= target:
            return base
        if reached > target:
            high = min(high, math.log(base))
        else:
            low, unmet = max(low, math.log(base)), None
        log_base = 0.5 * (low + high)
        if reached > 0:
            # Aimed a little below the target, so that a small miss still lies within the tolerance.
            proportional = math.log(base) + math.log((1.0 - 0.4 * TOLERANCE) * target / reached)
            if low < proportional < high:
                log_base = proportional
        # No base lies between the two: the lower one is the answer, if a base was tried there
        # (``low`` has moved) and some noise meets it.
        if high - low < 1e-4:
            if low > math.log(_SMALLEST) and unmet is None:
                return _rounded_down(math.exp(low))
            break
    why = "whatever its noise"
    if unmet:
        why = f"which leaves less to each training: {unmet.message}"
    raise PrivacyError(f"epsilon {target:g} cannot be met by a search, {why}", hint=_LESS)


def _refuse_below_least(selection: Selection, delta: float, target: float) -> None:
    """Refuse a target below 1.05 times what the random number of tries costs by itself.

    So trainings and scores are left some 5 % of the target.

    Raises:
        PrivacyError: The target is below that.
    """
    nothing = selection.divergences(np.zeros(len(ORDERS)))  # draws that reveal nothing
    least = 1.05 * epsilon_of_divergences(nothing, delta)
    if target < least:
        raise PrivacyError(
            f"epsilon {target:g} cannot be met by a search of {selection.mean:g} tries, which "
            f"needs at least {shown_up(least)} at delta {delta:g}, whatever its noise",
            hint=_LESS,
        )


@lru_cache(maxsize=64)
def score_noise(selection: Selection, delta: float, target: float) -> float:
    """The least noise multiplier of scores at which a validation record's epsilon is ``target``.

    No training reads such a record, so scores alone count. Found by bisection of the logarithm,
    and rounded up, so that the target is not exceeded.

    Raises:
        PrivacyError: The random number of tries alone costs about the target.
    """
    _refuse_below_least(selection, delta, target)
    low, high = math.log(1e-2), math.log(_LARGEST)  # of the noise multipliers that are tried
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        cost = selection.epsilon([Gaussian(SCORE, math.exp(middle))], delta)
        if cost > target:
            low = middle
        else:
            high = middle
    return rounded_up(math.exp(high), _DIGITS)


def _rounded_down(value: float) -> float:
    """The next number of ``_DIGITS`` significant digits that is not above ``value``."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)  # of the last digit
    # The factor keeps a number that has so few digits itself: its quotient may be a bit too small.
    return float(f"{math.floor(value / unit * (1 + 1e-12)) * unit:.{_DIGITS}g}")
