"""Numbers with their uncertainty, which ``metrics`` makes and reports, gates and renderers read.

They are stored at six significant digits, and intervals are never narrower than before rounding.

A comparison is one arm against its reference, cut by one grouping. A number of it is gated where
gates, which judge a report by rules, may read it: a group must be large enough for that. A number
has one interval, its own at 95 %. Whether a difference is detected is a test beside all others of
its arm, so a gap whose interval excludes zero need not be detected.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

DIGITS = 6  # significant decimal digits of every stored number


def rounded(value: float) -> float:
    """The nearest number of six significant digits; halves go to the even digit."""
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
    step = Decimal(1).scaleb(exact.adjusted() - DIGITS + 1)  # one in the last digit that is kept
    return float(exact.quantize(step, rounding=rounding))


# Floats by how they are rounded when they are stored: to the nearest number, as the ends of an
# interval (outward), and as an epsilon (up, for it is an upper bound).
Figure = Annotated[float, PlainSerializer(rounded, return_type=float, when_used="json")]
LowEnd = Annotated[float, PlainSerializer(rounded_down, return_type=float, when_used="json")]
HighEnd = Annotated[float, PlainSerializer(rounded_up, return_type=float, when_used="json")]
EpsilonFigure = Annotated[float, PlainSerializer(rounded_up, return_type=float, when_used="json")]


class Part(BaseModel):
    """A piece of a report: immutable, with no fields but its own, without NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# What a test says of a gap beside all others of its arm. "not certain": its own interval excludes
# zero, and the test, which allows for all comparisons, does not reject.
Reading = Literal["detected", "not certain", "not detected", "cannot tell", ""]


# A way is another training of an arm beside the audit's own: where settings are searched for, the
# arm is trained at its default settings, too.
Way = Literal["default"]
DEFAULT: Final = "default"


def key_of(arm: str, way: str) -> str:
    """The key of an arm on a way: ``dpsgd:default@3`` for ``dpsgd@3``, as variants are named.

    The way "" stands for the audit's own training of the arm, which keeps its key.
    """
    method, at, epsilon = arm.partition("@")
    if way:
        return f"{method}:{way}{at}{epsilon}"
    return arm


