"""By how much clipping turns the steps of a training away from each group, read after it.

At a checkpoint, a step that training kept, a few Poisson batches are drawn anew. g_B is a batch's
gradient and gbar_B the same after the method's rule has scaled each record's; g_a is the mean
gradient of group a. Misalignment is angle(g_a, gbar_B) - angle(g_a, g_B), the mean over batches:
above 0 clipping turns the step away from what the group asks for. (Angles to the sums over all
records are no such measure: near an optimum these are almost zero and point anywhere.)

g_a is the mean of n_a records' gradients. Chance lengthens it and so hides misalignment: in
E ||g_a||^2 is tr S_a / n_a, S_a the covariance of the group's gradients. Cosines are therefore

    cos(g_a, v) = <g_a, v> / (||v|| sqrt(||g_a||^2 - tr S_a / n_a)),
    tr S_a / n_a = (mean ||g_i||^2 - ||g_a||^2) / (n_a - 1),

and undefined where that chance makes up more than half of ||g_a||^2.

Every reading is also taken with one of ten blocks of the group's rows left out at a time, from
which its uncertainty over people follows (the jackknife). Blocks are the same at all checkpoints,
arms and seeds.

Nothing is drawn from a noise stream: the rule meets the very values that the step released. Batches
and samples come from streams of their own, the same for every arm of a seed.

In shapes R is the number of replicates, K of groups (K + 1: and all records, last), P of
parameters, J of blocks + 1: the first place is of all rows, place j + 1 of all but block j.

Source: Esipova et al. 2023, Prop. 3; docs/methods.md 8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.diagnostics.checkpoints import StepReader, poisson_batch, stratified
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.steps import BATCHES, BLOCKS, TURNED, array_name

Int64 = NDArray[np.int64]

MOST_ROWS = 8192  # read at a checkpoint for one grouping, stratified by its groups
LEAST_ROWS = 20  # of a group: fewer have no angle
# Of ||g_a||^2 at most this share may be chance; the corrected length is nowhere below the rest of
# LEAST_LEFT with a block left out.
MOST_CHANCE, LEAST_LEFT = 0.5, 0.1
MOST_BYTES = 2**30  # of a group's sums of gradients, which are held at once
# The readings, in the report's names.
READINGS = (
    "misalignment",
    "cosine_before",
    "cosine_after",
    "clipped_share",
    "gradient_norm",
    "norm_to_bound",
)


@dataclass(frozen=True, slots=True)
class Cut:
    """One grouping of the training rows.

    Args:
        groups: Group of each row, [N].
        blocks: Block of each row within its group, [N], below ``BLOCKS``.
        n_groups: K.
    """

    groups: Tensor
    blocks: Tensor
    n_groups: int

    @classmethod
    def of(cls, groups: Int64, n_groups: int, rows: Int64, number: int) -> "Cut":
        """Cut the training rows of a seed by one grouping.

        Args:
            groups: Group of every row of the file.
            n_groups: K.
            rows: Which of them train, [N].
            number: Place of the grouping among those of the audit.
        """
        blocks = blocks_of(groups, number)[rows]
        return cls(torch.from_numpy(groups[rows]), torch.from_numpy(blocks), n_groups)


def blocks_of(groups: Int64, number: int) -> Int64:
    """Deal the rows of each group into ``BLOCKS`` blocks at random, equally many to each.

    It follows from the file alone, so that a row lies in one block at every seed.

    Args:
        groups: Group of every row of the file.
        number: Place of the grouping, which has a random stream of its own.
    """
    order = numpy_stream(0, "probe", "blocks", number).permutation(len(groups))
    by_group = order[np.argsort(groups[order], kind="stable")]
    sizes = np.bincount(groups)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)  # of the row's group, in this order
    blocks = np.empty(len(groups), dtype=np.int64)
    blocks[by_group] = (np.arange(len(groups)) - first) % BLOCKS
    return blocks


def read(
    method: Method, task: Task, trained: TrainedReplicates, cuts: Sequence[Cut]
) -> dict[str, Tensor]:
    """Every reading of every checkpoint, by grouping.

    Args:
        method, task: The method, and the training that it made.
        trained: Its result, which holds the checkpoints.
        cuts: The groupings of the training rows.

    Returns:
        The arrays of ``results/steps.py`` but the steps: each of ``READINGS`` and ``TURNED``, NaN
        where undefined, and the rows. Empty where no step was kept, or none is clipped.
    """
    if not isinstance(method, GradientMethod) or not trained.checkpoints:
        return {}
    if bool(torch.isinf(trained.checkpoints[0].sensitivity).all()):
        return {}
    readers = [CutReader(cut, task.seed) for cut in cuts]
    found: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for checkpoint in trained.checkpoints:
            reader = StepReader(method, task, checkpoint)
            batches = drawn(reader, "angles", BATCHES)
            for number, of_cut in enumerate(readers):
                for name, value in of_cut.at(reader, batches).items():
                    found.setdefault(array_name(number, name), []).append(value)
    series = {name: torch.stack(values) for name, values in found.items()}
    for number, of_cut in enumerate(readers):
        series[array_name(number, "rows")] = of_cut.rows
    return series


class StepBatches(NamedTuple):
    """M Poisson batches of one step: sums over the batch divided by qN, float64.

    Args:
        plain: g_B, [R, M, P].
        clipped: gbar_B, likewise.
    """

    plain: Tensor
    clipped: Tensor

    @property
    def lengths(self) -> tuple[Tensor, Tensor]:
        """||g_B|| and ||gbar_B||, [R, M] each."""
        return torch.linalg.vector_norm(self.plain, dim=-1), torch.linalg.vector_norm(
            self.clipped, dim=-1
        )


def drawn(reader: StepReader, label: str, count: int) -> StepBatches:
    """Poisson batches of a step, the same records for every replicate and every arm of a seed.

    Args:
        reader: Reads gradients at the step.
        label: Of the random stream that they are drawn from.
        count: M.
    """
    task = reader.task
    stream = numpy_stream(task.seed, "probe", label, reader.checkpoint.step)
    sums = []
    for _ in range(count):
        records = poisson_batch(stream, task.pool.n_records, 1.0 / task.steps_per_epoch)
        both = reader.sums(records, [torch.ones(len(records))])
        sums.append(torch.stack([both.plain[0], both.processed[0]]).double())
    plain, clipped = torch.stack(sums, 2) * (task.steps_per_epoch / task.n_public)
    return StepBatches(plain, clipped)


class CutReader:
    """Reads one grouping's groups, one step at a time.

    Args:
        cut: The grouping.
        seed: The audit seed, of the sample where there are more than ``MOST_ROWS`` rows.
    """

    def __init__(self, cut: Cut, seed: int) -> None:
        self.cut = cut
        sizes = torch.bincount(cut.groups, minlength=cut.n_groups).double()
        self.shares = sizes / sizes.sum()  # of each group's mean in the mean over all rows
        chosen = stratified(cut.groups, cut.n_groups, MOST_ROWS, seed)
        self.cells: list[list[Tensor]] = []  # numbers of the rows of each group and block
        for k in range(cut.n_groups):
            members = chosen[cut.groups[chosen] == k]
            blocks = cut.blocks[members]
            self.cells.append([members[blocks == j] for j in range(BLOCKS)])
        read = torch.tensor([float(sum(map(len, of_group))) for of_group in self.cells])
        self.rows = torch.cat([read, read.sum().unsqueeze(0)]).double()

    def at(self, reader: StepReader, batches: StepBatches) -> dict[str, Tensor]:
        """The readings of one step, [R, K + 1, J] float64 each, by name.

        Args:
            reader: Reads gradients at the step.
            batches: Poisson batches of it.
        """
        bounds = reader.bounds()
        turning = turning_of(batches)
        # Products are wanted with these alone, so that a group's sums need not be kept.
        vectors = torch.cat([batches.plain, batches.clipped, turning.unsqueeze(1)], 1)
        whole: Tensor | None = None  # the mean over all rows, [R, J, P]
        chance_of_whole = torch.zeros(())
        parts: dict[str, list[Tensor]] = {name: [] for name in (*READINGS, TURNED)}
        for k, cells in enumerate(self.cells):
            found = reader.blocks(cells)
            mean = left_out(found.gradients, found.counts)
            squares = left_out(found.squares, found.counts)
            chance = chance_in_square(mean, squares, found.counts)
            for name, value in turned_by(mean, chance, batches, vectors, self.rows[k]).items():
                parts[name].append(value)
            norms = left_out(found.norms, found.counts)
            parts["gradient_norm"].append(norms)
            parts["norm_to_bound"].append(norms / bounds[:, k].unsqueeze(-1))
            parts["clipped_share"].append(left_out(found.clipped, found.counts))
            if self.rows[k]:
                share = self.shares[k]
                whole = share * mean if whole is None else whole.add_(mean, alpha=float(share))
                chance_of_whole = chance_of_whole + share**2 * chance
        assert whole is not None  # there are records
        eta = reader.checkpoint.learning_rate
        turned = turned_by(whole, chance_of_whole, batches, vectors, self.rows[-1])
        for name, value in turned.items():
            parts[name].append(value)
        present = self.rows[:-1] > 0
        for name in ("gradient_norm", "norm_to_bound", "clipped_share"):
            of_groups = torch.stack(parts[name], 1)[:, present]
            weights = self.shares[present].view(1, -1, 1)
            parts[name].append((of_groups * weights).sum(1))
        series = {name: torch.stack(values, 1) for name, values in parts.items()}
        series[TURNED] *= eta
        return series


def turning_of(batches: StepBatches) -> Tensor:
    """w = E (rho g_B - gbar_B), the mean over batches, [R, P].

    What clipping takes from the step by its direction alone, to first order: rho is ||gbar_B|| /
    ||g_B||, 1 where either vanishes.
    """
    before, after = batches.lengths
    rho = torch.where((before > 0) & (after > 0), after / before, 1.0).unsqueeze(-1)
    return (rho * batches.plain - batches.clipped).mean(1)


def left_out(sums: Tensor, counts: Tensor) -> Tensor:
    """Means over all rows and over all but those of each block, from sums over blocks.

    Args:
        sums: [R, BLOCKS, ...].
        counts: Rows of each block, [BLOCKS]. A block that holds all rows cannot be left out.

    Returns:
        [R, J, ...] float64; NaN where there are no rows.
    """
    total = sums.sum(1, keepdim=True)
    rest = counts.sum() - counts
    beside = (1, -1, *[1] * (sums.dim() - 2))
    without = torch.where(
        (rest > 0).view(beside), (total - sums) / rest.view(beside), total / counts.sum()
    )
    return torch.cat([total / counts.sum(), without], 1)


def chance_in_square(mean: Tensor, squares: Tensor, counts: Tensor) -> Tensor:
    """tr S_a / n_a, what chance adds to ||g_a||^2, with all rows and with each block left out.

    Args:
        mean: g_a, [R, J, P].
        squares: Mean squared norm of a record's gradient, [R, J].
        counts: Rows of each block, [BLOCKS].
    """
    rows = torch.cat([counts.sum().unsqueeze(0), counts.sum() - counts])
    return (squares - mean.square().sum(-1)) / (rows - 1).clamp(min=1)


def turned_by(
    mean: Tensor, chance: Tensor, batches: StepBatches, vectors: Tensor, rows: Tensor
) -> dict[str, Tensor]:
    """Cosines and angles of one group's gradient with the batches', and what turning takes of it.

    Args:
        mean: g_a, [R, J, P].
        chance: What chance adds to its square, [R, J].
        batches: M batches of the step.
        vectors: g_B of all batches, gbar_B of all, and w, [R, 2 M + 1, P].
        rows: How many are behind g_a.

    Returns:
        ``misalignment`` in degrees, the two cosines, and <g_a, w>, [R, J] each; NaN where chance is
        more than half of the square, or there are fewer than ``LEAST_ROWS`` rows.
    """
    products = torch.einsum("rjp,rvp->rjv", mean, vectors)
    count = batches.plain.shape[1]
    square = mean.square().sum(-1)
    length = torch.maximum(square - chance, LEAST_LEFT * square).sqrt().unsqueeze(-1)
    before, after = batches.lengths
    cosines = []
    for of_batches, lengths in (
        (products[..., :count], before),
        (products[..., count : 2 * count], after),
    ):
        cosines.append((of_batches / (length * lengths.unsqueeze(1))).clamp(-1.0, 1.0))
    # A batch whose gradient vanishes, before or after clipping, has no direction.
    angles = [cosine.arccos().rad2deg() for cosine in cosines]
    undefined = (chance[:, :1] > MOST_CHANCE * square[:, :1]) | (rows < LEAST_ROWS)
    values = {
        "misalignment": (angles[1] - angles[0]).nanmean(-1),
        "cosine_before": cosines[0].nanmean(-1),
        "cosine_after": cosines[1].nanmean(-1),
    }
    found = {name: value.where(~undefined, torch.nan) for name, value in values.items()}
    found[TURNED] = products[..., -1].where(rows >= LEAST_ROWS, torch.nan)
    return found
