"""The quantile of a mean over seeds that holds where effects of seeds are skewed.

Student's t breaks its level where a bad training is worse by far more than a good one is better: a sample
that misses the bad ones has a low mean and a small spread at once. With exponential effects and ten seeds the
upper limit at 1.25 % fails in 7 %. No reading of the sample's own skewness makes up for it: it is smallest
in just those samples. So the quantile is the larger of those that a normal and an exponential law need, and
holds for both.

For X exponential, the sample's mean m is independent of its coefficient of variation v (Basu 1955), so with
m ~ Gamma(n) / n,

    P(sqrt(n) (m - 1) / s < -c) = E_v P(m < 1 / (1 + c v / sqrt(n))),

which leaves one mean over v, taken over draws that are always the same.
"""

import math
from functools import lru_cache

import numpy as np

from fairaudit.metrics.intervals import quantiles
from fairaudit.privacy.streams import numpy_stream

_DRAWS, _NUMBERS = 10_000, 2**20  # of v, and of what they are made of: c is right to half a per cent
_LARGEST = 1e6


@lru_cache(maxsize=1024)
def skewed_quantile(level: float, seeds: int) -> float:
    """c for which ``mean + c sqrt(V_seed)`` holds at a one-sided level, at least Student's t.

    Args:
        level: Of failing, below one half.
        seeds: At least 2.
    """
    from scipy.special import gammainc  # scipy takes 0.4 s to import

    draws = numpy_stream(0, "probe", "skew", seeds).random((min(_DRAWS, _NUMBERS // seeds), seeds))
    effects = -np.log1p(-draws)
    ratio = effects.std(axis=1, ddof=1) / effects.mean(axis=1) / math.sqrt(seeds)
    low = quantiles(1.0 - level, seeds - 1)[0]
    high = _LARGEST
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        if gammainc(seeds, seeds / (1.0 + middle * ratio)).mean() > level:
            low = middle
        else:
            high = middle
    return high
