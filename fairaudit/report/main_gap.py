"""The gap that stands for a comparison, and on which scale a cost is written."""

from collections.abc import Sequence

from fairaudit.metrics.registry import METRICS, costs, part_of, spec_of
from fairaudit.report.facts import LabelFacts
from fairaudit.report.model import Report
from fairaudit.report.numbers import OWN_UNIT, POINTS, UNKNOWN, Scale, number
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Gap, Interval, interval_of

COST = "privacy_cost"  # the one that a report leads with
_MOST_SHOWN = 6  # measures in a table or chart


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
    for gap in (
        main_gap(comparison, metric),
        *named_gaps(comparison, metric),
        *pairs,
    ):
        if gap is not None and is_detected(gap):
            return gap
    return None


def detected_pair(comparison: Comparison) -> tuple[str, str] | None:
    """Two groups whose excess risks are detected to differ, the larger first.

    None where no difference is detected, and where the first group's own excess risk is not above
    zero: then there is no cost to explain.
    """
    gap = detected_gap(comparison, "excess_risk")
    if gap is None:
        return None
    first, second = gap.a, gap.b
    if (gap.signed.value or 0.0) <= 0:
        first, second = second, first
    if (cost_of(comparison, first, "excess_risk").low or 0.0) > 0:
        return first, second
    return None


def cost_of(comparison: Comparison, group: str, metric: str) -> Interval:
    """A group's number of a metric; without a value where it was not measured."""
    for measure in comparison.by_group:
        if measure.group == group:
            return interval_of(measure.estimates.get(metric))
    return interval_of(None)


def code_of_gap(comparison: Comparison, gap: Gap) -> tuple[str, str, str]:
    """The code of the finding on two groups that are told apart, and both, the worse off first."""
    first, second = gap.a, gap.b
    if (gap.signed.value or 0.0) < 0:
        first, second = second, first
    code = "gap"
    if is_rate(gap.metric):
        code = "rate_gap"
    costs = [cost_of(comparison, group, gap.metric).value for group in (first, second)]
    if costs[0] is None or costs[1] is None or costs[0] >= 0:
        return code, first, second
    if code == "gap":
        return "gap_gained", first, second
    return "rate_gap_risen", first, second


def is_rate(metric: str) -> bool:
    """Whether it is how much a rate of one class falls, which is no price that rows pay."""
    return bool(spec_of(metric).needs & {"positive", "favourable"})


def reading(gap: Gap, direction: str) -> str:
    """What the gap's interval says, in words; "" where there is no gap.

    Args:
        gap: Between two groups.
        direction: Of the difference, in words, where one is detected.
    """
    if gap.absolute.value is None:
        return ""
    words: str = gap.reading
    if gap.direction and is_detected(gap):
        words = direction
    elif words == "at most":
        words = f"none detected, at most {with_unit(gap.size.high, spec_of(gap.metric).unit)}"
    if gap.limit is not None:
        words += f" (limit {with_unit(gap.limit, spec_of(gap.metric).unit)})"
    return words


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


def cost_names(comparison: Comparison) -> list[str]:
    """The costs that are known of a comparison; of several classes those of a class for each."""
    names = sorted(comparison.overall.estimates, key=lambda name: (len(name), name))
    whole = [name for name in names if not part_of(name)]
    return [name for cost in costs() for name in whole if name.partition("[")[0] == cost]


def measures(comparison: Comparison) -> list[str]:
    """The primary measures: every cost; of those by class the detected, else the most open one."""
    names = []
    known = dict.fromkeys(gap.metric for gap in comparison.gaps if not part_of(gap.metric))
    for cost in costs():
        of_cost = [name for name in known if name.partition("[")[0] == cost]
        gaps = [main_gap(comparison, name) for name in of_cost]
        defined = [gap for gap in gaps if gap is not None]
        detected = [gap.metric for gap in defined if detected_gap(comparison, gap.metric)]
        widest = max(
            defined,
            key=lambda gap: gap.size.high or 0.0,
            default=None,
        )
        if not detected and widest is not None:
            detected = [widest.metric]
        names += detected
    return names


def shown_costs(report: Report) -> list[str]:
    """The measures that tables and charts have room for: those by class as the summary has them."""
    told: set[str] = set()
    for comparison in report.costs:
        told |= set(measures(comparison))
    names = [name for name in all_costs(report) if name in told or "[" not in name]
    return names[:_MOST_SHOWN]


def all_costs(report: Report) -> list[str]:
    """The cost measures that any comparison of the report has."""
    names: dict[str, None] = {}
    for comparison in report.costs:
        names |= dict.fromkeys(cost_names(comparison))
    return list(names)


def cost_title(metric: str, label: LabelFacts) -> str:
    """What is lost by this measure, with its unit."""
    words = measure_text(metric, label).replace("true positive rate", "tpr")
    lost = "added" if spec_of(metric).unit == "nats" else "lost"
    return f"{plain(words)} {lost} ({spec_of(metric).counted})"


def measure_text(metric: str, label: LabelFacts) -> str:
    """What a cost is lost of, in words: ``accuracy``, ``recall of square``."""
    spec = spec_of(metric)
    if spec.cost_of:
        spec = METRICS[spec.cost_of]
    target = metric.partition("[")[2].removesuffix("]")
    if target.isdecimal():
        return f"recall of {label.classes[int(target)].name}"
    if "favourable" in spec.needs and label.is_assumed:
        return f"share predicted {label.favourable}"
    return spec.words.partition(" (")[0]


def metric_text(metric: str, classes: Sequence[str]) -> str:
    """A metric with the name of its class: ``change.tpr[2]`` -> ``tpr[2] (square)``.

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
