"""The metrics that a rule may name, and how each is said."""

import math
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.metrics.registry import (
    METRICS,
    PARTS,
    MetricSpec,
    Unit,
    base_metric,
    costs,
    part_of,
)

Kind = Literal["arm", "group", "gap"]

# Numbers of one trained model's guarantee, with how they are said.
OF_ARM = {
    "epsilon": "epsilon",
    "epsilon_rdp": "epsilon by the RDP accountant",
    "epsilon_if_all_released": "epsilon of releasing every private model of the audit",
    "delta": "delta",
}
_LEADING_LEAKAGE = "leakage_tpr"  # whose gap is meant by leakage_gap
_CLASS = re.compile(r"(.+)\[(\d+)\](.*)")


class Metric(NamedTuple):
    """What a rule is about.

    Args:
        name: As it was written.
        key: The name under which the report holds it.
        kind: ``arm`` (of a guarantee), ``group``, ``gap`` (the largest, or of named groups).
        words: For people.
    """

    name: str
    key: str
    kind: Kind
    words: str

    @property
    def base(self) -> str:
        """``reference.tpr[2]`` -> ``tpr``."""
        return base_metric(self.key)

    @property
    def study(self) -> str:
        """The capability of whose own trainings it is, which a report holds apart; or ""."""
        return "" if self.kind == "arm" else METRICS[self.base].study

    @property
    def is_relative(self) -> bool:
        """Whether it is a comparison with the arm's reference, or the reference's own number."""
        if self.kind == "arm":
            return False
        is_of_two = "reference" in METRICS[self.base].needs
        return is_of_two or self.key.partition(".")[0] in ("change", "reference")

    @property
    def unit(self) -> Unit | Literal[""]:
        """What it is counted in; a guarantee has none."""
        if self.kind == "arm":
            return ""
        return METRICS[self.base].unit

    def bounds(self, *, is_change: bool) -> tuple[float, float]:
        """Least and largest value, or those of its change since another report."""
        if self.kind == "arm":
            top = 1.0 if self.key == "delta" else math.inf
            return -top if is_change else 0.0, top
        spec = METRICS[self.base]
        is_difference = is_change or (self.kind == "group" and self.key.startswith("change."))
        if self.kind == "group" and not is_difference:
            return spec.bounds
        top = spec.bounds[1] if spec.cost_of else spec.width
        return -top if is_difference else 0.0, top


def metric_names() -> tuple[str, ...]:
    """Every metric a rule may name; rates also exist per class, as ``tpr[2]``."""
    return tuple(_offered())


def find_metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        ConfigError: There is none; the hint names the nearest.
    """
    offered = _offered()
    if name in offered:
        return offered[name]
    # Else a rate of one class: ``tpr_cost[2].noise`` is ``tpr_cost.noise`` of class 2.
    rate = _CLASS.fullmatch(name)
    metric = offered.get(rate[1] + rate[3]) if rate else None
    if (
        rate is None
        or metric is None
        or metric.kind == "arm"
        or "positive" not in METRICS[metric.base].needs
    ):
        raise ConfigError(f"unknown metric {name!r} in a rule", hint=did_you_mean(name, offered))
    part = part_of(metric.key)
    key = f"{metric.key.removesuffix(part).removesuffix('.')}[{rate[2]}]"
    key += f".{part}" if part else ""
    return Metric(name, key, metric.kind, f"{metric.words} of class {rate[2]}")


def _offered() -> dict[str, Metric]:
    """Every metric by its name, those of gaps first."""
    metrics: list[Metric] = []
    for name, spec in METRICS.items():
        metrics += _gaps(name, spec.words, spec)
        if "reference" not in spec.needs:
            metrics += _gaps(f"reference.{name}", f"{spec.words} without privacy", spec)
            metrics += _gaps(f"change.{name}", f"what privacy changes in {spec.words}", spec)
    leading = next(metric for metric in metrics if metric.key == _LEADING_LEAKAGE)
    metrics.append(leading._replace(name="leakage_gap"))
    for name, spec in METRICS.items():
        metrics.append(Metric(name, name, "group", spec.words))
        if "reference" not in spec.needs:
            key = f"reference.{name}"
            metrics.append(Metric(key, key, "group", f"{spec.words} without privacy"))
        if spec.study:
            key = f"change.{name}"
            metrics.append(Metric(key, key, "group", f"what privacy changes in {spec.words}"))
    for cost in [metric for metric in metrics if metric.key in costs()]:
        for part, words in PARTS.items():
            part_words = f"{cost.words}, the part {words}"
            metrics.append(
                Metric(f"{cost.name}.{part}", f"{cost.key}.{part}", cost.kind, part_words)
            )
    metrics += [
        Metric(
            name,
            name,
            "arm",
            words,
        )
        for name, words in OF_ARM.items()
    ]
    return {metric.name: metric for metric in metrics}


def _gaps(
    key: str,
    words: str,
    spec: MetricSpec,
) -> Iterator[Metric]:
    """The gap of a metric, as ``KEY_gap``, unless it has none."""
    if "no gap" in spec.needs:
        return
    yield Metric(f"{key}_gap", key, "gap", f"gap between groups in {words}")
