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
        """Of the step that a reader reads."""
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
        beside = [1] * (plain.dim() - 2)  # axes of the gradient, over which factors are equal
        rho, factor = shrinkage.view(-1, count, *beside), unclipped.view(-1, 1, *beside)
        if known is None or (typical is None and count < 2):
            turned = rho * plain - clipped
            return cls(turned.mean(1), ((factor - rho) * plain).mean(1), turned)
        if typical is None:
            usual = (rho.sum(1, keepdim=True) - rho) / (count - 1)
        else:
            usual = typical.view(-1, 1, *beside).expand_as(rho)
        spread = (rho - usual) * plain
        mean, average = spread.mean(1), usual.mean(1)
        of_plain, of_clipped = known
        return cls(
            mean + average * of_plain - of_clipped,
            (factor[:, 0] - average) * of_plain - mean,
            spread,
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
    """
    count = products.shape[-1]
    error = products.std(-1) / math.sqrt(count)
    wanted = torch.maximum(OF_PART * first.abs(), OF_ALL * (first.abs().sum(0) + noise.abs()))
    ratios = error / wanted
    known = ratios[torch.isfinite(ratios)]
    needed = float(count * known.square().max()) if len(known) else 0.0
    room = MOST_BYTES // (3 * 8 * parameters * len(products))
    return max(1, min(max(LEAST, math.ceil(min(needed, most))), room, most))


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
    shape = (1, -1, *[1] * (sums.dim() - 2))
    without = torch.where(
        (rest > 0).view(shape), (total - sums) / rest.view(shape), total / counts.sum()
    )
    return torch.cat([total / counts.sum(), without], 1)


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

        It holds what rows and, where each block has vectors of its own, vectors add.
        """
        present = self.values[:, self.rows > 0]
        if present.shape[1] < 2:
            return present.new_full((len(present),), math.nan)
        return present.std(1) / math.sqrt(max(1, present.shape[1]))


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
            values = []
            for landscape in landscapes:
                records = landscape.records
                of_records = traces_of_records(landscape)
                if of_records is not None:
                    values.append(records.sums(of_records) / records.counts)
                    continue
                if probes is None:
                    shape = BLOCKS * PROBES, landscape.n_parameters
                    coins = numpy_stream(self.seed, "probe", "traces", step).integers(
                        0, 2, shape, dtype="int8"
                    )
                    probes = torch.from_numpy(2 * coins - 1).to(landscape.theta)
                forms = [
                    _forms(landscape, one, j) for j, one in enumerate(torch.split(probes, PROBES))
                ]
                values.append(torch.stack(forms).mean(1))
            of_groups.append(self._means(landscapes, values))
        return of_groups

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
        count = batches.plain.shape[1]
        for landscapes in self._groups:
            turned, shortened = [], []
            for r, landscape in enumerate(landscapes):
                plain, clipped = batches.plain[r], batches.clipped[r]
                rho = batches.shrinkage[r].square().unsqueeze(1)  # [M, 1]
                if is_linear(landscape):
                    forms = forms_of_linear(landscape, torch.cat([plain, clipped]))
                    on_plain, on_clipped = torch.split(forms, count)  # [M, BLOCKS]
                else:
                    slices = []
                    for j in range(BLOCKS):
                        some = [(j * PAIRS + i) % count for i in range(min(PAIRS, count))]
                        both = torch.cat([plain[some], clipped[some]])
                        slices.append((some, _forms(landscape, both, j)))
                    chosen = torch.tensor([some for some, _ in slices]).T  # [PAIRS, BLOCKS]
                    values = torch.stack([forms for _, forms in slices], 1)  # [2 PAIRS, BLOCKS]
                    on_plain, on_clipped = torch.split(values, len(chosen))
                    rho = rho[chosen, 0]
                turned.append((rho * on_plain - on_clipped).mean(0))
                shortened.append(((float(unclipped[r]) ** 2 - rho) * on_plain).mean(0))
            direction.append(self._means(landscapes, turned))
            magnitude.append(self._means(landscapes, shortened))
        return direction, magnitude

    def _means(self, landscapes: Sequence[Landscape], values: Sequence[Tensor]) -> BlockMeans:
        """The values [BLOCKS] of every replicate; NaN for a group without rows."""
        if not landscapes:
            nothing = torch.zeros(BLOCKS, dtype=torch.float64)
            return BlockMeans(nothing.expand(self.repeats, -1), nothing)
        return BlockMeans(torch.stack(list(values)), landscapes[0].records.counts)


def _forms(landscape: Landscape, vectors: Tensor, block: int) -> Tensor:
    """v^T H v of the mean loss of one block's records, for each vector [V, P]: [V] float64."""
    records = landscape.records
    rows = torch.arange(records.edges[block], records.edges[block + 1])
    return summed_forms(landscape, vectors, rows) / max(1, len(rows))
