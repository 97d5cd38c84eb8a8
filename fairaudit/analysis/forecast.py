"""Whether a table's rows and an audit's seeds can decide a rule, said before anything is trained.

A forecast assumes how many answers privacy changes, and that it changes the same people's at every
seed, half of them for the better: predictions are made up so and measured as those of trainings
are. Groups, splits, smallest sizes and all that intervals are made of are then the audit's own.
What trainings differ by from seed to seed is not known beforehand and adds to the interval.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairaudit.analysis.measure import evaluation
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.gate.grammar import ALL_ROWS, GateRule
from fairaudit.metrics.compare import compare
from fairaudit.metrics.quantiles import half_width
from fairaudit.metrics.registry import METRICS, part_of
from fairaudit.metrics.within_model import ArmPredictions
from fairaudit.planning.plan import Plan
from fairaudit.privacy.streams import numpy_stream
from fairaudit.report.measures import main_gap
from fairaudit.results.estimates import Comparison, Estimate

_MOST_SEEDS = 8  # a forecast names up to so many times the planned seeds
_MOST_ROWS = 20  # and up to so many times the rows at hand
# Of more rows every k-th gets a made-up prediction, and the interval is scaled by 1 / sqrt(k).
_LARGEST = 200_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a rule can be expected to say.

    Args:
        rule: Its text.
        half_width: Half of the widest interval of a number that it is about, in the metric's unit.
        limit: Of the rule, in that unit.
        changed: Share of answers that privacy is assumed to change.
        seeds: Planned.
        seeds_needed: With how many the rule would pass if nothing differed; None: not with up to
            eight times as many, or it does so already.
        rows_factor: How many times the rows it would take; None likewise, beyond twenty times.
        reason: Why nothing can be said, or "".
    """

    rule: str
    half_width: float | None
    limit: float
    changed: float
    seeds: int
    seeds_needed: int | None = None
    rows_factor: float | None = None
    reason: str = ""

    @property
    def can_pass(self) -> bool:
        """Whether the rule would pass if privacy cost no group anything."""
        return self.half_width is not None and self.half_width <= self.limit


def forecasts(
    plan: Plan, dataset: Dataset, rules: Sequence[GateRule], *, changed: float
) -> Iterator[Forecast]:
    """A forecast for every rule that fails where a cost in answers, or its gap, is large.

    Of other rules nothing is said: what a loss or a metric of a model will be is not known.

    Args:
        plan: How often it is split and trained.
        dataset: Labels and groups.
        rules: Of the audit.
        changed: Share of test rows that the private model and its reference answer differently.
    """
    asked = [rule for rule in rules if _is_foreseeable(rule)]
    if not asked:
        return
    compared = [
        _hypothetical_comparison(plan, dataset, grouping, changed) for grouping in dataset.groupings
    ]
    scale = _step(dataset) ** -0.5  # of intervals: they shrink with the root of the rows
    for rule in asked:
        numbers: list[Estimate] = []
        for comparison in compared:
            numbers += _numbers(rule, comparison)
        yield _forecast(rule, numbers, scale, changed, plan.config.seeds)


def _is_foreseeable(rule: GateRule) -> bool:
    """Whether a rule limits a cost that is counted in answers, or its gap, from above."""
    # A number of a guarantee (``arm``) is no entry of the registry, which is read below.
    if rule.metric.kind == "arm" or rule.metric.study or part_of(rule.metric.key):
        return False
    spec = METRICS[rule.metric.base]
    is_cost = bool(spec.cost_of) and spec.unit == "fraction" and not spec.study
    return is_cost and rule.fails_above and not rule.is_change and rule.statistic == "interval"


def _step(dataset: Dataset) -> int:
    """k where every k-th row is taken, so that at most ``_LARGEST`` are."""
    return max(1, math.ceil(dataset.n_rows / _LARGEST))


