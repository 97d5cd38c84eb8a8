"""Events to epsilon and back, by the library dp_accounting.

PLD is accounting by privacy loss distributions, RDP by Renyi divergences. A charge is all that both
need of an event: so many equal Gaussian releases on Poisson samples. sigma is a noise multiplier.
The library is imported where it is called, for that takes 2 s; only this file and selection.py may.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from fairaudit.errors import ConfigError, PrivacyError, numbered
from fairaudit.privacy.events import Gaussian, NoisyRelease, PrivacyEvent, SampledGaussian, shown_up

Accountant = Literal["pld", "rdp"]
_OfLibrary = Any  # an object of dp_accounting, which has no types

SMALLEST_DELTA = 1e-10  # below it the accountant's own rounding is as large as delta
SMALLEST_SIGMA, LARGEST_SIGMA = 0.02, 1e4
MOST_STEPS = 1_000_000  # of one training
TOLERANCE = 2e-3  # a calibrated epsilon lies within this fraction below its target

# Renyi orders: those that the library's RDP accountant uses by default.
ORDERS: tuple[float, ...] = (
    *(1 + tenths / 10.0 for tenths in range(1, 100)),
    *map(float, range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
_INTERVAL = 1e-4  # nats: privacy losses are rounded up to multiples of it
_COARSE = 10  # times that interval where only an approximate answer is needed
CURVE_DELTA = 1e-6  # the epsilon at this delta sets the range of a privacy curve
LARGEST_CURVE = 300.0  # beyond this epsilon exp(epsilon) bounds nothing, and overflows
_PLD_LIMIT = 1e6  # an RDP epsilon beyond it means no protection; PLD would only overflow on it
_ROUNDING = 1e-14  # of delta, for each step: beyond what PLD's arithmetic loses
_MOST_BY_PLD = 10_000_000  # steps; of more it takes minutes
_MOST_LOSSES = 2**19  # of one step that PLD tells apart, at 7 microseconds each
_TAIL = 10.0  # standard deviations of the noise beyond which the library tells no losses apart
_MANY_STEPS = 1_000  # of which the library counts how many losses they could have, for minutes


class _Charge(NamedTuple):
    """``steps`` Gaussian releases of noise multiplier ``sigma``: all that an accountant needs.

    The sampling rate is 1 / steps_per_epoch; 1 means that nothing is sampled. sigma 0 is no noise.
    """

    steps_per_epoch: int
    sigma: float
    steps: int


def epsilon(event: PrivacyEvent, delta: float, accountant: Accountant = "pld") -> float:
    """Epsilon of one run at ``delta``, for adding or removing one record.

    Args:
        event: What the run releases.
        delta: In (0, 1).
        accountant: ``pld`` (headline, an upper bound tight to about 1e-3; where nothing is sampled,
            the exact curve of the Gaussian; of very many steps RDP's bound) or ``rdp`` (looser, for
            comparison with papers).

    Returns:
        At least 0; inf where a release carries no noise.

    Raises:
        PrivacyError: Delta is too small to be accounted for in floating point.

    Source: docs/methods.md 2.1, 2.2.
    """
    return _epsilon(_charges([(event, 1)]), checked_delta(delta), accountant)


def composed_epsilon(events_with_counts: Iterable[tuple[PrivacyEvent, int]], delta: float) -> float:
    """PLD epsilon of releasing several runs, each event ``count`` times with samples of its own.

    Runs that train on one and the same Poisson sample are no independent runs: :func:`joint` makes
    one event of them first.
    """
    return _epsilon(_charges(events_with_counts), checked_delta(delta), "pld")


class PrivacyCurve(NamedTuple):
    """What is proved of a mechanism at every epsilon, not at one delta alone.

    Args:
        delta: From an epsilon to the least delta that is proved for it, never too small; for adding
            and for removing a record.
        least, most: The range of epsilons in which the curve is of use; ``least`` is 0 where it
            knows no negative ones.
    """

    delta: Callable[[float], float]
    least: float
    most: float


def privacy_curve(event: PrivacyEvent) -> PrivacyCurve | None:
    """Delta as a function of epsilon for one run, by PLD: ``tradeoff.py`` bounds attacks with it.

    None where a release has no noise, or where epsilon at ``CURVE_DELTA`` is above LARGEST_CURVE.
    """
    charges = _charges([(event, 1)])
    if any(charge.sigma == 0.0 for charge in charges):
        return None
    rough_epsilon = _rdp(charges, CURVE_DELTA)  # sets the range and the rounding
    if rough_epsilon > LARGEST_CURVE:
        return None
    # Rounding losses up makes delta too large, the more so the more steps there are: beyond 1,000
    # the interval shrinks with their root. So an attacker's rates (tradeoff.py) are right to 1e-4.
    most_steps = max(charge.steps for charge in charges)
    interval = _COARSE * _interval(rough_epsilon) * min(1.0, math.sqrt(1e3 / most_steps))
    composed = _composed(charges, interval)
    # Beyond ``most`` nobody asks for delta. That is sound: fewer epsilons give a looser bound on an
    # attacker's rates, never a wrong one.
    most = 2.0 * rough_epsilon + 5.0

    def delta(at_epsilon: float) -> float:
        """The least delta that is proved for that epsilon."""
        return float(composed.get_delta_for_epsilon(at_epsilon))

    return PrivacyCurve(delta, least=-most, most=most)


def joint(events: Sequence[SampledGaussian]) -> SampledGaussian:
    """One event for several arms that train side by side on the same Poisson samples.

    Each of its steps releases what the steps of all arms release, about one sample. That also
    covers an arm that reads what another one released.

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
        target_epsilon: Epsilon of one run; never exceeded, missed by at most 0.2 % (a target met
            even with SMALLEST_SIGMA gets that, one so small that only a loss within delta meets it
            gets noise that leaves epsilon 0, and one that epsilon jumps over gets more noise).
        side_noise_multipliers: Those of the queries released beside the gradient.

    Raises:
        PrivacyError: The side queries alone cost the target or more, or no noise meets it.

    Source: docs/methods.md 2.3.
    """
    sigma = _total_sigma(steps_per_epoch, steps, checked_delta(delta), target_epsilon)
    if not side_noise_multipliers:
        return sigma
    # Named alike: accountants read the noise of a release, not its name.
    releases = tuple(NoisyRelease("side", noise) for noise in side_noise_multipliers)
    side = SampledGaussian(steps_per_epoch, steps, releases)
    # Releases of one step add up in 1 / sigma^2: the gradient gets what the queries leave.
    if min(side_noise_multipliers) > 0:  # a query without noise leaves nothing
        precision = sigma**-2 - side.effective_noise_multiplier**-2
        if precision > 0.0:
            return 1.0 / math.sqrt(precision)
    # No return until here: the queries leave the gradient nothing, and the error says what helps.
    alone = epsilon(side, delta)
    # Queries that together have twice the total sigma leave the gradient sigma / sqrt(1 - 1/4),
    # below 1.2 sigma; each of k equal ones then has 2 sigma sqrt(k).
    enough = rounded_up(2.0 * sigma * math.sqrt(len(releases)), digits=3)
    reachable = ""
    if alone < math.inf:  # half as much again as the queries cost leaves the gradient a share
        reachable = f"--epsilon {rounded_up(1.5 * alone, digits=2):g} or more, or "
    noises = ", ".join(f"{noise:g}" for noise in side_noise_multipliers)
    raise PrivacyError(
        f"epsilon {target_epsilon:g} cannot be met: the private counts of each step (noise "
        f"multiplier {noises}) alone cost {shown_up(alone)}",
        hint=f"use {reachable}a count_noise_multiplier of {enough:g} or more",
    )


def calibrate_gaussian(count: int, delta: float, target_epsilon: float) -> float:
    """The noise multiplier with which ``count`` unsampled Gaussian releases meet a target epsilon.

    Args:
        count: How many; they reveal as much as one release at noise / sqrt(count).
        delta: In (0, 1).
        target_epsilon: Epsilon of all of them together.

    Raises:
        ValueError: ``delta`` outside (0, 1).
        PrivacyError: Too small a delta, as in :func:`epsilon`.

    Source: Balle and Wang 2018, exact; docs/methods.md 2.4.
    """
    checked_delta(delta)
    with quiet():
        import dp_accounting  # lazily: 2 s

        sigma = float(dp_accounting.get_sigma_gaussian(target_epsilon, delta))
    # Up to 6 digits: never above the target, and the same noise whatever the library's last bits.
    return rounded_up(sigma * math.sqrt(count), digits=6)


def refuse_many_steps(steps_per_epoch: int, epochs: int) -> None:
    """Refuse a training of so many steps that it is neither accounted for nor awaited.

    Raises:
        ConfigError: The training has more than MOST_STEPS.
    """
    steps = steps_per_epoch * epochs
    if steps <= MOST_STEPS:
        return
    most = MOST_STEPS // steps_per_epoch
    raise ConfigError(
        f"{numbered(epochs, 'epoch')} of {numbered(steps_per_epoch, 'step')} are {steps:,} steps, "
        f"more than {MOST_STEPS:,}",
        hint=f"use {numbered(most, 'epoch')} or fewer" if most else "use a larger batch size",
    )


def checked_delta(delta: float) -> float:
    """Return delta unchanged, or refuse one that cannot be accounted for.

    Raises:
        ValueError: Delta outside (0, 1).
        PrivacyError: Delta below SMALLEST_DELTA.
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
    """The charges of pairs (event, count), each event released ``count`` times; () without steps.

    They are sorted, and those of equal rate and sigma are merged, so that equal questions find the
    same entry in the cache of :func:`_epsilon`.
    """
    steps: Counter[tuple[int, float]] = Counter()
    for event, count in events_with_counts:
        # The inverse of an inverse is off by a bit or two; no accountant sees the 12th digit.
        sigma = float(f"{event.effective_noise_multiplier:.12g}")
        if isinstance(event, Gaussian):
            steps_per_epoch = 1  # nothing is sampled
        else:
            steps_per_epoch = event.steps_per_epoch
        if event.steps * count > 0:
            steps[steps_per_epoch, sigma] += event.steps * count
    charges = []
    for (steps_per_epoch, sigma), total in sorted(steps.items()):
        charges.append(_Charge(steps_per_epoch, sigma, total))
    return tuple(charges)


