"""Findings on who pays: gaps between groups, costs over all rows, impact ratios."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairaudit.report.messages.base import FindingMessage
from fairaudit.report.safe_names import group_text, plain
from fairaudit.results.estimates import Interval


def compared_groups(grouping: str, pair: tuple[str, str] | None, small: Sequence[str]) -> str:
    """Which groups were compared, in words: ``F and M``, ``groups of race, Other aside,``.

    Args:
        grouping: What they are groups of.
        pair: The two that were compared; None: all of them.
        small: Those that were compared with no other; at most three are named.
    """
    between = f"groups of {plain(grouping)}"
    if pair is not None:
        between = " and ".join(group_text(grouping, name) for name in pair)
    names = [group_text(grouping, name) for name in small]
    if len(names) > 3:
        names[3:] = [f"{len(names) - 3} more"]
    if names:
        between += f", {', '.join(names)} aside,"
    return between


@dataclass(frozen=True, slots=True, kw_only=True)
class GapDetected(FindingMessage):
    """The gap, and what each group pays."""

    code = "gap"
    when = "two groups are detected to differ in a cost, among all that is compared of the method"
    question = "pays"
    series = "detected"
    asks_why = True
    sentence = (
        "{a} pays {cost_a:value} of {of} {cost_a:ends}, {b} {cost_b:plain}: a gap of {size:plain}"
    )
    item = "{size:value} of {of} {size:ends} more for {a} than for {b}"

    size: Interval
    cost_a: Interval
    cost_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class GapOfGains(FindingMessage):
    """The gap, and what each group gains."""

    code = "gap_gained"
    when = "two groups are detected to differ in a cost, and both do better than without privacy"
    question = "pays"
    series = "detected"
    asks_why = True
    sentence = (
        "{b} does better by {gain_b:value} of {of} {gain_b:ends}, {a} by {gain_a:plain}: a gap of "
        "{size:plain}"
    )
    item = "{b} does better than {a} by {size:value} of {of} {size:ends}"

    size: Interval
    gain_a: Interval
    gain_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class GapOpposed(FindingMessage):
    """The gap, what one group pays and what the other gains."""

    code = "gap_opposed"
    when = "two groups are detected to differ in a cost: one pays, the other does better"
    question = "pays"
    series = "detected"
    asks_why = True
    sentence = (
        "{a} pays {cost_a:value} of {of} {cost_a:ends}, {b} does better by {gain_b:plain}: a gap "
        "of {size:plain}"
    )
    item = "{size:value} of {of} {size:ends} more for {a} than for {b}"

    size: Interval
    cost_a: Interval
    gain_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGap(FindingMessage):
    """How far the worsenings of a rate lie apart, and that of each group."""

    code = "rate_gap"
    when = "two groups are detected to differ in how far a rate of one class worsens"
    question = "pays"
    series = "detected"
    asks_why = True
    sentence = (
        "{change}: {a} by {cost_a:value} {cost_a:ends}, {b} by {cost_b:plain} (difference "
        "{size:plain})"
    )
    item = "{change}, {a} by {cost_a:value}, {b} by {cost_b:bare} (difference {size:plain})"

    size: Interval
    cost_a: Interval
    cost_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGapRisen(FindingMessage):
    """How far the betterings of a rate lie apart, and that of each group."""

    code = "rate_gap_risen"
    when = "two groups are detected to differ in how far a rate of one class gets better"
    question = "pays"
    series = "detected"
    asks_why = True
    sentence = (
        "{change}: {b} by {gain_b:value} {gain_b:ends}, {a} by {gain_a:plain} (difference "
        "{size:plain})"
    )
    item = "{change}, {b} by {gain_b:value}, {a} by {gain_a:bare} (difference {size:plain})"

    size: Interval
    gain_a: Interval
    gain_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGapOpposed(FindingMessage):
    """How far the changes of a rate lie apart, worse for one group and better for the other.

    ``reason`` says which way is better.
    """

    code = "rate_gap_opposed"
    when = "two groups are detected to differ in a rate: of one it worsens, of one it gets better"
    question = "pays"
    series = "detected"
    asks_why = True
    sentence = (
        "{change}: {a} by {cost_a:value} {cost_a:ends}; {reason}: {b} by {gain_b:plain} "
        "(difference {size:plain})"
    )
    item = (
        "{change}, {a} by {cost_a:value}, and {reason}, {b} by {gain_b:bare} (difference "
        "{size:plain})"
    )

    size: Interval
    cost_a: Interval
    gain_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PayersDiffer(FindingMessage):
    """Which group pays more by one measure, and which by another, that ``reason`` names."""

    code = "payers_differ"
    when = "two groups are detected to differ in two measures, and another one pays more in each"
    question = "pays"
    sentence = "Measures differ in who pays more: by {of} {a}, by {reason} {b}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostDetected(FindingMessage):
    """The cost over all rows."""

    code = "cost"
    when = (
        "a cost over all rows is detected, among all that is compared of the method, and no two "
        "groups are detected to differ in it"
    )
    question = "pays"
    series = "over all rows"
    asks_why = True
    sentence = "All rows pay {size:value} of {of} {size:ends}"
    item = "{size:value} of {of} {size:ends}"

    size: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFell(FindingMessage):
    """How far a rate worsened over all rows."""

    code = "rate_fell"
    when = (
        "a rate over all rows is detected to fall, and no two groups are detected to differ in it"
    )
    question = "pays"
    series = "over all rows"
    asks_why = True
    sentence = "Over all rows, {change} by {size:value} {size:ends}"
    item = "{change} by {size:value} {size:ends}"

    size: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class NoGapDetected(FindingMessage):
    """The gap, and the most that it can be; ``reason``: between whom."""

    code = "no_gap"
    when = "no two groups are detected to differ in any cost"
    question = "pays"
    series = "none detected"
    sentence = (
        "No difference in cost between {reason} is detected; a gap of more than {most:value} of "
        "{of} is ruled out"
    )

    size: Interval
    most: Interval
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GapNotCertain(FindingMessage):
    """The gap; ``reason``: of how many comparisons."""

    code = "not_certain"
    when = (
        "the interval of a gap excludes zero, but its test, which allows for all comparisons of "
        "the method, does not reject"
    )
    question = "pays"
    series = "not certain"
    sentence = "Not certain, one of {reason} comparisons: {change}"
    item = "{change}"

    size: Interval
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GapUnknown(FindingMessage):
    """A cost whose gap is not known, and why."""

    code = "gap_unknown"
    when = "the gap in a cost has no interval, or may not be judged"
    question = "pays"
    series = "cannot tell"
    sentence = "Cannot tell whether groups differ in {of}: {reason}"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioFinding(FindingMessage):
    """A group's impact ratio without and with privacy, on two sides of four fifths."""

    before: Interval
    after: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioFalls(RatioFinding):
    """Below four fifths with privacy."""

    code = "ratio_falls"
    when = "a group's impact ratio is above four fifths without privacy and below with it"
    question = "pays"
    sentence = (
        "The impact ratio of {a} falls below four fifths: {after} with privacy, {before} without"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioRises(RatioFinding):
    """Above four fifths with privacy."""

    code = "ratio_rises"
    when = "a group's impact ratio is below four fifths without privacy and above with it"
    question = "pays"
    sentence = (
        "The impact ratio of {a} rises above four fifths: {after} with privacy, {before} without"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioUnsure(RatioFinding):
    """On two sides of four fifths by the estimates alone."""

    code = "ratio_unsure"
    when = "a group's impact ratio crosses four fifths by the estimates alone"
    question = "pays"
    sentence = (
        "By the estimates the impact ratio of {a} crosses four fifths, which is not certain: "
        "{after} with privacy, {before} without"
    )
