"""Numbers with their uncertainty.

What ``metrics`` makes, a report holds, and gates and renderers read.

They leave the program at six significant digits, with bounds never tighter than they are.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_validator

DIGITS = 6  # significant decimal digits of every stored number


def rounded(value: float) -> float:
    """The nearest number of six significant digits."""
    return _to_digits(value, ROUND_HALF_EVEN)


def rounded_down(value: float) -> float:
    """The largest number of six significant digits that is not above ``value``."""
    return _to_digits(value, ROUND_FLOOR)


def rounded_up(value: float) -> float:
    """The smallest number of six significant digits that is not below ``value``."""
    return _to_digits(value, ROUND_CEILING)


def _to_digits(value: float, rounding: str) -> float:
    """The value at ``DIGITS`` significant decimal digits, rounded in the given direction."""
    if value == 0:
        return 0.0
    # repr, not the binary value: a number that was rounded before must come back unchanged.
    exact = Decimal(repr(value))
    step = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)
    return float(exact.quantize(step, rounding=rounding))


Figure = Annotated[
    float,
    PlainSerializer(
        rounded,
        return_type=float,
        when_used="json",
    ),
]
LowEnd = Annotated[
    float,
    PlainSerializer(
        rounded_down,
        return_type=float,
        when_used="json",
    ),
]
HighEnd = Annotated[
    float,
    PlainSerializer(
        rounded_up,
        return_type=float,
        when_used="json",
    ),
]
EpsilonFigure = Annotated[
    float,
    PlainSerializer(
        rounded_up,
        return_type=float,
        when_used="json",
    ),
]


class Part(BaseModel):
    """A piece of a report: immutable, closed, without NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Reading = Literal["difference detected", "within tolerance", "at most", "cannot tell"]


def read_size(
    low: LowEnd | None,
    high: HighEnd | None,
    limit: float | None = None,
) -> Reading:
    """Read the 95 % interval of a size, which is nowhere below 0.

    Args:
        low, high: Its ends; None where there is no honest interval.
        limit: The largest size that was said to be tolerable, None where nobody said.

    Returns:
        ``difference detected`` where the interval excludes 0, also where it lies inside the limit;
        ``within tolerance`` where it includes 0 and lies inside the limit; ``at most`` its upper
        end where no limit was given; else ``cannot tell``.
    """
    if low is None or high is None:
        return "cannot tell"
    if low > 0:
        return "difference detected"
    if limit is None:
        return "at most"
    if high <= limit:
        return "within tolerance"
    return "cannot tell"


Way = Literal["default"]
DEFAULT: Final = "default"


def key_of(arm: str, way: str) -> str:
    """The name of an arm on that way, as variants are named: ``dpsgd:default@3`` of ``dpsgd@3``.

    The way "" is the audit's own arm, which keeps its name.
    """
    method, at, epsilon = arm.partition("@")
    if way:
        return f"{method}:{way}{at}{epsilon}"
    return arm


NOT_FINITE = "not a finite number"


class Ends(NamedTuple):
    """Two ends of an interval, the lower first."""

    low: float
    high: float


class Interval(Part):
    """A number with the ends of its 95 % interval.

    Args:
        value: None where it is undefined.
        low, high: None where there is no honest interval.
    """

    value: Figure | None
    low: LowEnd | None
    high: HighEnd | None

    @property
    def ends(self) -> Ends | None:
        """Both ends, or None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return Ends(self.low, self.high)

    @property
    def is_exact(self) -> bool:
        """A number without uncertainty.

        An epsilon, or the most selected group's impact ratio of 1.
        """
        return self.value is not None and self.low == self.value == self.high

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and zero lies outside it."""
        return self.ends is not None and not self.ends[0] <= 0.0 <= self.ends[1]

    def scaled(self, factor: float) -> "Interval":
        """The number and its interval in another unit; one end alone is no interval."""
        if self.value is None:
            return NOTHING
        if self.ends is None:
            return Interval(
                value=factor * self.value,
                low=None,
                high=None,
            )
        low, high = sorted(factor * end for end in self.ends)
        return Interval(
            value=factor * self.value,
            low=low,
            high=high,
        )


NOTHING = Interval(value=None, low=None, high=None)


def interval_of(number: Interval | None) -> Interval:
    """The number and its interval and nothing else, whatever more is known of it."""
    if number is None:
        return NOTHING
    return Interval(
        value=number.value,
        low=number.low,
        high=number.high,
    )


