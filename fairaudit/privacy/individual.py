"""What a run said of one group's records, where noise is larger next to some groups than to others."""

import math

import numpy as np
from numpy.typing import NDArray

from fairaudit.privacy.accounting import composed_epsilon
from fairaudit.privacy.events import NoisyRelease, SampledGaussian

CLASSES = 2  # of steps, each composed exactly; with one epsilon would be understated by up to 6 %


def individual_epsilon(
    noise_multipliers: NDArray[np.floating], event: SampledGaussian, delta: float
) -> float:
    """Epsilon that the noise of one group's records would have given, had it been planned so.

    Descriptive, and no guarantee: the noise next to a group was chosen as training went, and adding up
    after the fact proves nothing without a filter that stops in time. Steps are sorted into a few
    classes of equal size; within one, multipliers are replaced by the one with the same sum of
    exp(1 / sigma^2) - 1, which is what decides when steps are many (Bu et al. 2020).

    Args:
        noise_multipliers: The gradient's noise std over the longest gradient that the group's records
            could have, at every step (of every repeat), any shape.
        event: What each step released, the gradient first. delta: In (0, 1).

    Returns:
        At least 0, and at most the run's own epsilon where no multiplier is below the planned one.

    Source: METHODS 9.3.
    """
    side = sum(release.noise_multiplier**-2 for release in event.releases[1:])
    precision = np.sort(np.asarray(noise_multipliers, dtype=np.float64).ravel() ** -2.0 + side)
    classes = np.array_split(precision, min(CLASSES, event.steps, precision.size))
    # Whole steps, as many as the run took, whatever the number of repeats that the multipliers come from.
    edges = [round(event.steps * number / len(classes)) for number in range(len(classes) + 1)]
    runs = [
        (SampledGaussian(event.steps_per_epoch, last - first, (_typical(members),)), 1)
        for members, first, last in zip(classes, edges, edges[1:], strict=False)
    ]
    return composed_epsilon(runs, delta)


def _typical(precision: NDArray[np.float64]) -> NoisyRelease:
    """The release that stands for steps of these 1 / sigma^2."""
    mean = float(np.logaddexp.reduce(precision)) - math.log(precision.size)
    # More digits than are printed, fewer than are noise: equal questions meet in the accountant's cache.
    return NoisyRelease("individual", float(f"{mean**-0.5:.4g}"))
