"""One arm against its reference: what privacy costs each group, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairaudit.data.dataset import Grouping
from fairaudit.metrics.answers import doubtful_classes
from fairaudit.metrics.gaps import GroupSelection, gaps_of, reading, too_few_for_gates
from fairaudit.metrics.intervals import EvaluatedRecords, MetricTable, estimate
from fairaudit.metrics.registry import (
    CONSTANT,
    NOISE,
    STEP_AND_NOISE,
    base_metric,
    beside_constant,
    costs,
    spec_of,
    within_model,
)
from fairaudit.metrics.tables import (
    both_tables,
    costs_between,
    evaluated,
    impact_change,
    impact_ratio,
    own_tables,
)
from fairaudit.metrics.within_model import EvaluatedSeed, Float64, Int64, LabelOutcome, Predictions
from fairaudit.results.estimates import Gap, GroupMeasure, Measured, undefined

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


@dataclass(frozen=True, slots=True)
class Twin:
    """A model between an arm and its reference, which splits the arm's cost.

    Args:
        part: What its cost against the model before it is called, of ``registry.PARTS``.
        predictions: Seed by seed; a seed that it lacks leaves the parts without a value.
    """

    part: str
    predictions: Sequence[Predictions]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What models are measured on, by one grouping.

    Args:
        labels: Class of every record, ``[N]``.
        grouping: How to cut the records into groups.
        outcome: Which classes count.
        estimand: :data:`FIXED_SPLIT`, :data:`SEVERAL_SPLITS`, or :data:`ONE_MODEL` where one model
            is what is measured and not how such models are trained; then the intervals are over
            test records alone.
    """

    labels: Int64
    grouping: Grouping
    outcome: LabelOutcome
    estimand: str

    def records(self, predictions: Sequence[Predictions]) -> EvaluatedRecords:
        """The index of all test rows."""
        return EvaluatedRecords.of(
            [p.rows for p in predictions],
            self.grouping.groups,
            len(self.grouping.names),
        )

    def selection(self, records: EvaluatedRecords, seeds: int) -> GroupSelection:
        """The groups as they are in these records."""
        names, missing = self.grouping.names, self.grouping.missing
        is_one = self.estimand == ONE_MODEL
        return GroupSelection(
            names,
            missing,
            records.count(),
            seeds,
            is_one,
        )


def compare(
    evaluation: Evaluation,
    arm: str,
    reference: str,
    private: Sequence[Predictions],
    baseline: Sequence[Predictions],
    twins: Sequence[Twin] = (),
) -> Measured:
    """Everything that is known about an arm's cost, by group.

    Arms are paired by seed; a seed that either arm lacks is left out, and ``n_seeds`` says so.
    Absolute values and maxima are taken after averaging over seeds. Source: docs/methods.md 6.1.

    Args:
        evaluation: What both are measured on.
        arm, reference: Arm keys.
        private, baseline: Their predictions, seed by seed, on the same rows in the same order.
        twins: Models between both, the reference's next first; the last is the arm without noise.
    """
    of_seed = {p.seed: p for p in baseline}
    private = sorted((p for p in private if p.seed in of_seed), key=lambda p: p.seed)
    baseline = [of_seed[p.seed] for p in private]
    for a, b in zip(private, baseline, strict=True):
        assert np.array_equal(a.rows, b.rows), (
            f"seed {a.seed}: the arms were tested on different rows"
        )
    if not baseline:
        return _nothing(evaluation, arm, reference)
    records, outcome = evaluation.records(baseline), evaluation.outcome
    cut = evaluation.selection(records, len(baseline))
    ours = evaluated(private, evaluation.labels, records, outcome)
    theirs = evaluated(baseline, evaluation.labels, records, outcome)
    arm_tables, baseline_tables, changed = both_tables(ours, theirs, records, outcome)
    tables = {
        **costs_between(
            ours,
            theirs,
            records,
            outcome,
        ),
        **arm_tables,
        **baseline_tables,
        **changed,
    }
    if twins:
        tables |= _part_tables(
            twins,
            baseline,
            (ours, theirs),
            evaluation,
            records,
        )
    if outcome.positive is not None:
        tables |= impact_change(tables, cut.eligible)
    alone = _against_constant(evaluation, private, ours, records)
    train = _training_rows(private)
    measured = _comparison(
        evaluation,
        (arm, reference),
        cut,
        tables,
        alone,
        train,
    )
    doubtful = tuple(
        doubtful_classes(
            ours,
            theirs,
            records,
            outcome,
            cut,
        )
    )
    return measured.model_copy(update={"doubtful": doubtful})


