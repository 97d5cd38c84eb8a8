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

and undefined where that chance makes up more than half of ||g_a||^2. Beside them stand the terms
of the step's cost (``step_terms``).

Every reading is also taken with one of ten blocks of the group's rows left out at a time, from
which its uncertainty over people follows (the jackknife). Blocks are the same at all checkpoints,
arms and seeds.

Nothing is drawn from a noise stream: the rule meets the very values that the step released. Batches
and samples come from streams of their own, the same for every arm of a seed.

In shapes R is the number of replicates, K of groups (K + 1: and all records, last), P of
parameters, J of blocks + 1: the first place is of all rows, place j + 1 of all but block j.

Source: Esipova et al. 2023, Prop. 3; docs/methods.md 8.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.diagnostics.amount import Amount
from fairaudit.diagnostics.checkpoints import BlockSums, StepReader, stratified
from fairaudit.diagnostics.step_batches import StepBatches, drawn
from fairaudit.diagnostics.step_terms import (
    TERMS,
    BlockMeans,
    CurvatureReader,
    StepProducts,
    StepScale,
    Turns,
    batches_needed,
    left_out,
)
from fairaudit.engine.release import Release
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.steps import BATCHES, BLOCKS, TURNED, array_name

Int64 = NDArray[np.int64]

LEAST_ROWS = 20  # of a group: fewer have no angle
# Of ||g_a||^2 at most this share may be chance; the corrected length is nowhere below the rest of
# LEAST_LEFT with a block left out.
MOST_CHANCE, LEAST_LEFT = 0.5, 0.1
MOST_COSINE = 1.05  # a corrected cosine beyond it has lost its length to chance
MOST_BYTES = 2**31  # of groups' mean gradients, which are held at once
# The readings beside the terms, in the report's names.
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
    method: Method, task: Task, trained: TrainedReplicates, cuts: Sequence[Cut], amount: Amount
) -> dict[str, Tensor]:
    """Every reading of every checkpoint, by grouping.

    Args:
        method, task: The method, and the training that it made.
        trained: Its result, which holds the checkpoints.
        cuts: The groupings of the training rows.
        amount: How much is read.

    Returns:
        The arrays of ``results/steps.py`` but the steps: each of ``READINGS``, ``TURNED`` and
        ``TERMS``, NaN where undefined, and what they rest on. Empty where no step was kept, or none
        is clipped, or the model is too large to hold its groups' gradients.
    """
    if not isinstance(method, GradientMethod) or not trained.checkpoints or not cuts:
        return {}
    if bool(torch.isinf(trained.checkpoints[0].sensitivity).all()):
        return {}
    size = 8 * trained.parameters.numel() * (BLOCKS + 1)
    if size * max(cut.n_groups + 1 for cut in cuts) > MOST_BYTES:
        return {}
    has_terms = isinstance(method.release(task), Release)
    readers = [CutReader(cut, task, amount, len(cuts)) for cut in cuts]
    by_name: dict[str, list[Tensor]] = {}
    counts = []
    with torch.no_grad():
        for checkpoint in trained.checkpoints:
            reader = StepReader(method, task, checkpoint)
            is_wanted = has_terms and checkpoint.step in amount.term_steps
            pilot = drawn(reader, "angles", BATCHES)
            of_step = StepOfCuts(reader, pilot)
            for one in readers:
                of_step.add(one, has_terms=is_wanted)
            if is_wanted:
                of_step.read_terms(amount)
            counts.append(of_step.batches)
            for number, series in enumerate(of_step.series):
                for name, value in series.items():
                    by_name.setdefault(array_name(number, name), []).append(value)
    arrays = {name: torch.stack(values) for name, values in by_name.items()}
    for number, one in enumerate(readers):
        arrays[array_name(number, "rows")] = one.rows
    arrays[array_name(0, "batches")] = torch.tensor(counts)
    return arrays


