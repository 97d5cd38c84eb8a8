"""The gap that stands for a comparison, and on which scale a cost is written."""

from collections.abc import Sequence

from fairaudit.metrics.names import COSTS
from fairaudit.metrics.registry import spec_of
from fairaudit.report.written import OWN_UNIT, POINTS, Scale
from fairaudit.results.estimates import Comparison, Gap

COST = COSTS[0]
CONTROL_NOT_RUN = "control_not_run"  # code of the warning


def main_gap(comparison: Comparison, metric: str = COST) -> Gap | None:
    """The gap that stands for the comparison: the only pair's, else the largest over all groups."""
    pairs = [gap for gap in comparison.gaps if gap.metric == metric and gap.kind == "pair"]
    if len(pairs) == 1:
        return pairs[0]
    return next((gap for gap in comparison.gaps if gap.metric == metric and gap.kind == "max"), None)


def named_gaps(comparison: Comparison, metric: str = COST) -> list[Gap]:
    """The pairs that ``compare`` asked for, unless one of them already stands for the comparison."""
    main = main_gap(comparison, metric)
    return [gap for gap in comparison.gaps if gap.named and gap.metric == metric and gap is not main]


def reading(gap: Gap) -> str:
    """Whom the gap is to whose disadvantage, or that its sign is open; "" where there is no gap."""
    return gap.direction or ("" if gap.absolute.value is None else "not resolved")


def is_detected(gap: Gap) -> bool:
    """Whether a sentence may say that the two groups of a gap differ."""
    return bool(gap.direction) if gap.detected is None else gap.detected


def spoken(metric: str, classes: Sequence[str]) -> str:
    """``change.tpr[2]`` -> ``tpr[2] (square)``: the name that rules use, and the class that it counts."""
    name = metric.removeprefix("change.")
    number = name.partition("[")[2].removesuffix("]")
    is_class = number.isdecimal() and int(number) < len(classes)
    return f"{name} ({classes[int(number)]})" if is_class else name


def scale_of(metric: str) -> Scale:
    """How a metric is written where fractions are in points: a loss stays in nats."""
    return POINTS if spec_of(metric).unit == "fraction" else OWN_UNIT