@lru_cache(maxsize=1024)
def _epsilon(charges: tuple[_Charge, ...], delta: float, accountant: Accountant) -> float:
    """Epsilon of the composed charges at ``delta``: 0 without charges, infinite without noise.

    ``accountant`` is ``pld`` or ``rdp``, as of :func:`epsilon`; what follows is of ``pld``.

    PLD is exact but for rounding privacy losses up, which is on the safe side. PLD is asked only
    where RDP's bound, which says how finely to round, lies above 0 and below ``_PLD_LIMIT``, and of
    so few steps that its arithmetic is exact and quick. Elsewhere RDP's bound is the answer, and
    where it is the smaller one: both are upper bounds.
    """
    if not charges:
        return 0.0
    if any(charge.sigma == 0.0 for charge in charges):
        return math.inf
    if accountant == "pld" and all(charge.steps_per_epoch == 1 for charge in charges):
        # Unsampled Gaussians compose to one of noise 1 / mu: mu^2 is the sum of count / sigma^2.
        mu = math.sqrt(sum(charge.steps / charge.sigma**2 for charge in charges))
        with quiet():
            import dp_accounting  # lazily: 2 s

            exact = float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta))
        return exact * (1.0 + 1e-9)  # the root's own tolerance, on the safe side
    by_rdp = _rdp(charges, delta)
    if accountant == "rdp" or not 0.0 < by_rdp < _PLD_LIMIT:
        return by_rdp
    # Of sampled steps alone: unsampled ones are one Gaussian together, however many there are.
    steps = sum(charge.steps for charge in charges if charge.steps_per_epoch > 1)
    if steps > _MOST_BY_PLD or steps * _ROUNDING > delta:
        return by_rdp
    value = _pld(charges, delta, _interval(by_rdp))
    # RDP's bound is far too large where noise is tiny or steps are few. The interval chosen by that
    # bound was then too wide, and PLD is asked again with a finer one.
    if value < 0.25 * by_rdp:
        value = _pld(charges, delta, _interval(value))
    return min(value, by_rdp)


