"""What goes with a costly record: input norm, gradient norm, closeness to the boundary, curvature.

Per record of a sample, and their correlations with bootstrap intervals. Raw data:
never private. Source: Tran et al. 2021, sec. 5 and 6.
"""

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.diagnostics.curvature import traces_of_each_record
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.engine.replicates import stack, tape_of
from fairaudit.metrics.agreement import RESAMPLES, Ranked, pearson, with_interval
from fairaudit.privacy.streams import numpy_stream

Float64 = NDArray[np.float64]

QUANTITIES = ("input_norm", "gradient_norm", "closeness", "trace", "loss")
PAIRS = (("input_norm", "gradient_norm"), ("closeness", "trace"), ("input_norm", "trace"))
ROWS_AT_ONCE = 4096
BLOCK = 2**18  # weights of resamples that are worked on at once


@dataclass(frozen=True, slots=True)
class RecordReadings:
    """What was read of every record.

    Args:
        values: Name of QUANTITIES -> [n], float64, in the group order of ``records``; the norms
            without unit, ``closeness`` = 1 - sum f^2 in [0, 1 - 1/Y], ``trace`` of the record's own
            Hessian (NaN for models without a closed form), ``loss`` in nats.
        records: The records.
    """

    values: Mapping[str, Float64]
    records: GroupedRecords


class Correlates(NamedTuple):
    """Of each of PAIRS value, low and high of a 95 % interval, [3, K + 1, 3]; the whole stands last."""

    pearson: Float64
    spearman: Float64


def read_records(landscape: Landscape) -> RecordReadings:
    """Every quantity of every record of a landscape."""
    records = landscape.records
    gradient, probabilities = _gradients(landscape)
    own = probabilities[torch.arange(len(records)), records.targets.cpu()]
    traces = traces_of_each_record(landscape)
    missing = torch.full((len(records),), torch.nan)
    found = {
        "input_norm": torch.linalg.vector_norm(records.features.flatten(1).double(), dim=1),
        "gradient_norm": gradient,
        "closeness": 1.0 - probabilities.square().sum(1),
        "trace": missing if traces is None else traces,
        "loss": -torch.log(own),
    }
    return RecordReadings({name: found[name].double().cpu().numpy() for name in QUANTITIES}, records)


def _gradients(landscape: Landscape) -> tuple[Tensor, Tensor]:
    """Norm of each record's gradient [n] and softmax outputs [n, Y], from the tape training uses."""
    module = copy.deepcopy(landscape.module).to(landscape.theta)
    network = stack([module])
    network.theta[0] = landscape.theta
    tape = tape_of(network)
    norms, outputs = [], []
    for rows in landscape.records.chunks(ROWS_AT_ONCE):
        logits = tape.forward(landscape.records.features[rows])
        probabilities, delta = landscape.records.loss_gradient(logits, rows)
        norms.append(tape.backward(delta).reshape(-1).clone())
        outputs.append(probabilities.double())
    return torch.cat(norms).cpu(), torch.cat(outputs).cpu()


def correlate(readings: RecordReadings, *, seed: int, label: str | int = 0) -> Correlates:
    """Correlations of the readings.

    Intervals are percentiles over 200 resamples of the records, drawn within each group; a sample
    that is not proportional to the groups is weighed by their shares.

    Args:
        readings: Of :func:`read_records`.
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
    resampled, stream = np.zeros((len(weights), RESAMPLES)), numpy_stream(seed, "probe", "correlates", label)
    for rows in groups:
        size = rows.stop - rows.start
        for draw in range(RESAMPLES if size else 0):
            resampled[rows, draw] = np.bincount(stream.integers(size, size=size), minlength=size)
    resampled *= weights[:, None]
    shape = (len(PAIRS), len(parts), 3)
    plain, ranked = np.full(shape, np.nan), np.full(shape, np.nan)
    for number, (first, second) in enumerate(PAIRS):
        a, b = readings.values[first], readings.values[second]
        for place, rows in enumerate(parts):
            if np.isfinite(a[rows]).all() and np.isfinite(b[rows]).all() and rows.stop - rows.start > 2:
                plain[number, place], ranked[number, place] = _intervals(
                    a[rows], b[rows], weights[rows], resampled[rows]
                )
    return Correlates(plain, ranked)


def _intervals(a: Float64, b: Float64, weights: Float64, resampled: Float64) -> tuple[Float64, Float64]:
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
