"""Readings over training: one series per diagnostic, small enough to draw."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.intervals import quantiles
from fairaudit.report.decomposition import Curve

MAX_OBSERVATIONS = 60  # of a longer curve, means over windows

Float64 = NDArray[np.float64]


def curve(
    name: str,
    steps: Sequence[int],
    columns: Sequence[str],
    by_seed: Float64,
    meaning: str = "",
    *,
    most: int = MAX_OBSERVATIONS,
) -> Curve:
    """The curve of a reading of every seed, averaged over windows where it is long.

    Args:
        name: Of the reading.
        steps: When it was taken, [T_obs].
        columns: Names, [columns].
        by_seed: [S, T_obs, columns]; NaN is unknown.
        meaning: In words.
        most: Windows.
    """
    windows = np.array_split(np.arange(len(steps)), min(len(steps), most))
    means = np.stack(
        [nan_mean(by_seed[:, window].swapaxes(0, 1)) for window in windows], axis=1
    )  # [S, W, ..]
    mean, spread, seeds = nan_mean(means), _spread(means), np.isfinite(means).sum(0)
    half = spread / np.sqrt(np.maximum(seeds, 1)) * _t(seeds)
    return Curve(
        name=name,
        meaning=meaning,
        steps=tuple(round(float(np.mean([steps[i] for i in window]))) for window in windows),
        columns=tuple(columns),
        values=tuple(map(_row, mean)),
        spread=tuple(map(_row, spread)),
        low=tuple(map(_row, mean - half)),
        high=tuple(map(_row, mean + half)),
        window=max(map(len, windows)),
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


def _t(seeds: NDArray[np.int64]) -> Float64:
    """Student's t at 97.5 % for means over so many seeds; NaN below two."""
    known = {int(n): quantiles(0.975, int(n) - 1)[0] if n > 1 else np.nan for n in np.unique(seeds)}
    factors: Float64 = np.vectorize(known.__getitem__, otypes=[np.float64])(seeds)
    return factors


def _row(values: Float64) -> tuple[float | None, ...]:
    return tuple(float(v) if np.isfinite(v) else None for v in values)
