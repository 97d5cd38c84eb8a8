"""Events to epsilon and back; the only importer of dp_accounting, lazily: it takes 2 s to load."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from fairaudit.errors import PrivacyError
from fairaudit.privacy.events import Gaussian, NoisyRelease, PrivacyEvent, SampledGaussian, shown_up

Accountant = Literal["pld", "rdp"]
_OfLibrary = Any  # dp_accounting has no types

SMALLEST_DELTA = 1e-10  # below it the accountant's own rounding is as large as delta
SMALLEST_SIGMA, LARGEST_SIGMA = 0.02, 1e4
TOLERANCE = 2e-3  # a calibrated epsilon lies within this fraction below its target

_INTERVAL = 1e-4  # privacy losses are rounded up to multiples of it
_COARSE = 10  # a search may round this much more
CURVE_DELTA = 1e-6  # at which the epsilon is read that a curve's range follows from
LARGEST_CURVE = 300.0  # beyond it exp(epsilon) is no bound on anything, and overflows
_PLD_LIMIT = 1e6  # an RDP epsilon beyond it means no protection; PLD would only overflow on it


class _Charge(NamedTuple):
    """``steps`` Poisson-sampled Gaussians: all that an accountant needs to know."""

    steps_per_epoch: int
    sigma: float
    steps: int


def epsilon(event: PrivacyEvent, delta: float, accountant: Accountant = "pld") -> float:
    """Epsilon of one run at ``delta``, for adding or removing one record.

    Args:
        event: What the run releases.
        delta: In (0, 1).
        accountant: ``pld`` (headline, an upper bound tight to about 1e-3; where nothing is sampled,
            the exact curve of the Gaussian) or ``rdp`` (looser, for comparison with papers).

    Returns:
        At least 0; inf where a release carries no noise.

    Raises:
        PrivacyError: Delta is too small to be accounted for in floating point.

    Source: docs/methods.md 2.1, 2.2.
    """
    return _epsilon(
        _charges([(event, 1)]),
        checked_delta(delta),
        accountant,
    )


def composed_epsilon(events_with_counts: Iterable[tuple[PrivacyEvent, int]], delta: float) -> float:
    """PLD epsilon of releasing several runs, each event ``count`` times with samples of its own.

    Runs that train on one and the same Poisson sample are no independent runs: :func:`joint` makes
    one event of them first.
    """
    return _epsilon(_charges(events_with_counts), checked_delta(delta), "pld")


class PrivacyCurve(NamedTuple):
    """Epsilon -> the least delta that is proved beside it; never too small.

    Args:
        delta: For adding and for removing a record.
        least, most: Between which epsilons it is of use; ``least`` is 0 where it knows no negative
            ones.
    """

    delta: Callable[[float], float]
    least: float
    most: float


def privacy_curve(event: PrivacyEvent) -> PrivacyCurve | None:
    """The whole curve of one run; None where nothing is proved."""
    charges = _charges([(event, 1)])
    if any(charge.sigma == 0.0 for charge in charges):
        return None
    size = _rdp(charges, CURVE_DELTA)  # epsilon, about
    if size > LARGEST_CURVE:
        return None
    # Rounding losses up adds to delta with the number of steps; so many digits leave rates right to
    # 1e-4.
    interval = _COARSE * _interval(size) * min(1.0, math.sqrt(1e3 / max(c.steps for c in charges)))
    composed = _composed(charges, interval)
    most = 2.0 * size + 5.0
    return PrivacyCurve(
        lambda at: float(composed.get_delta_for_epsilon(at)),
        -most,
        most,
    )


def joint(events: Sequence[SampledGaussian]) -> SampledGaussian:
    """The one event of arms that train side by side on the same Poisson sample.

    Each step then says everything about one sample, so its releases add up inside the step. That
    also covers an arm that reads what another one released.

    Raises:
        ValueError: No event, or events whose steps differ: they cannot share a sample.
    """
    if len({(event.steps_per_epoch, event.steps) for event in events}) != 1:
        raise ValueError(
            "only events of equal sampling rate and equal steps can share their samples"
        )
    releases = tuple(release for event in events for release in event.releases)
    return SampledGaussian(events[0].steps_per_epoch, events[0].steps, releases)


def calibrate(
    steps_per_epoch: int,
    steps: int,
    delta: float,
    target_epsilon: float,
    side_noise_multipliers: Sequence[float] = (),
) -> float:
    """The gradient's noise multiplier with which the whole step meets a target epsilon.

    Args:
        steps_per_epoch: The sampling rate is 1 / steps_per_epoch.
        steps: T, empty batches included.
        delta: In (0, 1).
        target_epsilon: PLD epsilon of one run; never exceeded, missed by at most 0.2 % (a target
            met even with SMALLEST_SIGMA gets that, and one so small that only a loss within delta
            meets it gets noise that leaves epsilon 0).
        side_noise_multipliers: Those of the queries released beside the gradient.

    Raises:
        PrivacyError: The side queries alone cost the target or more, or no noise meets it.

    Source: docs/methods.md 2.3.
    """
    sigma = _total_sigma(steps_per_epoch, steps, checked_delta(delta), target_epsilon)
    if not side_noise_multipliers:
        return sigma
    releases = tuple(NoisyRelease("side", noise) for noise in side_noise_multipliers)
    side = SampledGaussian(steps_per_epoch, steps, releases)
    # Releases of one step add up in 1 / sigma^2: the gradient gets what the queries leave.
    if min(side_noise_multipliers) > 0:
        precision = sigma**-2 - side.effective_noise_multiplier**-2
    else:
        precision = -1.0
    if precision > 0.0:
        return 1.0 / math.sqrt(precision)
    alone = epsilon(side, delta)
    # Twice the total leaves the gradient at most 1.2 times the noise that it has without queries.
    enough = rounded_up(2.0 * sigma * math.sqrt(len(releases)), digits=3)
    reachable = ""
    if alone < math.inf:
        reachable = f"--epsilon {rounded_up(1.5 * alone, digits=2):g} or more, or "
    noises = ", ".join(f"{noise:g}" for noise in side_noise_multipliers)
    raise PrivacyError(
        f"epsilon {target_epsilon:g} cannot be met: the private counts of each step (noise "
        f"multiplier {noises}) alone cost {shown_up(alone)}",
        hint=f"use {reachable}a count_noise_multiplier of {enough:g} or more",
    )


def calibrate_gaussian(count: int, delta: float, target_epsilon: float) -> float:
    """The noise multiplier with which ``count`` unsampled Gaussian releases meet a target epsilon.

    Raises:
        ValueError: ``delta`` outside (0, 1). PrivacyError: Too small a delta, as in
            :func:`epsilon`.

    Source: Balle and Wang 2018, exact; docs/methods.md 2.4.
    """
    checked_delta(delta)
    with quiet():
        import dp_accounting  # lazily: 2 s

        sigma = float(dp_accounting.get_sigma_gaussian(target_epsilon, delta))
    # Up to 6 digits: never above the target, and the same noise whatever the library's last bits.
    return rounded_up(sigma * math.sqrt(count), digits=6)


def checked_delta(delta: float) -> float:
    """Delta, where it can be accounted for.

    Raises: as :func:`epsilon`; ValueError outside (0, 1).
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie between 0 and 1, not {delta}")
    if delta < SMALLEST_DELTA:
        raise PrivacyError(
            f"delta {delta:g} is below {SMALLEST_DELTA:g}, where floating point cannot account for "
            "it",
            hint=f"use --delta {SMALLEST_DELTA:g} or more",
        )
    return delta


