"""What clipping's direction, its length and the noise of a step add to each group's loss.

The terms R_dir, R_mag and R_noise of ``risk_terms`` at one step, cheap enough to be read always.
The first order is made of products with each group's gradient, of whose rows every block is also
left out. Its expectation is over M Poisson batches, M chosen for the wanted error.

The second order needs v^T H_a v of the batches' gradients and the trace of H_a. All that is wanted
of these are means over vectors *and* records, drawn independently, so each slice of a group's
records has vectors of its own: the means stay unbiased, and slices show how far they are off.
Slices of all groups take the same vectors, so that a difference of two groups keeps its pairing.
Where the model is one linear layer, forms and traces are exact, of all records and vectors.

In shapes R is the number of replicates, K of groups, P of parameters, M of batches.

Source: Tran et al. 2021, Thm 2; Esipova et al. 2023, Prop. 1 and 2; Hutchinson 1990;
docs/methods.md 8.1 to 8.3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairaudit.diagnostics.checkpoints import StepReader
from fairaudit.diagnostics.curvature import (
    forms_of_linear,
    is_linear,
    summed_forms,
    traces_of_records,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.diagnostics.step_batches import StepBatches
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.steps import BLOCKS

LEAST, MOST = 8, 64  # M
# Wanted standard errors, as a share of the part or of all parts: the larger.
OF_PART, OF_ALL = 0.1, 0.01
MOST_BYTES = 2**28  # of the batches' gradients, which are all held at once
PAIRS = 2  # batches whose gradients, before and after clipping, one slice meets
PROBES = 4  # random vectors (Rademacher) that one slice meets, for traces
TERMS = ("direction", "magnitude", "step_noise")


@dataclass(frozen=True, slots=True)
class StepScale:
    """How a step moves: eta, and u, the rule's factor of a gradient that it does not clip.

    Args:
        learning_rate: eta.
        unclipped: u of each replicate, [R]; C/Z of a rule that scales all gradients, else 1.
        noise: Standard deviation of the noise on the averaged gradient, [R].
    """

    learning_rate: float
    unclipped: Tensor
    noise: Tensor

    @classmethod
    def of(cls, reader: StepReader) -> "StepScale":
        """The scale of the step that a reader reads; the noise is sigma s / (qN)."""
        task, checkpoint = reader.task, reader.checkpoint
        expected = task.n_public / task.steps_per_epoch
        sigma = task.settings.get("noise_multiplier", 0.0)
        factors = [reader.unclipped(r) for r in range(task.repeats)]
        return cls(
            checkpoint.learning_rate,
            torch.tensor(factors, dtype=torch.float64),
            sigma * checkpoint.sensitivity.double() / expected,
        )


class StepProducts(NamedTuple):
    """Products of a gradient with those of M batches of a step, and with their expectations.

    Args:
        plain: <g_a, g_B>, [R, M, ...]; the last axes are those of g_a.
        clipped: <g_a, gbar_B>, [R, M, ...].
        shrinkage: rho = ||gbar_B|| / ||g_B||, [R, M].
        known: <g_a, E g_B> and <g_a, E gbar_B>, [R, ...] each; None where batches were left out, so
            that these are not the expectations of those at hand.
    """

    plain: Tensor
    clipped: Tensor
    shrinkage: Tensor
    known: tuple[Tensor, Tensor] | None

    @classmethod
    def of(
        cls, batches: StepBatches, plain: Tensor, clipped: Tensor, known: tuple[Tensor, Tensor]
    ) -> "StepProducts":
        """Those of the batches at which terms are defined.

        Args:
            batches: M of them.
            plain, clipped: Products with all of them, [R, M, ...] each.
            known: Products with the expectations, [R, ...] each.
        """
        usable = batches.usable
        return cls(
            plain[:, usable],
            clipped[:, usable],
            batches.shrinkage[:, usable],
            known if bool(usable.all()) else None,
        )


@dataclass(frozen=True, slots=True)
class Turns:
    """First orders of direction and magnitude over M batches, but for eta.

    With a shrinkage ``typical`` that does not depend on these batches in place of each batch's own,
    a part is linear in <g_a, g_B> and <g_a, gbar_B>, whose expectations are known; what it misses
    its own expectation by is taken off (a control variate), which moves no expectation.

    Args:
        direction: <g_a, E (rho g_B - gbar_B)>, [R, ...].
        magnitude: <g_a, E (u - rho) g_B>, [R, ...].
        spread: What is left of each batch: <g_a, (rho - typical) g_B>, [R, M, ...], or of a part
            without control variate the batch's own product.
    """

    direction: Tensor
    magnitude: Tensor
    spread: Tensor

    @classmethod
    def of(
        cls, products: StepProducts, unclipped: Tensor, *, typical: Tensor | None = None
    ) -> "Turns":
        """The first orders over these batches.

        Args:
            products: Those of M batches.
            unclipped: u, [R].
            typical: A shrinkage near theirs that does not depend on them, [R]; None: of each batch
                the mean of the others.
        """
        plain, clipped, shrinkage, known = products
        count = shrinkage.shape[1]
        # rho and u are equal over the gradient's own axes, which follow [R, M].
        ones = [1] * (plain.dim() - 2)
        rho, u = shrinkage.view(-1, count, *ones), unclipped.view(-1, 1, *ones)
        if known is None or (typical is None and count < 2):  # no control variate
            turned = rho * plain - clipped
            return cls(turned.mean(1), ((u - rho) * plain).mean(1), turned)
        if typical is None:
            control = (rho.sum(1, keepdim=True) - rho) / (count - 1)
        else:
            control = typical.view(-1, 1, *ones).expand_as(rho)
        # rho g_B is control g_B, whose expectation is known, and (rho - control) g_B.
        spread = (rho - control) * plain
        mean_spread, mean_control = spread.mean(1), control.mean(1)
        of_plain, of_clipped = known
        return cls(
            direction=mean_spread + mean_control * of_plain - of_clipped,
            magnitude=(u[:, 0] - mean_control) * of_plain - mean_spread,
            spread=spread,
        )


def batches_needed(
    products: Tensor, first: Tensor, noise: Tensor, parameters: int, most: int
) -> int:
    """How many batches bring every group's direction and magnitude to the wanted standard errors.

    Those are a tenth of the part, or a hundredth of all parts together where that is more. The
    number follows from batches over which no expectation is taken, so that a lucky draw cannot end
    the drawing; and from no clock, so that equal audits read alike.

    Args:
        products: Of each group with the ``spread`` of a pilot's batches, eta <g_a, spread>,
            [R, K + 1, M'].
        first: eta times the first order of direction and of magnitude by the pilot, [2, R, K + 1].
        noise: R_noise, [R, K + 1].
        parameters: P.
        most: At most so many.

    Returns:
        ``LEAST`` or more; fewer where ``most`` is less, or where 256 MiB hold no more gradients.
    """
    count = products.shape[-1]
    error = products.std(-1) / math.sqrt(count)
    wanted = torch.maximum(OF_PART * first.abs(), OF_ALL * (first.abs().sum(0) + noise.abs()))
    ratios = error / wanted
    known = ratios[torch.isfinite(ratios)]
    # Errors fall with the root of the number of batches: so many bring the largest ratio to 1.
    needed = float(count * known.square().max()) if len(known) else 0.0
    # Of each batch and replicate two float64 gradients, and as much as one for copies of them.
    room = MOST_BYTES // (3 * 8 * parameters * len(products))
    return max(1, min(max(LEAST, math.ceil(min(needed, most))), room, most))


def left_out(sums: Tensor, counts: Tensor) -> Tensor:
    """Means over all rows and over all but those of each block, from sums over blocks.

    Args:
        sums: [R, BLOCKS, ...].
        counts: Rows of each block, [BLOCKS].

    Returns:
        [R, J, ...] float64, the mean over all rows first; that mean, too, in the place of a block
        that holds all rows; NaN where there are no rows.
    """
    total = sums.sum(1, keepdim=True)
    mean = total / counts.sum()
    shape = (1, -1, *[1] * (sums.dim() - 2))  # of numbers of blocks beside ``sums``
    rest = (counts.sum() - counts).view(shape)
    without = torch.where(rest > 0, (total - sums) / rest, mean)
    return torch.cat([mean, without], 1)


class BlockMeans(NamedTuple):
    """A mean over the rows of every block of a group, float64.

    Args:
        values: [R, BLOCKS]; anything for a block without rows.
        rows: Of each block, [BLOCKS].
    """

    values: Tensor
    rows: Tensor

    @property
    def left_out(self) -> Tensor:
        """The mean over all rows and over all but those of each block, [R, J]."""
        sums = torch.where(self.rows > 0, self.values * self.rows, 0.0)
        return left_out(sums, self.rows)

    @property
    def error(self) -> Tensor:
        """The standard error of the mean over all rows, by the spread over blocks, [R].

        The chance in the choice of rows is in it and, where each block has vectors of its own, that
        in the vectors; NaN of fewer than two blocks.
        """
        present = self.values[:, self.rows > 0]
        if present.shape[1] < 2:
            return present.new_full((len(present),), math.nan)
        return present.std(1) / math.sqrt(present.shape[1])


class CurvatureReader:
    """Reads second orders of one grouping's groups at one step.

    Args:
        reader: Reads gradients at the step.
        cells: Numbers of the rows of each group and block that are read, K lists of BLOCKS.
    """

    def __init__(self, reader: StepReader, cells: Sequence[Sequence[Tensor]]) -> None:
        task, pool = reader.task, reader.task.pool
        self.seed, self.repeats = task.seed, task.repeats
        self._groups: list[list[Landscape]] = []  # of each replicate; none for a group without rows
        for of_group in cells:
            records = torch.cat(list(of_group))
            if not len(records):
                self._groups.append([])
                continue
            sizes = torch.tensor([len(one) for one in of_group])
            blocks = torch.repeat_interleave(torch.arange(BLOCKS), sizes)
            inputs, labels = pool.gather(records, None).inputs, pool.labels[records]
            # Blocks stand here in the place of groups, so that each is one slice.
            by_block = GroupedRecords.of(inputs, labels, blocks, n_groups=BLOCKS)
            thetas = reader.checkpoint.parameters
            self._groups.append([Landscape(task.model, row.clone(), by_block) for row in thetas])

    def traces(self, step: int) -> list[BlockMeans]:
        """Tr H_a of every group, by block.

        Exact where the records' own are known; else slice j of every group meets the same probes.

        Args:
            step: The step's number, which names the probes.
        """
        probes: Tensor | None = None
        of_groups = []
        for landscapes in self._groups:
            of_replicates = []
            for landscape in landscapes:
                of_records = traces_of_records(landscape)
                if of_records is not None:
                    records = landscape.records
                    of_replicates.append(records.sums(of_records) / records.counts)
                    continue
                if probes is None:  # drawn once, for all groups and replicates
                    probes = self._probes(step, landscape)
                of_slices = torch.split(probes, PROBES)
                forms = [_forms(landscape, one, block) for block, one in enumerate(of_slices)]
                of_replicates.append(torch.stack(forms).mean(1))
            of_groups.append(self._block_means(landscapes, of_replicates))
        return of_groups

    def _probes(self, step: int, landscape: Landscape) -> Tensor:
        """Random signs for the traces at a step, [BLOCKS PROBES, P] (Rademacher)."""
        stream = numpy_stream(self.seed, "probe", "traces", step)
        shape = BLOCKS * PROBES, landscape.n_parameters
        coins = stream.integers(0, 2, shape, dtype="int8")
        return torch.from_numpy(2 * coins - 1).to(landscape.theta)

    def forms(
        self, batches: StepBatches, unclipped: Tensor
    ) -> tuple[list[BlockMeans], list[BlockMeans]]:
        """What the second orders of direction and of magnitude take, of every group by block.

        E (rho^2 g_B^T H g_B - gbar_B^T H gbar_B) and E (u^2 - rho^2) g_B^T H g_B. Of one linear
        layer over all batches; else slice j meets ``PAIRS`` of them, the same for every group.

        Args:
            batches: M batches of the step.
            unclipped: u, [R].
        """
        direction, magnitude = [], []
        for landscapes in self._groups:
            turned, shortened = [], []
            for r, landscape in enumerate(landscapes):
                u_squared = float(unclipped[r]) ** 2
                rho_squared, on_plain, on_clipped = _forms_of_batches(landscape, batches, r)
                turned.append((rho_squared * on_plain - on_clipped).mean(0))
                shortened.append(((u_squared - rho_squared) * on_plain).mean(0))
            direction.append(self._block_means(landscapes, turned))
            magnitude.append(self._block_means(landscapes, shortened))
        return direction, magnitude

    def _block_means(
        self, landscapes: Sequence[Landscape], of_replicates: Sequence[Tensor]
    ) -> BlockMeans:
        """One group's values by block, [BLOCKS] of each replicate, with the rows behind them.

        A group without rows, which has no landscapes, gets zeros over 0 rows: means of it are NaN.
        """
        if not landscapes:
            nothing = torch.zeros(BLOCKS, dtype=torch.float64)
            return BlockMeans(nothing.expand(self.repeats, -1), nothing)
        return BlockMeans(torch.stack(list(of_replicates)), landscapes[0].records.counts)


def _forms_of_batches(
    landscape: Landscape, batches: StepBatches, replicate: int
) -> tuple[Tensor, Tensor, Tensor]:
    """rho^2, g_B^T H g_B and gbar_B^T H gbar_B of a group's blocks, for the batches each meets.

    Args:
        landscape: The group at one replicate's parameters, its blocks in the place of groups.
        batches: M batches of the step.
        replicate: Its number.

    Returns:
        Float64. Of one linear layer every block meets all batches: [M, 1], [M, BLOCKS] and
        [M, BLOCKS]; else block j meets ``PAIRS`` of them, counted round: [PAIRS, BLOCKS] each.
    """
    plain, clipped = batches.plain[replicate], batches.clipped[replicate]
    rho_squared = batches.shrinkage[replicate].square()
    count = len(plain)
    if is_linear(landscape):
        forms = forms_of_linear(landscape, torch.cat([plain, clipped]))
        on_plain, on_clipped = torch.split(forms, count)
        return rho_squared.unsqueeze(1), on_plain, on_clipped
    pairs = min(PAIRS, count)
    met = [[(block * PAIRS + i) % count for i in range(pairs)] for block in range(BLOCKS)]
    of_blocks = [
        _forms(landscape, torch.cat([plain[some], clipped[some]]), block)
        for block, some in enumerate(met)
    ]
    on_plain, on_clipped = torch.split(torch.stack(of_blocks, 1), pairs)
    return rho_squared[torch.tensor(met).T], on_plain, on_clipped


def _forms(landscape: Landscape, vectors: Tensor, block: int) -> Tensor:
    """v^T H v of the mean loss of one block's records, for each vector [V, P]: [V] float64."""
    records = landscape.records
    rows = torch.arange(records.edges[block], records.edges[block + 1])
    return summed_forms(landscape, vectors, rows) / max(1, len(rows))
