"""The gap that stands for a comparison, and how a cost is written."""

from collections.abc import Sequence

from fairaudit.report.tables import number
from fairaudit.results.estimates import Comparison, Estimate, Gap

COST = "privacy_cost"
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


def spoken(metric: str, classes: Sequence[str]) -> str:
    """``change.tpr[2]`` -> ``tpr[2] (square)``: the name that rules use, and the class that it counts."""
    name = metric.removeprefix("change.")
    number = name.partition("[")[2].removesuffix("]")
    return f"{name} ({classes[int(number)]})" if number else name


def points(estimate: Estimate | None) -> str:
    """A fraction in percentage points with its interval: ``2.9 [1.2, 4.6]``."""
    if estimate is None:
        return "not measured"
    if estimate.value is None:
        return f"undefined: {estimate.reason}" if estimate.reason else "undefined"
    if estimate.low is None or estimate.high is None:
        return f"{_signed(estimate.value)} (no interval)"
    return f"{_signed(estimate.value)} [{_signed(estimate.low)}, {_signed(estimate.high)}]"


def _signed(fraction: float) -> str:
    return number(100 * fraction, 1)


def plain_interval(estimate: Estimate | None) -> str:
    """A number in its own unit with its interval; a dash where it is undefined."""
    if estimate is None or estimate.value is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return number(estimate.value)
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"
