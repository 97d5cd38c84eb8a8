"""The costs and gaps of a report by name: which stand for a comparison, and in which words.

A comparison is one arm against its reference, cut by one grouping. It holds gaps of every metric:
one of kind ``pair`` for every two groups, a against b, and one of kind ``max``, the largest of
them. A gap is detected if a test finds it beside everything that is judged of its arm. A measure is
a cost; a cost in a rate of one class may be there for each class, as ``tpr_cost[2]`` for the class
of index 2.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence

from fairaudit.metrics.registry import METRICS, costs, part_of, spec_of
from fairaudit.report.model import Report
from fairaudit.report.numbers import DEGREES, OWN_UNIT, POINTS, READINGS, Scale
from fairaudit.report.safe_names import plain
from fairaudit.report.types.facts import LabelFacts
from fairaudit.results.estimates import Comparison, Gap, Interval, interval_of

COST = "privacy_cost"  # the one that a report leads with
_MOST_SHOWN = 6  # measures in a table or chart, but for those that a rule names
# The metric that a rule begins with: ``tpr_gap[2]`` of ``reference.tpr_gap[2]@sex=F > 0.1``. What
# parses a rule whole is ``gate``, a room above this one; and the record of a rule about a change
# since another report has no metric of its own.
_RULE_METRIC = re.compile(r"(?:(?:reference|change)\.)?(\w+)(\[\d+\])?")
_SCALES = {"fraction": POINTS, "degrees": DEGREES, "nats a step": READINGS}


def main_gap(comparison: Comparison, metric: str = COST) -> Gap | None:
    """The gap that stands for the comparison: the only pair's, else the largest over all groups.

    None where the metric has no gap.
    """
    pairs, largest = [], None
    for gap in comparison.gaps:
        if gap.metric == metric and gap.kind == "pair":
            pairs.append(gap)
        elif gap.metric == metric and gap.kind == "max":
            largest = gap
    # A named pair may be the only one that a report keeps of many groups: of a metric by class it
    # keeps the largest gap and named pairs alone. Then that pair does not stand for all groups.
    is_one_of_many = bool(pairs) and pairs[0].named and len(comparison.by_group) > 2
    if len(pairs) == 1 and (largest is None or not is_one_of_many):
        return pairs[0]
    return largest


def named_gaps(comparison: Comparison, metric: str = COST) -> list[Gap]:
    """The gaps of the pairs that ``--compare`` named before training.

    The main gap is left out: where there are two groups, it may itself be that of a named pair.
    """
    named = [gap for gap in comparison.gaps if gap.named and gap.metric == metric]
    main = main_gap(comparison, metric)
    return [gap for gap in named if gap is not main]


def detected_gap(comparison: Comparison, metric: str = COST) -> Gap | None:
    """The gap that sentences explain; None where no two groups are detected to differ.

    It is the first detected one of: the main gap, the pairs that ``--compare`` named, all pairs by
    falling size. Of three groups the largest gap may be undetected and a smaller one detected.
    """
    pairs = [gap for gap in comparison.gaps if gap.metric == metric and gap.kind == "pair"]
    pairs.sort(key=lambda gap: -abs(gap.signed.value or 0.0))
    main = main_gap(comparison, metric)
    # The named pair of the same two groups as the largest gap comes first: its interval is that of
    # one pair, while the largest gap's allows for all pairs that it was chosen from.
    named_main = [gap for gap in pairs if gap.named and main and {gap.a, gap.b} == {main.a, main.b}]
    for gap in (*named_main, main, *named_gaps(comparison, metric), *pairs):
        if gap is not None and is_detected(gap):
            return gap
    return None


def detected_pair(comparison: Comparison) -> tuple[str, str] | None:
    """Two groups whose excess risks are detected to differ, the larger first.

    ``--diagnostics full`` reads checkpoints to explain the difference of this pair. None where no
    difference is detected, and where the first group's own excess risk is not above zero: then
    there is no cost to explain.
    """
    gap = detected_gap(comparison, "excess_risk")
    if gap is None:
        return None
    gap = gap.larger_first
    low = cost_of(comparison, gap.a, "excess_risk").low
    return (gap.a, gap.b) if low is not None and low > 0 else None


def cost_of(comparison: Comparison, group: str, metric: str) -> Interval:
    """A group's number of a metric, with its interval; its value None where not measured."""
    for measure in comparison.by_group:
        if measure.group == group:
            return interval_of(measure.estimates.get(metric))
    return interval_of(None)


