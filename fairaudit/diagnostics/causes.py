"""Why a group pays: every reading of the checkpoints of one training, taken after it.

Nothing is drawn from a noise stream: the rule meets the very values that the step released. Batches
and signs come from streams of their own, the same for every arm of a seed, so that arms are
compared on them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from fairaudit.capabilities import added
from fairaudit.diagnostics.checkpoints import Moments, StepReader, poisson_batch
from fairaudit.diagnostics.curvature import (
    extremes_of_groups,
    quadratic_forms,
    traces,
    traces_of_records,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.diagnostics.observers import cosine
from fairaudit.diagnostics.records import QUANTITIES, RecordReadings, read_records
from fairaudit.diagnostics.risk_terms import (
    Batches,
    Forms,
    Means,
    Sampling,
    Spectrum,
    noise_term,
    risk_terms,
    vectors,
)
from fairaudit.engine.observe import Checkpoint
from fairaudit.engine.release import Release
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.defaults import ANGLE_BATCHES
from fairaudit.methods.gradient import GradientMethod
from fairaudit.privacy.streams import numpy_stream

PILOT = 8  # Poisson batches that say how many are needed; no expectation is taken over them
LEAST, MOST = 8, 64  # M, Poisson batches behind every expectation that has no closed form
DRAWN = ("r_direction", "r_magnitude_effective")  # what the number of batches is chosen for
MOST_BYTES = 2**28  # of their gradients, which are all held at once
OF_PART, OF_ALL = (
    0.1,
    0.01,
)  # wanted standard errors, as a share of the part or of all parts: the larger
PROBES = 4  # of them, behind the covariance in R_clip, which is small beside its first order
HESSIAN_RECORDS = 1024  # stratified by group; gradients are taken over all records
ANGLES = ("angle_turned", "cos_before", "cos_after")
THOROUGH_EVERY = 4  # checkpoints: eigenvalues and correlations cost more than all else together


def read_angles(
    method: Method,
    task: Task,
    trained: TrainedReplicates,
) -> dict[str, Tensor]:
    """How far each checkpoint was turned from each group's gradient.

    Of :func:`read` the cheapest series.

    Returns:
        ``angle_turned``, ``cos_before`` and ``cos_after``, [C, R, K] float64 for C checkpoints;
        empty where :func:`read` finds nothing, or where nothing is clipped.
    """
    if not _is_readable(method, task, trained):
        return {}
    reading = CauseReading(method, task)
    series: dict[str, list[Tensor]] = {}
    for checkpoint in trained.checkpoints:
        if not reading.is_plain(checkpoint):
            _append(series, reading.angles(checkpoint))
    return {name: torch.stack(values).double() for name, values in series.items()}


def _is_readable(
    method: Method, task: Task, trained: TrainedReplicates
) -> TypeGuard[GradientMethod]:
    """Whether steps were kept, and are sums over the expected batch."""
    if not trained.checkpoints or not isinstance(method, GradientMethod):
        return False
    return isinstance(method.release(task), Release)


def read(
    method: Method,
    task: Task,
    trained: TrainedReplicates,
) -> dict[str, Tensor]:
    """What each checkpoint did to each group.

    Returns:
        Series name -> [C, R, ...] float64 for C checkpoints; empty where nothing was kept, or where
        the step is not a sum over the expected batch, so that no decomposition is known for it.
    """
    if not _is_readable(method, task, trained):
        return {}
    reading = CauseReading(method, task)
    series: dict[str, list[Tensor]] = {}
    for number, checkpoint in enumerate(trained.checkpoints):
        _append(series, reading.at(checkpoint, thorough=number % THOROUGH_EVERY == 0))
    return {name: torch.stack(values).double() for name, values in series.items()}


def _append(series: dict[str, list[Tensor]], values: Mapping[str, Tensor]) -> None:
    """One more value of each series."""
    for name, value in values.items():
        series.setdefault(name, []).append(value)


class StepTerms(NamedTuple):
    """What the parts of one replicate's step were taken from."""

    batches: Batches
    means: Means
    sampling: Sampling


class CheckpointReading(NamedTuple):
    """What capabilities read of a checkpoint.

    ``records`` and ``steps`` are those of each replicate, ``steps`` empty where nothing is clipped;
    ``label`` tells the streams of this checkpoint from others of the seed.
    """

    records: Sequence[RecordReadings]
    steps: Sequence[StepTerms]
    thorough: bool
    seed: int
    label: str


