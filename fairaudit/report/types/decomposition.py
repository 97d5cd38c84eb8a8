"""Why a group pays, in the report's types: parts of its excess risk, bounds, claims."""

from typing import Literal

from pydantic import Field

from fairaudit.results.estimates import Figure, Interval, Part

STEP_PARTS = ("direction", "magnitude_effective", "noise")  # which sum to a step's loss increase
# A curve of the mean length of a batch's gradient, and its columns.
BATCH_NORM, CLIPPINGS = "batch_norm", ("before clipping", "after clipping")


class Curve(Part):
    """One diagnostic over training: mean over seeds and repeats, ``values[observation][column]``.

    ``columns`` are the groups of the first grouping, ``CLIPPINGS`` for a length of whole batches,
    or one empty name for another whole-batch number.
    """

    name: str
    steps: tuple[int, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[Figure | None, ...], ...]


class OverSeeds(Interval):
    """A mean over seeds and a 95 % interval of that mean over the seeds; None is unknown, never 0.

    The seeds share records, so the interval says how steady the figure is, not how true of others.
    """

    by_seed: tuple[Figure | None, ...]


class GroupCauses(Part):
    """One group under one arm.

    Args:
        group: Its name.
        parts: Nats per step, means over the training's steps: direction, magnitude_effective and
            noise, then magnitude as published, clip (in closed form), and the other split of
            clipping, direction_star and magnitude_star, which turns first.
        statistics: Means over the checkpoints: ``angle_turned`` (degrees), ``clipped_share``,
            ``excess_norm`` (the clipping bias, mean max(0, ||g|| - C)), ``noise_norm`` (about
            the length of the noise on a step's sum, divided by the expected number of the group's
            records in a batch), ``hessian_trace``, ``eigenvalue_largest`` and
            ``eigenvalue_smallest`` of the group's Hessian, ``mean_closeness`` (of a record to the
            decision boundary), ``mean_input_norm``.
    """

    group: str
    parts: dict[str, OverSeeds]
    statistics: dict[str, OverSeeds]


class BoundRecord(Part):
    """A lower bound on how much more ``a`` than ``b`` pays, beside the truth.

    Args:
        name, source: Of the bound.
        a, b: The groups.
        bound: Mean over steps and seeds, in nats a step; for convex losses and steps of at most 1 /
            the largest eigenvalue.
        truth: The same mean of the difference itself, which ``bound`` is to stay below.
        agreement: Share of steps at which bound and truth have one sign.
        positive: Share of steps at which the bound says that ``a`` pays more.
        curved: The bound with the Hessians' largest eigenvalues, for convex losses and steps of any
            length; None of a bound as it was printed.
        assumption: Which assumption of ``bound`` is not met at how many of the checkpoints at which
            eigenvalues were looked for, in words; "" where all are.
        steps: The checkpoints.
        curves: ``bound``, ``curved`` and ``truth`` at each of them, means over seeds.
    """

    name: str
    source: str
    a: str
    b: str
    bound: Figure | None
    truth: Figure | None
    agreement: Figure | None
    positive: OverSeeds
    curved: Figure | None = None
    assumption: str = ""
    steps: tuple[int, ...] = ()
    curves: dict[str, tuple[Figure | None, ...]] = Field(default_factory=dict)


class RankCorrelation(Interval):
    """Spearman's rank correlation of two readings over the records of a group.

    ``value``, ``low`` and ``high`` are means over seeds and checkpoints, the ends of 95 % intervals
    by resampling the records.

    Args:
        between: Names of the two readings.
        group: "" for all records.
    """

    between: tuple[str, str]
    group: str


class Agreement(OverSeeds):
    """Share of the pairs of groups in which the one with the larger reading has the larger cost.

    Args:
        reading: Name of the statistic of groups.
        cost: Name of the cost that it is held against.
    """

    reading: str
    cost: str


class ArmCauses(Part):
    """What one arm's training did to each group; ``reason`` says why there is nothing.

    ``curves`` are readings by group at the checkpoints, among them ``eta_lambda``, the step's
    length times the largest eigenvalue of the group's Hessian.
    """

    reason: str
    groups: tuple[GroupCauses, ...] = ()
    bounds: tuple[BoundRecord, ...] = ()
    curves: tuple[Curve, ...] = ()
    correlations: tuple[RankCorrelation, ...] = ()
    agreements: tuple[Agreement, ...] = ()


class SignClaim(Part):
    """A claim of a paper as the sign of one number, and whether this audit bears it out.

    ``found`` is the mean over the seeds; its interval allows for all claims of the report at once,
    and says how steady the mean is in this file, not how true of others. The claim ``holds`` or
    ``fails`` where that interval lies on one side of zero.
    """

    statement: str
    source: str
    expected: Literal["+", "-"]
    found: OverSeeds
    verdict: Literal["holds", "fails", "cannot tell"]


class Decomposition(Part):
    """Readings of checkpoints; exact functions of raw data, internal, not private."""

    steps: int
    optimizer: str
    arms: dict[str, ArmCauses]
    claims: tuple[SignClaim, ...]
