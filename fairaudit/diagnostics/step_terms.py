"""What clipping's direction, its length and the noise of a step add to each group's loss.

The terms R_dir, R_mag and R_noise of ``risk_terms`` at one step, cheap enough to be read always.
The first order is made of products with each group's gradient, taken also with each block of the
group's rows left out. Its expectation is over M Poisson batches, M chosen for the wanted error.

The second order needs v^T H_a v of the batches' gradients and the trace of H_a. All that is wanted
of these are means over vectors *and* records, drawn independently. So each block of a group's rows
has vectors of its own: the means stay unbiased, and the spread over blocks tells their error. Block
j of every group takes the same vectors, so that a difference of two groups keeps its pairing. For
one linear layer the forms are exact, of all records and vectors. Traces are exact for every chain
of linear layers and activations of ``curvature.CURVES``.

In shapes R is the number of replicates, K of groups, P of parameters, M of batches, J of blocks +
1: place 0 is with no block left out, place j + 1 without block j.

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

LEAST = 8  # of M
# Wanted standard errors, as a share of the part or of all parts: the larger.
OF_PART, OF_ALL = 0.1, 0.01
MOST_BYTES = 2**28  # of the batches' gradients, which are all held at once
PAIRS = 2  # batches whose gradients, before and after clipping, one block meets
PROBES = 4  # random vectors (Rademacher) that one block meets, for traces
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
        """The products with the batches at which terms are defined (``StepBatches.usable``).

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
    """First orders of direction and magnitude over M batches, not yet multiplied by eta.

    With a shrinkage ``typical`` that does not depend on these batches in place of each batch's own,
    a part is linear in <g_a, g_B> and <g_a, gbar_B>, whose expectations are known; what it misses
    its own expectation by is taken off (a control variate), which moves no expectation.

    Args:
        direction: <g_a, E (rho g_B - gbar_B)>, [R, ...].
        magnitude: <g_a, E (u - rho) g_B>, [R, ...].
        spread: What differs from batch to batch, for the standard error of either mean,
            [R, M, ...]: <g_a, (rho - typical) g_B>; without a control variate the direction's
            <g_a, rho g_B - gbar_B>.
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
            typical: A shrinkage near theirs that does not depend on them, [R]; None: each batch
                takes the mean shrinkage of the other batches.
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


def batches_for_terms(
    products: Tensor, first: Tensor, noise: Tensor, parameters: int, most: int
) -> int:
    """How many batches bring every group's direction and magnitude to the wanted standard errors.

    Those are a tenth of the part, or a hundredth of all parts together where that is more. The
    number follows from a pilot's batches, over which no expectation is taken, so that a lucky draw
    cannot end the drawing; and from no clock, so that equal audits give equal numbers. The control
    variate leaves both parts one error, that of ``spread``.

    Args:
        products: eta times ``Turns.spread`` of M' pilot batches, [R, K + 1, M'].
        first: eta times the first order of direction and of magnitude by the pilot, [2, R, K + 1].
        noise: R_noise, [R, K + 1].
        parameters: P.
        most: At most so many.

    Returns:
        ``LEAST`` or more; fewer, down to 1, where ``most`` is less, or where 256 MiB hold no more
        gradients.
    """
    count = products.shape[-1]
    error = products.std(-1) / math.sqrt(count)
    wanted = torch.maximum(OF_PART * first.abs(), OF_ALL * (first.abs().sum(0) + noise.abs()))
    ratios = error / wanted
    known = ratios[torch.isfinite(ratios)]  # NaN of groups without a reading, 0 / 0 of no step
    # Errors fall with the root of the number of batches, so a ratio r of error to wanted error
    # needs r^2 times the pilot's batches.
    needed = float(count * known.square().max()) if len(known) else 0.0
    # A batch takes, for each replicate, two float64 gradients and about one more for copies.
    room = MOST_BYTES // (3 * 8 * parameters * len(products))
    return max(1, min(max(LEAST, math.ceil(min(needed, most))), room, most))


def left_out(sums: Tensor, counts: Tensor) -> Tensor:
    """Means over all rows and over all but those of each block, from sums over blocks.

    Args:
        sums: [R, BLOCKS, ...].
        counts: Rows of each block, [BLOCKS].

    Returns:
        [R, J, ...] float64, the mean over all rows first. If one block holds all rows, leaving it
        out would leave none, so that place has the mean over all rows, too. NaN without rows.
    """
    total = sums.sum(1, keepdim=True)
    mean = total / counts.sum()
    shape = (1, -1, *[1] * (sums.dim() - 2))  # lays the blocks' counts along axis 1 of ``sums``
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
        # For each group one landscape per replicate; an empty list for a group without rows.
        self._groups: list[list[Landscape]] = []
        for of_group in cells:
            records = torch.cat(list(of_group))
            if not len(records):
                self._groups.append([])
                continue
            sizes = torch.tensor([len(one) for one in of_group])
            blocks = torch.repeat_interleave(torch.arange(BLOCKS), sizes)
            inputs, labels = pool.gather(records, None).inputs, pool.labels[records]
            # The group's blocks are the "groups" of these records, so that sums are by block.
            by_block = GroupedRecords.of(inputs, labels, blocks, n_groups=BLOCKS)
            thetas = reader.checkpoint.parameters
            self._groups.append([Landscape(task.model, row.clone(), by_block) for row in thetas])

    def traces(self, step: int) -> list[BlockMeans]:
        """The trace of the Hessian of each block's mean loss, for every group.

        Exact where the trace of each record's Hessian is known (``traces_of_records``). Else the
        mean of z^T H z over ``PROBES`` random vectors z of the block's own; block j of every group
        and replicate meets the same vectors.

        Args:
            step: The step's number, which names the random stream of the vectors.

        Returns:
            K of them.
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
                probes_of_blocks = torch.split(probes, PROBES)  # BLOCKS of [PROBES, P]
                forms = [_forms(landscape, z, block) for block, z in enumerate(probes_of_blocks)]
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
        """What the second orders of direction and of magnitude take, by block, for every group.

        E (rho^2 g_B^T H g_B - gbar_B^T H gbar_B) and E (u^2 - rho^2) g_B^T H g_B, H that of a
        block's mean loss. For one linear layer the expectation is over all batches; else block j
        meets ``PAIRS`` of them, the same for every group.

        Args:
            batches: M batches of the step.
            unclipped: u, [R].

        Returns:
            Of direction, then of magnitude, K each; to be multiplied by eta^2 / 2.
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
        Float64. For one linear layer every block meets all batches: [M, 1], [M, BLOCKS] and
        [M, BLOCKS]. Else block j meets ``PAIRS`` of them, from number j PAIRS on and modulo M:
        [PAIRS, BLOCKS] each.
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
    return summed_forms(landscape, vectors, rows) / max(1, len(rows))  # 0 of a block without rows
