"""One number against one rule.

Three outcomes: what cannot be decided is inconclusive, never a pass. A *target* is one number of a
report that a rule is about; a ``reason`` says why it cannot be read, and is "" where it can.
"""

from dataclasses import replace
from decimal import Decimal

from fairaudit.errors import ConfigError
from fairaudit.gate.grammar import GateRule
from fairaudit.gate.joint_interval import growth, widened, widened_largest
from fairaudit.gate.targets import Target, TargetReading
from fairaudit.report.model import Report
from fairaudit.report.numbers import gated, interval_alone
from fairaudit.report.types.verdicts import GateTarget, Outcome
from fairaudit.results.estimates import NOTHING, Interval, interval_of

STRADDLES = "the 95 % interval includes the threshold"
ONLY_ALONE = "beyond the limit by itself, but not by {shared}"
SHARED = "the interval {ends} that all {among} numbers of the rule share for this method"


def judge(rule: GateRule, target: Target, *, n_joint: int) -> GateTarget:
    """The outcome of a rule for one target: pass, fail or inconclusive.

    A rule about an interval fails where all of it meets the failing condition and passes where none
    of it does; a rule about a gap is about its size, whichever sign it has. A failure is decided by
    the wider interval that holds for all numbers of the rule about that arm together, since one of
    many lies beyond a threshold by chance. A pass needs every number, so for it each number's own
    interval suffices.

    Args:
        rule: The condition.
        target: The number.
        n_joint: How many uncertain numbers of that arm the rule is held against.
    """
    number, joint = target.reading.number, shared_interval(target.reading, n_joint)
    shared = ""  # the joint interval in words, where it is another than the number's own
    if joint.ends != number.ends:
        ends = interval_alone(joint, gated(rule.metric.unit))
        shared = SHARED.format(ends=ends, among=n_joint)
    outcome, reason = _outcome(rule, target.reading, joint, shared)
    return GateTarget(
        arm=target.arm,
        reference=target.reference,
        grouping=target.grouping,
        groups=target.groups,
        outcome=outcome,
        value=number.value,
        low=number.low,
        high=number.high,
        reason=reason,
    )


def shared_interval(reading: TargetReading, n_joint: int) -> Interval:
    """The number with the interval that holds for ``n_joint`` numbers of a rule at once.

    It is made where the rule is judged; no report holds it. Source: docs/methods.md 6.8.
    """
    number = reading.number
    if number.ends is None or number.value is None or number.is_exact or n_joint < 2:
        return interval_of(number)
    factor = growth(reading.variances, seeds=reading.n_seeds, n_joint=n_joint)
    # The ends of a largest gap may be those of other pairs: it has no variances of its own.
    if reading.is_size and reading.variances is None:
        ends = widened_largest(number.value, number.ends, factor)
    else:
        ends = widened(number.value, number.ends, factor)
    return Interval(value=number.value, low=ends.low, high=ends.high)


def change(
    now: TargetReading, before: TargetReading | None, *, same_trainings: bool
) -> TargetReading:
    """The change of a number between two reports, as a number that a rule can be held against.

    Of a gap that is the change of its size. Its interval runs from the least to the largest
    difference between points of the two intervals. That holds whatever the reports share (rows,
    seeds, or nothing), since the standard deviation of a difference is at most the sum of both. The
    interval is exactly 0 only where equal numbers are of the same trainings: numbers of other
    trainings may be equal by chance.

    Returns:
        Without a value, and with the reason, where one of both numbers has none.
    """
    if before is None:
        return replace(now, number=NOTHING, reason="the baseline has no such number")
    reason = now.reason
    if not reason and before.reason:
        reason = f"in the baseline: {before.reason}"
    current, earlier = now.judged, before.judged  # sizes, for a gap
    if current.value is None or earlier.value is None:
        return replace(now, number=NOTHING, reason=reason)
    has_same_ends = current.ends is not None and current.ends == earlier.ends
    is_same = same_trainings and has_same_ends
    moved = Interval(
        value=_difference(current.value, earlier.value),
        low=0.0 if is_same else _difference(current.low, earlier.high),
        high=0.0 if is_same else _difference(current.high, earlier.low),
    )
    return TargetReading(
        number=moved,
        # Fewer seeds have the larger t, by which an interval grows that numbers share (`growth`).
        n_seeds=min(now.n_seeds, before.n_seeds),
        variances=None,
        is_size=False,  # a change has a sign; of a gap it is the change of the size already
        reason=reason,
        unjudged=now.unjudged or before.unjudged,
    )


def refuse_other_label(before: Report, after: Report) -> None:
    """Refuse to compare reports that are about different labels.

    Raises:
        ConfigError: The column, the positive or the favourable value is another one, or with more
            than two classes the classes or their order are.
    """
    earlier, later = before.data.label, after.data.label
    for name in ("column", "positive", "favourable"):
        was, now = getattr(earlier, name), getattr(later, name)
        if was != now:
            raise ConfigError(
                f"the reports are about different labels: {name} {was!r} and {now!r}",
                hint="compare reports of the same label",
            )
    was, now = ([each.name for each in label.classes] for label in (earlier, later))
    # With more than two classes rates are per class, found by its place (``tpr[2]``).
    if was != now and max(len(was), len(now)) > 2:
        raise ConfigError(
            f"the reports are about different classes: {was} and {now}",
            hint="compare reports of the same classes",
        )


def _difference(a: float | None, b: float | None) -> float | None:
    """``a - b`` in decimals, as both stand in their files: 3.1 - 3.0 is 0.1, not a little more.

    None where either is None.
    """
    if a is None or b is None:
        return None
    return float(Decimal(repr(float(a))) - Decimal(repr(float(b))))


def _outcome(
    rule: GateRule, reading: TargetReading, joint: Interval, shared: str
) -> tuple[Outcome, str]:
    """The outcome for one number, and why it is not a pass, where that is not plain; else "".

    Args:
        rule: The failing condition.
        reading: The number with its own interval, by which the rule passes.
        joint: The number with the interval that holds for all numbers of the rule together, by
            which it fails.
        shared: That interval in words; "" where it is the number's own.
    """
    number = reading.judged
    joint = joint.size if reading.is_size else joint
    if reading.reason or number.value is None:  # a number without a value has a reason, too
        return "inconclusive", reading.reason
    if rule.statistic == "interval":
        if number.ends is None or joint.ends is None:
            return "inconclusive", "it has no interval"
        if all(map(rule.fails, joint.ends)):
            return "fail", f"by {shared}, too" if shared else ""
        # The number's own interval: both ends fail, one does, or none.
        if all(map(rule.fails, number.ends)):
            return "inconclusive", ONLY_ALONE.format(shared=shared)
        if any(map(rule.fails, number.ends)):
            return "inconclusive", STRADDLES
    else:
        values = {"mean": number.value, "ci_low": number.low, "ci_high": number.high}
        statistic = values[rule.statistic]
        if statistic is None:
            return "inconclusive", f"it has no {rule.statistic}"
        if rule.fails(statistic):
            return "fail", ""
    if reading.unjudged:  # some rows are not judged at all, so no number can pass for them
        return "inconclusive", reading.unjudged
    return "pass", ""