def _part_tables(
    twins: Sequence[Twin],
    baseline: Sequence[Predictions],
    ends: tuple[Sequence[EvaluatedSeed], Sequence[EvaluatedSeed]],
    evaluation: Evaluation,
    records: EvaluatedRecords,
) -> dict[str, MetricTable]:
    """Every cost's parts, which sum to it at each seed. ``ends``: the arm and its reference.

    Of three parts step and noise also stand together.
    """
    outcome, (arm, reference) = evaluation.outcome, ends
    tables: dict[str, MetricTable] = {}
    lacking: list[int] = []
    before = reference
    between = []
    for twin in twins:
        of_seed = {p.seed: p for p in twin.predictions}
        lacking += [p.seed for p in baseline if p.seed not in of_seed]
        # At a seed that it lacks the reference holds its place; the parts are made undefined below.
        models = [of_seed.get(p.seed, p) for p in baseline]
        # A twin that is the reference stays the same object: `costs_between` gives it no variance.
        after = before
        if any(model is not p for model, p in zip(models, baseline, strict=True)):
            after = evaluated(models, evaluation.labels, records, outcome)
        tables |= costs_between(after, before, records, outcome, twin.part)
        before = after
        between.append(after)
    tables |= costs_between(arm, before, records, outcome, NOISE)
    if len(between) == 2:
        stepping, quiet = between
        clipping = (quiet, stepping)
        tables |= costs_between(arm, reference, records, outcome, STEP_AND_NOISE, clipping)
    if lacking:
        for name, table in tables.items():
            nothing = np.full_like(table.by_seed, np.nan)
            reason = f"the noise-free twin has no result at seed {lacking[0]}"
            tables[name] = replace(table, by_seed=nothing, reason=reason)
    return tables


def measure_reference(
    evaluation: Evaluation, arm: str, predictions: Sequence[Predictions]
) -> Measured:
    """The within-model metrics of one arm by itself; no cost, no change.

    Arguments as ``compare``.
    """
    predictions = sorted(predictions, key=lambda p: p.seed)
    if not predictions:
        return _nothing(evaluation, arm, "")
    records, outcome = evaluation.records(predictions), evaluation.outcome
    cut = evaluation.selection(records, len(predictions))
    seeds = evaluated(predictions, evaluation.labels, records, outcome)
    tables = own_tables(seeds, records, outcome)
    if outcome.positive is not None:
        ratio, _ = impact_ratio(tables["selection_rate"], "impact_ratio", cut.eligible)
        tables[ratio.name] = ratio
    alone = _against_constant(evaluation, predictions, seeds, records)
    train = _training_rows(predictions)
    return _comparison(
        evaluation,
        (arm, ""),
        cut,
        tables,
        alone,
        train,
    )


def _against_constant(
    evaluation: Evaluation,
    predictions: Sequence[Predictions],
    seeds: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
) -> dict[str, MetricTable]:
    """Every cost against the model that predicts the training rows' class shares."""
    constant = []
    for p in predictions:
        if p.train_classes is None:
            return {}
        shares = (p.train_classes / p.train_classes.sum()).astype(np.float32)
        probabilities = np.broadcast_to(shares, (1, *p.probabilities.shape[1:]))
        constant.append(replace(p, probabilities=probabilities, weights=None))
    shares_alone = evaluated(constant, evaluation.labels, records, evaluation.outcome)
    tables = costs_between(seeds, shares_alone, records, evaluation.outcome, CONSTANT)
    return {name: tables[name] for name in tables if base_metric(name) in beside_constant()}


