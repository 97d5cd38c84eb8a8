"""Each cost in its parts: the length of the steps, what else a method does, and its noise.

A private training is repeated as twins: without its noise, and as plain SGD with steps of the same
length. A part is the cost of one of them against the one before, so the parts sum to the cost.
``registry.PARTS`` names them: ``step``, then ``clipping`` (or what stands for it in other methods)
and ``noise``; or ``step_and_clipping`` and ``noise``. ``step_and_noise`` is the sum of two parts.
"""

from dataclasses import dataclass
from typing import NamedTuple

from fairaudit.metrics.registry import (
    NOISE,
    PARTS,
    STEP,
    STEP_AND_CLIPPING,
    STEP_AND_NOISE,
    costs_of_constant,
)
from fairaudit.report.measures import detected_gap, measures
from fairaudit.report.model import Report
from fairaudit.results.estimates import (
    Comparison,
    Estimate,
    Gap,
    GroupMeasure,
    Interval,
    interval_of,
)

# Part -> its name for readers, where that is not its own.
_NAMES = {STEP_AND_CLIPPING: "step and clipping", "without_noise": "the training itself"}


class PartNames(NamedTuple):
    """What a report's parts are called.

    Args:
        has_step: Whether any cost has a part of its own for the length of the steps.
        others: What is neither step nor noise, by method: ``clipping``, ``regularisation``.
    """

    has_step: bool
    others: tuple[str, ...]

    @property
    def other(self) -> str:
        """What is neither step nor noise, as one name."""
        return " or ".join(self.others)

    @property
    def listed(self) -> tuple[str, ...]:
        """Three or two names, in the order in which parts sum to a cost; the noise is the last."""
        return (*([STEP] if self.has_step else []), self.other, NOISE)

    @property
    def title(self) -> str:
        """All of them in a few words."""
        first = [*([STEP] if self.has_step else []), *self.others]
        return f"{', '.join(first)} or {NOISE}"


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One part of a cost or of a gap.

    Args:
        name: Of ``registry.PARTS``.
        number: How large it is.
        is_above: Whether its interval lies above zero, so that the part is called present.
    """

    name: str
    number: Interval
    is_above: bool


@dataclass(frozen=True, slots=True)
class SplitCost:
    """A cost over some rows, or a gap between two groups, in parts that sum to it.

    Args:
        metric: Name of the cost, as ``privacy_cost``.
        a, b: The groups of a gap, the one that pays more first; "" for a cost.
        total: The number.
        known: All parts, in the order of ``registry.PARTS``; ``step_and_noise`` among them.
    """

    metric: str
    a: str
    b: str
    total: Interval
    known: tuple[SplitPart, ...]

    @property
    def parts(self) -> tuple[SplitPart, ...]:
        """The parts that sum to the total, so without ``step_and_noise``; the noise is the last."""
        return tuple(part for part in self.known if part.name != STEP_AND_NOISE)

    def causes(self, *, step_by_rule: bool) -> tuple[SplitPart, ...]:
        """The parts that count as causes of their own, so that advice can name an option for each.

        Args:
            step_by_rule: Whether a rule set the learning rate from the noise. Then a short step is
                due to the noise, and both count as one part, ``step_and_noise``.
        """
        parts = {part.name: part for part in self.known}
        together = parts.pop(STEP_AND_NOISE, None)
        # A step's part of 0: the arm took the steps of its reference, so nothing was shortened.
        if step_by_rule and together is not None and parts[STEP].number.value:
            del parts[STEP], parts[NOISE]
            return (together, *parts.values())
        return tuple(parts.values())

    def largest(self, *, step_by_rule: bool = False) -> SplitPart:
        """The cause with the largest value; ``step_by_rule`` as of :meth:`causes`."""
        causes = self.causes(step_by_rule=step_by_rule)
        return max(causes, key=lambda part: part.number.value or 0.0)


def part_names(comparison: Comparison) -> list[str]:
    """Names of the parts that the costs of a comparison were split into.

    [] where no twin ran, and where a twin lacks a seed: then no part has a value over all rows.
    """
    overall = comparison.overall
    return [part for part in PARTS if overall.value(f"privacy_cost.{part}") is not None]


def split_cost(comparison: Comparison, group: GroupMeasure, metric: str) -> SplitCost | None:
    """A group's cost of this metric in its parts; None where it was not measured or not split."""
    names, estimates = part_names(comparison), group.estimates
    if not names or metric not in estimates:
        return None
    parts = []
    for name in names:
        estimate = estimates[f"{metric}.{name}"]  # with twins every cost has every part
        parts.append(SplitPart(name, interval_of(estimate), _is_above(estimate)))
    return SplitCost(metric, "", "", interval_of(estimates[metric]), tuple(parts))


def split_gap(comparison: Comparison, metric: str, pair: Gap) -> SplitCost | None:
    """A cost's gap between the two groups of ``pair`` in its parts; the total is positive.

    None where the gap of this metric, or one of its parts, was not measured.
    """
    by_metric = {}
    for gap in comparison.gaps:
        if gap.kind == "pair" and {gap.a, gap.b} == {pair.a, pair.b}:
            by_metric[gap.metric] = gap
    whole, names = by_metric.get(metric), part_names(comparison)
    if not names or whole is None or whole.signed.value is None:
        return None
    whole = whole.larger_first
    parts = []
    for name in names:
        of_part = by_metric.get(f"{metric}.{name}")
        if of_part is None:
            return None
        if of_part.a != whole.a:  # each metric's gap may have the two groups in the other order
            of_part = of_part.reversed
        # A gap has a direction only where it is detected beside all others of the arm; else the
        # part is not called present, though its own interval may lie above zero.
        is_above = bool(of_part.direction) and _is_above(of_part.signed)
        parts.append(SplitPart(name, interval_of(of_part.signed), is_above))
    return SplitCost(metric, whole.a, whole.b, interval_of(whole.signed), tuple(parts))


def _is_above(estimate: Estimate) -> bool:
    """Whether the interval lies above zero; False where there is no interval."""
    return estimate.low is not None and estimate.low > 0


def detected_split(comparison: Comparison) -> SplitCost | None:
    """The parts of the first detected gap among the measures, else of the first detected cost.

    None where neither is detected, or costs were not split.
    """
    for metric in measures(comparison):
        gap = detected_gap(comparison, metric)
        if gap is not None:
            split = split_gap(comparison, metric, gap)
            if split is not None:
                return split
    for metric in measures(comparison):
        if metric in comparison.paid:
            return split_cost(comparison, comparison.overall, metric)
    return None


def names_of_parts(report: Report) -> PartNames | None:
    """What the parts of a report's costs are called; None where no cost was split."""
    parts: list[SplitPart] = []
    for comparison in report.costs:
        for group in (*comparison.by_group, comparison.overall):
            for metric in costs_of_constant():
                split = split_cost(comparison, group, metric)
                if split is not None:
                    parts += split.parts
    if not parts:
        return None
    has_step = any(part.name == STEP for part in parts)
    others: dict[str, None] = {}  # in the order in which they are met
    for part in parts:
        if part.name not in (STEP, NOISE):
            others[_NAMES.get(part.name, part.name.replace("_", " "))] = None
    # Where no cost has another part, its column keeps the usual name, and holds dashes.
    return PartNames(has_step, tuple(others) if others else ("clipping",))
