"""What was measured: estimates with intervals, gaps, the reference's check and training curves."""

from typing import Literal

from pydantic import Field

from fairaudit.report.decomposition import Curve, Decomposition
from fairaudit.report.facts import Part
from fairaudit.report.numbers import Figure, HighEnd, LowEnd

UNDERTRAINED_BY = 0.01  # accuracy below the yardstick from which costs cannot be read


class EstimateRecord(Part):
    """A mean over seeds with its 95 % interval; undefined is None with a reason, never 0."""

    value: Figure | None
    low: LowEnd | None
    high: HighEnd | None
    training_sd: Figure | None
    records_sd: Figure | None
    n_seeds: int
    n_test: int | None
    unit: str
    reason: str
    by_seed: tuple[Figure | None, ...]


class GroupRecord(Part):
    """One group's estimates in one comparison.

    ``gated`` says whether gates read the group at all; ``ungated`` names the metrics that they do
    not read all the same, with the reason. ``unpredicted`` counts rows that given predictions lack,
    None where the count is suppressed; no gate about such a group passes.
    """

    group: str
    n_test: int | None
    n_train: Figure | None
    gated: bool
    reason: str
    estimates: dict[str, EstimateRecord]
    ungated: dict[str, str] = Field(default_factory=dict)
    unpredicted: int | None = 0


class GapRecord(Part):
    """A difference between groups.

    ``shuffle_p`` is descriptive: no gate reads it.
    ``named``: a pair that was asked for before training (``compare``), so its own interval holds.
    """

    metric: str
    kind: Literal["pair", "population", "max", "mean"]
    a: str
    b: str
    signed: EstimateRecord
    absolute: EstimateRecord
    simultaneous: EstimateRecord
    direction: str
    minimum_detectable: Figure | None
    rows_needed: int | None
    seeds_needed: int | None
    shuffle_p: Figure | None
    gated: bool
    reason: str
    named: bool = False


class ComparisonRecord(Part):
    """One arm against its reference, cut by one grouping."""

    arm: str
    reference: str
    grouping: str
    estimand: str
    overall: GroupRecord
    by_group: tuple[GroupRecord, ...]
    gaps: tuple[GapRecord, ...]
    worst: dict[str, str]

    def note_on(self, group: GroupRecord) -> str:
        """Why this group is not gated, where the reason is its own and not the whole audit's."""
        return "" if group.gated or group.reason == self.overall.reason else group.reason


class Selection(Part):
    """How often one arm gives the favourable outcome, and impact ratios.

    ``reference``: the group that the ratios divide by, most selected of those with enough test rows.
    """

    arm: str
    grouping: str
    favourable: str | None
    rate: dict[str, Figure | None]
    impact_ratio: dict[str, Figure | None]
    reference: str | None
    excluded: tuple[str, ...]
    reason: str


class Yardstick(Part):
    """Whether the non-private reference learned what a standard library's model learns.

    Accuracies are fractions on the test rows, means over seeds.
    """

    arm: str
    reference_accuracy: Figure | None
    yardstick: str
    yardstick_accuracy: Figure | None
    undertrained: bool | None
    n_seeds: int
    reason: str

    @property
    def reading(self) -> str:
        """Where the reference stands beside the other model, in words; "" where either is not known."""
        if self.reference_accuracy is None or self.yardstick_accuracy is None:
            return ""
        if self.undertrained:
            return "**reference undertrained**, costs cannot be read"
        above = self.reference_accuracy - self.yardstick_accuracy
        return f"{100 * above:.1f} points above it" if above > UNDERTRAINED_BY else "within one point"


class Reading(Part):
    """What a method's own diagnostic found after training: mean over seeds, ``values[column]``.

    ``columns`` are groups, or say what each value is; one empty name for a single number.
    """

    name: str
    meaning: str
    columns: tuple[str, ...]
    values: tuple[Figure | None, ...]
    by_seed: tuple[tuple[Figure | None, ...], ...]


class Claim(Part):
    """A claim of a paper and the share of this audit's seeds at which it held."""

    statement: str
    source: str
    arms: tuple[str, ...]
    share: Figure
    n_seeds: int


class Diagnostics(Part):
    """Readings of the training itself, by arm; exact functions of raw data, not private."""

    level: str
    arms: dict[str, tuple[Curve, ...]]
    readings: dict[str, tuple[Reading, ...]]
    claims: tuple[Claim, ...]
    decomposition: Decomposition | None = None