NOT_FINITE = "not a finite number"  # the reason of an estimate whose value was NaN or infinite


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
        """Both ends, or None where one is missing, for then there is no interval."""
        if self.low is None or self.high is None:
            return None
        return Ends(self.low, self.high)

    @property
    def is_exact(self) -> bool:
        """Whether the number has no uncertainty: both ends of its interval are the value itself.

        As of an epsilon, or of the most selected group's impact ratio, which is 1.
        """
        return self.value is not None and self.low == self.value == self.high

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and zero lies outside it."""
        return self.ends is not None and not self.ends[0] <= 0.0 <= self.ends[1]

    @property
    def size(self) -> "Interval":
        """Its absolute value; the interval reaches to the farther end, and to 0 where it holds 0.

        Example:
            >>> Interval(value=-0.05, low=-0.09, high=-0.01).size.ends
            Ends(low=0.01, high=0.09)
            >>> Interval(value=-0.05, low=-0.12, high=0.02).size.ends
            Ends(low=0.0, high=0.12)
        """
        if self.value is None:
            return NOTHING
        if self.ends is None:
            return Interval(value=abs(self.value), low=None, high=None)
        nearer, farther = sorted(map(abs, self.ends))
        low = nearer if self.excludes_zero else 0.0
        return Interval(value=abs(self.value), low=low, high=farther)

    def scaled(self, factor: float) -> "Interval":
        """The number and its interval in another unit, ``factor`` times as large.

        A negative factor swaps the ends. Without a value the result is NOTHING; one end alone is no
        interval and is left out.
        """
        if self.value is None:
            return NOTHING
        if self.ends is None:
            return Interval(value=factor * self.value, low=None, high=None)
        low, high = sorted(factor * end for end in self.ends)
        return Interval(value=factor * self.value, low=low, high=high)


NOTHING = Interval(value=None, low=None, high=None)  # an unknown number


def interval_of(number: Interval | None) -> Interval:
    """The number and its interval alone, without what an estimate holds beside them.

    None, a number that was not measured, gives NOTHING.
    """
    if number is None:
        return NOTHING
    return Interval(value=number.value, low=number.low, high=number.high)


class Estimate(Interval):
    """A mean over seeds with its 95 % interval; undefined is None with a reason, never 0.

    The standard deviations are parts of the mean's own uncertainty, in its unit
    (docs/methods.md 6.3, 6.4); None where they are not known.

    Args:
        training_sd: sqrt(V_seed), from what differs between seeds: training, and test rows where
            each seed has its own.
        records_sd: sqrt(V_shared), from the test records that seeds share.
        n_seeds: Seeds behind it.
        n_test: Distinct test records behind it, or training records of what is read of a
            training's steps; None where that is not known.
        unit: ``fraction``, ``nats``, ``ratio``, ``degrees``, ``nats a step``.
        reason: Why there is no value or no interval, or "". A number with a reason is shown and
            never gated.
        by_seed: The values at single seeds; None for one that is not finite, ``()`` where there are
            none. Of what is decided by chance, which pairs of trainings say, the jackknife's
            pseudo-values, whose mean is the value; one may lie beyond 0 and 1.
        conservative_sd: sqrt(V_rec), from all that test records contribute, also to
            ``training_sd``: for decisions that must hold their level where seeds are skewed. It is
            not stored with a report.
        own_records_sd: sqrt(V_own), the part of ``training_sd`` that is from test records. It is
            not stored with a report.
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

    @property
    def negated(self) -> "Estimate":
        """The same difference taken the other way round: b less a in the place of a less b."""
        seeds = tuple(None if value is None else -value for value in self.by_seed)
        turned = self.scaled(-1)
        return self.model_copy(
            update={"value": turned.value, "low": turned.low, "high": turned.high, "by_seed": seeds}
        )


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
    """An estimate made of computed numbers, in which NaN and infinity become None.

    Without a finite value and both ends there is no interval. A value that is not finite gets
    NOT_FINITE as its reason, unless another one is given. Arguments are the fields of
    :class:`Estimate`.
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


def undefined(reason: str, unit: str, n_test: int | None = 0) -> Estimate:
    """The estimate of a number that does not exist: without value and interval, with the reason.

    Args:
        reason: Why, in words.
        unit: The unit that it would have.
        n_test: Distinct test records that there are; None where that is not known.
    """
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
    """The number, or None where it is None, NaN or infinite."""
    if value is not None and math.isfinite(value):
        return float(value)
    return None


class GroupMeasure(Part):
    """One group's numbers in one comparison.

    Args:
        group: Its name, "" for all test rows.
        n_test: Distinct tested records, None where they are suppressed.
        n_train: Training records, mean over seeds, None where they are suppressed.
        gated: Whether gates and maxima over groups may read its numbers at all.
        reason: Why not; "" where they may.
        estimates: metric -> Estimate. Keys: ``privacy_cost`` (accuracy lost), ``excess_risk``
            (loss gained), then ``M`` and ``reference.M`` for every other metric M
            (``metrics.registry``); of a private arm what was read of its steps, as
            ``misalignment`` (``registry.of_steps``); of several trainings on the same rows
            ``disagreement``, ``reference.disagreement`` and ``disagreement_cost``
            (``registry.of_retraining``); with twins every cost in parts,
            ``privacy_cost.clipping``, ``privacy_cost.noise`` (``registry.PARTS``), and where the
            training classes are known ``privacy_cost.constant``, ``excess_risk.constant``: against
            the model that predicts their shares for everybody. Without a favourable class
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
        """The group's value of a metric; None where it was not measured or is undefined."""
        estimate = self.estimates.get(metric)
        if estimate is None:
            return None
        return estimate.value


