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
    batches_for_terms,
    left_out,
)
from fairaudit.engine.release import Release
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.steps import BATCHES, BLOCKS, TURNED, array_name

Int64 = NDArray[np.int64]

LEAST_ROWS = 20  # of a group: fewer have no angle
MOST_CHANCE = 0.5  # share of ||g_a||^2 that may be chance; with more, the group has no angle
# Share of ||g_a||^2 that the corrected square keeps at least. Only a mean with a block left out can
# come so low, for MOST_CHANCE is judged of all rows.
LEAST_LEFT = 0.1
MOST_COSINE = 1.05  # beyond it a corrected cosine is undefined: its length was mostly chance
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

    No audit seed enters, so that a row lies in the same block at every seed.

    Args:
        groups: Group of every row of the file, [n].
        number: Place of the grouping, which has a random stream of its own.

    Returns:
        Block of every row, 0 to ``BLOCKS`` - 1, [n].
    """
    shuffled = numpy_stream(0, "probe", "blocks", number).permutation(len(groups))
    by_group = shuffled[np.argsort(groups[shuffled], kind="stable")]  # rows, group after group
    sizes = np.bincount(groups)
    # Where the group of each row of ``by_group`` begins; from there its rows are counted round.
    group_starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    blocks = np.empty(len(groups), dtype=np.int64)
    blocks[by_group] = (np.arange(len(groups)) - group_starts) % BLOCKS
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
    if bool(torch.isinf(trained.checkpoints[0].sensitivity).all()):  # nothing is clipped
        return {}
    float64_bytes = 8
    # A gradient for each block and one for the mean, of all replicates (parameters are [R, P]).
    bytes_of_group = float64_bytes * trained.parameters.numel() * (BLOCKS + 1)
    if bytes_of_group * max(cut.n_groups + 1 for cut in cuts) > MOST_BYTES:
        return {}
    # Of a release that is no noised sum over the expected batch the terms are not known.
    has_terms = isinstance(method.release(task), Release)
    cut_readers = [CutReader(cut, task, amount, len(cuts)) for cut in cuts]
    of_checkpoints: dict[str, list[Tensor]] = {}  # array name -> a reading of each checkpoint
    counts = []
    with torch.no_grad():
        for checkpoint in trained.checkpoints:
            reader = StepReader(method, task, checkpoint)
            reads_terms = has_terms and checkpoint.step in amount.term_steps
            pilot = drawn(reader, "angles", BATCHES)
            of_step = StepOfCuts(reader, pilot)
            for cut_reader in cut_readers:
                of_step.add(cut_reader, has_terms=reads_terms)
            if reads_terms:
                of_step.read_terms(amount)
            counts.append(of_step.batches)
            for number, series in enumerate(of_step.series):
                for name, value in series.items():
                    of_checkpoints.setdefault(array_name(number, name), []).append(value)
    arrays = {name: torch.stack(values) for name, values in of_checkpoints.items()}
    for number, cut_reader in enumerate(cut_readers):
        arrays[array_name(number, "rows")] = cut_reader.rows
    # Equal for all groupings, so it stands with the first alone.
    arrays[array_name(0, "batches")] = torch.tensor(counts)
    return arrays


class GroupMeans(NamedTuple):
    """Mean gradients of a grouping's K groups and, last, of all records, at one step.

    The means with a block left out are not made as vectors. Each is a weighted sum of the blocks'
    sums, so its products and its length follow from those of the blocks.

    Args:
        sums: Sums of the gradients of each group's blocks, [R, K, BLOCKS, P].
        weights: Weight of each of these sums in the group's mean, with no block left out (first)
            and with each, [K, J, BLOCKS]; 0 for a group without rows.
        shares: Weight of each group's mean in the mean over all records, [K].
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

    def products(self, vectors: Tensor) -> Tensor:
        """Inner products <g_a, v> of every mean with some vectors v.

        Args:
            vectors: [R, V, P].

        Returns:
            [R, V, K + 1, J]; NaN for a group of fewer than ``LEAST_ROWS``.
        """
        of_blocks = torch.matmul(vectors, self.sums.flatten(1, 2).transpose(1, 2))
        of_blocks = of_blocks.view(*vectors.shape[:2], *self.sums.shape[1:3])  # [R, V, K, BLOCKS]
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
        cuts: How many groupings there are, which share the rows that are read.

    Attributes:
        shares: Weight of each group's mean in the mean over all training rows, [K].
        cells: Numbers of the rows that are read, of each group and block: K lists of BLOCKS.
        curved: The same of the fewer rows that curvature is read from.
        rows: How many rows are read of each group and, last, of all, [K + 1] float64.
    """

    def __init__(self, cut: Cut, task: Task, amount: Amount, cuts: int) -> None:
        self.cut, self.task = cut, task
        sizes = torch.bincount(cut.groups, minlength=cut.n_groups).double()
        self.shares = sizes / sizes.sum()
        self.cells = self._cells(amount.rows // cuts)
        self.curved = self._cells(amount.curved // cuts)
        read = torch.tensor([float(sum(map(len, of_group))) for of_group in self.cells])
        self.rows = torch.cat([read, read.sum().unsqueeze(0)]).double()

    def _cells(self, rows: int) -> list[list[Tensor]]:
        """A sample of so many rows, stratified by group: row numbers, K lists of BLOCKS tensors."""
        cut = self.cut
        chosen = stratified(cut.groups, cut.n_groups, rows, self.task.seed)
        cells = []
        for k in range(cut.n_groups):
            members = chosen[cut.groups[chosen] == k]
            blocks = cut.blocks[members]
            cells.append([members[blocks == j] for j in range(BLOCKS)])
        return cells

    def means(self, of_groups: Sequence[BlockSums]) -> GroupMeans:
        """Mean gradients of every group and of all records, with their lengths.

        Axis J is that of :func:`left_out`: place 0 is of all rows, place b + 1 without block b.

        Args:
            of_groups: The sums over the blocks of each of the K groups.
        """
        sums = torch.stack([blocks.gradients for blocks in of_groups], 1)
        counts = torch.stack([blocks.counts for blocks in of_groups])  # [K, BLOCKS]
        # The weight of each block in a mean, [K, J, BLOCKS]: if the sum over block b is the unit
        # vector e_b, the mean over blocks has the weights as its entries. NaN without rows, so 0.
        unit_sums = torch.eye(BLOCKS, dtype=torch.float64).unsqueeze(0)
        weights = torch.cat([left_out(unit_sums, of_group).nan_to_num(0.0) for of_group in counts])
        # ||g_a||^2 from the products of the group's blocks with each other, w^T (S S^T) w.
        products = torch.matmul(sums, sums.transpose(2, 3))
        squares = torch.einsum("kjb,rkbc,kjc->rkj", weights, products, weights)
        of_all = (self.shares.view(-1, 1, 1) * weights).transpose(0, 1).flatten(1)  # [J, K BLOCKS]
        whole = torch.matmul(of_all, sums.flatten(1, 2))  # [R, J, P]
        # tr S_a / n_a = (mean ||g_i||^2 - ||g_a||^2) / (n_a - 1), with rows n_a, [K, J].
        total = counts.sum(1, keepdim=True)
        rest = torch.where(counts == total, total, total - counts)  # as ``left_out`` does
        rows = torch.cat([total, rest], 1)
        of_records = torch.stack([left_out(one.squares, one.counts) for one in of_groups], 1)
        # The clamp is for a group of one row, whose numerator is 0.
        chance = (of_records - squares) / (rows - 1).clamp(min=1)
        # The mean over all records is sum_a share_a g_a, so what chance adds to its square is
        # sum_a share_a^2 chance_a. ``together`` multiplies by share_a once more.
        shared = self.together(list((self.shares.view(-1, 1) * chance).unbind(1)))[:, -1:]
        return GroupMeans(
            sums=sums,
            weights=weights,
            shares=self.shares,
            whole=whole[:, 0],
            squares=torch.cat([squares, whole.square().sum(-1).unsqueeze(1)], 1),
            chance=torch.cat([chance, shared], 1),
            rows=self.rows,
        )

    def together(self, of_groups: Sequence[Tensor]) -> Tensor:
        """Means over the records of each group, then sum_a share_a mean_a, that over all records.

        Args:
            of_groups: The mean of each group, K of [R, ...]; one of a group without rows does not
                count in the mean over all.

        Returns:
            [R, K + 1, ...].
        """
        # Not strict: ``rows`` has one place more, of all records.
        weighed = zip(self.shares, of_groups, self.rows, strict=False)
        whole = sum(share * mean for share, mean, rows in weighed if rows)
        assert isinstance(whole, Tensor)  # there are records
        return torch.stack([*of_groups, whole], 1)


class StepOfCuts:
    """Takes the readings of one step, of every grouping.

    Args:
        reader: Reads gradients at the step.
        pilot: A few Poisson batches of it, behind the angles.

    Attributes:
        scale: eta, u and the noise of the step.
        bounds: The longest gradient of each of the pool's groups that is not clipped, [R, K].
        series: Of each grouping the readings by name, [R, K + 1, J] float64.
        batches: How many Poisson batches are behind the terms; 0 without terms.
    """

    def __init__(self, reader: StepReader, pilot: StepBatches) -> None:
        self.reader, self.pilot = reader, pilot
        self.scale = StepScale.of(reader)
        self.bounds = reader.bounds()
        self.series: list[dict[str, Tensor]] = []
        self.batches = 0
        self._terms: list[CutTerms] = []

    def add(self, cut_reader: CutReader, *, has_terms: bool) -> None:
        """Read the angles of a grouping, append its series, and keep what its terms need.

        Args:
            cut_reader: The grouping.
            has_terms: Whether terms are to be read; ``read_terms`` replaces their NaN.
        """
        of_groups = [
            self.reader.blocks(blocks, self.bounds, processed=True) for blocks in cut_reader.cells
        ]
        means = cut_reader.means(of_groups)
        plain, clipped = (means.products(vectors) for vectors in self.pilot)
        series = angles(means, (plain, clipped), self.pilot.lengths)
        series |= self._norms(cut_reader, of_groups)

        known = self._known_products(cut_reader, of_groups, means)
        of_pilot = StepProducts.of(self.pilot, plain, clipped, known)
        turns = Turns.of(of_pilot, self.scale.unclipped)
        # Turns are counted in a unit that all groups of the step share, so that checkpoints of
        # large and of small gradients count alike: eta ||g_B|| times the mean norm of a record's
        # gradient (last group: all records; place 0: no block left out).
        norms = series["gradient_norm"]
        unit = self.scale.learning_rate * self.pilot.lengths[0].mean(1) * norms[:, -1, 0]
        series[TURNED] = self.scale.learning_rate * turns.direction / unit.view(-1, 1, 1)
        series |= {name: torch.full_like(norms, math.nan) for name in TERMS}
        series |= {f"{name}_se": torch.full_like(norms[..., 0], math.nan) for name in TERMS}
        self.series.append(series)
        if has_terms:
            self._terms.append(CutTerms(cut_reader, means, of_pilot, known, unit, series))

    def _norms(self, cut_reader: CutReader, of_groups: Sequence[BlockSums]) -> dict[str, Tensor]:
        """Means over records of their gradients' norms and clips, [R, K + 1, J] each.

        Args:
            cut_reader: The grouping.
            of_groups: The sums over the blocks of each of its groups.
        """
        of_records = []
        for blocks in of_groups:
            sums = torch.stack([blocks.norms, blocks.ratios, blocks.clipped], -1)
            of_records.append(left_out(sums, blocks.counts))
        norms, ratios, clipped = cut_reader.together(of_records).unbind(-1)
        return {"gradient_norm": norms, "norm_to_bound": ratios, "clipped_share": clipped}

    def _known_products(
        self, cut_reader: CutReader, of_groups: Sequence[BlockSums], means: GroupMeans
    ) -> tuple[Tensor, Tensor]:
        """<g_a, E g_B> and <g_a, E gbar_B>, expected over all batches, [R, K + 1, J] each.

        Args:
            cut_reader: The grouping.
            of_groups: The sums over the blocks of each of its groups.
            means: g_a of every group.
        """
        processed = [
            blocks.processed / blocks.counts.sum().clamp(min=1)  # a group may have no rows
            for blocks in of_groups
        ]
        whole = torch.stack([means.whole, cut_reader.together(processed)[:, -1]], 1)
        # E g_B is the sum over all records divided by the public N, which may not be their number.
        task = self.reader.task
        expected = whole * (task.pool.n_records / task.n_public)
        of_plain, of_clipped = means.products(expected).unbind(1)
        return of_plain, of_clipped

    def read_terms(self, amount: Amount) -> None:
        """Write the terms of all groupings into their series.

        Terms stay NaN where there is no batch at which they are defined (``StepBatches.usable``).

        Args:
            amount: How many batches at most.
        """
        usable = self.pilot.usable
        if not usable.any():
            return
        # The pilot's mean shrinkage: that of the batches drawn below would bias the expectations
        # over them.
        typical = self.pilot.shrinkage[:, usable].mean(1)
        curvatures = [CurvatureReader(self.reader, one.reader.curved) for one in self._terms]
        self.batches = self._write_noise(curvatures, typical, amount)
        batches = drawn(self.reader, "batches", self.batches)
        if not batches.usable.any():
            return
        for of_cut, curvature in zip(self._terms, curvatures, strict=True):
            self._write_turns(of_cut, curvature, batches, typical)

    def _write_noise(
        self, curvatures: Sequence[CurvatureReader], typical: Tensor, amount: Amount
    ) -> int:
        """Write R_noise into the series of all groupings; return how many batches the rest needs.

        R_noise = (eta noise)^2 / 2 times Tr H_a (docs/methods.md 8.1). The number of batches is the
        largest that the direction and magnitude of any grouping need.

        Args:
            curvatures: One for each of ``self._terms``.
            typical: The pilot's mean shrinkage, [R].
            amount: How many batches at most.
        """
        reader, scale = self.reader, self.scale
        eta, needed = scale.learning_rate, 1
        factor = (eta * scale.noise).square().view(-1, 1, 1) / 2
        for of_cut, curvature in zip(self._terms, curvatures, strict=True):
            traces = curvature.traces(reader.checkpoint.step)
            noise = factor * of_cut.reader.together([one.left_out for one in traces])
            of_cut.series["step_noise"] = noise
            of_cut.series["step_noise_se"] = factor[..., 0] * of_cut.error(traces)
            # The expectations, even where some pilot batches are left out: here they only help to
            # choose a number of batches.
            of_pilot = of_cut.pilot._replace(known=of_cut.known)
            turns = Turns.of(of_pilot, scale.unclipped, typical=typical)
            spread = eta * turns.spread[..., 0].movedim(1, -1)  # place 0: no block left out
            parts = eta * torch.stack([turns.direction, turns.magnitude])[..., 0], noise[..., 0]
            parameters = reader.network.n_parameters
            count = batches_for_terms(spread, *parts, parameters, amount.batches)
            needed = max(needed, count)
        return needed

    def _write_turns(
        self, of_cut: "CutTerms", curvature: CurvatureReader, batches: StepBatches, typical: Tensor
    ) -> None:
        """Write R_dir and R_mag, with their standard errors, into one grouping's series.

        Args:
            of_cut: The grouping.
            curvature: Reads its second orders.
            batches: Those that the expectations are taken over.
            typical: A shrinkage near theirs that does not depend on them, [R].
        """
        scale, series = self.scale, of_cut.series
        eta = scale.learning_rate
        plain, clipped = (of_cut.means.products(vectors) for vectors in batches)
        of_batches = StepProducts.of(batches, plain, clipped, of_cut.known)
        turns = Turns.of(of_batches, scale.unclipped, typical=typical)
        series[TURNED] = eta * turns.direction / of_cut.unit.view(-1, 1, 1)
        spread = turns.spread[..., 0].movedim(1, -1)  # [R, K + 1, M], no block left out
        # NaN of one batch alone.
        error_of_first = eta * spread.std(-1) / math.sqrt(max(1, spread.shape[-1]))
        firsts = turns.direction, turns.magnitude
        seconds = curvature.forms(batches.only(batches.usable), scale.unclipped)
        for name, first, forms in zip(("direction", "magnitude"), firsts, seconds, strict=True):
            second = of_cut.reader.together([one.left_out for one in forms])
            series[name] = eta * first - eta**2 / 2 * second
            error_of_second = eta**2 / 2 * of_cut.error(forms)
            series[f"{name}_se"] = torch.hypot(error_of_first, error_of_second)


class CutTerms(NamedTuple):
    """What the terms of one grouping are made of.

    Args:
        reader: The grouping.
        means: Mean gradients of its groups and, last, of all records.
        pilot: Products of these means with a few batches of the step.
        known: Products with E g_B and E gbar_B over all batches, [R, K + 1, J] each.
        unit: What the comparison of groups is counted in, eta times the mean length of g_B times
            that of a record's gradient, [R].
        series: Readings by name; the terms are written here.
    """

    reader: CutReader
    means: GroupMeans
    pilot: StepProducts
    known: tuple[Tensor, Tensor]
    unit: Tensor
    series: dict[str, Tensor]

    def error(self, of_groups: Sequence[BlockMeans]) -> Tensor:
        """The standard error of a mean over rows of every group and of all, [R, K + 1].

        Of all: the root of the sum of (share times the group's error)^2.

        Args:
            of_groups: The mean over the rows of each block, K of them.
        """
        errors = [one.error for one in of_groups]
        # Not strict: ``rows`` has one place more, of all records.
        weighed = zip(self.reader.shares, errors, self.reader.rows, strict=False)
        whole = sum((share * error).square() for share, error, rows in weighed if rows)
        assert isinstance(whole, Tensor)  # there are records
        return torch.stack([*errors, whole.sqrt()], 1)


def angles(
    means: GroupMeans, products: tuple[Tensor, Tensor], lengths: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    """Misalignment and cosines of each group's gradient, and of all records', with M batches'.

    cos(g_a, v) = <g_a, v> / (||v|| sqrt(||g_a||^2 - tr S_a / n_a)); docs/methods.md 8.2.

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
    # Judged with no block left out (place 0), so that a reading is defined for all J or for none.
    undefined = chance[..., :1] > MOST_CHANCE * square[..., :1]
    cosines = []
    for products_with, lengths_of in zip(products, lengths, strict=True):
        # A batch whose gradient vanishes has no direction: 0 / 0 = NaN, which no mean counts.
        cosine = products_with / (length * lengths_of[..., None, None])
        cosines.append(cosine.clamp(-1.0, 1.0))
        undefined |= cosine[..., :1].nanmean(1).abs() > MOST_COSINE
    before, after = (cosine.arccos().rad2deg() for cosine in cosines)
    values = {
        "misalignment": (after - before).nanmean(1),
        "cosine_before": cosines[0].nanmean(1),
        "cosine_after": cosines[1].nanmean(1),
    }
    return {name: value.where(~undefined, math.nan) for name, value in values.items()}
