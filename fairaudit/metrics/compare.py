"""One arm against its reference: what privacy costs each group, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairaudit.data.dataset import Grouping
from fairaudit.metrics.gaps import GroupSelection, gaps_of, reading, too_few_for_gates
from fairaudit.metrics.intervals import EvaluatedRecords, MetricTable, estimate
from fairaudit.metrics.registry import CONSTANT, METRICS, costs, spec_of, within_model
from fairaudit.metrics.tables import (
    both_tables,
    cost_tables,
    costs_between,
    impact_change,
    impact_ratio,
    own_tables,
)
from fairaudit.metrics.within_model import Float64, Int64, LabelOutcome, Predictions
from fairaudit.results.estimates import Estimate, Gap, GroupMeasure, Measured, estimated, undefined

FIXED_SPLIT = (
    "the expected gap over training randomness given this training set, on new people of the same "
    "population"
)
SEVERAL_SPLITS = (
    "the expected gap of models trained on rows of this file, on new people of the same population"
)
ONE_MODEL = "these models' gap on new people of the same population; another training may differ"
NO_SEED = "no seed finished in every method that is compared"
NO_POSITIVE = "no positive or favourable class is known: rates are given per class"
TRAINING_ONLY = "training rows: no interval over records; gates read test rows"


@dataclass(frozen=True, slots=True)
class Twin:
    """An arm without its noise, which splits its cost in two.

    Args:
        part: What its cost against the reference is called, of ``registry.PARTS``.
        predictions: Seed by seed; a seed that it lacks leaves the parts without a value.
    """

    part: str
    predictions: Sequence[Predictions]


def compare(
    arm: str,
    reference: str,
    private: Sequence[Predictions],
    baseline: Sequence[Predictions],
    labels: Int64,
    grouping: Grouping,
    positive: int | None,
    n_classes: int,
    fixed_split: bool,
    one_model: bool = False,
    favourable: int | None = None,
    twin: Twin | None = None,
) -> Measured:
    """Everything that is known about an arm's cost, by group.

    Arms are paired by seed; a seed that either arm lacks is left out, and ``n_seeds`` says so.
    Absolute values and maxima are taken after averaging over seeds. Source: docs/methods.md 6.1.

    Args:
        arm, reference: Arm keys.
        private, baseline: Their predictions, seed by seed, on the same rows in the same order.
        labels: Class of every record, ``[N]``.
        grouping: How to cut the records into groups.
        positive: The class that rates are about, or None.
        n_classes: Y.
        fixed_split: All seeds share one split; only names the estimand.
        one_model: One model of each arm is what is measured, not how such models are trained; then
            the intervals are over test records alone.
        favourable: The class that who is selected is given; None for the positive one.
        twin: The arm without its noise, or None where there is none.
    """
    private, baseline = _paired(private, baseline)
    outcome, estimand = (
        LabelOutcome(n_classes, positive, favourable),
        _estimand(fixed_split, one_model),
    )
    cut, records = _cut(baseline, grouping, one_model)
    if not baseline:
        return _nothing((arm, reference, grouping.name), outcome, cut, estimand)
    own, other, changed = both_tables(private, baseline, labels, records, outcome)
    tables = {**cost_tables(changed), **own, **other, **changed}
    if twin is not None:
        tables |= _parts(twin, private, baseline, labels, records, outcome)
    if positive is not None:
        tables |= impact_change(tables, cut.eligible)
    alone = _against_constant(private, labels, records, outcome)
    train = _training(private, baseline, len(cut.names))
    return _comparison((arm, reference, grouping.name), estimand, cut, tables, alone, train)


def _parts(
    twin: Twin,
    private: Sequence[Predictions],
    baseline: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> dict[str, MetricTable]:
    """Every cost as two parts that sum to them: the twin's, and what the noise adds."""
    of_seed = {p.seed: p for p in twin.predictions}
    lacking = [p.seed for p in baseline if p.seed not in of_seed]
    between = [of_seed.get(p.seed, p) for p in baseline]
    found = {
        **costs_between(between, baseline, labels, records, outcome, twin.part),
        **costs_between(private, between, labels, records, outcome, "noise"),
    }
    if not lacking:
        return found
    reason = f"the noise-free twin has no result at seed {lacking[0]}"
    for name, table in found.items():
        found[name] = replace(table, by_seed=np.full_like(table.by_seed, np.nan), reason=reason)
    return found


