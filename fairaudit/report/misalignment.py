"""How the steps of a private training were read, and what was read at each checkpoint.

The means over checkpoints and seeds, with intervals, stand where all numbers of groups stand: in
``Comparison.by_group[..].estimates`` and ``Comparison.gaps``, under the names of
``metrics.registry.of_steps``. Readings are of the steps that were taken and of this file's training
rows; they are exact functions of raw data, not private.
"""

from fairaudit.results.estimates import Figure, Part


class GroupSteps(Part):
    """One group's readings over a training.

    Args:
        group: Its name; "" for all training rows.
        rows: Its training rows that were read at a checkpoint, in the mean over seeds; None where
            they are suppressed.
        undefined: Of how many (seed, checkpoint) pairs the angle is left out, because the group's
            gradient is no different from zero beside the chance of its rows.
        curves: Name of a reading (``metrics.registry.of_steps``) -> its mean over seeds and repeats
            at each of ``StepReadings.steps``; None where no seed has a value.
    """

    group: str
    rows: Figure | None
    undefined: int
    curves: dict[str, tuple[Figure | None, ...]]


class StepReadings(Part):
    """How the steps of one arm were read by one grouping.

    Args:
        arm, grouping: Which.
        reason: Why nothing was read, in words; "" where it was.
        method_readings: Where nothing was read: names of the readings in ``Diagnostics.readings``
            that say instead why this method's groups pay (PATE's flipped votes).
        steps: The checkpoints: numbers of the steps that were read, from 0.
        total_steps: Steps of the whole training.
        term_steps: The checkpoints among them at which the terms (direction, magnitude, noise) were
            read; fewer where their cost is too large.
        rows: Training rows that were read at a checkpoint, in the mean over seeds.
        train_rows: Training rows, in the mean over seeds.
        batches: Poisson batches behind the angles of a checkpoint.
        term_batches: Those behind the terms of a checkpoint, in the mean over checkpoints.
        seeds: Seeds that were read.
        groups: Of every group that is not suppressed and, last, of all training rows ("").
    """

    arm: str
    grouping: str
    reason: str = ""
    method_readings: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    total_steps: int = 0
    term_steps: tuple[int, ...] = ()
    rows: Figure | None = None
    train_rows: Figure | None = None
    batches: int = 0
    term_batches: Figure | None = None
    seeds: int = 0
    groups: tuple[GroupSteps, ...] = ()

    @property
    def is_sample(self) -> bool:
        """Whether a stratified sample of the training rows was read, not all of them."""
        return self.rows is not None and self.train_rows is not None and self.rows < self.train_rows

    @property
    def undefined(self) -> int:
        """How many angles are left out, in all groups at all pairs of a seed and a checkpoint.

        Those of all training rows, the group "", are among them.
        """
        return sum(group.undefined for group in self.groups)