def _interval(size: float) -> float:
    """The interval, in nats, to which PLD rounds privacy losses for an epsilon of about ``size``.

    It is ``_INTERVAL`` for an epsilon between .71 and 7.07; finer below, where the rounding of many
    small losses would show; coarser above, where the distribution would fill the memory. It moves
    in powers of two, so that similar questions share the cached distributions. It is never 0, also
    where ``size`` is.
    """
    if size < 1.0:
        relative = size
    else:
        relative = max(1.0, size / 5.0)
    return float(_INTERVAL * 2.0 ** round(math.log2(_bounded(relative, 1e-3, 1e4))))


def _rdp(charges: tuple[_Charge, ...], delta: float) -> float:
    """Epsilon by Renyi differential privacy, an upper bound, of at least one charge."""
    with quiet():
        from dp_accounting import rdp  # lazily: 2 s

        # Renyi divergences add up over steps, at every order.
        total = sum(
            charge.steps * _renyi_step(charge.steps_per_epoch, charge.sigma) for charge in charges
        )
        return float(rdp.compute_epsilon(ORDERS, total, delta)[0])  # (epsilon, its order)


@lru_cache(maxsize=1024)
def _renyi_step(steps_per_epoch: int, sigma: float) -> _OfLibrary:
    """Renyi divergences ``[len(ORDERS)]`` of one step, cached."""
    with quiet():
        import dp_accounting  # lazily: 2 s
        from dp_accounting import rdp  # lazily: 2 s

        accountant = rdp.RdpAccountant(ORDERS)
        gaussian = dp_accounting.GaussianDpEvent(sigma)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(1.0 / steps_per_epoch, gaussian))
        return accountant.rdp