def is_rate(metric: str) -> bool:
    """Whether a cost is the worsening of a rate of one class (as the true positive rate).

    Then a sentence says that the rate falls or rises, not that rows pay.
    """
    return bool(spec_of(metric).needs & {"positive", "favourable"})


def is_detected(gap: Gap) -> bool:
    """Whether a sentence may say that the two groups of a gap differ."""
    return gap.reading == "detected"


def cost_names(comparison: Comparison) -> list[str]:
    """The measures that a comparison has: whole costs, without their parts.

    They stand in the order of the registry's costs, those by class in the order of the classes.
    """
    # By length first, so that class 10 comes after class 2.
    names = sorted(comparison.overall.estimates, key=lambda name: (len(name), name))
    whole = [name for name in names if not part_of(name)]
    return [name for cost in costs() for name in whole if name.partition("[")[0] == cost]


def measures(comparison: Comparison) -> list[str]:
    """The measures that findings are about: of every cost one, or of a cost by class several.

    Of a cost that is there for each class these are the classes whose gap is detected. Where none
    is, it is the class whose gap may be the largest, by the farther end of its interval.
    """
    names = []
    with_gap = dict.fromkeys(gap.metric for gap in comparison.gaps if not part_of(gap.metric))
    for cost in costs():
        of_cost = [name for name in with_gap if name.partition("[")[0] == cost]
        gaps = [main_gap(comparison, name) for name in of_cost]
        defined = [gap for gap in gaps if gap is not None]
        detected = [gap.metric for gap in defined if detected_gap(comparison, gap.metric)]
        if detected:
            names += detected
        elif defined:
            names.append(max(defined, key=_largest_possible).metric)
    return names


def _largest_possible(gap: Gap) -> float:
    """The largest size that a gap's interval allows; infinite where there is no interval."""
    return math.inf if gap.signed.ends is None else max(map(abs, gap.signed.ends))


def shown_costs(report: Report) -> list[str]:
    """The measures that tables and charts show: the first six, and those that a rule names."""
    named = names_in_rules(report)
    names = _costs_to_show(report)
    return names[:_MOST_SHOWN] + [name for name in names[_MOST_SHOWN:] if name in named]


def left_out_costs(report: Report) -> list[str]:
    """The measures that tables and charts have no room for."""
    shown = shown_costs(report)
    return [name for name in _costs_to_show(report) if name not in shown]


def _costs_to_show(report: Report) -> list[str]:
    """The measures of which any group has a value, if there were room for all.

    Of a cost by class only the classes that findings of some comparison are about, or a rule.
    Where the classes are the groups, the recall of a class repeats the accuracy of its group: only
    a rule asks for its cost.
    """
    wanted = {name for name in all_costs(report) if "[" not in name}
    for comparison in report.costs:
        wanted |= set(measures(comparison))
    label = report.data.label.column
    if any(grouping.name == label for grouping in report.data.groupings):
        wanted = {name for name in wanted if spec_of(name).cost_of != "tpr"}
    wanted |= names_in_rules(report)
    return [name for name in all_costs(report) if name in wanted and is_known(report.costs, name)]


def names_in_rules(report: Report) -> set[str]:
    """The names of metrics that rules hold: ``tpr_cost[2]`` of ``tpr_cost_gap[2].noise > 0``."""
    matches = (_RULE_METRIC.match(gate.rule) for gate in report.gates)
    return {match[1].removesuffix("_gap") + (match[2] or "") for match in matches if match}


def is_known(comparisons: Iterable[Comparison], metric: str) -> bool:
    """Whether any group has a value of the metric."""
    return any(
        group.value(metric) is not None for compared in comparisons for group in compared.by_group
    )


def all_costs(report: Report) -> list[str]:
    """The measures that any comparison of the report has, each once, as they are first met."""
    names: dict[str, None] = {}
    for comparison in report.costs:
        names |= dict.fromkeys(cost_names(comparison))
    return list(names)


def measure_title(metric: str, label: LabelFacts) -> tuple[str, str]:
    """The title of a cost, and what its numbers are counted in.

    As ``privacy cost`` in ``points of accuracy lost``. A cost without a name of its own is titled
    by what worsens: ``true positive rate`` in ``points lost``.
    """
    spec, lost = spec_of(metric), measure_text(metric, label)
    change = "added" if _worsens_upwards(metric) else "lost"
    if spec.header:
        return spec.header, f"{spec.counted} of {lost} {change}"
    return lost, f"{spec.counted} {change}"