class GroupMeans(NamedTuple):
    """Mean gradients of a grouping's K groups and, last, of all records, at one step.

    They stay weighted sums of the blocks' sums: products and lengths follow from those of the
    blocks, so that no vector is made for each block that is left out.

    Args:
        sums: Sums of the gradients of each group's blocks, [R, K, BLOCKS, P].
        weights: Of these sums in the group's means, [K, J, BLOCKS]; 0 for a group without rows.
        shares: Of each group's mean in the mean over all records, [K].
        whole: The mean over all records, no block left out, [R, P].
        squares: ||g_a||^2, [R, K + 1, J].
        chance: tr S_a / n_a, what chance adds to that, [R, K + 1, J].
        rows: How many are behind each, [K + 1].
    """

    sums: Tensor
    weights: Tensor
    shares: Tensor
    whole: Tensor
    squares: Tensor
    chance: Tensor
    rows: Tensor

    def of(self, vectors: Tensor) -> Tensor:
        """Products with some vectors [R, V, P], [R, V, K + 1, J]; NaN of too few rows."""
        of_blocks = torch.matmul(vectors, self.sums.flatten(1, 2).transpose(1, 2))
        of_blocks = of_blocks.view(*vectors.shape[:2], *self.sums.shape[1:3])
        of_groups = torch.einsum("kjb,rvkb->rvkj", self.weights, of_blocks)
        of_whole = torch.einsum("k,rvkj->rvj", self.shares, of_groups)
        products = torch.cat([of_groups, of_whole.unsqueeze(2)], 2)
        return products.masked_fill((self.rows < LEAST_ROWS).view(-1, 1), math.nan)


