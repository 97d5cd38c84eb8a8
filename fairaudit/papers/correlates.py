"""Correlations over records of what goes with a costly one, with bootstrap intervals.

Source: Tran et al. 2021, sec. 5 and 6.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from fairaudit.diagnostics.records import RecordReadings
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.ranks import RESAMPLES, rank_correlation
from fairaudit.privacy.streams import numpy_stream

Float64 = NDArray[np.float64]

BLOCK = 2**18  # weights of resamples that are worked on at once


def correlate(
    readings: RecordReadings,
    *,
    seed: int,
    label: str | int = 0,
) -> Float64:
    """Spearman's correlations of the readings.

    Intervals are percentiles over 200 resamples of the records, drawn within each group; a sample
    that is not proportional to the groups is weighed by their shares.

    Args:
        readings: Of :func:`fairaudit.diagnostics.records.read_records`.
        seed: The audit seed.
        label: Tells the resampling of one reading from another's (arm, step).

    Returns:
        Of each of CORRELATED, in each group and in the whole: value, low and high end of a 95 %
        interval, [3, K + 1, 3].
    """
    records = readings.records
    groups = [slice(a, b) for a, b in itertools.pairwise(records.edges)]
    parts = [*groups, slice(0, len(records))]
    counts, shares = records.counts.numpy(), records.shares.numpy()
    of_record = np.divide(
        shares,
        counts,
        out=np.zeros_like(shares),
        where=counts > 0,
    )
    weights = np.repeat(of_record, counts.astype(int))  # [n]
    # How often each record was drawn in each resample, times its share, [n, RESAMPLES].
    resampled = np.zeros((len(weights), RESAMPLES))
    stream = numpy_stream(seed, "probe", "correlates", label)
    for rows in groups:
        size = rows.stop - rows.start
        for draw in range(RESAMPLES if size else 0):
            resampled[rows, draw] = np.bincount(stream.integers(size, size=size), minlength=size)
    resampled *= weights[:, None]
    correlations = np.full(
        (
            len(CORRELATED),
            len(parts),
            3,
        ),
        np.nan,
    )
    for number, (first, second) in enumerate(CORRELATED):
        for place, rows in enumerate(parts):
            a, b = readings.values[first][rows], readings.values[second][rows]
            if len(a) > 2 and np.isfinite(a).all() and np.isfinite(b).all():
                draws = resampled[rows]
                blocks = np.array_split(
                    draws,
                    max(1, draws.size // BLOCK),
                    axis=1,
                )
                correlations[number, place] = rank_correlation(a, b, weights[rows], blocks)
    return correlations
