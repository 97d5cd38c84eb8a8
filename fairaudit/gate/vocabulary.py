"""The metrics that a rule may name, and the words for each.

The metric that a rule writes has a name of its own: ``tpr_gap`` is about the gaps that a report
holds under the key ``tpr``. ``reference.M`` is a metric of the model without privacy, ``change.M``
what privacy changes in it, ``COST.PART`` a part of a cost, ``M[2]`` a rate of class 2.
"""

import math
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.metrics.registry import METRICS, PARTS, MetricSpec, Unit, base_metric, costs, part_of

Kind = Literal["arm", "group", "gap"]

# Numbers of an arm's privacy guarantee -> words.
OF_ARM = {
    "epsilon": "epsilon",
    "epsilon_rdp": "epsilon by the RDP accountant",
    "epsilon_if_all_released": "epsilon of releasing every private model of the audit",
    "delta": "delta",
}
_LEADING_LEAKAGE = "leakage_tpr"  # the metric whose gap a rule calls leakage_gap
_CLASS = re.compile(r"(.+)\[(\d+)\](.*)")  # what stands before the class, its number, what follows


class Metric(NamedTuple):
    """What a rule is about.

    Args:
        name: As the rule writes it: ``tpr_gap[2]``.
        key: The name under which the report holds its numbers or gaps: ``tpr[2]``.
        kind: ``arm`` (a number of an arm's guarantee), ``group`` (one of each group), ``gap`` (the
            largest between groups, or that of named groups).
        words: For people.
    """

    name: str
    key: str
    kind: Kind
    words: str

    @property
    def base(self) -> str:
        """Its name in the registry: ``reference.tpr[2]`` -> ``tpr``."""
        return base_metric(self.key)

    @property
    def study(self) -> str:
        """The capability that measures it in trainings of its own, which a report holds apart.

        "" for a metric of the audit's own trainings.
        """
        return "" if self.kind == "arm" else METRICS[self.base].study

    @property
    def is_relative(self) -> bool:
        """Whether it depends on the arm's reference: it compares both or is the reference's own."""
        if self.kind == "arm":
            return False
        is_of_two = "reference" in METRICS[self.base].needs
        return is_of_two or self.key.partition(".")[0] in ("change", "reference")

    @property
    def unit(self) -> Unit | Literal[""]:
        """What it is counted in; "" for a guarantee."""
        if self.kind == "arm":
            return ""
        return METRICS[self.base].unit

    def bounds(self, *, is_change: bool) -> tuple[float, float]:
        """The least and the largest value that it can have; a rule's limit must lie between them.

        ``is_change``: those of its change since another report.
        """
        if self.kind == "arm":
            top = 1.0 if self.key == "delta" else math.inf
            return -top if is_change else 0.0, top
        spec = METRICS[self.base]
        is_difference = is_change or (self.kind == "group" and self.key.startswith("change."))
        if self.kind == "group" and not is_difference:
            return spec.bounds
        # A cost lies between -1 and 1 of its metric's width. Its gaps and changes could be twice as
        # large, and no limit is meant there: they are bounded as the cost itself.
        top = spec.bounds[1] if spec.cost_of else spec.width
        return -top if is_difference else 0.0, top


def metric_names() -> tuple[str, ...]:
    """The name of every metric that a rule may use; rates also exist per class, as ``tpr[2]``."""
    return tuple(_offered())


def names_of(metric: str) -> tuple[str, ...]:
    """The names that rules have for a metric of the registry; its own and that of its gap first.

    The others are about the model without privacy, about what privacy changes, or about parts of a
    cost. Of a rate of one class there are ``tpr[2]`` and ``tpr_gap[2]``; 2 stands for any class.
    """
    offered = _offered()
    names = [name for name, one in offered.items() if one.kind != "arm" and one.base == metric]
    names.sort(key=lambda name: offered[name].kind == "gap")  # all that are of one group before
    first = [name for name in (metric, f"{metric}_gap") if name in offered]
    of_class = [f"{name}[2]" for name in first if _has_classes(offered[name])]
    return (*first, *of_class, *(name for name in names if name not in first))