def _against_constant(
    predictions: Sequence[Predictions],
    labels: Int64,
    records: EvaluatedRecords,
    outcome: LabelOutcome,
) -> dict[str, MetricTable]:
    """Every cost against the model that predicts the training rows' class shares."""
    constant = []
    for p in predictions:
        if p.train_classes is None:
            return {}
        shares = (p.train_classes / p.train_classes.sum()).astype(np.float32)
        probabilities = np.broadcast_to(shares, (1, *p.probabilities.shape[1:]))
        constant.append(replace(p, probabilities=probabilities, weights=None))
    return costs_between(predictions, constant, labels, records, outcome, CONSTANT)


def measure_reference(
    arm: str,
    baseline: Sequence[Predictions],
    labels: Int64,
    grouping: Grouping,
    positive: int | None,
    n_classes: int,
    fixed_split: bool,
    one_model: bool = False,
    favourable: int | None = None,
) -> Measured:
    """The within-model metrics of one arm by itself; no cost, no change.

    Arguments as ``compare``.
    """
    baseline = sorted(baseline, key=lambda p: p.seed)
    outcome, estimand = (
        LabelOutcome(n_classes, positive, favourable),
        _estimand(fixed_split, one_model),
    )
    cut, records = _cut(baseline, grouping, one_model)
    if not baseline:
        return _nothing((arm, "", grouping.name), outcome, cut, estimand)
    tables = own_tables(baseline, labels, records, outcome)
    if positive is not None:
        tables["impact_ratio"] = impact_ratio(
            tables["selection_rate"], "impact_ratio", cut.eligible
        )[0]
    alone = _against_constant(baseline, labels, records, outcome)
    train = _training(baseline, (), len(cut.names))
    return _comparison((arm, "", grouping.name), estimand, cut, tables, alone, train)


def _estimand(fixed_split: bool, one_model: bool) -> str:
    return ONE_MODEL if one_model else FIXED_SPLIT if fixed_split else SEVERAL_SPLITS


def _paired(
    private: Sequence[Predictions], baseline: Sequence[Predictions]
) -> tuple[list[Predictions], list[Predictions]]:
    """Both arms at the seeds that both have, ascending."""
    of_seed = {p.seed: p for p in baseline}
    kept = sorted((p for p in private if p.seed in of_seed), key=lambda p: p.seed)
    matched = [of_seed[p.seed] for p in kept]
    for a, b in zip(kept, matched, strict=True):
        assert np.array_equal(a.rows, b.rows), (
            f"seed {a.seed}: the arms were tested on different rows"
        )
    return kept, matched


def _cut(
    predictions: Sequence[Predictions], grouping: Grouping, one_model: bool
) -> tuple[GroupSelection, EvaluatedRecords]:
    rows = [p.rows for p in predictions] or [np.empty(0, dtype=np.int64)]
    records = EvaluatedRecords.of(rows, grouping.groups, len(grouping.names))
    return GroupSelection(
        grouping.names, grouping.missing, records.count(), len(predictions), one_model
    ), records


class _Training(NamedTuple):
    """Training metrics: name -> ``[S, K + 1]``; mean training records ``[K + 1]``."""

    by_seed: dict[str, Float64]
    counts: Float64


def _training(
    private: Sequence[Predictions], baseline: Sequence[Predictions], n_groups: int
) -> _Training:
    """Training accuracy and loss per group; over all rows weighted by the groups' sizes."""
    found: dict[str, Float64] = {}
    on_training = [spec.name for spec in within_model() if spec.is_on_training]
    for prefix, predictions in (("", private), ("reference.", baseline)):
        counts = np.array([p.train_count for p in predictions], dtype=np.float64)
        for metric in on_training if predictions else ():
            values = np.array([p.over_runs(getattr(p, f"train_{metric}")) for p in predictions])
            weighted = np.where(counts > 0, values, 0.0) * counts
            with np.errstate(invalid="ignore"):
                overall = weighted.sum(axis=1) / counts.sum(axis=1)
            of_groups = np.where(counts > 0, values, np.nan)
            found[f"{prefix}train.{metric}"] = np.column_stack([of_groups, overall])
    for name in costs() if baseline else ():
        metric = METRICS[name].cost_of
        if METRICS[name].is_on_training:
            rise = METRICS[metric].rise
            own, other = found[f"train.{metric}"], found[f"reference.train.{metric}"]
            found[f"train.{name}"] = rise * own - rise * other
    if not private:
        return _Training(found, np.zeros(n_groups + 1))
    mean = np.mean([p.train_count for p in private], axis=0)
    return _Training(found, np.append(mean, mean.sum()))


def _training_estimate(name: str, by_seed: Float64) -> Estimate:
    unit = spec_of(name).unit
    defined = by_seed[~np.isnan(by_seed)]
    if not len(defined):
        return undefined("no training records", unit)
    s = len(defined)
    spread = float(np.std(defined, ddof=1)) / s**0.5 if s > 1 else None
    return estimated(
        float(defined.mean()),
        None,
        None,
        training_sd=spread,
        records_sd=None,
        n_seeds=s,
        n_test=0,
        unit=unit,
        reason=TRAINING_ONLY,
        by_seed=defined.tolist(),
    )