def _hypothetical_comparison(
    plan: Plan, dataset: Dataset, grouping: Grouping, changed: float
) -> Comparison:
    """The comparison of two made-up models whose answers differ in a share of the rows.

    In half of that share the reference alone is wrong, in the other half the private model alone;
    both are right elsewhere. The rows are the same at every seed.

    Args:
        plan: How often it is split.
        dataset: Labels, and the split where it is given; of many rows every k-th is taken.
        grouping: By which it is cut.
        changed: The share.
    """
    draw = numpy_stream(0, "probe", "forecast")  # one seed, so every forecast is the same again
    taken = np.arange(0, dataset.n_rows, _step(dataset))
    labels, n_classes = dataset.labels, len(dataset.classes)
    uniform = draw.random(dataset.n_rows)  # decides which of both models, if any, errs on a row
    wrong = (labels + 1) % n_classes
    reference = np.where(uniform < changed / 2, wrong, labels)
    private = np.where((uniform >= changed / 2) & (uniform < changed), wrong, labels)
    arms: tuple[list[ArmPredictions], list[ArmPredictions]] = ([], [])
    for seed in range(plan.config.seeds):
        is_test = draw.random(len(taken)) < plan.config.test_size
        if dataset.split is not None:
            is_test = dataset.split[taken] == 1  # 1 marks the given test rows
        rows = taken[is_test]
        for predictions, answers in zip(arms, (private, reference), strict=True):
            predictions.append(
                ArmPredictions(
                    seed=seed,
                    rows=rows,
                    # One run that is certain of its answer, [1, n, Y].
                    probabilities=np.eye(n_classes, dtype=np.float32)[answers[rows]][None],
                    # No number of a forecast reads the training rows.
                    train_count=np.zeros(len(grouping.names), dtype=np.int64),
                )
            )
    shared = evaluation(dataset, grouping, plan.config.suppress_below)
    return compare(shared, "forecast", "reference", *arms)


def _numbers(rule: GateRule, comparison: Comparison) -> Iterator[Estimate]:
    """The numbers of a comparison that a rule would be about, where gates may read them."""
    key, groups = rule.metric.key, rule.groups
    selector = rule.group
    if selector is not None and selector.grouping not in (ALL_ROWS, comparison.grouping):
        return  # the rule is about another grouping
    if rule.metric.kind == "gap":
        gap = main_gap(comparison, key)  # stays unless the rule names groups
        for one in comparison.gaps:
            # A gap of one group against all rows has "" in the place of the second.
            is_named = one.kind != "max" and {one.a, one.b} - {""} == set(groups)
            if groups and one.metric == key and is_named:
                gap = one
        if gap is not None and gap.gated:
            yield gap.signed
        return
    measured = [comparison.overall] if rule.is_overall else comparison.by_group
    for group in measured:
        estimate = group.estimates.get(key)
        is_meant = group.group in groups or not groups
        if is_meant and estimate is not None and group.gated and key not in group.ungated:
            yield estimate


def _forecast(
    rule: GateRule, numbers: Sequence[Estimate], scale: float, changed: float, seeds: int
) -> Forecast:
    """The forecast by the number with the widest interval.

    With m times the seeds V_seed is divided by m and t has more degrees of freedom; with m times
    the rows the half-width is divided by sqrt(m).

    Args:
        rule: The rule.
        numbers: What it would be about.
        scale: Factor of their intervals: below 1 where only some of the rows were taken.
        changed, seeds: As of :class:`Forecast`.
    """

    def half(number: Estimate) -> float:
        """Half of the interval; that of a largest gap is cut at 0, so the upper half is taken."""
        assert number.ends is not None, "those without an interval are left out"
        return scale * (number.ends.high - (number.value or 0.0))

    known = [number for number in numbers if number.ends is not None]
    limit = rule.number
    if not known:
        why = "too few test rows, or too few seeds"
        return Forecast(rule.text, None, limit, changed, seeds, reason=why)
    widest = max(known, key=half)
    wide = half(widest)
    needed = factor = None  # seeds, and times the rows, with which half the interval is the limit
    if wide > limit:
        training = (widest.training_sd or 0.0) ** 2
        records = (widest.records_sd or 0.0) ** 2
        planned = half_width(training, records, seeds)
        for times in range(2, _MOST_SEEDS + 1):
            with_more = half_width(training / times, records, times * seeds)
            if needed is None and wide * with_more / planned <= limit:
                needed = times * seeds
        rows = (wide / limit) ** 2 if limit > 0 else math.inf
        factor = rows if rows <= _MOST_ROWS else None
    return Forecast(rule.text, wide, limit, changed, seeds, needed, factor)