class CauseReading:
    """The readings of one training, one checkpoint at a time.

    Args:
        method: Whose steps.
        task: Its training.
    """

    def __init__(self, method: GradientMethod, task: Task) -> None:
        self.method, self.task = method, task
        nothing = torch.full(
            (task.pool.n_groups,),
            torch.nan,
            dtype=torch.float64,
        )
        self._spectra = [Spectrum(nothing, nothing)] * task.repeats

    @cached_property
    def records(self) -> GroupedRecords:
        """The records that curvature is read from: the same for every step and arm of a seed."""
        pool = self.task.pool
        groups = pool.groups[: pool.n_records]
        chosen = stratified(groups, pool.n_groups, HESSIAN_RECORDS, self.task.seed)
        batch = pool.gather(chosen, None)
        shares = torch.bincount(groups, minlength=pool.n_groups).double() / pool.n_records
        return GroupedRecords.of(
            batch.inputs,
            pool.labels[chosen],
            batch.group,
            n_groups=pool.n_groups,
            shares=shares,
        )

    def at(
        self,
        checkpoint: Checkpoint,
        *,
        thorough: bool,
    ) -> Mapping[str, Tensor]:
        """All series of one step, [R, ...] each.

        Args:
            checkpoint: The step.
            thorough: Whether eigenvalues are read here, else the last ones stand; and correlations.
        """
        landscapes = [
            Landscape(self.task.model, theta.clone(), self.records)
            for theta in checkpoint.parameters
        ]
        trace = []
        records = []
        for landscape in landscapes:
            of_records = traces_of_records(landscape)
            trace.append(traces(landscape, of_records, seed=self.task.seed))
            records.append(read_records(landscape, of_records))
        found = {
            "hessian_trace": torch.stack([t.value for t in trace]),
            "hessian_trace_se": torch.stack([t.standard_error for t in trace]),
            "hessian_trace_difference_se": torch.stack([t.difference_error for t in trace]),
            **self._record_means(records),
        }
        steps: list[StepTerms] = []
        if not self.is_plain(checkpoint):
            found |= self._parts(checkpoint, landscapes, found["hessian_trace"], thorough, steps)
        label = f"{self.task.arm}/{checkpoint.step}"
        reading = CheckpointReading(records, steps, thorough, self.task.seed, label)
        for read_more in added("checkpoint_series"):
            found |= read_more(reading)
        return found

    def _parts(
        self,
        checkpoint: Checkpoint,
        landscapes: list[Landscape],
        trace: Tensor,
        thorough: bool,
        steps: list[StepTerms],
    ) -> dict[str, Tensor]:
        """The step's parts and what they assume; ``steps`` is filled with what they come from."""
        if thorough:
            self._spectra = []
            for landscape in landscapes:
                ends = [(e.largest, e.smallest) for e in extremes_of_groups(landscape)]
                largest, smallest = torch.tensor(ends, dtype=torch.float64).unbind(1)
                self._spectra.append(Spectrum(largest, smallest))
        rate, spectra = checkpoint.learning_rate, self._spectra
        return {
            "learning_rate": torch.full((self.task.repeats, 1), rate),
            # What the bounds assume, by the latest eigenvalues.
            "eigenvalue_largest": torch.stack([s.largest for s in spectra]),
            "eigenvalue_smallest": torch.stack([s.smallest for s in spectra]),
            "small_step": torch.stack([s.is_small_step(rate) for s in spectra]),
            "convex": torch.stack([s.is_convex() for s in spectra]),
            **self._terms(checkpoint, landscapes, trace, steps),
        }

    def angles(self, checkpoint: Checkpoint) -> Mapping[str, Tensor]:
        """How far clipping turns one step, [R, K] each.

        Means over so many batches, of no curvature.
        """
        reader = StepReader(self.method, self.task, checkpoint)
        moments = reader.moments()
        of_replicates: dict[str, list[Tensor]] = {}
        for r, batches in enumerate(
            self._batches(
                reader,
                moments,
                "batches",
                ANGLE_BATCHES,
            )
        ):
            _append(of_replicates, _angles(batches, self._means(moments, r)))
        return {name: torch.stack(of_replicates[name]) for name in ANGLES}

    def _record_means(self, readings: Sequence[RecordReadings]) -> dict[str, Tensor]:
        """Group means of what goes with a costly record, [R, K + 1] each."""
        means = {}
        for name in QUANTITIES:
            values = torch.stack([torch.from_numpy(reading.values[name]) for reading in readings])
            means[f"mean_{name}"] = self.records.means(self.records.sums(values))
        return means

    def is_plain(self, checkpoint: Checkpoint) -> bool:
        """Nothing is clipped and no noise is added: the reference, of which every term is zero."""
        return bool(torch.isinf(checkpoint.sensitivity).all())

    def _terms(
        self,
        checkpoint: Checkpoint,
        landscapes: list[Landscape],
        trace: Tensor,
        steps: list[StepTerms],
    ) -> dict[str, Tensor]:
        reader = StepReader(self.method, self.task, checkpoint)
        moments = reader.moments()
        samplings = [self._sampling(checkpoint, r) for r in range(self.task.repeats)]
        means = [self._means(moments, r) for r in range(self.task.repeats)]
        noise = [noise_term(t, sampling) for t, sampling in zip(trace, samplings, strict=True)]

        def measured(batches: Batches, r: int) -> dict[str, Tensor]:
            forms = Forms.of(quadratic_forms(landscapes[r], vectors(batches, means[r])), batches)
            return {
                **risk_terms(
                    batches,
                    means[r],
                    forms,
                    samplings[r],
                ),
                "r_noise": noise[r],
            }

        pilot = self._batches(reader, moments, "pilot", PILOT)
        pilot = [replace(one, typical=one.typical_shrinkage()) for one in pilot]
        needed = batches_needed(
            [measured(one, r) for r, one in enumerate(pilot)], reader.network.n_parameters
        )
        of_replicates: dict[str, list[Tensor]] = {}
        for r, batches in enumerate(
            self._batches(
                reader,
                moments,
                "batches",
                needed,
            )
        ):
            batches = replace(batches, typical=pilot[r].typical)
            terms = measured(batches, r)
            aims = dict(zip(DRAWN, wanted_errors(terms), strict=True))
            values = {
                **terms,
                **{f"{name}_wanted": wanted for name, wanted in aims.items()},
                **_angles(batches, means[r]),
                "batches": torch.tensor([float(needed)]),
                "noise_norm": self._noise_norm(samplings[r], reader.network.n_parameters),
            }
            steps.append(StepTerms(batches, means[r], samplings[r]))
            _append(of_replicates, values)
        terms_of_all = {name: torch.stack(values) for name, values in of_replicates.items()}
        return {**terms_of_all, "excess_norm": moments.excess, "clipped_share": moments.clipped}

    def _sampling(self, checkpoint: Checkpoint, replicate: int) -> Sampling:
        task = self.task
        expected = task.n_public / task.steps_per_epoch
        sigma = task.settings.get("noise_multiplier", 0.0)
        return Sampling(
            learning_rate=checkpoint.learning_rate,
            sample_rate=1.0 / task.steps_per_epoch,
            n_public=task.n_public,
            n_records=task.pool.n_records,
            noise_std=sigma * float(checkpoint.sensitivity[replicate]) / expected if sigma else 0.0,
        )

    def _means(self, moments: Moments, replicate: int) -> Means:
        group = torch.cat([moments.group[replicate], moments.whole[replicate].unsqueeze(0)])
        total, processed = moments.total[replicate], moments.processed[replicate]
        return Means(
            group,
            total / self.task.n_public,
            processed / self.task.n_public,
        )

    def _batches(
        self, reader: StepReader, moments: Moments, label: str, count: int
    ) -> list[Batches]:
        """Some batches of the step for each replicate, of a stream of that label."""
        task, n_records = self.task, self.task.pool.n_records
        expected = task.n_public / task.steps_per_epoch
        stream = numpy_stream(task.seed, "probe", label, reader.checkpoint.step)
        steps: list[Tensor] = []
        probes: list[Tensor] = []
        for number in range(count):
            records = poisson_batch(stream, n_records, 1.0 / task.steps_per_epoch)
            weights = [torch.ones(len(records), dtype=torch.float64)]
            if number < PROBES:
                weights.append(
                    torch.from_numpy(
                        stream.integers(
                            0,
                            2,
                            len(records),
                        )
                        * 2.0
                        - 1.0
                    )
                )
            sums = reader.sums(records, weights)
            plain, processed = sums.plain.double(), sums.processed.double()
            steps.append(torch.stack([plain[0], processed[0]]) / expected)
            if number < PROBES:
                own = weights[1].sum() / n_records
                centred = plain[1] - own * moments.total, processed[1] - own * moments.processed
                probes.append(torch.stack(centred))
        both, signed = (
            torch.stack(steps, 2),
            torch.stack(probes, 2),
        )  # [2, R, M, P] and [2, R, S, P]
        return [
            Batches(
                both[0, r],
                both[1, r],
                signed[0, r],
                signed[1, r],
                reader.unclipped(r),
            )
            for r in range(task.repeats)
        ]

    def _noise_norm(self, sampling: Sampling, parameters: int) -> Tensor:
        """Length of the noise on a mean over a group's part of the batch.

        Sigma s sqrt(P) / (q N_a), [K].
        """
        length = sampling.noise_std * sampling.n_public * parameters**0.5
        noise: Tensor = length / (self.records.shares * sampling.n_records)
        return noise