class CutReader:
    """Reads one grouping's groups, one step at a time.

    Args:
        cut: The grouping.
        task: The training.
        amount: How much is read, for all groupings together.
        cuts: How many groupings there are.
    """

    def __init__(self, cut: Cut, task: Task, amount: Amount, cuts: int) -> None:
        self.cut, self.task = cut, task
        sizes = torch.bincount(cut.groups, minlength=cut.n_groups).double()
        self.shares = sizes / sizes.sum()  # of each group's mean in the mean over all rows
        self.cells = self._cells(amount.rows // cuts)  # numbers of the rows of group and block
        self.curved = self._cells(amount.curved // cuts)
        read = torch.tensor([float(sum(map(len, of_group))) for of_group in self.cells])
        self.rows = torch.cat([read, read.sum().unsqueeze(0)]).double()

    def _cells(self, rows: int) -> list[list[Tensor]]:
        """A stratified sample of so many rows: numbers of those of each group and block."""
        cut = self.cut
        chosen = stratified(cut.groups, cut.n_groups, rows, self.task.seed)
        cells = []
        for k in range(cut.n_groups):
            members = chosen[cut.groups[chosen] == k]
            blocks = cut.blocks[members]
            cells.append([members[blocks == j] for j in range(BLOCKS)])
        return cells

    def means(self, of_groups: Sequence[BlockSums]) -> GroupMeans:
        """Mean gradients of every group and of all records.

        Args:
            of_groups: The sums over each group's blocks.
        """
        sums = torch.stack([blocks.gradients for blocks in of_groups], 1)
        counts = torch.stack([blocks.counts for blocks in of_groups])  # [K, BLOCKS]
        one_block = torch.eye(BLOCKS, dtype=torch.float64).unsqueeze(0)
        weights = torch.cat([left_out(one_block, one).nan_to_num(0.0) for one in counts])
        of_all = (self.shares.view(-1, 1, 1) * weights).transpose(0, 1).flatten(1)  # [J, K BLOCKS]
        whole = torch.matmul(of_all, sums.flatten(1, 2))  # [R, J, P]
        products = torch.matmul(sums, sums.transpose(2, 3))
        squares = torch.einsum("kjb,rkbc,kjc->rkj", weights, products, weights)
        rows = torch.cat([counts.sum(1, keepdim=True), counts.sum(1, keepdim=True) - counts], 1)
        of_records = torch.stack([left_out(one.squares, one.counts) for one in of_groups], 1)
        chance = (of_records - squares) / (rows - 1).clamp(min=1)
        shared = self.together(list((self.shares.view(-1, 1) * chance).unbind(1)))[:, -1:]
        return GroupMeans(
            sums,
            weights,
            self.shares,
            whole[:, 0],
            torch.cat([squares, whole.square().sum(-1).unsqueeze(1)], 1),
            torch.cat([chance, shared], 1),
            self.rows,
        )

    def together(self, of_groups: Sequence[Tensor]) -> Tensor:
        """A mean over records of every group [R, ...] each, and over all records: [R, K + 1, ...].

        A group without rows does not count in the last.
        """
        whole = sum(
            share * value
            for share, value, rows in zip(self.shares, of_groups, self.rows, strict=False)
            if rows
        )
        assert isinstance(whole, Tensor)  # there are records
        return torch.stack([*of_groups, whole], 1)


class StepOfCuts:
    """The readings of one step by all groupings.

    Args:
        reader: Reads gradients at the step.
        pilot: A few Poisson batches of it, behind the angles.

    Attributes:
        series: Of each grouping the readings by name, [R, K + 1, J] float64.
        batches: Poisson batches behind the terms; 0 without terms.
    """

    def __init__(self, reader: StepReader, pilot: StepBatches) -> None:
        self.reader, self.pilot = reader, pilot
        self.scale = StepScale.of(reader)
        self.bounds = reader.bounds()
        self.series: list[dict[str, Tensor]] = []
        self.batches = 0
        self._terms: list[CutTerms] = []

    def add(self, of_cut: CutReader, *, has_terms: bool) -> None:
        """Read the angles of a grouping, and keep what its terms need.

        Args:
            of_cut: The grouping.
            has_terms: Whether terms are to be read.
        """
        of_groups = [
            self.reader.blocks(cells, self.bounds, processed=True) for cells in of_cut.cells
        ]
        means = of_cut.means(of_groups)
        of_records, processed = [], []
        for blocks in of_groups:
            of_rows = torch.stack([blocks.norms, blocks.ratios, blocks.clipped], -1)
            of_records.append(left_out(of_rows, blocks.counts))
            processed.append(blocks.processed / blocks.counts.sum().clamp(min=1))
        plain, clipped = (means.of(vectors) for vectors in self.pilot)
        series = turned_by(means, (plain, clipped), self.pilot.lengths)
        norms, ratios, shares = of_cut.together(of_records).unbind(-1)
        series |= {"gradient_norm": norms, "norm_to_bound": ratios, "clipped_share": shares}
        # Of all records E g_B and E gbar_B over batches.
        per_record = self.reader.task.pool.n_records / self.reader.task.n_public
        expected = torch.stack([means.whole, of_cut.together(processed)[:, -1]], 1) * per_record
        of_plain, of_clipped = means.of(expected).unbind(1)
        of_pilot = StepProducts.of(self.pilot, plain, clipped, (of_plain, of_clipped))
        turns = Turns.of(of_pilot, self.scale.unclipped)
        # In units that all groups share, so that every checkpoint counts alike.
        size = self.scale.learning_rate * self.pilot.lengths[0].mean(1) * norms[:, -1, 0]
        series[TURNED] = self.scale.learning_rate * turns.direction / size.view(-1, 1, 1)
        series |= {name: torch.full_like(norms, math.nan) for name in TERMS}
        series |= {f"{name}_se": torch.full_like(norms[..., 0], math.nan) for name in TERMS}
        self.series.append(series)
        if has_terms:
            known = of_plain, of_clipped
            self._terms.append(CutTerms(of_cut, means, of_pilot, known, size, series))

    def read_terms(self, amount: Amount) -> None:
        """Read the terms of all groupings, over batches that are drawn for them.

        Args:
            amount: How many batches at most.
        """
        reader, scale, usable = self.reader, self.scale, self.pilot.usable
        eta, step = scale.learning_rate, reader.checkpoint.step
        if not usable.any():
            return
        # The pilot's value: one taken from the very batches would bias their expectations.
        typical = self.pilot.shrinkage[:, usable].mean(1)
        curvatures = [CurvatureReader(reader, one.reader.curved) for one in self._terms]
        half = (eta * scale.noise).square().view(-1, 1, 1) / 2
        needed = 1
        for of_cut, curvature in zip(self._terms, curvatures, strict=True):
            traces = curvature.traces(step)
            noise = half * of_cut.reader.together([one.left_out for one in traces])
            of_cut.series["step_noise"] = noise
            of_cut.series["step_noise_se"] = half[..., 0] * of_cut.error(traces)
            of_pilot = of_cut.pilot._replace(known=of_cut.known)
            turns = Turns.of(of_pilot, scale.unclipped, typical=typical)
            spread = eta * turns.spread[..., 0].movedim(1, -1)
            parts = eta * torch.stack([turns.direction, turns.magnitude])[..., 0], noise[..., 0]
            size = reader.network.n_parameters
            needed = max(needed, batches_needed(spread, *parts, size, amount.batches))
        batches = drawn(reader, "batches", needed)
        self.batches = needed
        usable = batches.usable
        if not usable.any():
            return
        for of_cut, curvature in zip(self._terms, curvatures, strict=True):
            plain, clipped = (of_cut.means.of(vectors) for vectors in batches)
            of_batches = StepProducts.of(batches, plain, clipped, of_cut.known)
            turns = Turns.of(of_batches, scale.unclipped, typical=typical)
            spread = turns.spread[..., 0].movedim(1, -1)
            drawn_error = eta * spread.std(-1) / math.sqrt(max(1, spread.shape[-1]))
            series = of_cut.series
            series[TURNED] = eta * turns.direction / of_cut.size.view(-1, 1, 1)
            for name, turned, forms in zip(
                ("direction", "magnitude"),
                (turns.direction, turns.magnitude),
                curvature.forms(batches.only(usable), scale.unclipped),
                strict=True,
            ):
                second = of_cut.reader.together([one.left_out for one in forms])
                series[name] = eta * turned - eta**2 / 2 * second
                of_slices = eta**2 / 2 * of_cut.error(forms)
                series[f"{name}_se"] = torch.hypot(drawn_error, of_slices)


class CutTerms(NamedTuple):
    """What the terms of one grouping are made of.

    Args:
        reader: The grouping.
        means: Mean gradients of its groups and, last, of all records.
        pilot: Products of these means with a few batches of the step.
        known: Products with E g_B and E gbar_B over all batches, [R, K + 1, J] each.
        size: What the comparison of groups is counted in, eta times the mean length of g_B times
            that of a record's gradient, [R].
        series: Where the terms go.
    """

    reader: "CutReader"
    means: GroupMeans
    pilot: StepProducts
    known: tuple[Tensor, Tensor]
    size: Tensor
    series: dict[str, Tensor]

    def error(self, blocks: Sequence[BlockMeans]) -> Tensor:
        """The standard error of a mean over rows of every group and of all, [R, K + 1]."""
        errors = [one.error for one in blocks]
        squares = zip(self.reader.shares, errors, self.reader.rows, strict=False)
        whole = sum((share * error).square() for share, error, rows in squares if rows)
        assert isinstance(whole, Tensor)  # there are records
        return torch.stack([*errors, whole.sqrt()], 1)


def turned_by(
    means: GroupMeans, products: tuple[Tensor, Tensor], lengths: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    """Cosines and angles of each group's gradient, and of all records', with those of M batches.

    Args:
        means: g_a of every group.
        products: Its products with g_B and with gbar_B, [R, M, K + 1, J] each.
        lengths: ||g_B|| and ||gbar_B||, [R, M] each.

    Returns:
        ``misalignment`` in degrees and the two cosines, [R, K + 1, J] each; NaN where chance is
        more than half of the square or makes a cosine impossible, or there are fewer than
        ``LEAST_ROWS``.
    """
    square, chance = means.squares, means.chance
    length = torch.maximum(square - chance, LEAST_LEFT * square).sqrt().unsqueeze(1)
    undefined = chance[..., :1] > MOST_CHANCE * square[..., :1]
    cosines = []
    for of_batches, of_vectors in zip(products, lengths, strict=True):
        # A batch whose gradient vanishes, before or after clipping, has no direction.
        cosine = of_batches / (length * of_vectors[..., None, None])
        cosines.append(cosine.clamp(-1.0, 1.0))
        undefined |= cosine[..., :1].nanmean(1).abs() > MOST_COSINE
    before, after = (cosine.arccos().rad2deg() for cosine in cosines)
    values = {
        "misalignment": (after - before).nanmean(1),
        "cosine_before": cosines[0].nanmean(1),
        "cosine_after": cosines[1].nanmean(1),
    }
    return {name: value.where(~undefined, math.nan) for name, value in values.items()}
