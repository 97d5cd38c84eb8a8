"""Why a group pays, in the report's types: parts of its excess risk, bounds, claims."""

from typing import Literal

from fairaudit.results.estimates import Figure, Interval, Part

STEP_PARTS = ("direction", "magnitude_effective", "noise")  # which sum to a step's loss increase


class Curve(Part):
    """One diagnostic over training: mean over seeds and repeats, ``values[observation][column]``.

    ``columns`` are the groups of the first grouping, or one empty name for a whole-batch number.
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

    ``parts`` are nats per step, means over the training's steps: direction, magnitude_effective and
    noise, then magnitude as published and clip (in closed form). ``statistics`` are means over the
    checkpoints.
    """

    group: str
    parts: dict[str, OverSeeds]
    statistics: dict[str, OverSeeds]


class BoundRecord(Part):
    """A lower bound on how much more ``a`` than ``b`` pays, beside the truth.

    Means over steps and seeds.

    ``agreement`` is the share of steps at which bound and truth have one sign, ``positive`` that at
    which the bound says that ``a`` pays more.
    """

    name: str
    source: str
    a: str
    b: str
    bound: Figure | None
    truth: Figure | None
    agreement: Figure | None
    positive: OverSeeds


class ArmCauses(Part):
    """What one arm's training did to each group; ``reason`` says why there is nothing."""

    reason: str
    groups: tuple[GroupCauses, ...] = ()
    bounds: tuple[BoundRecord, ...] = ()


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
