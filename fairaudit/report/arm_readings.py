"""What the finished seeds of one arm read at their checkpoints."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.metrics.intervals import quantiles
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.decomposition import OverSeeds
from fairaudit.report.series import nan_mean
from fairaudit.report.summary import MisalignmentSummary
from fairaudit.results.estimates import Interval
from fairaudit.results.jobs import Array, JobResult

Float64 = NDArray[np.float64]

PREFIX = "cause."
STEPS = "cause_steps"
ANGLE = "angle_turned"


@dataclass(frozen=True, slots=True)
class ArmReadings:
    """One arm's readings, mean over the repeats of each seed.

    Args:
        steps: Checkpoints, [C].
        total_steps: T.
        seeds: Of the finished jobs, [S].
        values: Name -> [S, C, ...]; NaN is unknown.
        hessian_records: That curvature was read from, at the first seed.
    """

    steps: tuple[int, ...]
    total_steps: int
    seeds: tuple[int, ...]
    values: Mapping[str, Float64]
    hessian_records: int

    @property
    def has_terms(self) -> bool:
        """Whether steps were split into parts; those of a plain reference are not."""
        return "r_direction" in self.values

    @property
    def _weights(self) -> Float64:
        """Of each checkpoint in a mean over all steps of the training, by trapezoids between them, [C]."""
        between = np.diff(np.asarray(self.steps, dtype=np.float64)) / 2
        # Every step stands for itself; the last kept one stands for all that follow it.
        ends = np.array([0.5, 0.5 + self.total_steps - 1 - self.steps[-1]])
        weights: Float64 = np.append(between, ends[1]) + np.append(ends[0], between)
        return weights / self.total_steps

    def per_step(self, name: str) -> Float64:
        """Mean of a series over all steps of the training, [S, ...]."""
        mean: Float64 = np.einsum("c,sc...->s...", self._weights, self.values[name])
        return mean

    def error(self, name: str, kind: str = "se") -> Float64:
        """Standard error over drawn batches of the mean over seeds of :meth:`per_step`, [...].

        Batches are drawn anew for each checkpoint and seed. ``kind`` ``wanted``: what it would be, had each
        step reached the error that its number of batches was to bring.
        """
        squares = np.einsum("c,sc...->s...", self._weights**2, self.values[f"{name}_{kind}"] ** 2)
        return np.asarray(nan_mean(squares) / len(squares)) ** 0.5

    def averaged(self, name: str) -> Float64:
        """Mean over the checkpoints at which it is known, [S, ...]."""
        return nan_mean(np.moveaxis(self.values[name], 1, 0))


def arm_readings(plan: Plan, arm: Arm, results: Mapping[str, JobResult]) -> ArmReadings | None:
    """What the finished seeds of an arm read at their checkpoints; None where none did."""
    jobs = [job for job in plan.jobs if job.arm == arm.key and job.id in results]
    holders = [(job, results[job.id].arrays) for job in jobs if STEPS in results[job.id].arrays]
    if not holders:
        return None
    names = [key for key in holders[0][1] if key.startswith(PREFIX)]
    facts = results[holders[0][0].id].facts["causes"]
    assert isinstance(facts, Mapping)
    return ArmReadings(
        steps=tuple(int(step) for step in np.asarray(holders[0][1][STEPS])),
        total_steps=plan.schedule.steps,
        seeds=tuple(job.seed for job, _ in holders),
        values={
            name.removeprefix(PREFIX): np.stack([_over_repeats(arrays[name]) for _, arrays in holders])
            for name in names
        },
        hessian_records=int(facts["hessian_records"]),
    )


def misalignment(found: ArmReadings, names: Sequence[str], hidden: Collection[str]) -> MisalignmentSummary:
    """How far clipping turns the step from each group's gradient, in degrees.

    Args:
        found: The readings, with ``ANGLE``.
        names: Groups.
        hidden: Suppressed ones.
    """
    angles = found.averaged(ANGLE)  # [S, K]
    shown = [k for k, name in enumerate(names) if name not in hidden and np.isfinite(angles[:, k]).any()]
    groups = {names[k]: over_seeds(angles[:, k]) for k in shown}
    return MisalignmentSummary(
        groups={name: Interval(value=e.value, low=e.low, high=e.high) for name, e in groups.items()},
        most=_most([names[k] for k in shown], angles[:, shown]),
    )


def _most(names: Sequence[str], angles: Float64) -> str:
    """The group whose angle is above every other's at paired seeds, by intervals that hold for all pairs."""
    seeds, count = angles.shape
    if count < 2 or seeds < 2 or not np.isfinite(angles).all():
        return ""
    top = int(angles.mean(0).argmax())
    above = angles[:, [top]] - np.delete(angles, top, axis=1)  # [S, K - 1]
    level = 1 - 0.025 / (count * (count - 1) / 2)
    half = quantiles(level, seeds - 1)[0] * above.std(0, ddof=1) / seeds**0.5
    return names[top] if bool((above.mean(0) > half).all()) else ""


def _over_repeats(series: Array) -> Float64:
    """[C, R, ...] -> [C, ...]."""
    return nan_mean(np.moveaxis(np.asarray(series, dtype=np.float64), 1, 0))


def over_seeds(
    values: Sequence[float | None] | Float64, *, is_share: bool = False, many: int = 1
) -> OverSeeds:
    """Mean and 95 % interval of the mean over seeds; no interval below two known values.

    Args:
        values: Of each seed.
        is_share: They lie between 0 and 1, and so do the ends of the interval.
        many: How many figures share the 5 % (Bonferroni), of which a sentence picks.
    """
    values = np.array(values, dtype=np.float64)  # None is NaN
    known = [float(v) for v in values if np.isfinite(v)]
    by_seed = tuple(float(v) if np.isfinite(v) else None for v in values)
    if not known:
        return OverSeeds(value=None, low=None, high=None, by_seed=by_seed)
    mean = float(np.mean(known))
    if len(known) < 2:
        return OverSeeds(value=mean, low=None, high=None, by_seed=by_seed)
    t = quantiles(1 - 0.025 / many, len(known) - 1)[0]
    half = t * float(np.std(known, ddof=1)) / len(known) ** 0.5
    low, high = mean - half, mean + half
    if is_share:
        low, high = max(0.0, low), min(1.0, high)
    return OverSeeds(value=mean, low=low, high=high, by_seed=by_seed)
