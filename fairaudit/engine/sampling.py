"""Exact Poisson sampling: one independent coin per record and step, drawn an epoch at a time.

The coin falls with probability q = 1 / steps_per_epoch, so a batch has N / steps_per_epoch records
on average, and may be empty.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def poisson_positions(
    rng: np.random.Generator, records: int, steps_per_epoch: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One epoch of batches: ``steps_per_epoch`` rounds of a coin of 1/steps_per_epoch per record.

    The coins of all rounds form one Bernoulli sequence of ``records * steps_per_epoch`` positions,
    that of record i in round t being ``t * records + i``. The gaps between its successes are
    geometric, so only successes are drawn. This is exact, not an approximation.

    Args:
        rng: Draws the gaps.
        records: Number of records, numbered from 0.
        steps_per_epoch: Rounds, that is batches.

    Returns:
        (drawn, cuts): the batch of round t is ``drawn[cuts[t]:cuts[t + 1]]``, record numbers in
        ascending order, each at most once; ``cuts`` has ``steps_per_epoch + 1`` entries.
    """
    total = records * steps_per_epoch
    if steps_per_epoch == 1:  # every coin is a success, and the rate below would be infinite
        return np.arange(records, dtype=np.int64), np.array([0, records], dtype=np.int64)
    # An exponential of this rate, cut to a whole number, is geometric with chance 1 / steps: it
    # counts the failures before a success.
    rate = -np.log1p(-1.0 / steps_per_epoch)
    # About ``records`` successes are expected: so many gaps nearly always pass the end at once.
    size = int(records + 6 * records**0.5) + 16
    parts: list[NDArray[np.int64]] = []
    last = -1  # position of the last success; before the first position there is none
    while last < total:
        gaps = (rng.standard_exponential(size) / rate).astype(np.int64) + 1
        positions = np.cumsum(gaps) + last
        parts.append(positions)
        last = int(positions[-1])
    successes = np.concatenate(parts)  # their positions in the sequence
    cuts = np.searchsorted(successes, np.arange(steps_per_epoch + 1) * records)
    successes = successes[: cuts[-1]]  # successes beyond the end of the sequence are dropped
    # The position at which each success's round starts; what is left is the record's number.
    starts = np.repeat(np.arange(steps_per_epoch) * records, np.diff(cuts))
    return successes - starts, cuts


class PoissonSampler:
    """Batches for R replicates, each with a stream of its own.

    Reads the same ``steps_per_epoch`` that the accountant reads; there is no other source of q.

    Args:
        streams: One generator per replicate.
        records: Records in the training pool.
        steps_per_epoch: q = 1 / steps_per_epoch.
    """

    def __init__(
        self, streams: Sequence[np.random.Generator], records: int, steps_per_epoch: int
    ) -> None:
        self.streams = streams
        self.records = records
        self.steps_per_epoch = steps_per_epoch
        self.taken = 0
        self._epoch: list[Sequence[Tensor]] = []  # per replicate, one batch per step

    def draw(self) -> tuple[Tensor, Tensor | None]:
        """The next batch of every replicate.

        Returns:
            With one replicate: record indices [B] and None. With more: indices [R, B], padded with
            ``records`` (one past the last), and which entries are present, [R, B] booleans.
        """
        step = self.taken % self.steps_per_epoch  # within the epoch
        if step == 0:  # an epoch begins: all of its batches are drawn
            self._epoch = []
            for stream in self.streams:
                drawn, cuts = poisson_positions(stream, self.records, self.steps_per_epoch)
                self._epoch.append(
                    torch.split_with_sizes(torch.from_numpy(drawn), np.diff(cuts).tolist())
                )
        self.taken += 1
        if len(self._epoch) == 1:
            return self._epoch[0][step], None
        parts = [batches[step] for batches in self._epoch]
        padded = pad_sequence(parts, batch_first=True, padding_value=self.records)
        return padded, padded < self.records