def cost_title(metric: str, label: LabelFacts) -> str:
    """The title of a column or chart: a cost with what it is counted in."""
    title, counted = measure_title(metric, label)
    return f"{plain(title)} ({plain(counted, 80)})"


def change_words(metric: str, label: LabelFacts) -> tuple[str, str]:
    """The clause that the rate behind a cost worsens, and the clause that it gets better.

    As ``the true positive rate falls`` and ``the true positive rate rises``.
    """
    if "favourable" in spec_of(metric).needs:
        # Where nobody said which class people want, it is not called selected.
        chosen = f"predicted {label.favourable}" if label.is_assumed else "selected"
        return f"{chosen} less often than before", f"{chosen} more often than before"
    rate = measure_text(metric, label)
    worse, better = ("rises", "falls") if _worsens_upwards(metric) else ("falls", "rises")
    return f"the {rate} {worse}", f"the {rate} {better}"


def better_words(metric: str) -> str:
    """The clause that a rate gets better, where it follows a clause that the rate worsens.

    As ``it rises`` of one group, after ``the true positive rate falls`` of another.
    """
    if "favourable" in spec_of(metric).needs:
        return "more often"
    return "it falls" if _worsens_upwards(metric) else "it rises"


def _worsens_upwards(metric: str) -> bool:
    """Whether a cost is that of a metric which is worse the higher it is, as a loss."""
    behind = spec_of(metric).cost_of
    return bool(behind) and METRICS[behind].worst == "highest"


def compared_pairs(report: Report, arm: str, metrics: Collection[str]) -> int:
    """How many gaps between two groups are compared of a method, of all measures and groupings.

    A pair that gates may not read does not count. A pair that is compared under several references
    of the method counts once.

    Args:
        report: Holds the comparisons.
        arm: Key of the method's arm.
        metrics: The measures.
    """
    pairs = set()
    for comparison in report.comparisons:
        if comparison.arm == arm:
            for gap in comparison.gaps:
                if gap.kind == "pair" and gap.metric in metrics and gap.gated:
                    pairs.add((comparison.grouping, gap.metric, gap.a, gap.b))
    return len(pairs)


def measure_text(metric: str, label: LabelFacts) -> str:
    """The metric behind a cost, in words: ``accuracy``, ``recall of square``.

    Args:
        metric: Name of the cost, or of another metric, which then stands for itself.
        label: Names of the classes, and which of them is favourable.
    """
    spec = spec_of(metric)
    if spec.cost_of:
        spec = METRICS[spec.cost_of]
    words = spec.words.partition(" (")[0]  # ``loss (nats)`` without its unit
    class_index = metric.partition("[")[2].removesuffix("]")  # "2" of ``tpr_cost[2]``
    if class_index.isdecimal():
        # The true positive rate of one class is what is known as the recall of that class.
        name = label.classes[int(class_index)].name
        return f"recall of {name}" if spec.name == "tpr" else f"{words} of {name}"
    # Where nobody said which class people want, it is not called selected.
    if "favourable" in spec.needs and label.is_assumed:
        return f"share predicted {label.favourable}"
    # Rates are about the favourable class. Where that is not the positive one, "true positive rate"
    # would name the wrong class.
    is_other_class = label.favourable not in (None, label.positive)
    if is_other_class and spec.name == "tpr":
        return f"recall of {label.favourable}"
    return words


def metric_text(metric: str, classes: Sequence[str]) -> str:
    """A metric by the name that rules use, and its class: ``change.tpr[2]`` -> ``tpr[2] (square)``.

    Args:
        metric: A name of a gap; ``change.`` says that it is how much privacy widens the gap.
        classes: Names of the classes, by their index.
    """
    name = metric.removeprefix("change.")
    class_index = name.partition("[")[2].removesuffix("]")
    if class_index.isdecimal() and int(class_index) < len(classes):
        return f"{name} ({classes[int(class_index)]})"
    return name


def scale_of(metric: str) -> Scale:
    """How numbers of a metric are written: fractions in points, others in their own unit."""
    return _SCALES.get(spec_of(metric).unit, OWN_UNIT)