def batches_needed(pilot: Sequence[Mapping[str, Tensor]], parameters: int) -> int:
    """How many batches bring every group's direction and magnitude to the wanted standard errors.

    Those are a tenth of the part, or a hundredth of all parts together where that is more. The
    number depends on batches over which no expectation is taken, so that a lucky draw cannot end
    the drawing, which would bias the expectations; and on no clock, so that equal audits read
    alike.

    Args:
        pilot: Of each replicate, the terms over the pilot's batches, with ``r_noise``.
        parameters: P.

    Returns:
        8 to 64, or as few as 256 MiB of gradients leave room for.
    """
    wanted = float(LEAST)
    for terms in pilot:
        errors = torch.stack([terms[f"{name}_se"] for name in DRAWN])
        ratios = errors / wanted_errors(terms)
        known = ratios[
            errors > 0
        ]  # an error of 0 needs no more, and one that is not known says nothing
        if len(known):
            wanted = max(wanted, *(PILOT * known**2).tolist())
    room = MOST_BYTES // (2 * 8 * parameters * len(pilot))
    return max(LEAST, min(math.ceil(min(wanted, MOST)), room))


def wanted_errors(terms: Mapping[str, Tensor]) -> Tensor:
    """Wanted standard errors of direction and magnitude, [2, K + 1].

    Of ``terms`` with ``r_noise``.
    """
    parts = torch.stack([terms[name].abs() for name in (*DRAWN, "r_noise")])
    return torch.maximum(OF_PART * parts[:2], OF_ALL * parts.sum(0))


