"""Any records' gradients at a checkpoint, through the rule and released values of its step.

"Plain" is a gradient of the loss; "processed" is one of the method's own objective, times the
factor that the clipping rule gives the record.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairaudit.engine.contributions import NORM_GUARD, limited_scale, numbers
from fairaudit.engine.loop import claims_sensitivity, records_for
from fairaudit.engine.observe import Checkpoint
from fairaudit.engine.pool import Batch
from fairaudit.engine.replicates import stack
from fairaudit.engine.rules import ClippingRule, Erm, Objective
from fairaudit.errors import TrainingError
from fairaudit.methods.base import Task
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.streams import numpy_stream

ROWS_AT_ONCE = 4096  # in one forward pass
SMALL = 2**17  # parameters times records of a block, below which calls are what takes time
ROUNDING = 1e-6  # relative: a factor so near that of a zero gradient is no clip in ``bounds``
ROW_NUMBERS = 2**22  # numbers in all the weighted sums [W, R, P] that one call makes
CLIPPED = 1.0 - 1e-4  # a smaller factor is a clip: by more than the guard on norms
# Norms between which a rule's bound is looked for, and how many norms are tried at a time.
LEAST_BOUND, MOST_BOUND, GRID = 1e-9, 1e9, 512
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
        # Shifted by 30 bits, bytes are GiB.
        raise TrainingError(
            f"{count:,} checkpoints of {parameters:,} parameters take more than {MOST_BYTES >> 30} "
            "GiB",
            hint="use a larger --diagnostics-every",
        )


def kept_at_once(parameters: int) -> int:
    """How many checkpoints memory holds, of so many numbers each, over all replicates."""
    return MOST_BYTES // (4 * parameters)


class Sums(NamedTuple):
    """Weighted sums of the gradients of some records, for W rows of weights.

    Args:
        plain: Sums of the plain gradients, [W, R, P].
        processed: Sums of the processed gradients, [W, R, P].
        scale: The rule's factor of each record, [R, B].
        unclipped: The factor that it would give a zero gradient of the record's group, [R, B].
        norms: Norms of the gradients that the rule meets, [R, B].
    """

    plain: Tensor
    processed: Tensor
    scale: Tensor
    unclipped: Tensor
    norms: Tensor


@dataclass(frozen=True, slots=True)
class Moments:
    """First moments of the gradients of the whole training split at one checkpoint, float64.

    Args:
        group: g_a, means of each group's plain gradients, [R, K, P]; NaN for an absent group.
        whole: Mean over all records, [R, P].
        total, processed: Sums over all records, of plain and of processed gradients, [R, P].
        clipped: Share of each group's records whose factor is smaller than that of a zero gradient,
            [R, K].
        excess: Mean length that clipping takes from a record's gradient, mean max(0, ||g|| - C) of
            a bound C, [R, K].
    """

    group: Tensor
    whole: Tensor
    total: Tensor
    processed: Tensor
    clipped: Tensor
    excess: Tensor


class BlockSums(NamedTuple):
    """Sums over the records of each block, float64.

    Args:
        gradients: Of the plain gradients, [R, BLOCKS, P].
        counts: Records, [BLOCKS].
        squares: Of squared norms of the plain gradients, [R, BLOCKS].
        norms: Of the norms that the rule meets, [R, BLOCKS].
        ratios: Of these norms to the bound of the record's group, [R, BLOCKS].
        clipped: Records that the rule scales down, [R, BLOCKS].
        processed: Sum of the processed gradients over all blocks, [R, P]; 0 where not asked for.
    """

    gradients: Tensor
    counts: Tensor
    squares: Tensor
    norms: Tensor
    ratios: Tensor
    clipped: Tensor
    processed: Tensor


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
        # W, the rows of weights that one call of ``sums`` may ask for: 4 to 16, fewer of a large
        # model, for each row takes a sum [R, P].
        self.most_rows = max(4, min(16, ROW_NUMBERS // self.network.theta.numel()))
        self.tape = method.tape(self.objective)(self.network, self.most_rows, task.budget)

    def sums(self, records: Tensor, weights: Sequence[Tensor]) -> Sums:
        """Weighted sums of some records' plain and processed gradients.

        Args:
            records: Their numbers in the training pool, [B].
            weights: Rows [B], at most ``most_rows`` of them; one sum is made for each.
        """
        batch = self._gather(records)
        norms, scale, unclipped = self._scaled(batch)
        rows = [weight.to(norms).expand_as(norms) for weight in weights]
        # The tape sums the gradients of its last pass backward. That is first the objective's pass;
        # where training followed another objective than the loss, ``_plain`` then makes the loss's.
        processed = self._weighted([scale * row for row in rows])
        if not isinstance(self.objective, Erm):
            self._plain(batch)
        return Sums(self._weighted(rows), processed, scale, unclipped, norms)

    def blocks(
        self, blocks: Sequence[Tensor], bounds: Tensor, *, processed: bool = False
    ) -> BlockSums:
        """Sums over each of some blocks of records: of their plain gradients, norms and clips.

        Args:
            blocks: J of them, each its records' numbers in the training pool; one may be empty.
            bounds: The rule's bound for each of the pool's groups, [R, K].
            processed: Whether processed gradients are summed, too.
        """
        counts = torch.tensor([len(records) for records in blocks])
        squares, norms, ratios, clipped = torch.zeros(
            4, self.task.repeats, len(blocks), dtype=torch.float64
        )
        sums = BlockSums(
            torch.zeros(self.task.repeats, len(blocks), self.network.n_parameters).double(),
            counts.double(),
            squares,
            norms,
            ratios,
            clipped,
            torch.zeros_like(self.network.theta).double(),
        )
        # Pairs (records, the block's number of each record), [B] each.
        pieces = [(records, torch.full((len(records),), j)) for j, records in enumerate(blocks)]
        # The blocks of a small model are read together, each as a row of weights, for calls are
        # what takes time; those of a large one apart, for each row is a pass over all records.
        if self.is_small(int(counts.sum()) // len(blocks)):
            all_records, their_blocks = zip(*pieces, strict=True)
            pieces = [(torch.cat(all_records), torch.cat(their_blocks))]  # one piece of all blocks
        for records, of_records in pieces:
            for rows in torch.split(torch.arange(len(records)), ROWS_AT_ONCE):
                if not len(rows):  # a group that a seed does not train on
                    continue
                self._add(sums, records[rows], of_records[rows], bounds, processed=processed)
        return sums

    def _add(
        self,
        block_sums: BlockSums,
        records: Tensor,
        places: Tensor,
        bounds: Tensor,
        *,
        processed: bool,
    ) -> None:
        """Add some records to the sums of their blocks, in place.

        Args:
            block_sums: The sums.
            records: Numbers of the records, [B].
            places: Of each the block, ascending, [B].
            bounds: The rule's bound for each of the pool's groups, [R, K].
            processed: Whether processed gradients are summed, too.
        """
        batch = self._gather(records)
        norms, scale, unclipped = self._scaled(batch)
        if processed:
            block_sums.processed.add_(self._weighted([scale])[0])
        plain_norms = norms
        if not isinstance(self.objective, Erm):
            # Run before the tape's sums below, which are of its last pass backward.
            plain_norms = self._plain(batch)
        present = torch.unique_consecutive(places).tolist()  # blocks of which there is a record
        # As many of these blocks at a time as one call makes sums.
        for some in torch.split(torch.tensor(present), self.most_rows):
            rows = [(places == j).to(norms).expand_as(norms) for j in some]
            block_sums.gradients[:, some] += self._weighted(rows).transpose(0, 1)
        is_clipped = scale / unclipped < CLIPPED
        for sums, values in (
            (block_sums.squares, plain_norms.double().square()),
            (block_sums.norms, norms.double()),
            (block_sums.ratios, norms.double() / bounds.gather(1, self._lead(batch.group))),
            (block_sums.clipped, is_clipped.double()),
        ):
            sums.index_add_(1, places, values)

    def is_small(self, records: int) -> bool:
        """Whether a pass over so many records takes less time than the call itself."""
        return self.network.n_parameters * records < SMALL

    def bounds(self) -> Tensor:
        """The longest gradient of each group that the rule does not clip, [R, K] float64.

        NaN where the rule clips none, or every one. A rule tells factors alone and no bound. So the
        bound is looked for on a grid of the logarithms of norms, which is made finer twice between
        the last norm that is kept and the first that is clipped, to about one in a million.
        """
        n_groups = self.task.pool.n_groups
        group = torch.arange(n_groups).expand(self.task.repeats, -1)
        released = self.checkpoint.rule_released
        nothing = torch.zeros(group.shape)
        unclipped = self.rule.scale(released, nothing, group).unsqueeze(-1)
        # Natural logarithms of norms, [R, K, 1].
        low = torch.full((*group.shape, 1), math.log(LEAST_BOUND), dtype=torch.float64)
        high = torch.full_like(low, math.log(MOST_BOUND))
        steps = torch.linspace(0, 1, GRID, dtype=torch.float64)
        of_norms = group.unsqueeze(-1).expand(-1, -1, GRID).flatten(1)  # a rule takes [R, B]
        is_between = torch.ones_like(low, dtype=torch.bool)
        for turn in range(3):
            logs = low + (high - low) * steps
            scale = self.rule.scale(released, logs.exp().float().flatten(1), of_norms)
            kept = scale.view(logs.shape) >= (1 - ROUNDING) * unclipped
            if turn == 0:  # on the first grid the shortest is kept and the longest is clipped
                is_between = kept[..., :1] & ~kept[..., -1:]
            # Index of the last norm before the first that is clipped; -1 where the first is. The
            # clamps below keep indices on the grid; what they alter there is not ``is_between``.
            last = kept.double().cumprod(-1).sum(-1, keepdim=True).long() - 1
            low = logs.gather(-1, last.clamp(0, GRID - 2))
            high = logs.gather(-1, (last + 1).clamp(1, GRID - 1))
        return low.exp().where(is_between, torch.nan).squeeze(-1)

    def _gather(self, records: Tensor) -> Batch:
        """The records as a batch without padding, the same ones for every replicate.

        Its tensors are [R, B, ...], or [B, ...] of one replicate, as the tape wants them.
        """
        if self.task.repeats == 1:
            return self.task.pool.gather(records, None)
        return self.task.pool.gather(records.repeat(self.task.repeats, 1), None)

    def _scaled(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Run the objective's pass over a batch, and let the rule scale the records' gradients.

        Returns:
            (norms of the records' gradients, the rule's factors, the factors that it would give
            zero gradients), [R, B] each.
        """
        group = self._lead(batch.group)
        logits = self.tape.forward(batch.inputs, batch.norms)
        records = records_for(self.objective, batch, logits)
        # ``numbers``, here and below, copies what the method's code gives, as training does.
        gradient = self.objective.gradient(self.checkpoint.objective_released, records)
        delta = numbers(gradient, logits.shape, logits, "the objective's output gradient")
        norms = self._lead(self.tape.backward(delta))
        released = self.checkpoint.rule_released
        upper = norms * NORM_GUARD  # rounded up, as a rule gets them in training
        factors = self.rule.scale(released, upper, group)
        scale = numbers(factors, norms.shape, norms, "the clipping rule's scale")
        if self.is_limited:
            scale = limited_scale(scale, upper, self.checkpoint.sensitivity)
        unclipped = self.rule.scale(released, torch.zeros_like(norms), group)
        return norms, scale, unclipped

    def _plain(self, batch: Batch) -> Tensor:
        """Run the loss's own pass over a batch, where training followed another objective.

        The tape's sums are then of the loss's gradients.

        Returns:
            Norms of the records' gradients, [R, B].
        """
        logits = self.tape.forward(batch.inputs, batch.norms)
        delta = Erm().output_gradient(None, logits, batch.targets, batch.group)
        return self._lead(self.tape.backward(delta))

    def moments(self) -> Moments:
        """Means of each group and totals, over the whole training split."""
        pool = self.task.pool
        groups = pool.groups[: pool.n_records]  # without the null record, which pads batches
        shape = (self.task.repeats, pool.n_groups)
        group = torch.zeros(*shape, self.network.n_parameters, dtype=torch.float64)
        processed = torch.zeros_like(group[:, 0])
        clipped, excess = torch.zeros(2, *shape, dtype=torch.float64)
        for k in range(pool.n_groups):
            for records in torch.split(torch.nonzero(groups == k).squeeze(1), ROWS_AT_ONCE):
                sums = self.sums(records, [torch.ones(len(records))])
                group[:, k] += sums.plain[0]
                processed += sums.processed[0]
                is_clipped = sums.scale / sums.unclipped < CLIPPED
                clipped[:, k] += is_clipped.double().sum(-1)
                # Length taken: ||g|| - C for a factor C / ||g||; 0 of records that are not clipped.
                taken = sums.norms * (1 - sums.scale / sums.unclipped).where(is_clipped, 0.0)
                excess[:, k] += taken.double().sum(-1)
        count = torch.bincount(groups, minlength=pool.n_groups).double()
        total = group.sum(1)
        return Moments(
            group=group / count.unsqueeze(-1),
            whole=total / pool.n_records,
            total=total,
            processed=processed,
            clipped=clipped / count,
            excess=excess / count,
        )

    def unclipped(self, replicate: int) -> float:
        """The factor u that the rule gives a gradient which it does not clip.

        1 where groups have factors of their own: no single step of plain SGD then has the length of
        an unclipped one.

        Args:
            replicate: Its number, 0 to R - 1.
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
        """Put in front the replicate axis, which the tape leaves out where R is 1."""
        if self.task.repeats == 1:
            return values.unsqueeze(0)
        return values


def poisson_batch(stream: np.random.Generator, records: int, sample_rate: float) -> Tensor:
    """One Poisson sample of the record numbers 0..records-1, ascending, [B]."""
    return torch.from_numpy(np.flatnonzero(stream.random(records) < sample_rate))


def stratified(groups: Tensor, n_groups: int, count: int, seed: int) -> Tensor:
    """At most ``count`` record numbers, equally many of each group, ascending.

    A group that has fewer gives all, and leaves its places to larger ones.

    Args:
        groups: Of every record, [N].
        n_groups: K.
        count: How many.
        seed: Audit seed.
    """
    stream = numpy_stream(seed, "probe", "records")
    remaining, chosen = count, []
    sizes = torch.bincount(groups, minlength=n_groups)
    # Small groups first, so that larger ones get what these leave.
    for place, group in enumerate(torch.argsort(sizes, stable=True).tolist()):
        members = torch.nonzero(groups == group).squeeze(1).numpy()
        share = min(len(members), remaining // (n_groups - place))
        chosen.append(torch.from_numpy(stream.choice(members, share, replace=False)))
        remaining -= share
    return torch.cat(chosen).sort().values
