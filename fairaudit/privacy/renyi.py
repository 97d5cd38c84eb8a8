"""Renyi divergences of one run, and the epsilon that some imply: what a search is charged by."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairaudit.privacy.accounting import checked_delta, quiet
from fairaudit.privacy.events import Gaussian, PrivacyEvent

# Those that the RDP accountant asks for by itself.
ORDERS: tuple[float, ...] = (
    *(1 + tenths / 10.0 for tenths in range(1, 100)),
    *map(float, range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
_ALMOST_ZERO = 1e-300  # a delta so small that no divergence is taken for none


def renyi_divergences(event: PrivacyEvent) -> NDArray[np.float64]:
    """Of one run, at each of ``ORDERS``, for adding or removing one record; inf without noise."""
    sigma = event.effective_noise_multiplier
    if sigma == 0.0:
        return np.full(len(ORDERS), math.inf)
    if isinstance(event, Gaussian) or event.steps_per_epoch == 1:
        return np.asarray(ORDERS) * (event.steps / (2.0 * sigma**2))
    return np.asarray(_sampled(event.steps_per_epoch, float(f"{sigma:.12g}"))) * event.steps


def epsilon_of_divergences(divergences: NDArray[np.float64], delta: float) -> float:
    """The least epsilon at ``delta`` that divergences at ``ORDERS`` imply."""
    checked_delta(delta)
    with quiet():
        from dp_accounting.rdp import rdp_privacy_accountant  # lazily: 2 s

        return float(rdp_privacy_accountant.compute_epsilon(ORDERS, divergences, delta)[0])


def delta_of_divergences(divergences: NDArray[np.float64], epsilon: float) -> float:
    """The least delta at ``epsilon`` that divergences at ``ORDERS`` imply."""
    with quiet():
        from dp_accounting.rdp import rdp_privacy_accountant  # lazily: 2 s

        return float(rdp_privacy_accountant.compute_delta(ORDERS, divergences, epsilon)[0])


@lru_cache(maxsize=256)
def _sampled(steps_per_epoch: int, sigma: float) -> tuple[float, ...]:
    """Of one step on a Poisson sample, by the library's RDP accountant."""
    found = []
    with quiet():
        import dp_accounting  # lazily: 2 s
        from dp_accounting import rdp  # lazily: 2 s

        step = dp_accounting.PoissonSampledDpEvent(
            1.0 / steps_per_epoch, dp_accounting.GaussianDpEvent(sigma)
        )
        for order in ORDERS:
            # An accountant tells an epsilon, not the divergence that it comes of; at one order each
            # follows from the other. Source: Canonne, Kamath and Steinke 2020, Proposition 12.
            value = float(rdp.RdpAccountant([order]).compose(step).get_epsilon(_ALMOST_ZERO))
            beside = math.log1p(-1.0 / order) - math.log(_ALMOST_ZERO * order) / (order - 1.0)
            found.append(max(0.0, value - beside))
    return tuple(found)