def _charges(events_with_counts: Iterable[tuple[PrivacyEvent, int]]) -> tuple[_Charge, ...]:
    """What is charged, equal mechanisms merged, so that equal questions meet in the cache."""
    steps: Counter[tuple[int, float]] = Counter()
    for event, count in events_with_counts:
        # The inverse of an inverse is off by a bit or two; no accountant sees the 12th digit.
        sigma = float(f"{event.effective_noise_multiplier:.12g}")
        if isinstance(event, Gaussian):
            rate = 1
        else:
            rate = event.steps_per_epoch
        if event.steps * count > 0:
            steps[rate, sigma] += event.steps * count
    return tuple(
        _Charge(
            rate,
            sigma,
            total,
        )
        for (rate, sigma), total in sorted(steps.items())
    )


@lru_cache(maxsize=1024)
def _epsilon(
    charges: tuple[_Charge, ...],
    delta: float,
    accountant: Accountant,
) -> float:
    """Epsilon of composed (sampled) Gaussians at ``delta``: 0 for none, infinite without noise.

    PLD is exact up to discretisation, on the safe side. It is asked only where RDP's bound, which
    says how fine to discretise, lies above 0 and below ``_PLD_LIMIT``; elsewhere that bound stands.
    """
    if not charges:
        return 0.0
    if any(charge.sigma == 0.0 for charge in charges):
        return math.inf
    if accountant == "pld" and all(charge.steps_per_epoch == 1 for charge in charges):
        # Unsampled Gaussians compose to one: mu^2 is the sum of count / sigma^2, exactly.
        mu = math.sqrt(sum(charge.steps / charge.sigma**2 for charge in charges))
        with quiet():
            import dp_accounting  # lazily: 2 s

            exact = float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta))
        return exact * (1.0 + 1e-9)  # the root's own tolerance, on the safe side
    by_rdp = _rdp(charges, delta)
    if accountant == "rdp" or not 0.0 < by_rdp < _PLD_LIMIT:
        return by_rdp
    value = _pld(charges, delta, _interval(by_rdp))
    # RDP is far off where noise is tiny or steps are few; the interval chosen by it was too wide.
    if value < 0.25 * by_rdp:
        value = _pld(charges, delta, _interval(value))
    return value