def _training_rows(predictions: Sequence[Predictions]) -> Float64:
    """Training rows of each group and of all, in the mean over seeds, ``[K + 1]``."""
    mean = np.mean([p.train_count for p in predictions], axis=0)
    return np.append(mean, mean.sum())


def _comparison(
    evaluation: Evaluation,
    arms: tuple[str, str],
    cut: GroupSelection,
    tables: Mapping[str, MetricTable],
    alone: Mapping[str, MetricTable],
    train: Float64,
) -> Measured:
    """Numbers and gaps of all tables; ``train``: training rows by group and in all, ``[K + 1]``.

    ``alone`` are tables of groups by themselves, of which no gap is told.
    """
    shown, gaps, divided_by = {}, list[Gap](), {}
    for name, table in (*tables.items(), *alone.items()):
        shown[name] = replace(table, one_model=cut.one_model)
        if name not in alone:
            gaps += gaps_of(shown[name], cut)
        if table.divisor is not None:
            divided_by[name] = cut.names[table.divisor]
    groups = [
        _measure(
            k,
            cut,
            shown,
            train,
        )
        for k in range(len(cut.names) + 1)
    ]
    return Measured(
        arm=arms[0],
        reference=arms[1],
        grouping=evaluation.grouping.name,
        estimand=evaluation.estimand,
        overall=groups[-1],
        by_group=tuple(groups[:-1]),
        gaps=tuple(gaps),
        divided_by=divided_by,
    )


def _measure(
    k: int, cut: GroupSelection, tables: Mapping[str, MetricTable], train: Float64
) -> GroupMeasure:
    """All numbers of group k, or of all test rows where k is K; ``train`` is ``[K + 1]``."""
    group, reason = "", cut.too_few_seeds
    if k < len(cut.names):
        group, reason = cut.names[k], cut.too_few(k) or reason
    estimates, ungated = {}, {}
    for name, table in tables.items():
        if name.startswith("change."):  # told as gaps alone
            continue
        estimates[name] = estimate(reading(table, cut, k))
        if why := too_few_for_gates(table, cut, [k]):
            ungated[name] = why
    sides = ("", "reference.") if "reference.accuracy" in tables else ("",)
    for side in sides:
        for spec in within_model():
            if spec.needs_a_class:
                estimates.setdefault(side + spec.name, undefined(NO_POSITIVE, spec.unit))
    return GroupMeasure(
        group=group,
        n_test=int(cut.counts[k]),
        n_train=float(train[k]),
        gated=not reason,
        reason=reason,
        estimates=estimates,
        ungated=ungated,
    )


def _nothing(evaluation: Evaluation, arm: str, reference: str) -> Measured:
    """No seed finished: every group and number is named, nothing is known."""
    named = [spec.name for spec in within_model() if spec.needs_a_class]
    keys = [*evaluation.outcome.metrics, *named]
    if reference:
        keys = [*costs(), *keys, *(f"reference.{key}" for key in keys)]
    nothing = GroupMeasure(
        group="",
        n_test=0,
        n_train=0.0,
        gated=False,
        reason=NO_SEED,
        estimates={key: undefined(NO_SEED, spec_of(key).unit) for key in keys},
    )
    names = evaluation.grouping.names
    return Measured(
        arm=arm,
        reference=reference,
        grouping=evaluation.grouping.name,
        estimand=evaluation.estimand,
        overall=nothing,
        by_group=tuple(nothing.model_copy(update={"group": name}) for name in names),
        gaps=(),
    )


NO_PROBABILITIES = "predictions are labels; this needs probabilities"


def of_labels(comparison: Measured) -> Measured:
    """The comparison with every number that needs probabilities made undefined.

    And its gaps gone.
    """
    groups = []
    for measure in (*comparison.by_group, comparison.overall):
        estimates = dict(measure.estimates)
        for name, old in estimates.items():
            if not _of_classes(name):
                estimates[name] = undefined(NO_PROBABILITIES, old.unit, old.n_test)
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
