"""What finished trainings recorded of themselves: curves, readings at checkpoints, their means.

S is the number of seeds, R of repeats (private runs of one seed), C of checkpoints (the steps at
which ``--diagnostics full`` keeps parameters and reads them afterwards). NaN is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.quantiles import quantiles
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.types.decomposition import Curve, OverSeeds
from fairaudit.results.estimates import finite
from fairaudit.results.jobs import Array, JobResult

MAX_OBSERVATIONS = 60  # of a longer curve, means over windows

Float64 = NDArray[np.float64]
PREFIX = "cause."  # of the names of a job's arrays that were read at checkpoints
STEPS = "cause_steps"  # the array of the checkpoints' steps


def curve(name: str, steps: Sequence[int], columns: Sequence[str], by_seed: Float64) -> Curve:
    """The curve of a reading over training: its mean over seeds at each step.

    A long one becomes means over ``MAX_OBSERVATIONS`` windows of steps, each at its mean step.

    Args:
        name: Of the reading.
        steps: At which it was taken, [T_obs]; at least one.
        columns: Names of the numbers that are read at one step, [columns].
        by_seed: [S, T_obs, columns].
    """
    windows = np.array_split(np.arange(len(steps)), min(len(steps), MAX_OBSERVATIONS))
    values, centres = [], []
    for window in windows:
        of_seeds = nan_mean(by_seed[:, window].swapaxes(0, 1))  # over the window, [S, columns]
        values.append(tuple(map(finite, nan_mean(of_seeds))))
        centres.append(round(float(np.mean([steps[i] for i in window]))))
    return Curve(name=name, steps=tuple(centres), columns=tuple(columns), values=tuple(values))


def nan_mean(values: Float64) -> Float64:
    """Mean over the first axis of what is finite, [S, ...] -> [...]; NaN where none is finite."""
    finite = np.isfinite(values)
    count = finite.sum(0)
    total = np.where(finite, values, 0.0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


@dataclass(frozen=True, slots=True)
class ArmReadings:
    """One arm's readings, mean over the repeats of each seed.

    Args:
        steps: The checkpoints' steps, [C].
        total_steps: Steps of the whole training.
        seeds: Of the finished jobs, [S].
        values: Name of a reading -> [S, C, ...].
    """

    steps: tuple[int, ...]
    total_steps: int
    seeds: tuple[int, ...]
    values: Mapping[str, Float64]

    @property
    def has_terms(self) -> bool:
        """Whether a step's loss increase was split into parts; a plain reference's is not."""
        return "r_direction" in self.values

    @property
    def _weights(self) -> Float64:
        """A checkpoint's weight in a mean over all steps, by the trapezoidal rule, [C], sum 1."""
        between = np.diff(np.asarray(self.steps, dtype=np.float64)) / 2
        # Half a step at either end, so that the weights cover whole steps; the last checkpoint
        # stands for all steps that follow it. Steps are counted from 0, and the first is kept.
        at_start, at_end = 0.5, 0.5 + self.total_steps - 1 - self.steps[-1]
        # Of each checkpoint: half of the steps since the one before, and half of those to the next.
        weights: Float64 = np.append(at_start, between) + np.append(between, at_end)
        return weights / self.total_steps

    def per_step(self, name: str) -> Float64:
        """The reading's mean over all steps of the training, [S, ...]."""
        mean: Float64 = np.einsum("c,sc...->s...", self._weights, self.values[name])
        return mean

    def averaged(self, name: str) -> Float64:
        """The reading's plain mean over the checkpoints at which it is known, [S, ...]."""
        return nan_mean(np.moveaxis(self.values[name], 1, 0))


def finished(plan: Plan, arm: str, results: Mapping[str, JobResult]) -> dict[int, JobResult]:
    """Seed -> result of an arm's job, in the plan's order; a seed without a result is left out.

    Args:
        plan: Holds the jobs.
        arm: Key of the arm.
        results: Job id -> result.
    """
    return {job.seed: results[job.id] for job in plan.jobs if job.arm == arm and job.id in results}


def arm_readings(plan: Plan, arm: Arm, results: Mapping[str, JobResult]) -> ArmReadings | None:
    """What was read at the checkpoints of an arm's finished trainings; None where nothing was.

    Args:
        plan: Holds the jobs.
        arm: The arm.
        results: Job id -> result.
    """
    read = {seed: r for seed, r in finished(plan, arm.key, results).items() if STEPS in r.arrays}
    if not read:
        return None
    first = next(iter(read.values()))  # all seeds have the same checkpoints and readings
    values = {}
    for name in first.arrays:
        if name.startswith(PREFIX):
            of_seeds = [over_repeats(result.arrays[name]) for result in read.values()]
            values[name.removeprefix(PREFIX)] = np.stack(of_seeds)
    return ArmReadings(
        steps=tuple(int(step) for step in np.asarray(first.arrays[STEPS])),
        total_steps=plan.training.steps,
        seeds=tuple(read),
        values=values,
    )


def over_repeats(series: Array) -> Float64:
    """Mean of a series over the repeats of one seed, [C, R, ...] -> [C, ...]."""
    return nan_mean(np.moveaxis(np.asarray(series, dtype=np.float64), 1, 0))


def over_seeds(
    values: Sequence[float | None] | Float64, *, is_share: bool = False, n_joint: int = 1
) -> OverSeeds:
    """The mean over seeds with its 95 % interval; no interval below two known values.

    The interval is ``mean +- t sd / sqrt(S)`` over the S known values, with t Student's quantile at
    S - 1 degrees of freedom and 1 - 0.025 / n_joint. It holds nothing of test records: what is read
    here is read of training rows.

    Args:
        values: One for each seed; None or NaN is unknown.
        is_share: Whether the values lie between 0 and 1; the interval is then cut there.
        n_joint: How many figures share the 5 % (Bonferroni), so that any may be singled out.
    """
    values = np.array(values, dtype=np.float64)  # None is NaN
    defined = values[np.isfinite(values)]
    mean, low, high = known_mean(defined), None, None
    if mean is not None and len(defined) > 1:
        t, _ = quantiles(1 - 0.025 / n_joint, len(defined) - 1)
        half = t * float(np.std(defined, ddof=1)) / len(defined) ** 0.5
        low, high = mean - half, mean + half
        if is_share:
            low, high = max(0.0, low), min(1.0, high)
    return OverSeeds(value=mean, low=low, high=high, by_seed=tuple(map(finite, values)))


def known_mean(values: Float64) -> float | None:
    """Mean over all finite entries of an array of any shape; None where there is none."""
    defined = values[np.isfinite(values)]
    if len(defined):
        return float(defined.mean())
    return None