def _pld(charges: tuple[_Charge, ...], delta: float, interval: float) -> float:
    """Epsilon by privacy loss distributions, rounded as :func:`_composed` says."""
    with quiet():
        return float(_composed(charges, interval).get_epsilon_for_delta(delta))


def _composed(charges: tuple[_Charge, ...], interval: float) -> _OfLibrary:
    """The privacy loss distribution (of the library's type) of one or more charges together.

    Losses are rounded up to a multiple of ``interval`` nats, or of a larger one where a step would
    have more than ``_MOST_LOSSES`` different losses.
    """
    interval = max(interval, *(_span(charge) / _MOST_LOSSES for charge in charges))
    composed = None
    for charge in charges:
        if charge.steps_per_epoch == 1:  # full batches: one Gaussian, exactly
            of_charge = _one_step(1, charge.sigma / math.sqrt(charge.steps), interval)
        else:
            step = _one_step(charge.steps_per_epoch, charge.sigma, interval)
            if charge.steps > _MANY_STEPS:
                # The library counts the losses that so many steps could have, for minutes, unless
                # the step is a mixture. A mixture of it with itself is the same distribution.
                step = step.compute_mixture(step, 0.5)
            of_charge = step.self_compose(charge.steps)
        composed = of_charge if composed is None else composed.compose(of_charge)
    return composed


def _span(charge: _Charge) -> float:
    """An upper bound, in nats, on the largest less the smallest privacy loss that is told apart.

    For one step where records are sampled; for all steps together where they are not. Outputs more
    than ``_TAIL`` standard deviations of the noise out are not told apart.

    With x an output in units of the sensitivity, the loss of a sampled step is
    ``log(1 - q + q exp((x - 1/2) / sigma^2))``. The loss of all steps on all records is normal with
    the standard deviation sqrt(steps) / sigma.
    """
    steps_per_epoch, sigma, steps = charge
    if steps_per_epoch == 1:
        return 2.0 * _TAIL * math.sqrt(steps) / sigma
    absent = math.log1p(-1.0 / steps_per_epoch)  # log(1 - q), which is also the smallest loss
    # The logarithm of the other summand, q exp(..), at x = 1 + _TAIL * sigma.
    present = (0.5 + _TAIL * sigma) / sigma**2 - math.log(steps_per_epoch)
    # log(exp(present) + exp(absent)), which does not overflow.
    largest = max(present, absent) + math.log1p(math.exp(-abs(present - absent)))
    return largest - absent


