"""Why a group pays: every reading of the checkpoints of one training, taken after it.

A checkpoint is a step that training kept: the R replicates' parameters before it, and the values
that its rule had released. What clipping and noise of that step cost each group is split into terms
(``risk_terms``; docs/methods.md 8): expectations over Poisson batches, which are drawn here anew.

Nothing is drawn from a noise stream: the rule meets the very values that the step released. Batches
and signs come from streams of their own, the same for every arm of a seed, so that arms are
compared on them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from fairaudit.diagnostics.amount import spread
from fairaudit.diagnostics.checkpoints import Moments, StepReader, poisson_batch, stratified
from fairaudit.diagnostics.clipping_bounds import Spectra, lower_bounds
from fairaudit.diagnostics.curvature import (
    DENSE_LIMIT,
    extremes,
    quadratic_forms,
    traces,
    traces_of_records,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.diagnostics.observers import cosine
from fairaudit.diagnostics.records import correlations, record_values
from fairaudit.diagnostics.risk_terms import (
    Batches,
    Forms,
    Means,
    Sampling,
    clipping_parts,
    noise_term,
    places,
    risk_terms,
    vectors,
)
from fairaudit.diagnostics.step_terms import LEAST, MOST_BYTES, OF_ALL, OF_PART
from fairaudit.engine.observe import Checkpoint
from fairaudit.engine.release import Release
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.streams import numpy_stream
from fairaudit.results.steps import CORRELATED

PILOT = 8  # Poisson batches that say how many more are needed; no expectation is taken over these
MOST = 64  # of M, Poisson batches behind every expectation that has no closed form
DRAWN = ("r_direction", "r_magnitude_effective")  # terms that the number of batches is chosen for
# So many of the M batches are also summed with random signs, for the covariance in R_clip. Few are
# enough, for the covariance is small beside the first order.
PROBES = 4
# Eigenvalues and correlations cost more than all other readings. So eigenvalues are read at
# THOROUGH checkpoints where the Hessian is written out, else at FEW; correlations are read at FEW.
THOROUGH, FEW = 8, 3
HESSIAN_RECORDS = 1024  # stratified by group; gradients are taken over all records


def read(method: Method, task: Task, trained: TrainedReplicates) -> dict[str, Tensor]:
    """What each checkpoint's step did to each group, series by name.

    Args:
        method, task: The method, and the training that it made.
        trained: Its result, which holds the checkpoints.

    Returns:
        Series name -> [C, R, ...] float64 for C checkpoints; empty where nothing was kept, or where
        the step is not a sum over the expected batch, so that no decomposition is known for it.
    """
    if not isinstance(method, GradientMethod) or not isinstance(method.release(task), Release):
        return {}
    reading = CauseReading(method, task)
    steps = tuple(checkpoint.step for checkpoint in trained.checkpoints)
    # ``few`` and ``many`` always have the first step: where eigenvalues are not read, the bounds
    # take the latest that were, so some must be read at the start.
    few = (*steps[:1], *spread(steps[1:], FEW - 1))
    many = (*steps[:1], *spread(steps[1:], THOROUGH - 1))
    spectra = many if trained.network.n_parameters <= DENSE_LIMIT else few
    return _stacked(
        [
            reading.at(one, has_spectra=one.step in spectra, has_correlations=one.step in few)
            for one in trained.checkpoints
        ]
    )


def _stacked(readings: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Readings of replicates, or of checkpoints, by name: stacked, float64, on a new first axis."""
    series: dict[str, list[Tensor]] = {}
    for reading in readings:
        for name, value in reading.items():
            series.setdefault(name, []).append(value)
    return {name: torch.stack(values).double() for name, values in series.items()}


