"""Any records' gradients at a checkpoint, through the rule and released values of its step.

"Plain" is a gradient of the loss; "processed" is one of the method's own objective, times the
factor that the clipping rule gives the record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairaudit.engine.contributions import NORM_GUARD, limited_scale, numbers
from fairaudit.engine.loop import claims_sensitivity
from fairaudit.engine.observe import Checkpoint
from fairaudit.engine.replicates import stack
from fairaudit.engine.rules import ClippingRule, Erm, Objective
from fairaudit.errors import TrainingError
from fairaudit.methods.base import Task
from fairaudit.methods.gradient import GradientMethod

ROWS_AT_ONCE = 4096  # in one forward pass
MOST_BYTES = 2**31  # of kept parameters


def refuse_too_many(count: int, parameters: int) -> None:
    """Refuse more checkpoints than memory holds: before training rather than after hours.

    Args:
        count: Checkpoints.
        parameters: Numbers kept at each, over all replicates; 4 bytes each.

    Raises:
        TrainingError: They would take more than 2 GiB.
    """
    if 4 * count * parameters > MOST_BYTES:
        raise TrainingError(
            f"{count:,} checkpoints of {parameters:,} parameters take more than {MOST_BYTES >> 30} "
            "GiB",
            hint="use a larger --diagnostics-every",
        )


class Sums(NamedTuple):
    """Weighted sums of the gradients of some records, for W rows of weights.

    Args:
        plain: Sums of the plain gradients, [W, R, P].
        processed: Sums of the processed gradients, [W, R, P].
        scale: The rule's factor of each record, [R, B].
        unclipped: The factor that it would give a zero gradient of the record's group, [R, B].
    """

    plain: Tensor
    processed: Tensor
    scale: Tensor
    unclipped: Tensor


@dataclass(frozen=True, slots=True)
class Moments:
    """First moments of the gradients of the whole training split at one checkpoint, float64.

    Args:
        group: g_a, means of each group's plain gradients, [R, K, P]; NaN for an absent group.
        whole: Mean over all records, [R, P].
        total, processed: Sums over all records, of plain and of processed gradients, [R, P].
        clipped: Share of each group's records whose factor is smaller than that of a zero gradient,
            [R, K].
    """

    group: Tensor
    whole: Tensor
    total: Tensor
    processed: Tensor
    clipped: Tensor


class StepReader:
    """Reads gradient sums at one checkpoint; draws nothing, changes nothing.

    Args:
        method: Whose objective and rule made the step.
        task: The training's task.
        checkpoint: The step.
    """

    def __init__(self, method: GradientMethod, task: Task, checkpoint: Checkpoint) -> None:
        self.task, self.checkpoint = task, checkpoint
        self.network = stack([task.model] * task.repeats, task.seed)
        self.network.theta.copy_(checkpoint.parameters)
        self.objective: Objective[Any] = method.objective(task)
        self.rule: ClippingRule[Any] = method.rule(task)
        # Whether training held the rule's factors to the sensitivity that it claims.
        self.is_limited = claims_sensitivity(method.release(task))
        self.most_rows = 4  # rows of weights that one call of sums may ask for
        self.tape = method.tape(self.objective)(self.network, self.most_rows, task.budget)

    def sums(self, records: Tensor, weights: Sequence[Tensor]) -> Sums:
        """Weighted sums of some records' gradients.

        Args:
            records: Their numbers in the training pool, [B].
            weights: Rows [B], at most ``most_rows`` of them; one sum is made for each.
        """
        # Every replicate reads the same records; one alone has no axis for it.
        if self.task.repeats == 1:
            index = records
        else:
            index = records.repeat(self.task.repeats, 1)
        batch = self.task.pool.gather(index, None)
        group = self._lead(batch.group)
        logits = self.tape.forward(batch.inputs, batch.norms)
        released = self.checkpoint.objective_released
        gradient = self.objective.output_gradient(released, logits, batch.targets, batch.group)
        delta = numbers(gradient, logits.shape, logits, "the objective's output gradient")
        norms = self._lead(self.tape.backward(delta))
        bound = self.checkpoint.rule_released
        upper = norms * NORM_GUARD  # rounded up, as a rule gets them in training
        factors = self.rule.scale(bound, upper, group)
        scale = numbers(factors, norms.shape, norms, "the clipping rule's scale")
        if self.is_limited:
            scale = limited_scale(scale, upper, self.checkpoint.sensitivity)
        unclipped = self.rule.scale(bound, torch.zeros_like(norms), group)
        rows = [weight.to(norms).expand_as(norms) for weight in weights]
        processed = self._weighted([scale * row for row in rows])
        if not isinstance(self.objective, Erm):
            # The loss's own gradient, where training followed that of another objective.
            plain_logits = self.tape.forward(batch.inputs, batch.norms)
            self.tape.backward(
                Erm().output_gradient(None, plain_logits, batch.targets, batch.group)
            )
        return Sums(self._weighted(rows), processed, scale, unclipped)

    def moments(self) -> Moments:
        """Means of each group and totals, over the whole training split."""
        pool = self.task.pool
        groups = pool.groups[: pool.n_records]
        shape = (self.task.repeats, pool.n_groups)
        group = torch.zeros(*shape, self.network.n_parameters, dtype=torch.float64)
        processed = torch.zeros_like(group[:, 0])
        clipped = torch.zeros(shape, dtype=torch.float64)
        for k in range(pool.n_groups):
            for records in torch.split(torch.nonzero(groups == k).squeeze(1), ROWS_AT_ONCE):
                sums = self.sums(records, [torch.ones(len(records))])
                group[:, k] += sums.plain[0]
                processed += sums.processed[0]
                # Smaller by more than the guard on norms, which is no clip.
                is_clipped = sums.scale / sums.unclipped < 1.0 - 1e-4
                clipped[:, k] += is_clipped.double().sum(-1)
        count = torch.bincount(groups, minlength=pool.n_groups).double()
        total = group.sum(1)
        return Moments(
            group=group / count.unsqueeze(-1),
            whole=total / pool.n_records,
            total=total,
            processed=processed,
            clipped=clipped / count,
        )

    def unclipped(self, replicate: int) -> float:
        """The factor that the rule gives a zero gradient; 1 where groups have factors of their own.

        ``replicate``: its number, 0 to R - 1.
        """
        n_groups = self.task.pool.n_groups
        group = torch.arange(n_groups).expand(self.task.repeats, -1)
        nothing = torch.zeros(group.shape, dtype=self.network.theta.dtype)
        factor = self.rule.scale(self.checkpoint.rule_released, nothing, group)[replicate]
        if bool((factor == factor[0]).all()):
            return float(factor[0])
        return 1.0

    def _weighted(self, rows: Sequence[Tensor]) -> Tensor:
        """Sums [W, R, P] of the gradients of the last backward pass, for W rows of weights [R, B].

        They are copies: the tape writes the next sums over its own.
        """
        assert len(rows) <= self.most_rows
        return torch.stack([row.clone() for row in self.tape.sums(rows)])

    def _lead(self, values: Tensor) -> Tensor:
        """With the replicate axis that the tape leaves out where there is one replicate."""
        if self.task.repeats == 1:
            return values.unsqueeze(0)
        return values


def poisson_batch(stream: np.random.Generator, records: int, sample_rate: float) -> Tensor:
    """One Poisson sample of the record numbers 0..records-1, ascending, [B]."""
    return torch.from_numpy(np.flatnonzero(stream.random(records) < sample_rate))
