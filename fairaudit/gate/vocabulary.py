"""The metrics that a rule may name, and how each is said."""

import math
import re
from typing import Literal, NamedTuple

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.metrics.registry import (
    METRICS,
    PARTS,
    Unit,
    base_metric,
    costs,
    of_leakage,
    within_model,
)

Kind = Literal["arm", "group", "gap", "mean_gap"]

# Numbers of one trained model's guarantee, with how they are said.
OF_ARM = {
    "epsilon": "epsilon",
    "epsilon_rdp": "epsilon by the RDP accountant",
    "epsilon_if_all_released": "epsilon of releasing every private model of the audit",
    "delta": "delta",
}
_GAP, _MEAN_GAP = "_gap", "_mean_gap"
_OF_LEAKAGE = "leakage_gap"  # short for the one that a report leads with
_CLASS = re.compile(r"(.+)\[(\d+)\]")


class Bounds(NamedTuple):
    """Where a number of a report lies; an open end is not reached."""

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False


class Metric(NamedTuple):
    """What a rule is about.

    Args:
        name: As it was written.
        key: The name under which the report holds it.
        kind: ``arm`` (of a guarantee), ``group``, ``gap`` (the largest, or of named groups),
            ``mean_gap`` (over all pairs of groups).
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
    def is_of_leakage(self) -> bool:
        """Whether it is of models that were attacked, which a report holds apart."""
        return self.kind != "arm" and "leakage" in METRICS[self.base].needs

    @property
    def is_relative(self) -> bool:
        """Whether it is a comparison with the arm's reference, or the reference's own number."""
        return self.key.partition(".")[0] in ("change", "reference") or self.base in costs()

    @property
    def unit(self) -> Unit | Literal[""]:
        """What it is counted in; a guarantee has none."""
        if self.kind == "arm":
            return ""
        return METRICS[self.base].unit

    def bounds(self, *, is_change: bool) -> Bounds:
        """Where its values lie, or those of its change since another report.

        A gap of 1 would be one of 100 points: a cost's gap could pass it only where privacy takes
        from one group what it gives to another, so a rule that says 1 means something else.
        """
        if self.kind == "arm":
            top = 1.0 if self.key == "delta" else math.inf
            if is_change:
                return Bounds(-top, top)
            return Bounds(0.0, top, low_open=True, high_open=True)
        spec = METRICS[self.base]
        if self.key.startswith("change.") and self.kind == "group":
            return Bounds(-spec.width, spec.width)
        top = spec.bounds[1] if spec.cost_of else spec.width
        if is_change:
            return Bounds(-top, top)
        if self.kind != "group":
            return Bounds(0.0, top, high_open=True)
        return Bounds(*spec.bounds)


def metric_names() -> tuple[str, ...]:
    """Every metric a rule may name; rates also exist per class, as ``tpr[2]``."""
    groups = list(_of_groups())
    compared = [name for name, spec in METRICS.items() if "both rates" not in spec.needs]
    gaps = [name + _GAP for name in compared]
    beside = [spec.name for spec in (*within_model(), *of_leakage()) if spec.name in compared]
    gaps += [f"{prefix}.{name}{_GAP}" for prefix in ("reference", "change") for name in beside]
    gaps += [name + _MEAN_GAP for name in costs()]
    parts = [
        f"{name}{suffix}.{part}"
        for name in costs()
        for suffix in ("", _GAP, _MEAN_GAP)
        for part in PARTS
    ]
    return (*gaps, _OF_LEAKAGE, *groups, *parts, *OF_ARM)


def find_metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        ConfigError: There is none; the hint names the nearest.
    """
    if name == _OF_LEAKAGE:
        return find_metric(f"leakage_tpr{_GAP}")._replace(name=name)
    if name in OF_ARM:
        return Metric(name, name, "arm", OF_ARM[name])
    whole, _, part = name.rpartition(".")
    if part in PARTS and whole.removesuffix(_MEAN_GAP).removesuffix(_GAP) in costs():
        metric = find_metric(whole)
        return Metric(
            name, f"{metric.key}.{part}", metric.kind, f"{metric.words}, the part {PARTS[part]}"
        )
    for suffix, kind, words in _SUFFIXES:
        stem = name.removesuffix(suffix)
        if suffix and stem == name:
            continue
        said = _words(stem, is_gap=bool(suffix))
        if said is not None and not (kind == "mean_gap" and stem not in costs()):
            return Metric(name, stem, kind, words.format(said))
    raise ConfigError(f"unknown metric {name!r} in a rule", hint=did_you_mean(name, metric_names()))


# The longer suffix first, for the shorter one ends it.
_SUFFIXES: tuple[tuple[str, Kind, str], ...] = (
    (_MEAN_GAP, "mean_gap", "mean gap over all pairs of groups in {}"),
    (_GAP, "gap", "gap between groups in {}"),
    ("", "group", "{}"),
)


def _of_groups() -> tuple[str, ...]:
    reference = (f"reference.{spec.name}" for spec in (*within_model(), *of_leakage()))
    changed = (f"change.{spec.name}" for spec in of_leakage())
    training = (f"train.{name}" for name, spec in METRICS.items() if spec.is_on_training)
    without = (f"reference.train.{spec.name}" for spec in within_model() if spec.is_on_training)
    return (*METRICS, *reference, *changed, *training, *without)


def _words(stem: str, *, is_gap: bool) -> str | None:
    """What the stem means, or None where no report holds it (as a gap)."""
    rate = _CLASS.fullmatch(stem)
    plain, of_class = (rate[1], f" of class {rate[2]}") if rate else (stem, "")
    base = plain.rpartition(".")[2]
    spec = METRICS.get(base)
    if (
        spec is None
        or (rate and "positive" not in spec.needs)
        or (is_gap and "both rates" in spec.needs)
    ):
        return None
    prefix, said = plain.removesuffix(base), spec.words
    if not prefix:
        return said + of_class
    if prefix == "change." and (is_gap or "leakage" in spec.needs) and not spec.cost_of:
        return f"what privacy changes in {said}{of_class}"
    if prefix == "reference." and not spec.cost_of:
        return f"{said}{of_class} without privacy"
    is_training = plain in _of_groups() and "train." in prefix and not is_gap
    if is_training:
        where = " without privacy" if prefix.startswith("reference") else ""
        return f"{said} on training rows{where}"
    return None