class CauseReading:
    """The readings of one training, one checkpoint at a time.

    Args:
        method: The method that made the steps.
        task: The training whose checkpoints are read.
    """

    def __init__(self, method: GradientMethod, task: Task) -> None:
        self.method, self.task = method, task
        self._spectra: list[Spectra] = []  # the latest, one of each replicate

    @cached_property
    def records(self) -> GroupedRecords:
        """The records that curvature is read from: the same for every step and arm of a seed."""
        pool = self.task.pool
        groups = pool.groups[: pool.n_records]  # without the null record, which pads batches
        chosen = stratified(groups, pool.n_groups, HESSIAN_RECORDS, self.task.seed)
        batch = pool.gather(chosen, None)
        shares = torch.bincount(groups, minlength=pool.n_groups).double() / pool.n_records
        return GroupedRecords.of(
            batch.inputs, pool.labels[chosen], batch.group, n_groups=pool.n_groups, shares=shares
        )

    def at(
        self, checkpoint: Checkpoint, *, has_spectra: bool = True, has_correlations: bool = True
    ) -> dict[str, Tensor]:
        """All series of one step, [R, ...] each; of a plain step those of curvature and records.

        Args:
            checkpoint: The step.
            has_spectra: Whether eigenvalues are read at this step; if not, they are NaN in the
                series, and the bounds take those of the latest step that has them.
            has_correlations: Whether rank correlations are read at this step, else NaN.
        """
        landscapes = [
            Landscape(self.task.model, theta.clone(), self.records)
            for theta in checkpoint.parameters
        ]
        label = f"{checkpoint.step}" if has_correlations else None
        series = _stacked([self._of_records(landscape, label) for landscape in landscapes])
        if self.is_plain(checkpoint):
            return series
        # The series of the step has NaN unless eigenvalues are read; ``_spectra``, which the bounds
        # read, keeps the latest.
        of_step = [Spectra.unknown(self.task.pool.n_groups)] * self.task.repeats
        if has_spectra:
            of_step = self._spectra = [Spectra(*extremes(landscape)) for landscape in landscapes]
        series |= _stacked([one.series(checkpoint.learning_rate) for one in of_step])
        return series | self._terms(checkpoint, landscapes, series["hessian_trace"])

    def _of_records(self, landscape: Landscape, label: str | None) -> dict[str, Tensor]:
        """What is read of records at one replicate's parameters: traces, means, correlations.

        Args:
            landscape: Model, parameters, records.
            label: Of the correlations' random stream; None: correlations are not read, but NaN.

        Returns:
            ``hessian_trace`` and its ``_se``, ``mean_input_norm`` and ``mean_closeness``, [K + 1]
            each; ``correlations``, [pairs, K + 1, 3].
        """
        of_records = traces_of_records(landscape)
        value, error = traces(landscape, of_records, seed=self.task.seed)
        reading = {"hessian_trace": value, "hessian_trace_se": error}
        values = record_values(landscape, of_records)
        for name in ("input_norm", "closeness"):
            sums = landscape.records.sums(values[name])
            reading[f"mean_{name}"] = landscape.records.means(sums)
        if label is None:
            shape = len(CORRELATED), self.task.pool.n_groups + 1, 3
            reading["correlations"] = torch.full(shape, torch.nan, dtype=torch.float64)
        else:
            reading["correlations"] = correlations(
                landscape, values, seed=self.task.seed, label=label
            )
        return reading

    def is_plain(self, checkpoint: Checkpoint) -> bool:
        """Whether nothing is clipped or noised, as in the reference: then every term is zero."""
        return bool(torch.isinf(checkpoint.sensitivity).all())

    def _terms(
        self, checkpoint: Checkpoint, landscapes: list[Landscape], trace: Tensor
    ) -> dict[str, Tensor]:
        """The terms of one step and the bounds on them, name -> [R, ...].

        Two sets of Poisson batches are drawn, each from a random stream of its own: a pilot, which
        says how many batches are needed and what a typical shrinkage is, and the batches over which
        the expectations are then taken.

        Args:
            checkpoint: The step.
            landscapes: The loss around the parameters, one of each replicate.
            trace: Trace of the Hessian of each group's mean loss and, last, of all records', for
                R_noise, [R, K + 1].
        """
        reader = StepReader(self.method, self.task, checkpoint)
        moments = reader.moments()
        samplings = [self._sampling(checkpoint, r) for r in range(self.task.repeats)]
        means = [self._means(moments, r) for r in range(self.task.repeats)]

        pilot = self._batches(reader, moments, "pilot", PILOT)
        # The pilot may use its own typical shrinkage: no expectation is taken over the pilot.
        pilot = [replace(one, typical=one.typical_shrinkage()) for one in pilot]
        noise = [noise_term(trace[r], sampling) for r, sampling in enumerate(samplings)]
        of_pilot = []
        for r, batches in enumerate(pilot):
            both = torch.cat([batches.plain, batches.clipped])
            # g_B and gbar_B of one batch meet the same slice of records, for their difference
            # counts.
            places_of_both = [*range(PILOT), *range(PILOT)]
            forms_of_both = quadratic_forms(landscapes[r], both, places_of_both)
            plain, clipped = torch.split(forms_of_both, PILOT)
            parts = clipping_parts(batches, means[r], plain, clipped, samplings[r])
            of_pilot.append({**parts, "r_noise": noise[r]})
        needed = batches_needed(of_pilot, reader.network.n_parameters)

        of_replicates = []
        for r, batches in enumerate(self._batches(reader, moments, "batches", needed)):
            # The pilot's typical shrinkage: that of these very batches would bias the expectations
            # over them.
            batches = replace(batches, typical=pilot[r].typical)
            wanted = vectors(batches, means[r])
            forms = Forms.of(quadratic_forms(landscapes[r], wanted, places(batches)), batches)
            terms = risk_terms(batches, means[r], forms, samplings[r])
            terms["r_noise"] = noise[r]
            terms["angle_turned"] = angle_turned(batches, means[r])
            bound = float(checkpoint.sensitivity[r])
            terms |= lower_bounds(batches, means[r], samplings[r], self._spectra[r], bound)
            terms["noise_norm"] = self._noise_norm(samplings[r])
            # [2]: before and after clipping.
            terms["batch_norm"] = torch.stack(
                [each.norm(dim=1).mean() for each in (batches.plain, batches.clipped)]
            )
            of_replicates.append(terms)
        return {
            **_stacked(of_replicates),
            "clipped_share": moments.clipped,
            "excess_norm": moments.excess,
        }

    def _noise_norm(self, sampling: Sampling) -> Tensor:
        """About the L2 norm of the noise on a step's sum over the group's records in a batch, [K].

        sigma s sqrt(P) / (q N_a): the noise on the sum has P coordinates of std sigma s, and a
        batch is expected to hold q N_a records of group a. In the code sigma s / q is ``noise_std``
        times the public N. Infinite for a group without records.
        """
        pool = self.task.pool
        sizes = torch.bincount(pool.groups[: pool.n_records], minlength=pool.n_groups).double()
        n_parameters = sum(p.numel() for p in self.task.model.parameters() if p.requires_grad)
        return sizes.reciprocal() * sampling.noise_std * sampling.n_public * math.sqrt(n_parameters)

    def _sampling(self, checkpoint: Checkpoint, replicate: int) -> Sampling:
        """A step's size, its sampling, and the standard deviation of the noise on its mean."""
        task = self.task
        expected = task.n_public / task.steps_per_epoch
        sigma = task.settings.get("noise_multiplier", 0.0)
        # Without noise std is 0, also where nothing is clipped: 0 times infinity would be NaN.
        return Sampling(
            learning_rate=checkpoint.learning_rate,
            sample_rate=1.0 / task.steps_per_epoch,
            n_public=task.n_public,
            n_records=task.pool.n_records,
            noise_std=sigma * float(checkpoint.sensitivity[replicate]) / expected if sigma else 0.0,
        )

    def _means(self, moments: Moments, replicate: int) -> Means:
        """A replicate's gradients over all training records.

        The means of every group and, last, of all records, and the sums over records divided by the
        public N, before and after the rule scales them.
        """
        group = torch.cat([moments.group[replicate], moments.whole[replicate].unsqueeze(0)])
        total, processed = moments.total[replicate], moments.processed[replicate]
        return Means(group, total / self.task.n_public, processed / self.task.n_public)

    def _batches(
        self, reader: StepReader, moments: Moments, label: str, count: int
    ) -> list[Batches]:
        """Poisson batches of the step, the same records for every replicate.

        Args:
            reader: Reads gradients at the step.
            moments: Of all training records.
            label: Of the random stream that they are drawn from.
            count: M, how many; the first ``PROBES`` are also read with random signs.

        Returns:
            One for each replicate, without ``typical``.
        """
        task, n_records = self.task, self.task.pool.n_records
        expected = task.n_public / task.steps_per_epoch
        stream = numpy_stream(task.seed, "probe", label, reader.checkpoint.step)
        steps: list[Tensor] = []
        probes: list[Tensor] = []
        for number in range(count):
            records = poisson_batch(stream, n_records, 1.0 / task.steps_per_epoch)
            has_probe = number < PROBES
            weights = [torch.ones(len(records), dtype=torch.float64)]
            if has_probe:
                coins = stream.integers(0, 2, len(records))
                weights.append(torch.from_numpy(coins * 2.0 - 1.0))  # -1 or 1 (Rademacher)
            sums = reader.sums(records, weights)  # one sum for each row of weights
            plain, processed = sums.plain.double(), sums.processed.double()
            steps.append(torch.stack([plain[0], processed[0]]) / expected)
            if has_probe:
                # With the signs z_i, sum z_i (g_i - mean g) is sum z_i g_i less (sum z_i / n) times
                # the total of g over all n records.
                share = weights[1].sum() / n_records
                centred = plain[1] - share * moments.total, processed[1] - share * moments.processed
                probes.append(torch.stack(centred))
        stacked = torch.stack(steps, 2)  # [2, R, M, P]
        signed = torch.stack(probes, 2)  # [2, R, PROBES, P]
        return [
            Batches(stacked[0, r], stacked[1, r], signed[0, r], signed[1, r], reader.unclipped(r))
            for r in range(task.repeats)
        ]