@lru_cache(maxsize=32)
def _one_step(steps_per_epoch: int, sigma: float, interval: float) -> _OfLibrary:
    """The privacy loss distribution of one step, cached, as the library's accountant builds it."""
    with quiet():
        from dp_accounting.pld import privacy_loss_distribution  # lazily: 2 s

        return privacy_loss_distribution.from_gaussian_mechanism(
            sigma, sampling_prob=1.0 / steps_per_epoch, value_discretization_interval=interval
        )


@lru_cache(maxsize=256)
def _total_sigma(steps_per_epoch: int, steps: int, delta: float, target: float) -> float:
    """sigma_total: the noise multiplier of one Gaussian per step that meets the target epsilon.

    The search starts from :func:`_coarse_sigma` and corrects that at full precision by secants:
    log(epsilon) is about linear in log(sigma), and the next sigma is where the line through the
    last two points meets the target. Where that lies outside of the range that is known to hold the
    answer, the next sigma is the range's geometric middle.

    Args:
        steps_per_epoch, steps, delta: As of :func:`calibrate`.
        target: The target epsilon.

    Raises:
        PrivacyError: Even LARGEST_SIGMA costs more than the target.
    """
    low, high = 0.0, math.inf  # sigmas that are known to cost more than the target, and to meet it
    sigma, slope = _coarse_sigma(steps_per_epoch, steps, delta, target)
    before: tuple[float, float] | None = None  # logarithms of the last sigma and its epsilon
    for _ in range(30):
        # Few digits: the last ones of an accountant change with the libraries, and bits of noise
        # with them.
        sigma = _bounded(rounded_up(sigma, digits=6), SMALLEST_SIGMA, LARGEST_SIGMA)
        value = _epsilon((_Charge(steps_per_epoch, sigma, steps),), delta, "pld")
        # At the floor less noise is not tried, however far below the target epsilon lies. Elsewhere
        # 1e-6 leaves room for the accountant's last digits.
        at_the_floor = sigma <= SMALLEST_SIGMA and value <= target
        if at_the_floor or (1.0 - TOLERANCE) * target <= value <= (1.0 - 1e-6) * target:
            return sigma
        if sigma == LARGEST_SIGMA and value > target:
            break
        # Epsilon is 0: all that the steps reveal lies within delta. The secant method ends here,
        # as 0 has no logarithm.
        if value == 0.0:
            return _silent_sigma(steps_per_epoch, steps, delta, low, sigma)
        if value > target:
            low = max(low, sigma)
        else:
            high = min(high, sigma)
        if high <= 1.00001 * low:
            break  # epsilon jumps over the target, where one bound takes the place of another
        point = (math.log(sigma), math.log(value))
        # The slope is held between plausible values, lest the accountant's rounding mislead it;
        # points that are too close leave it as it was.
        if before and abs(point[0] - before[0]) > 1e-4:
            slope = _bounded((point[1] - before[1]) / (point[0] - before[0]), -8.0, -0.2)
        before = point
        # Aimed a little below the target, so that a small miss still lies within the tolerance.
        sigma *= ((1.0 - 0.25 * TOLERANCE) * target / value) ** (1.0 / slope)
        if low > 0.0 and high < math.inf and not low < sigma < high:
            sigma = math.sqrt(low * high)
    if high < math.inf:  # noise that meets the target, though it misses it by over 0.2 %
        return high
    least = _epsilon((_Charge(steps_per_epoch, LARGEST_SIGMA, steps),), delta, "pld")
    raise PrivacyError(
        f"epsilon {target:g} cannot be met at delta {delta:g}: "
        f"noise of {LARGEST_SIGMA:g} times the clipping bound still costs {shown_up(least)}",
        hint=f"use --epsilon {rounded_up(1.01 * least, digits=2):g} or more, or fewer epochs",
    )


def _silent_sigma(steps_per_epoch: int, steps: int, delta: float, low: float, high: float) -> float:
    """The least noise multiplier, to two digits, at which all that steps reveal lies within delta.

    Found by halving the range of the logarithm and rounded up, so that the result depends neither
    on the noise multipliers that the caller tried before nor on the library's last digits.

    Args:
        steps_per_epoch, steps, delta: As of :func:`calibrate`.
        low: A noise multiplier that costs some epsilon; 0 where none is known.
        high: One that costs none.
    """

    def is_silent(sigma: float) -> bool:
        """Whether epsilon is 0 at that noise."""
        return _epsilon((_Charge(steps_per_epoch, sigma, steps),), delta, "pld") == 0.0

    low, enough = max(low, SMALLEST_SIGMA), high
    while enough > 1.001 * low:
        middle = math.sqrt(low * enough)
        if is_silent(middle):
            enough = middle
        else:
            low = middle
    rounded = rounded_up(enough, digits=2)
    # Asked again: with more noise the accountant may round losses to other intervals.
    if rounded <= LARGEST_SIGMA and is_silent(rounded):
        return rounded
    return enough


