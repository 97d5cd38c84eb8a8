"""The gap that stands for a comparison, and on which scale a cost is written."""

from collections.abc import Sequence

from fairaudit.metrics.registry import spec_of
from fairaudit.report.written import OWN_UNIT, POINTS, UNKNOWN, Scale, number
from fairaudit.results.estimates import Comparison, Gap, Interval, Reading

COST = "privacy_cost"  # the one that a report leads with
CONTROL_NOT_RUN = "control_not_run"  # code of the warning


def main_gap(comparison: Comparison, metric: str = COST) -> Gap | None:
    """The gap that stands for the comparison: the only pair's, else the largest over all groups."""
    pairs, largest = [], None
    for gap in comparison.gaps:
        if gap.metric == metric and gap.kind == "pair":
            pairs.append(gap)
        elif gap.metric == metric and gap.kind == "max":
            largest = gap
    if len(pairs) == 1:
        return pairs[0]
    return largest


def named_gaps(comparison: Comparison, metric: str = COST) -> list[Gap]:
    """The pairs that ``compare`` asked for, unless one already stands for the comparison."""
    named = [gap for gap in comparison.gaps if gap.named and gap.metric == metric]
    main = main_gap(comparison, metric)
    return [gap for gap in named if gap is not main]


def detected_gap(comparison: Comparison, metric: str = COST) -> Gap | None:
    """The gap that sentences explain; None where no two groups are detected to differ.

    The one that stands for the comparison if it is detected, else a pair that was asked for, else
    the largest pair that is: of three groups the largest gap may be open and another one not.
    """
    pairs = [gap for gap in comparison.gaps if gap.metric == metric and gap.kind == "pair"]
    pairs.sort(key=lambda gap: -abs(gap.signed.value or 0.0))
    for gap in (main_gap(comparison, metric), *named_gaps(comparison, metric), *pairs):
        if gap is not None and is_detected(gap):
            return gap
    return None


def reading(gap: Gap) -> str:
    """What the gap's interval says, in words; "" where there is no gap.

    To whose disadvantage it is, or at most how much, or that nobody can tell.
    """
    if gap.absolute.value is None:
        return ""
    words = read_words(gap.reading, gap.size, gap.limit, spec_of(gap.metric).unit)
    if gap.direction:
        words = words.replace("difference detected", gap.direction, 1)
    return words


def read_words(read: Reading, size: Interval, limit: float | None, unit: str) -> str:
    """A reading in words, with the limit that it was held against.

    Args:
        read: Of the interval of ``size``.
        limit: Or None.
        unit: Of both.
    """
    allowed = ""
    if limit is not None:
        allowed = f"limit {with_unit(limit, unit)}"
    high = None
    if size.ends is not None:
        high = size.ends.high
    match read:
        case "within tolerance":
            return f"within tolerance ({allowed})"
        case "at most":
            # The interval that is shown holds for one method and one cost; sentences choose from
            # all.
            chosen = ""
            if size.excludes_zero:
                chosen = " among all that is compared"
            return f"none detected{chosen}, at most {with_unit(high, unit)}"
        case "cannot tell":
            if allowed:
                return f"cannot tell ({allowed})"
            return "cannot tell"
    if limit is not None and high is not None and high <= limit:
        return f"{read}, within tolerance ({allowed})"
    if allowed:
        return f"{read}, {allowed}"
    return read


def with_unit(value: float | None, unit: str) -> str:
    """A number of a report for a reader: fractions in points, losses in nats."""
    if value is None:
        return UNKNOWN
    if unit == "nats":
        return f"{number(value)} nats"
    if unit != "fraction":
        return number(value)
    points = number(100 * value, decimals=1).removesuffix(".0")
    if abs(value) < 1e-3:
        points = f"{100 * value:.3g}"
    if points == "1":
        return f"{points} point"
    return f"{points} points"


def is_detected(gap: Gap) -> bool:
    """Whether a sentence may say that the two groups of a gap differ."""
    if gap.detected is None:
        return bool(gap.direction)
    return gap.detected


def metric_text(metric: str, classes: Sequence[str]) -> str:
    """``change.tpr[2]`` -> ``tpr[2] (square)``.

    The name that rules use, and the class that it counts.
    """
    name = metric.removeprefix("change.")
    number = name.partition("[")[2].removesuffix("]")
    if number.isdecimal() and int(number) < len(classes):
        return f"{name} ({classes[int(number)]})"
    return name


def scale_of(metric: str) -> Scale:
    """How a metric is written where fractions are in points: a loss stays in nats."""
    if spec_of(metric).unit == "fraction":
        return POINTS
    return OWN_UNIT