def _angles(batches: Batches, means: Means) -> dict[str, Tensor]:
    """Mean cosines and norms over the batches.

    Group gradients are those of the whole training split.
    """
    group = means.group[:-1]
    before, after = (
        cosine(v.unsqueeze(1), group) for v in (batches.plain, batches.clipped)
    )  # [M, K]
    return {
        "cos_before": before.nanmean(0),
        "cos_after": after.nanmean(0),
        "angle_turned": (after.arccos() - before.arccos()).nanmean(0).rad2deg(),
        "cos_batch": cosine(batches.plain, batches.clipped).nanmean().unsqueeze(0),
        "shrinkage": batches.shrinkage.mean().unsqueeze(0),
        "norm_group_mean": group.norm(dim=1),
    }


def stratified(
    groups: Tensor,
    n_groups: int,
    count: int,
    seed: int,
) -> Tensor:
    """At most ``count`` record numbers, as many of each group as there are, ascending.

    Args:
        groups: Of every record, [N].
        n_groups: K.
        count: How many.
        seed: Audit seed.
    """
    stream = numpy_stream(seed, "probe", "records")
    left, chosen = count, []
    sizes = torch.bincount(groups, minlength=n_groups)
    for place, group in enumerate(torch.argsort(sizes, stable=True).tolist()):
        members = torch.nonzero(groups == group).squeeze(1).numpy()
        take = min(len(members), left // (n_groups - place))
        chosen.append(
            torch.from_numpy(
                stream.choice(
                    members,
                    take,
                    replace=False,
                )
            )
        )
        left -= take
    return torch.cat(chosen).sort().values
