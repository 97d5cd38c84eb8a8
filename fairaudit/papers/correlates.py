"""Correlations over records of what goes with a costly one, with bootstrap intervals.

Source: Tran et al. 2021, sec. 5 and 6.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairaudit.diagnostics.records import RecordReadings
from fairaudit.papers.causes import CORRELATED
from fairaudit.papers.ranks import RESAMPLES, Ranked, pearson, with_interval
from fairaudit.privacy.streams import numpy_stream

Float64 = NDArray[np.float64]

BLOCK = 2**18  # weights of resamples that are worked on at once


class Correlates(NamedTuple):
    """Of each of CORRELATED value, low and high of a 95 % interval, [3, K + 1, 3].

    The whole stands last.
    """

    pearson: Float64
    spearman: Float64


def correlate(readings: RecordReadings, *, seed: int, label: str | int = 0) -> Correlates:
    """Correlations of the readings.

    Intervals are percentiles over 200 resamples of the records, drawn within each group; a sample
    that is not proportional to the groups is weighed by their shares.

    Args:
        readings: Of :func:`fairaudit.diagnostics.records.read_records`.
        seed: The audit seed.
        label: Tells the resampling of one reading from another's (arm, step).
    """
    records = readings.records
    edges = records.edges
    groups = [slice(a, b) for a, b in itertools.pairwise(edges)]
    parts = [*groups, slice(0, len(records))]
    counts, shares = records.counts.numpy(), records.shares.numpy()
    each = np.divide(shares, counts, out=np.zeros_like(shares), where=counts > 0)
    weights = np.repeat(each, counts.astype(int))  # each record's share of the whole, [n]
    # How often each record was drawn in each resample, times its share, [n, RESAMPLES].
    resampled, stream = (
        np.zeros((len(weights), RESAMPLES)),
        numpy_stream(seed, "probe", "correlates", label),
    )
    for rows in groups:
        size = rows.stop - rows.start
        for draw in range(RESAMPLES if size else 0):
            resampled[rows, draw] = np.bincount(stream.integers(size, size=size), minlength=size)
    resampled *= weights[:, None]
    shape = (len(CORRELATED), len(parts), 3)
    plain, ranked = np.full(shape, np.nan), np.full(shape, np.nan)
    for number, (first, second) in enumerate(CORRELATED):
        a, b = readings.values[first], readings.values[second]
        for place, rows in enumerate(parts):
            if (
                np.isfinite(a[rows]).all()
                and np.isfinite(b[rows]).all()
                and rows.stop - rows.start > 2
            ):
                plain[number, place], ranked[number, place] = _intervals(
                    a[rows], b[rows], weights[rows], resampled[rows]
                )
    return Correlates(plain, ranked)


def _intervals(
    a: Float64, b: Float64, weights: Float64, resampled: Float64
) -> tuple[Float64, Float64]:
    """Pearson's and Spearman's correlation with intervals, [3] each."""
    first, second = Ranked(a), Ranked(b)
    blocks = np.array_split(resampled, max(1, resampled.size // BLOCK), axis=1)

    def of_ranks(own: Float64) -> Float64:
        return pearson(first.ranks(own), second.ranks(own), own)

    columns = a[:, None], b[:, None]
    plain = np.concatenate([pearson(*columns, own) for own in blocks])
    ranked = np.concatenate([of_ranks(own) for own in blocks])
    values = float(pearson(a, b, weights)), float(of_ranks(weights))
    return with_interval(values[0], plain), with_interval(values[1], ranked)