class Estimate(Interval):
    """A mean over seeds with its 95 % interval; undefined is None with a reason, never 0.

    Args:
        training_sd: sqrt(V_seed), what differs between seeds: training, and test rows where each
            seed has its own.
        records_sd: sqrt(V_shared), the test records that seeds share.
        n_seeds: Seeds behind it.
        n_test: Distinct test records behind it.
        unit: ``fraction``, ``nats``, ``ratio``.
        reason: Why there is no value or no interval, or "". A number with a reason is shown and
            never gated.
        by_seed: The per-seed values, ``()`` where there are none.
        conservative_sd: sqrt(V_rec), the test records with what of them is in ``training_sd`` too:
            for decisions that must hold their level where seeds are skewed. No report's file holds
            it.
        own_records_sd: sqrt(V_own), what of test records is in ``training_sd``. No report's file
            holds it.
    """

    training_sd: Figure | None
    records_sd: Figure | None
    n_seeds: int
    n_test: int | None
    unit: str
    reason: str
    by_seed: tuple[Figure | None, ...]
    conservative_sd: Figure | None = Field(default=None, exclude=True)
    own_records_sd: Figure | None = Field(default=None, exclude=True)


def estimated(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    training_sd: float | None,
    records_sd: float | None,
    n_seeds: int,
    n_test: int,
    unit: str,
    reason: str = "",
    by_seed: Iterable[float] = (),
    conservative_sd: float | None = None,
    own_records_sd: float | None = None,
) -> Estimate:
    """The estimate of figures as they were computed.

    One that is not finite is undefined, and says so.

    Arguments are the fields of :class:`Estimate`.
    """
    value, low, high = finite(value), finite(low), finite(high)
    is_bounded = value is not None and low is not None and high is not None
    return Estimate(
        value=value,
        low=low if is_bounded else None,
        high=high if is_bounded else None,
        training_sd=finite(training_sd),
        records_sd=finite(records_sd),
        n_seeds=n_seeds,
        n_test=n_test,
        unit=unit,
        reason=NOT_FINITE if value is None and not reason else reason,
        by_seed=tuple(map(finite, by_seed)),
        conservative_sd=finite(conservative_sd),
        own_records_sd=finite(own_records_sd),
    )


def undefined(
    reason: str,
    unit: str,
    n_test: int | None = 0,
) -> Estimate:
    """A number that does not exist, and why."""
    return Estimate(
        value=None,
        low=None,
        high=None,
        training_sd=None,
        records_sd=None,
        n_seeds=0,
        n_test=n_test,
        unit=unit,
        reason=reason,
        by_seed=(),
    )


def finite(value: float | None) -> float | None:
    """The number, or None where it is not finite."""
    if value is not None and math.isfinite(value):
        return float(value)
    return None


class GroupMeasure(Part):
    """One group's numbers in one comparison.

    Args:
        group: Its name, "" for all test rows.
        n_test: Distinct tested records, None where they are suppressed.
        n_train: Training records, mean over seeds, None where they are suppressed.
        gated: Whether gates and maxima may read it at all.
        reason: Why not.
        estimates: metric -> Estimate. Keys: ``privacy_cost`` (accuracy lost), ``excess_risk``
            (loss gained), then ``M`` and ``reference.M`` for every other metric M
            (``metrics.registry``); with twins every cost in parts, ``privacy_cost.clipping``,
            ``privacy_cost.noise`` (``registry.PARTS``), and where
            the training classes are known ``privacy_cost.constant``, ``excess_risk.constant``:
            against the model that predicts their shares for everybody. Without a favourable class
            the rates are per class, ``tpr[2]`` for class 2, and the plain keys carry the reason.
        ungated: Metrics that gates do not read though the group is large enough: why.
        unpredicted: Rows that given predictions lack, None where the count is suppressed; no gate
            about such a group passes.
    """

    group: str
    n_test: int | None
    n_train: Figure | None
    gated: bool
    reason: str
    estimates: dict[str, Estimate]
    ungated: dict[str, str] = Field(default_factory=dict)
    unpredicted: int | None = 0

    def value(self, metric: str) -> float | None:
        """Its number of that metric, None where it is not known."""
        estimate = self.estimates.get(metric)
        if estimate is None:
            return None
        return estimate.value


class ClassShare(Part):
    """A class that a group is predicted as less than a fifth as often as by the reference.

    Args:
        group: Its name.
        answer: Index of the class.
        private, reference: Share of the group's rows that is predicted as it, by both models.
        kept: ``private - reference / 5``, below 0.
        given: How many classes either model predicts anybody of the group as.
        looked_at: How many groups and classes were looked at.
        is_lost: Whether the share is told to be below a fifth of one that is told to be above 0, by
            intervals that hold for all that the report judges together; None where that was not
            judged. Once it was, the intervals are those.
        rows_needed: Test rows of the group that would tell, about; None where it is told, and
            without an interval.
    """

    group: str
    answer: int
    private: Estimate
    reference: Estimate
    kept: Estimate
    given: int
    looked_at: int
    is_lost: bool | None = None
    rows_needed: int | None = None