class ClassShare(Part):
    """A class that the private model predicts for a group far more seldom than the reference does.

    Far more seldom is less than a fifth as often, by the estimates.

    Args:
        group: The group's name.
        answer: Index of the class.
        private, reference: Share of the group's rows that each model predicts as the class.
        kept: ``private - reference / 5``, below 0.
        given: How many classes at least one of the models predicts for somebody of the group.
        looked_at: How many pairs of group and class were looked at.
        is_lost: Whether it is detected, beside all that is judged of the arm, both that ``kept``
            is below 0 and that ``reference`` is above 0; None where that was not judged.
        rows_needed: About how many test rows of the group would show it; None where it is shown,
            where there is no interval, or where rows alone would not.
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


class ConstantAnswer(Part):
    """That a model gives a group one answer: hardly a row of it is predicted as any other class.

    It is a fact about the model by itself, of a group whose test rows are of several classes.

    Args:
        group: The group's name.
        answer: Index of the class that its rows are predicted as.
        other: Share of its rows that is predicted as the most frequent other class.
        truth: Share of its rows that is of that class.
        is_every_row: Whether no row is predicted as another class, at any seed.
        is_certain: Whether that is so, or of every other class the upper limit of the share that is
            predicted is below a fifth of the share that is of it; else only the estimates are.
    """

    group: str
    answer: int
    other: Estimate
    truth: Figure
    is_every_row: bool
    is_certain: bool


class Gap(Part):
    """A difference between groups.

    Args:
        metric: ``privacy_cost``, ``excess_risk``, or a within-model metric M or ``reference.M`` or
            ``change.M`` (how much privacy widens the within-model gap).
        kind: ``pair`` (a against b), ``population`` (a against all; xi_a for excess_risk),
            ``max`` (largest minus smallest).
        a, b: Group names; for ``max`` the pair that attains it, the larger value first; b is ""
            for ``population``.
        signed: value_a - value_b with its own interval. That of ``max``, nowhere below 0, allows
            for the K(K-1)/2 pairs that it was chosen from.
        direction: ``worse for F`` in words, or "" where no difference is detected.
        minimum_detectable: Gap this audit would find with power .80, same unit; None if S = 1.
        gated, reason: As for a group.
        named: Whether the pair was named before training (``compare``), so that it was not picked
            among others.
        reading: Whether a and b are detected to differ; of costs beside everything that is judged
            of the arm, of another metric beside its own pairs. "cannot tell" where gates may not
            read it or it has no interval.
        tested: The number by which it is decided whether the difference is detected, where that is
            not ``signed`` itself: of a difference in degrees the one in what clipping takes from
            the groups. It is not stored with a report.
    """

    metric: str
    kind: Literal["pair", "population", "max"]
    a: str
    b: str
    signed: Estimate
    direction: str
    minimum_detectable: Figure | None
    gated: bool
    reason: str
    named: bool = False
    reading: Reading = ""
    tested: Estimate | None = Field(default=None, exclude=True)

    @property
    def reversed(self) -> "Gap":
        """The same gap, b less a."""
        tested = None if self.tested is None else self.tested.negated
        return self.model_copy(
            update={"a": self.b, "b": self.a, "signed": self.signed.negated, "tested": tested}
        )

    @property
    def larger_first(self) -> "Gap":
        """The same gap with the group of the larger value first: of a cost, the one that pays more.

        Only a pair can be reversed; the largest gap has that order already.
        """
        is_negative = self.kind == "pair" and (self.signed.value or 0.0) < 0
        return self.reversed if is_negative else self


class Comparison(Part):
    """One arm against its reference, cut by one grouping.

    Args:
        arm: Key of the arm.
        reference: Key of its reference; "" where a reference is measured by itself.
        grouping: Name of the grouping.
        estimand: What the intervals are about, in words.
        overall: The same estimates over all test rows.
        by_group: One entry per group, absent groups included.
        gaps: The pair, population and max gaps of every metric.
        doubtful: Classes that the arm may hardly predict for a group any more.
        constant: Groups that the arm itself gives one answer, whatever the reference does.
        paid: The costs (metrics) that are detected over all rows, beside all that is judged of the
            arm, and above 0.
    """

    arm: str
    reference: str
    grouping: str
    estimand: str
    overall: GroupMeasure
    by_group: tuple[GroupMeasure, ...]
    gaps: tuple[Gap, ...]
    doubtful: tuple[ClassShare, ...] = ()
    constant: tuple[ConstantAnswer, ...] = ()
    paid: tuple[str, ...] = ()

    def note_on(self, group: GroupMeasure) -> str:
        """Why gates may not read this group, where the reason is the group's own, such as its size.

        "" where they may, and where the reason is that of all rows, so of the whole audit.
        """
        if group.gated or group.reason == self.overall.reason:
            return ""
        return group.reason


class Measured(Comparison):
    """A comparison as it was measured, with numbers of groups that are too small to be shown.

    A report holds a :class:`Comparison` made of it, in which these numbers are suppressed.

    Args:
        divided_by: Metric that is a ratio -> name of the group by whose value the others' are
            divided, so that a ratio can be hidden which would reveal that group's value.
    """

    divided_by: dict[str, str] = Field(default_factory=dict)