def _comparison(
    names: tuple[str, str, str],
    estimand: str,
    cut: GroupSelection,
    tables: Mapping[str, MetricTable],
    alone: Mapping[str, MetricTable],
    train: _Training,
) -> Measured:
    """``alone`` are tables of groups by themselves, of which no gap is told."""
    told, gaps, divided_by = {}, list[Gap](), {}
    for name, table in (*tables.items(), *alone.items()):
        told[name] = replace(table, one_model=cut.one_model)
        if name not in alone:
            gaps += gaps_of(told[name], cut)
        if table.divisor is not None:
            divided_by[name] = cut.names[table.divisor]
    groups = [_measure(k, cut, told, train) for k in range(len(cut.names) + 1)]
    return _measured(names, estimand, groups, gaps, divided_by)


def _measured(
    names: tuple[str, str, str],
    estimand: str,
    groups: Sequence[GroupMeasure],
    gaps: Sequence[Gap] = (),
    divided_by: Mapping[str, str] | None = None,
) -> Measured:
    return Measured(
        arm=names[0],
        reference=names[1],
        grouping=names[2],
        estimand=estimand,
        overall=groups[-1],
        by_group=tuple(groups[:-1]),
        gaps=tuple(gaps),
        divided_by=dict(divided_by or {}),
    )


def _measure(
    k: int, cut: GroupSelection, tables: Mapping[str, MetricTable], train: _Training
) -> GroupMeasure:
    """All numbers of group k, or of all test rows where k is K."""
    group, reason = "", cut.too_few_seeds
    if k < len(cut.names):
        group, reason = cut.names[k], cut.too_few(k) or reason
    estimates, ungated = {}, {}
    for name, table in tables.items():
        if name.startswith("change."):
            continue
        estimates[name] = estimate(reading(table, cut, k))
        if why := too_few_for_gates(table, cut, [k]):
            ungated[name] = why
    sides = ("", "reference.") if "reference.accuracy" in tables else ("",)
    for side in sides:
        for spec in within_model():
            if spec.needs_a_class:
                estimates.setdefault(side + spec.name, undefined(NO_POSITIVE, spec.unit))
    for name, values in train.by_seed.items():
        estimates[name] = _training_estimate(name, values[:, k])
    return GroupMeasure(
        group=group,
        n_test=int(cut.counts[k]),
        n_train=float(train.counts[k]),
        gated=not reason,
        reason=reason,
        estimates=estimates,
        ungated=ungated,
    )


def _nothing(
    names: tuple[str, str, str], outcome: LabelOutcome, cut: GroupSelection, estimand: str
) -> Measured:
    """No seed finished: every group and number is named, nothing is known."""
    named = [spec.name for spec in within_model() if spec.needs_a_class]
    trained = [f"train.{spec.name}" for spec in within_model() if spec.is_on_training]
    within = [*outcome.metrics, *named, *trained]
    lost = [*costs(), *(f"train.{name}" for name in costs() if METRICS[name].is_on_training)]
    keys = [*lost, *within, *(f"reference.{m}" for m in within)] if names[1] else within
    estimates = {key: undefined(NO_SEED, spec_of(key).unit) for key in keys}
    groups = [
        GroupMeasure(
            group=name, n_test=0, n_train=0.0, gated=False, reason=NO_SEED, estimates=estimates
        )
        for name in (*cut.names, "")
    ]
    return _measured(names, estimand, groups)


NO_PROBABILITIES = "predictions are labels; this needs probabilities"


def of_labels(comparison: Measured) -> Measured:
    """The comparison with every number that needs probabilities made undefined.

    And its gaps gone.
    """
    groups = []
    for measure in (*comparison.by_group, comparison.overall):
        estimates = dict(measure.estimates)
        for name, one in estimates.items():
            if not _of_classes(name):
                estimates[name] = undefined(NO_PROBABILITIES, one.unit, one.n_test)
        ungated = {name: measure.ungated[name] for name in filter(_of_classes, measure.ungated)}
        groups.append(measure.model_copy(update={"estimates": estimates, "ungated": ungated}))
    update = {
        "overall": groups[-1],
        "by_group": tuple(groups[:-1]),
        "gaps": tuple(gap for gap in comparison.gaps if _of_classes(gap.metric)),
    }
    return comparison.model_copy(update=update)


def _of_classes(metric: str) -> bool:
    """Whether the predicted classes alone say it."""
    return "probabilities" not in spec_of(metric).needs
