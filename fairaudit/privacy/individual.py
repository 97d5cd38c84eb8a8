"""What a run said of one group's records.

Where noise is larger next to some groups than to others.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.privacy.accounting import composed_epsilon
from fairaudit.privacy.events import NoisyRelease, SampledGaussian

# of steps, each composed exactly; more take longer and raise epsilon by less (here 1 to 5 %)
CLASSES = 12
_POINTS = 256  # places where a class may end

Precision = NDArray[np.float64]  # 1 / sigma^2


def individual_epsilon(
    noise_multipliers: NDArray[np.floating], event: SampledGaussian, delta: float
) -> float:
    """Epsilon that the noise of one group's records would have given, had it been planned so.

    An upper bound: steps are sorted into classes, and each is charged as the step of its class with
    the least noise; exact where there are no more unlike steps than classes. Of several repeats it
    holds for each. Descriptive, and no guarantee: the noise next to a group was chosen as training
    went, and adding up after the fact proves nothing without a filter that stops in time.

    Args:
        noise_multipliers: The gradient's noise std over the longest gradient that the group's
            records could have, [T] or [T, R]: at every step, of every repeat.
        event: What each step released, the gradient first.
        delta: In (0, 1).

    Returns:
        At least 0, and at most the run's own epsilon where no multiplier is below the planned one.

    Source: docs/methods.md 2.6.
    """
    side = sum(release.noise_multiplier**-2 for release in event.releases[1:])
    precision = (
        np.asarray(noise_multipliers, dtype=np.float64).reshape(event.steps, -1) ** -2.0 + side
    )
    # Order does not matter to a composition, so this sequence says at least as much as any
    # repeat's.
    least_noise = np.sort(precision, axis=0).max(axis=1)
    runs = []
    for largest, steps in _classes(least_noise):
        release = NoisyRelease("individual", largest**-0.5)
        runs.append((SampledGaussian(event.steps_per_epoch, steps, (release,)), 1))
    return composed_epsilon(runs, delta, coarsely=len(runs) > 2)


class _Class(NamedTuple):
    largest: float  # precision, and so the least noise
    steps: int


def _classes(precision: Precision) -> list[_Class]:
    """Neighbouring steps together, so that the sum of exp(precision) is raised as little as can be.

    That sum decides about epsilon when steps are many (Bu et al. 2020), so this is where to be
    exact.

    Args:
        precision: Ascending, [T].
    """
    ends, counts = np.unique(precision, return_counts=True)
    if len(ends) > _POINTS:
        pieces = np.array_split(precision, _POINTS)
        ends, counts = (
            np.array([piece[-1] for piece in pieces]),
            np.array([len(piece) for piece in pieces]),
        )
    before = np.concatenate([[0], np.cumsum(counts)])
    weight = np.exp(ends - ends[-1])
    # Cost of one class over the points i..j, and least costs of all points up to j in 1, 2, ...
    # classes.
    cost = np.triu((before[1:] - before[:-1, None]) * weight) + np.tril(
        np.full((len(ends),) * 2, np.inf), -1
    )
    least, begins = cost[0], [np.zeros(len(ends), dtype=np.int64)]
    for _ in range(1, CLASSES):
        candidates = np.concatenate([[0.0], least[:-1]])[:, None] + cost
        begins.append(candidates.argmin(0))
        least = candidates.min(0)
    found, end = [], len(ends) - 1
    for begin in reversed(begins):
        if end < 0:
            break
        found.append(_Class(float(ends[end]), int(before[end + 1] - before[begin[end]])))
        end = int(begin[end]) - 1
    return found