def batches_needed(pilot: Sequence[Mapping[str, Tensor]], parameters: int) -> int:
    """How many batches bring every group's direction and magnitude to the wanted standard errors.

    Those are a tenth of the part, or a hundredth of all parts together where that is more. The
    number depends on the pilot's batches, over which no expectation is taken, so that a lucky draw
    cannot end the drawing, which would bias the expectations; and on no clock, so that equal audits
    give equal numbers.

    ``step_terms.batches_for_terms`` is the rule for the terms of every audit. It differs: there one
    error serves both parts, and memory may bring the number below ``LEAST``.

    Args:
        pilot: Of each replicate, the terms over the pilot's batches, with ``r_noise``.
        parameters: P.

    Returns:
        8 to 64; less than 64, but not less than 8, where 256 MiB hold no more batches' gradients.
    """
    batches = float(LEAST)
    for terms in pilot:
        errors = torch.stack([terms[f"{name}_se"] for name in DRAWN])
        # [3, K + 1]: the two of ``DRAWN``, then the noise, which counts in the sum alone.
        parts = torch.stack([terms[name].abs() for name in (*DRAWN, "r_noise")])
        ratios = errors / torch.maximum(OF_PART * parts[:2], OF_ALL * parts.sum(0))
        # An error of 0 needs no more batches, and one that is not known (NaN) says nothing.
        known = ratios[errors > 0]
        if len(known):
            # Errors fall with the root of the number of batches, so a ratio r of error to wanted
            # error needs r^2 times the pilot's batches.
            batches = max(batches, *(PILOT * known**2).tolist())
    # A batch leaves two float64 gradients, before and after clipping, of every replicate.
    room = MOST_BYTES // (2 * 8 * parameters * len(pilot))
    return max(LEAST, min(math.ceil(min(batches, MOST)), room))


def angle_turned(batches: Batches, means: Means) -> Tensor:
    """Degrees by which clipping turns the batch's gradient away from each group's, [K].

    angle(g_a, gbar_B) - angle(g_a, g_B), the mean over the batches; below 0 where clipping turns
    the batch's gradient towards the group's. g_a is the group's mean over the training split. A
    batch whose gradient vanishes has no angle and does not count.
    """
    group = means.group[:-1]  # without the last row, which is of all records
    before = cosine(batches.plain.unsqueeze(1), group)  # [M, K]
    after = cosine(batches.clipped.unsqueeze(1), group)
    return (after.arccos() - before.arccos()).nanmean(0).rad2deg()