def _interval(size: float) -> float:
    """The discretisation for an epsilon of about that size.

    The usual one between 1 and 7. Finer below, where rounding up T small losses would show; coarser
    above, where the distribution would fill the memory. In powers of two, so that neighbours share
    it.
    """
    if size < 1.0:
        relative = size
    else:
        relative = max(1.0, size / 5.0)
    return float(
        _INTERVAL
        * 2.0
        ** round(
            math.log2(
                _bounded(
                    relative,
                    1e-3,
                    1e4,
                )
            )
        )
    )


def _rdp(charges: tuple[_Charge, ...], delta: float) -> float:
    """Epsilon by Renyi differential privacy, an upper bound."""
    with quiet():
        import dp_accounting  # lazily: 2 s
        from dp_accounting import rdp  # lazily: 2 s

        accountant = rdp.RdpAccountant()
        for charge in charges:
            gaussian = dp_accounting.GaussianDpEvent(charge.sigma)
            step = dp_accounting.PoissonSampledDpEvent(1.0 / charge.steps_per_epoch, gaussian)
            accountant.compose(step, charge.steps)
        return float(accountant.get_epsilon(delta))


def _pld(
    charges: tuple[_Charge, ...],
    delta: float,
    interval: float,
) -> float:
    """Epsilon by privacy loss distributions, discretised at ``interval``."""
    return float(_composed(charges, interval).get_epsilon_for_delta(delta))


def _composed(charges: tuple[_Charge, ...], interval: float) -> _OfLibrary:
    """The composed privacy loss distribution of all charges (the library's own type)."""
    whole = None
    for charge in charges:
        if charge.steps_per_epoch == 1:  # full batches: one Gaussian, exactly
            steps = _one_step(
                1,
                charge.sigma / math.sqrt(charge.steps),
                interval,
            )
        else:
            step = _one_step(charge.steps_per_epoch, charge.sigma, interval)
            steps = step.self_compose(charge.steps)
        whole = steps if whole is None else whole.compose(steps)
    return whole


@lru_cache(maxsize=32)
def _one_step(steps_per_epoch: int, sigma: float, interval: float) -> _OfLibrary:
    """The privacy loss of one step: what ``PLDAccountant`` builds, kept between compositions."""
    with quiet():
        from dp_accounting.pld import privacy_loss_distribution  # lazily: 2 s

        return privacy_loss_distribution.from_gaussian_mechanism(
            sigma, sampling_prob=1.0 / steps_per_epoch, value_discretization_interval=interval
        )


