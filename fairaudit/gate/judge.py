"""One number against one rule. Three outcomes: what cannot be told is inconclusive, never a pass."""

from dataclasses import replace
from decimal import Decimal

from fairaudit.gate.grammar import Rule
from fairaudit.gate.intervals import Interval, growth, widened, widened_size
from fairaudit.gate.targets import Reading, Target
from fairaudit.report.gates import GateTarget, Outcome

STRADDLES = "the interval holds the threshold"
ONLY_ALONE = "beyond the threshold by itself, but not once the interval is shared by all numbers of the rule"


def judge(rule: Rule, target: Target, *, among: int) -> GateTarget:
    """What the rule says of one target.

    A rule about an interval fails where all of it meets the failing condition and passes where none
    of it does. To fail, the interval is the one that holds for all numbers of the rule together, for
    one of many is found beyond a threshold by luck; to pass all, each one's own suffices.

    Args:
        rule: The condition. target: The number. among: How many numbers the rule is held against.
    """
    reading = target.reading
    ends = _ends(reading)
    shared = _shared(reading, ends, among)
    outcome, reason = _outcome(rule, reading, ends, shared)
    return GateTarget(
        arm=target.arm,
        reference=target.reference,
        grouping=target.grouping,
        group=target.group,
        outcome=outcome,
        value=reading.value,
        low=ends.low if ends else None,
        high=ends.high if ends else None,
        shared_low=shared.low if shared else None,
        shared_high=shared.high if shared else None,
        reason=reason,
    )


def change(now: Reading, before: Reading | None, *, same_trainings: bool) -> Reading:
    """The change of a number between two reports.

    Its interval runs from the least to the largest difference of the two. That holds whatever the
    reports share (rows, seeds, or nothing), since standard deviations add up to no less than that of
    a difference. Only the same trainings cannot have changed: others may show equal numbers by chance.

    Args:
        now: Of the report. before: Of the baseline, None where it has no such number.
        same_trainings: Both numbers are of the very same trainings.
    """
    if before is None:
        return replace(now, value=None, low=None, high=None, reason="the baseline has no such number")
    reason = now.reason or (f"in the baseline: {before.reason}" if before.reason else "")
    if now.value is None or before.value is None:
        return replace(now, value=None, low=None, high=None, reason=reason or "undefined")
    ends, others = _ends(now), _ends(before)
    is_same = same_trainings and now.seeds == before.seeds and ends is not None and ends == others
    return Reading(
        value=_difference(now.value, before.value),
        low=0.0 if is_same else _difference(now.low, before.high),
        high=0.0 if is_same else _difference(now.high, before.low),
        seeds=tuple(_difference(a, b) for a, b in zip(now.seeds, before.seeds, strict=False)),
        n_seeds=min(now.n_seeds, before.n_seeds),
        variances=None,
        is_size=False,
        reason=reason,
        slack=now.slack + before.slack,
        unjudged=now.unjudged or before.unjudged,
    )


def _difference(a: float | None, b: float | None) -> float | None:
    """In decimals, as both stand in their files: 3.1 - 3.0 is 0.1, and not a little above it."""
    return None if a is None or b is None else float(Decimal(repr(float(a))) - Decimal(repr(float(b))))


def _ends(reading: Reading) -> Interval | None:
    return None if reading.low is None or reading.high is None else Interval(reading.low, reading.high)


def _shared(reading: Reading, ends: Interval | None, among: int) -> Interval | None:
    if ends is None or reading.value is None:
        return None
    if reading.is_certain:
        return ends
    factor = growth(reading.variances, seeds=reading.n_seeds, among=among)
    if factor == 1.0:
        return ends
    if reading.is_size:
        return widened_size(reading.value, ends, factor, is_largest=reading.variances is None)
    return widened(reading.value, ends, factor)


def _outcome(
    rule: Rule, reading: Reading, ends: Interval | None, shared: Interval | None
) -> tuple[Outcome, str]:
    if reading.reason or reading.value is None:
        return "inconclusive", reading.reason or "undefined"
    if rule.statistic != "interval":
        number = _plain(rule, reading, ends)
        if number is None:
            return "inconclusive", f"it has no {rule.statistic}"
        return ("fail", "") if rule.fails(number) else _passed(rule, reading, Interval(number, number))
    if ends is None or shared is None:
        return "inconclusive", "it has no interval"
    if all(rule.fails(end) for end in shared):
        return "fail", ""
    if not any(rule.fails(end) for end in ends):
        return _passed(rule, reading, ends)
    if all(rule.fails(end) for end in ends):
        return "inconclusive", ONLY_ALONE
    return "inconclusive", STRADDLES


def _passed(rule: Rule, reading: Reading, ends: Interval) -> tuple[Outcome, str]:
    """A pass, unless the rows that were not judged could make it a failure."""
    if reading.slack and (rule.fails(ends.low - reading.slack) or rule.fails(ends.high + reading.slack)):
        return "inconclusive", reading.unjudged
    return "pass", ""


def _plain(rule: Rule, reading: Reading, ends: Interval | None) -> float | None:
    """The plain number that the rule names."""
    match rule.statistic:
        case "ci_low":
            return ends.low if ends else None
        case "ci_high":
            return ends.high if ends else None
        case "max":
            known = [abs(v) if reading.is_size else v for v in reading.seeds if v is not None]
            return max(known) if known and len(known) == len(reading.seeds) else None
        case _:
            return reading.value
