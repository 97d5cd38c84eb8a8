"""Readings over training: one series per diagnostic, small enough to draw."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.report.decomposition import Curve

MAX_OBSERVATIONS = 60  # a longer curve is thinned evenly, its ends kept

Float64 = NDArray[np.float64]


def curve(
    name: str, steps: Sequence[int], columns: Sequence[str], by_seed: Float64, meaning: str = ""
) -> Curve:
    """The curve of a reading of every seed.

    Args:
        name: Of the reading. steps: When it was taken, [T_obs]. columns: Names, [columns].
        by_seed: [S, T_obs, columns]; NaN is unknown. meaning: In words.
    """
    kept = _thinned(len(steps))
    return Curve(
        name=name,
        meaning=meaning,
        steps=tuple(int(steps[i]) for i in kept),
        columns=tuple(columns),
        values=tuple(_row(row) for row in nan_mean(by_seed)[kept]),
        spread=tuple(_row(row) for row in _spread(by_seed)[kept]),
    )


def nan_mean(values: Float64) -> Float64:
    """Mean over the first axis of what is finite; NaN where nothing is."""
    finite = np.isfinite(values)
    count = finite.sum(0)
    total = np.where(finite, values, 0.0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _spread(values: Float64) -> Float64:
    """Standard deviation over the first axis of what is finite; NaN below two."""
    finite = np.isfinite(values)
    count = finite.sum(0)
    square = np.where(finite, values - nan_mean(values), 0.0) ** 2
    return np.where(count > 1, np.sqrt(square.sum(0) / np.maximum(count - 1, 1)), np.nan)


def _thinned(length: int) -> list[int]:
    if length <= MAX_OBSERVATIONS:
        return list(range(length))
    return [round(i * (length - 1) / (MAX_OBSERVATIONS - 1)) for i in range(MAX_OBSERVATIONS)]


def _row(values: Float64) -> tuple[float | None, ...]:
    return tuple(float(v) if np.isfinite(v) else None for v in values)