class Gap(Part):
    """A difference between groups.

    Args:
        metric: ``privacy_cost``, ``excess_risk``, or a within-model metric M or ``reference.M`` or
            ``change.M`` (how much privacy widens the within-model gap).
        kind: ``pair`` (a against b), ``population`` (a against all; xi_a for excess_risk),
            ``max`` (largest minus smallest).
        a, b: Group names; for ``max`` the pair that attains it, the larger value first; b is ""
            for ``population``.
        signed: value_a - value_b.
        absolute: |signed| after averaging, with its interval.
        simultaneous: absolute with Bonferroni quantiles over the K(K-1)/2 pairs; equals
            absolute for two groups.
        direction: ``worse for F`` in words, or "" where the sign is not resolved: among all pairs,
            or by the gap's own interval where the pair was named beforehand.
        minimum_detectable: Gap this audit would find with power .80, same unit; None if S = 1.
        gated, reason: As for a group.
        named: A pair that was asked for before training (``compare``), so its own interval holds.
        detected: Of a cost: whether a sentence may say that a and b differ, by an interval that
            holds for all that the report judges together; None where that was not judged.
        joint_high: Where it is not detected, how large it may be, by that interval.
        limit: The largest size that a rule allows, same unit; None where no rule says.
        reading: What the interval of its size says, see :func:`read_size`.
    """

    metric: str
    kind: Literal["pair", "population", "max"]
    a: str
    b: str
    signed: Estimate
    absolute: Estimate
    simultaneous: Estimate
    direction: str
    minimum_detectable: Figure | None
    gated: bool
    reason: str
    named: bool = False
    detected: bool | None = None
    joint_high: HighEnd | None = None
    limit: Figure | None = None
    reading: Reading = "cannot tell"

    @property
    def size(self) -> Estimate:
        """Its size with the interval that the word beside it rests on.

        Where it is not detected and no rule limits it, that is the interval of all that the report
        judges together; else that of all pairs, or its own where it was named beforehand.
        """
        number = self.absolute if self.named else self.simultaneous
        if self.detected is False and self.joint_high is not None and self.limit is None:
            return number.model_copy(update={"low": 0.0, "high": self.joint_high})
        return number

    def revised(self, **changed: object) -> "Gap":
        """The gap with these fields, read anew."""
        gap = self.model_copy(update=changed)
        return gap.model_copy(update={"reading": gap._read()})

    @model_validator(mode="after")
    def _is_read(self) -> "Gap":
        # The model is frozen, and a reading that a file holds is not believed: it is made anew.
        object.__setattr__(self, "reading", self._read())
        return self

    def _read(self) -> Reading:
        """What the interval of the gap's size says beside the limit.

        A gap that gates may not read says ``difference detected`` or ``cannot tell``.
        """
        size = self.size
        low = size.low
        if self.detected is False and low is not None:
            # The gap's own interval may exclude 0 where the joint one of all gaps does not: then no
            # difference is detected.
            low = 0.0
        reading = read_size(low, size.high, self.limit)
        if self.gated or reading == "difference detected":
            return reading
        return "cannot tell"


class Comparison(Part):
    """One arm against its reference, cut by one grouping.

    Args:
        arm, reference: Arm keys; a reference by itself has no reference.
        grouping: Grouping name.
        estimand: What the intervals are about, in words.
        overall: The same estimates over all test rows.
        by_group: One entry per group, absent groups included.
        gaps: pairs, population and max gaps of every metric.
        doubtful: Classes that a group may have lost.
        paid: Costs over all rows that are told to be above 0, by an interval that holds for all
            that the report judges together.
    """

    arm: str
    reference: str
    grouping: str
    estimand: str
    overall: GroupMeasure
    by_group: tuple[GroupMeasure, ...]
    gaps: tuple[Gap, ...]
    doubtful: tuple[ClassShare, ...] = ()
    paid: tuple[str, ...] = ()

    def note_on(self, group: GroupMeasure) -> str:
        """Why this group is not gated, where the reason is its own and not the whole audit's."""
        if group.gated or group.reason == self.overall.reason:
            return ""
        return group.reason


class Measured(Comparison):
    """A comparison as it was measured, of small groups too.

    No report holds it before they are suppressed.

    Args:
        divided_by: Ratio -> name of the group whose value the others are divided by.
    """

    divided_by: dict[str, str] = Field(default_factory=dict)