def find_metric(name: str) -> Metric:
    """Find the metric that a rule names.

    Args:
        name: As the rule writes it, without its statistic: ``accuracy``, ``epsilon``, ``tpr_gap``,
            ``reference.loss``, ``privacy_cost.noise``; a rate of one class has the class behind its
            name, ``tpr_gap[2]``.

    Returns:
        The metric with the key under which a report holds it, its kind and its words.

    Raises:
        ConfigError: There is none; the hint names the nearest.
    """
    offered = _offered()
    if name in offered:
        return offered[name]
    # Else a rate of one class: ``tpr_cost[2].noise`` is offered without its class, as
    # ``tpr_cost.noise``.
    rate = _CLASS.fullmatch(name)
    metric = offered.get(rate[1] + rate[3]) if rate else None
    if rate is None or metric is None or not _has_classes(metric):
        raise ConfigError(f"unknown metric {name!r} in a rule", hint=did_you_mean(name, offered))
    # The key gets the class back, before the part: ``tpr_cost[2].noise``.
    part = part_of(metric.key)
    key = f"{metric.key}[{rate[2]}]"
    if part:
        key = f"{metric.key.removesuffix('.' + part)}[{rate[2]}].{part}"
    return Metric(name, key, metric.kind, f"{metric.words} of class {rate[2]}")


def _has_classes(metric: Metric) -> bool:
    """Whether a metric is a rate of one class, so that there may be one for each class."""
    return metric.kind != "arm" and "positive" in METRICS[metric.base].needs


def _offered() -> dict[str, Metric]:
    """Every metric that a rule may name, by that name, without those of one class; gaps first."""
    metrics: list[Metric] = []
    for name, spec in METRICS.items():
        metrics += _gaps(name, spec.words, spec)
        if spec.is_of_predictions:
            metrics += _gaps(f"reference.{name}", f"{spec.words} without privacy", spec)
            if "retrained" not in spec.needs:  # its change has a name of its own, as a cost has
                metrics += _gaps(f"change.{name}", f"what privacy changes in {spec.words}", spec)
    # A second name for the gap that leads the leakage section.
    leading = next(metric for metric in metrics if metric.key == _LEADING_LEAKAGE)
    metrics.append(leading._replace(name="leakage_gap"))
    for name, spec in METRICS.items():
        metrics.append(Metric(name, name, "group", spec.words))
        if spec.is_of_predictions:
            key = f"reference.{name}"
            metrics.append(Metric(key, key, "group", f"{spec.words} without privacy"))
        if spec.study:  # a study's report holds a change for each group; an audit's only gaps of it
            key = f"change.{name}"
            metrics.append(Metric(key, key, "group", f"what privacy changes in {spec.words}"))
    # A list of the costs first, because ``metrics`` grows in the loop.
    for cost in [metric for metric in metrics if metric.key in costs()]:
        for part, words in PARTS.items():
            part_words = f"{cost.words}, the part {words}"
            metrics.append(
                Metric(f"{cost.name}.{part}", f"{cost.key}.{part}", cost.kind, part_words)
            )
    metrics += [Metric(name, name, "arm", words) for name, words in OF_ARM.items()]
    return {metric.name: metric for metric in metrics}


def _gaps(key: str, words: str, spec: MetricSpec) -> Iterator[Metric]:
    """The gap of a metric, named ``KEY_gap``; none where differences of groups say nothing.

    Args:
        key: The name under which a report holds the metric, as ``reference.tpr``.
        words: What the gap is in.
        spec: The metric's entry in the registry.
    """
    if not spec.has_gap:
        return
    yield Metric(f"{key}_gap", key, "gap", f"gap between groups in {words}")