@lru_cache(maxsize=256)
def _total_sigma(
    steps_per_epoch: int,
    steps: int,
    delta: float,
    target: float,
) -> float:
    """sigma_total: the multiplier of one Gaussian per step that meets the target.

    The coarse search's answer is corrected by secants on logarithms of the fine accountant.
    """
    sigma, slope = _searched(steps_per_epoch, steps, delta, target)
    seen: tuple[float, float] | None = None  # logarithms of the last sigma and its epsilon
    for _ in range(30):
        # Few digits: the last ones of an accountant change with the libraries, and bits of noise
        # with them.
        sigma = min(rounded_up(sigma, digits=6), LARGEST_SIGMA)
        value = _epsilon((_Charge(steps_per_epoch, sigma, steps),), delta, "pld")
        at_the_floor = sigma <= SMALLEST_SIGMA and value <= target
        if at_the_floor or (1.0 - TOLERANCE) * target <= value <= (1.0 - 1e-6) * target:
            return sigma
        if sigma == LARGEST_SIGMA and value > target:
            break
        # Where all that the steps reveal lies within delta, so small a target has no noise of its
        # own.
        if value == 0.0:
            return sigma
        point = (math.log(sigma), math.log(value))
        if seen and abs(point[0] - seen[0]) > 1e-4:
            slope = _bounded(
                (point[1] - seen[1]) / (point[0] - seen[0]),
                -8.0,
                -0.2,
            )
        seen = point
        # Aimed a little below the target, so that a small miss still lies within the tolerance.
        sigma *= ((1.0 - 0.25 * TOLERANCE) * target / value) ** (1.0 / slope)
    least = _epsilon((_Charge(steps_per_epoch, LARGEST_SIGMA, steps),), delta, "pld")
    raise PrivacyError(
        f"epsilon {target:g} cannot be met at delta {delta:g}: "
        f"noise of {LARGEST_SIGMA:g} times the clipping bound still costs {shown_up(least)}",
        hint=f"use --epsilon {rounded_up(1.01 * least, digits=2):g} or more, or fewer epochs",
    )


def _searched(
    steps_per_epoch: int,
    steps: int,
    delta: float,
    target: float,
) -> tuple[float, float]:
    """Where a coarse accountant meets the target, and d log(epsilon) / d log(sigma) there.

    Secants on logarithms, from the central limit mu = q sqrt(T (exp(1/sigma^2) - 1)). They need not
    converge: the caller goes on from wherever they end, with the fine accountant.

    Source: Bu et al. 2020.
    """
    with quiet():
        import dp_accounting  # lazily: 2 s

        mu = 1.0 / float(dp_accounting.get_sigma_gaussian(target, delta))
    guess = math.sqrt(steps) / mu
    if steps_per_epoch > 1:
        guess = 1.0 / math.sqrt(math.log1p((mu * steps_per_epoch) ** 2 / steps))
    interval = _COARSE * _interval(target)

    def excess(log_sigma: float) -> float:
        """Log of epsilon over the target, whose root is the noise multiplier sought."""
        charge = _Charge(steps_per_epoch, math.exp(log_sigma), steps)
        return math.log(
            max(
                _pld(
                    (charge,),
                    delta,
                    interval,
                ),
                1e-12,
            )
            / target
        )

    low, high = math.log(SMALLEST_SIGMA), math.log(LARGEST_SIGMA)
    point = _bounded(math.log(guess), low, high)
    value, slope = excess(point), -1.5  # a usual slope, until two points tell it
    for _ in range(60):
        if abs(value) < 2e-4:
            break
        next_point = _bounded(
            point
            + _bounded(
                -value / slope,
                -1.0,
                1.0,
            ),
            low,
            high,
        )
        if next_point == point:  # the target lies beyond a limit of sigma
            break
        then = excess(next_point)
        # Closer points tell no slope: the accountant's rounding is as large as their difference.
        if abs(next_point - point) > 1e-3:
            slope = _bounded(
                (then - value) / (next_point - point),
                -8.0,
                -0.2,
            )
        point, value = next_point, then
    return math.exp(point), slope


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def rounded_up(value: float, digits: int) -> float:
    """The next number of that many significant digits, never below ``value``."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    rounded = float(f"{math.ceil(value / unit) * unit:.{digits}g}")
    if rounded >= value:
        return rounded
    return float(f"{rounded + unit:.{digits}g}")


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back log lines on orders that are left out: that only loosens (docs/methods.md 2.2)."""
    logger = logging.getLogger("absl")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False
