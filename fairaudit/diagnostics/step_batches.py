"""Poisson batches of a step, drawn anew: their gradients before and after clipping."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairaudit.diagnostics.checkpoints import StepReader, poisson_batch
from fairaudit.privacy.streams import numpy_stream


class StepBatches(NamedTuple):
    """M Poisson batches of one step: sums over the batch divided by qN, float64.

    Args:
        plain: g_B, [R, M, P].
        clipped: gbar_B, the same after the rule has scaled each record's gradient.
    """

    plain: Tensor
    clipped: Tensor

    @property
    def lengths(self) -> tuple[Tensor, Tensor]:
        """||g_B|| and ||gbar_B||, [R, M] each."""
        before, after = (torch.linalg.vector_norm(one, dim=-1) for one in self)
        return before, after

    @property
    def shrinkage(self) -> Tensor:
        """rho = ||gbar_B|| / ||g_B||, [R, M]; 1 where either vanishes, as for an empty batch."""
        before, after = self.lengths
        return torch.where((before > 0) & (after > 0), after / before, 1.0)

    @property
    def usable(self) -> Tensor:
        """Whether at every replicate both gradients vanish, or neither does, [M].

        If only one of the two vanishes, some terms are not defined at the batch.
        """
        before, after = self.lengths
        return ((before > 0) == (after > 0)).all(0)

    def only(self, chosen: Tensor) -> "StepBatches":
        """Some of the batches; ``chosen``: booleans, [M]."""
        return StepBatches(self.plain[:, chosen], self.clipped[:, chosen])


def drawn(reader: StepReader, label: str, count: int) -> StepBatches:
    """Poisson batches of a step, the same records for every replicate and every arm of a seed.

    Args:
        reader: Reads gradients at the step.
        label: Of the random stream that they are drawn from.
        count: M.
    """
    task = reader.task
    stream = numpy_stream(task.seed, "probe", label, reader.checkpoint.step)
    n_records, rate = task.pool.n_records, 1.0 / task.steps_per_epoch
    batches = [poisson_batch(stream, n_records, rate) for _ in range(count)]
    # For a small model calls are what takes time: several batches are read in one call, each summed
    # by a row of weights, 1 for its records. For a large one each row is a pass over all records of
    # the call, so batches are read one by one.
    at_once = 1
    if reader.is_small(round(n_records * rate)):
        at_once = reader.most_rows
    sums = []
    for start in range(0, count, at_once):
        some = batches[start : start + at_once]
        sizes = torch.tensor([len(records) for records in some])
        batch_of_record = torch.repeat_interleave(torch.arange(len(some)), sizes)
        rows = [batch_of_record == number for number in range(len(some))]
        both = reader.sums(torch.cat(some), rows)
        sums.append(torch.stack([both.plain, both.processed]).double())
    # Put together the sums are [2, M, R, P]; plain and clipped are [R, M, P] each.
    plain, clipped = torch.cat(sums, 1).transpose(1, 2) / (task.n_public * rate)
    return StepBatches(plain, clipped)