def _coarse_sigma(
    steps_per_epoch: int, steps: int, delta: float, target: float
) -> tuple[float, float]:
    """About the noise multiplier that meets the target, and d log(epsilon) / d log(sigma) there.

    The secant method on logarithms, with privacy losses rounded coarsely, for speed. The method
    need not converge: the caller goes on from wherever it ends, at full precision.

    The first sigma follows from the central limit: T steps at sampling rate q reveal about as much
    as one Gaussian of noise 1 / mu, where ``mu = q sqrt(T (exp(1 / sigma^2) - 1))``, which is
    solved for sigma; where nothing is sampled, ``mu = sqrt(T) / sigma`` exactly.

    Args:
        steps_per_epoch, steps, delta: As of :func:`calibrate`; q is 1 / steps_per_epoch.
        target: The target epsilon.

    Source: Bu et al. 2020.
    """
    with quiet():
        import dp_accounting  # lazily: 2 s

        # Of the one Gaussian that meets the target.
        mu = 1.0 / float(dp_accounting.get_sigma_gaussian(target, delta))
    guess = math.sqrt(steps) / mu
    if steps_per_epoch > 1:
        guess = 1.0 / math.sqrt(math.log1p((mu * steps_per_epoch) ** 2 / steps))
    interval = _COARSE * _interval(target)

    def excess(log_sigma: float) -> float:
        """log(epsilon / target) at that noise multiplier; 0 at the one that is sought."""
        charge = _Charge(steps_per_epoch, math.exp(log_sigma), steps)
        # 1e-12 in place of an epsilon of 0, which has no logarithm.
        return math.log(max(_pld((charge,), delta, interval), 1e-12) / target)

    low, high = math.log(SMALLEST_SIGMA), math.log(LARGEST_SIGMA)
    log_sigma = _bounded(math.log(guess), low, high)
    value = excess(log_sigma)
    slope = -1.5  # a usual one, until two points give it
    for _ in range(60):
        if abs(value) < 2e-4:
            break
        move = _bounded(-value / slope, -1.0, 1.0)  # by a factor of e at most
        next_log_sigma = _bounded(log_sigma + move, low, high)
        if next_log_sigma == log_sigma:  # the target lies beyond a limit of sigma
            break
        next_value = excess(next_log_sigma)
        # Closer points give no slope: the accountant's rounding is as large as their difference.
        if abs(next_log_sigma - log_sigma) > 1e-3:
            measured = (next_value - value) / (next_log_sigma - log_sigma)
            slope = _bounded(measured, -8.0, -0.2)
        log_sigma, value = next_log_sigma, next_value
    return math.exp(log_sigma), slope


def _bounded(value: float, low: float, high: float) -> float:
    """``value``, or the end of the range low to high that it lies beyond."""
    return min(max(value, low), high)


def rounded_up(value: float, digits: int) -> float:
    """The next number of that many significant digits, never below ``value``, which is positive."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)  # of the last digit
    rounded = float(f"{math.ceil(value / unit) * unit:.{digits}g}")
    if rounded >= value:  # else the arithmetic's own rounding left it below
        return rounded
    return float(f"{rounded + unit:.{digits}g}")


@contextmanager
def quiet() -> Iterator[None]:
    """Inside the block dp_accounting's log lines and warnings of numbers are held back.

    The lines say that some Renyi orders are left out, which only makes a bound looser. Numbers
    overflow where a loss is too large to matter.
    """
    import numpy as np  # lazily, as the library that it is for

    logger = logging.getLogger("absl")
    logger.addFilter(_let_none_pass)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        logger.removeFilter(_let_none_pass)


def _let_none_pass(record: logging.LogRecord) -> bool:
    """A filter of a logger: False, so that the line is dropped."""
    return False
