"""One arm against its reference: what privacy costs each group, and how sure that is.

A table (``MetricTable``) holds one metric's values at every seed for the K groups and, last, for
all test rows. Names in a report: ``M`` is a metric of the arm, ``reference.M`` that of its
reference, ``change.M`` the difference; a cost (``privacy_cost``) is a change for the worse, and
``privacy_cost.PART`` one of the parts that twins split it into.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairaudit.data.dataset import Grouping
from fairaudit.metrics.answers import constant_answers, doubtful_classes
from fairaudit.metrics.gaps import GroupSelection, checked_contrast, gaps_of, too_few_for_gates
from fairaudit.metrics.intervals import EvaluatedRecords, MetricTable, estimate
from fairaudit.metrics.registry import (
    CONSTANT,
    NOISE,
    STEP_AND_NOISE,
    base_metric,
    costs,
    costs_of_constant,
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
from fairaudit.metrics.within_model import (
    ArmPredictions,
    EvaluatedSeed,
    Float64,
    Int64,
    LabelOutcome,
)
from fairaudit.results.estimates import Gap, GroupMeasure, Measured, undefined

FIXED_SPLIT = (
    "the expected gap over training randomness given this training set, on new people of the same "
    "population"
)
SEVERAL_SPLITS = (
    "the expected gap of models trained on rows of this file, on new people of the same population"
)
ONE_TABLE = (
    "the expected gap of models trained on this synthetic table, on new people of the same "
    "population; another table of the same maker may differ"
)
ONE_MODEL = "these models' gap on new people of the same population; another training may differ"
NO_SEED = "no seed finished in every method that is compared"
NO_POSITIVE = "no positive or favourable class is known: rates are given per class"


@dataclass(frozen=True, slots=True)
class Twin:
    """A model between an arm and its reference, which splits the arm's cost.

    Args:
        part: The name, of ``registry.PARTS``, of the part of the cost that lies between the model
            before it (the reference, or the twin before) and this one.
        predictions: Seed by seed; if the twin lacks any seed, no part of any cost has a value.
    """

    part: str
    predictions: Sequence[ArmPredictions]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What models are measured on, by one grouping.

    Args:
        labels: Class of every record, ``[N]``.
        grouping: By which the records fall into groups.
        outcome: Which classes count.
        estimand: :data:`FIXED_SPLIT`, :data:`SEVERAL_SPLITS`, :data:`ONE_TABLE`, or
            :data:`ONE_MODEL` where one model is what is measured and not how such models are
            trained; then the intervals are over test records alone.
        suppressed_below: A group of fewer test records is hidden, so compared with no other.
    """

    labels: Int64
    grouping: Grouping
    outcome: LabelOutcome
    estimand: str
    suppressed_below: int = 0

    def records(self, predictions: Sequence[ArmPredictions]) -> EvaluatedRecords:
        """Index the records that were tested at any seed, sorted by group.

        Args:
            predictions: Of one arm, one for each seed.
        """
        return EvaluatedRecords.of(
            [p.rows for p in predictions], self.grouping.groups, len(self.grouping.names)
        )

    def selection(self, records: EvaluatedRecords, seeds: int) -> GroupSelection:
        """The groups with their distinct test records, from which follows which may be compared.

        Args:
            records: The index of the tested records.
            seeds: How many seeds were measured.
        """
        return GroupSelection(
            names=self.grouping.names,
            missing=self.grouping.missing,
            counts=records.count(),
            n_seeds=seeds,
            one_model=self.estimand == ONE_MODEL,
            suppressed_below=self.suppressed_below,
        )


def compare(
    evaluation: Evaluation,
    arm: str,
    reference: str,
    private: Sequence[ArmPredictions],
    baseline: Sequence[ArmPredictions],
    twins: Sequence[Twin] = (),
) -> Measured:
    """Measure an arm against its reference: costs, metrics of both, their changes, gaps of each.

    Arms are paired by seed; a seed that either arm lacks is left out, and ``n_seeds`` says so. If
    they share no seed, every number is undefined. Absolute values and maxima are taken after
    averaging over seeds. Source: docs/methods.md 6.1.

    Args:
        evaluation: What both are measured on.
        arm, reference: Arm keys.
        private, baseline: Their predictions, seed by seed, on the same rows in the same order.
        twins: Models between both, in order from the reference to the arm; the last is the arm
            without noise. Empty: costs are not split.

    Example:
        >>> import numpy as np
        >>> from fairaudit.data.dataset import Grouping
        >>> labels, sex = np.tile([0, 1], 100), np.repeat([0, 1], 100)
        >>> right = np.eye(2, dtype=np.float32)[labels]  # certain of every row's class
        >>> same = np.where((sex == 0)[:, None], np.float32([0.9, 0.1]), right)  # says 0 of every F
        >>> def of(probabilities):
        ...     rows, train = np.arange(200), np.array([500, 500])
        ...     return [ArmPredictions(seed, rows, probabilities[None], train) for seed in range(5)]
        >>> grouping = Grouping("sex", sex, ("F", "M"), None)
        >>> evaluation = Evaluation(labels, grouping, LabelOutcome(2, positive=1), FIXED_SPLIT)
        >>> cost = compare(evaluation, "dpsgd", "sgd", private=of(same), baseline=of(right))
        >>> [(group.group, group.value("privacy_cost")) for group in cost.by_group]
        [('F', 0.5), ('M', 0.0)]
    """
    # Both at the seeds that both have, in one order.
    of_seed = {p.seed: p for p in baseline}
    private = sorted((p for p in private if p.seed in of_seed), key=lambda p: p.seed)
    baseline = [of_seed[p.seed] for p in private]
    for a, b in zip(private, baseline, strict=True):
        assert np.array_equal(a.rows, b.rows), (
            f"seed {a.seed}: the arms were tested on different rows"
        )
    if not baseline:
        return _without_seeds(evaluation, arm, reference)
    records, outcome = evaluation.records(baseline), evaluation.outcome
    selection = evaluation.selection(records, len(baseline))
    ours = evaluated(private, evaluation.labels, records, outcome)
    theirs = evaluated(baseline, evaluation.labels, records, outcome)
    arm_tables, baseline_tables, changed = both_tables(ours, theirs, records, outcome)
    # No name is in two of these: costs, then M, ``reference.M`` and ``change.M``.
    tables = {
        **costs_between(ours, theirs, records, outcome),
        **arm_tables,
        **baseline_tables,
        **changed,
    }
    if twins:
        tables |= _part_tables(twins, baseline, (ours, theirs), evaluation, records)
    if outcome.positive is not None:  # else there is no selection rate to divide
        tables |= impact_change(tables, selection.eligible)
    against_constant = _against_constant(evaluation, private, ours, records)
    train = _training_rows(private)
    measured = _comparison(evaluation, (arm, reference), selection, tables, against_constant, train)
    doubtful = tuple(doubtful_classes(ours, theirs, records, outcome, selection))
    constant = tuple(constant_answers(ours, records, outcome, selection))
    return measured.model_copy(update={"doubtful": doubtful, "constant": constant})


def _part_tables(
    twins: Sequence[Twin],
    baseline: Sequence[ArmPredictions],
    ends: tuple[Sequence[EvaluatedSeed], Sequence[EvaluatedSeed]],
    evaluation: Evaluation,
    records: EvaluatedRecords,
) -> dict[str, MetricTable]:
    """Tables of the parts of every cost, which sum to the cost at each seed.

    From the reference to the arm, each twin's cost against the model before it is one part; the
    last part, that of the noise, is the arm's cost against the last twin. With two twins there is
    also one table for the parts of step and noise together, which is the cost less the clipping's
    part. If a twin lacks any seed, no part has a value. Source: docs/methods.md 7.1.

    Where the arm's steps are as long as its reference's, the twin of the steps alone is the
    reference itself: the very same predictions.

    Args:
        twins: In order from the reference to the arm, at least one.
        baseline: The reference's predictions at the seeds that are compared.
        ends: The arm and its reference, evaluated at these seeds.
        evaluation, records: What all are measured on, and the index of the tested records.
    """
    outcome, (arm, reference) = evaluation.outcome, ends
    tables: dict[str, MetricTable] = {}
    lacking: list[int] = []  # seeds at which a twin has no result
    before = reference  # the model before the next twin, seed by seed
    between = []  # the twins, evaluated
    for twin in twins:
        of_seed = {p.seed: p for p in twin.predictions}
        lacking += [p.seed for p in baseline if p.seed not in of_seed]
        # At a seed that the twin lacks, the reference's predictions stand in for the twin's; all
        # parts are made undefined at the end.
        models = [of_seed.get(p.seed, p) for p in baseline]
        # A twin that is the reference stays the same object, by which `costs_between` knows that
        # the part is 0 at every seed and has no variance.
        after = before
        if any(model is not p for model, p in zip(models, baseline, strict=True)):
            after = evaluated(models, evaluation.labels, records, outcome)
        tables |= costs_between(after, before, records, outcome, twin.part)
        before = after
        between.append(after)
    tables |= costs_between(arm, before, records, outcome, NOISE)
    if len(between) == 2:
        steps_alone, without_noise = between
        clipping = (without_noise, steps_alone)  # between these two lies the clipping's part
        tables |= costs_between(
            arm, reference, records, outcome, STEP_AND_NOISE, subtracted=clipping
        )
    if lacking:
        for name, table in tables.items():
            nothing = np.full_like(table.by_seed, np.nan)
            reason = f"the noise-free twin has no result at seed {lacking[0]}"
            tables[name] = replace(table, by_seed=nothing, reason=reason)
    return tables


def measure_reference(
    evaluation: Evaluation, arm: str, predictions: Sequence[ArmPredictions]
) -> Measured:
    """Measure one model by itself: its metrics, their gaps, its costs against a constant model.

    For a reference, and for given predictions without a baseline. Without a seed every number is
    undefined.

    Args:
        evaluation: What it is measured on.
        arm: Its key.
        predictions: Seed by seed.

    Example:
        >>> import numpy as np
        >>> from fairaudit.data.dataset import Grouping
        >>> labels, sex = np.tile([0, 1], 100), np.repeat([0, 1], 100)
        >>> right = np.eye(2, dtype=np.float32)[labels][None]  # certain of every row
        >>> one = ArmPredictions(0, np.arange(200), right, np.array([500, 500]))
        >>> grouping = Grouping("sex", sex, ("F", "M"), None)
        >>> evaluation = Evaluation(labels, grouping, LabelOutcome(2, positive=1), ONE_MODEL)
        >>> measured = measure_reference(evaluation, "sgd", [one])
        >>> measured.overall.value("accuracy"), measured.overall.value("tpr")
        (1.0, 1.0)
    """
    predictions = sorted(predictions, key=lambda p: p.seed)
    if not predictions:
        return _without_seeds(evaluation, arm, "")
    records, outcome = evaluation.records(predictions), evaluation.outcome
    selection = evaluation.selection(records, len(predictions))
    seeds = evaluated(predictions, evaluation.labels, records, outcome)
    tables = own_tables(seeds, records, outcome)
    if outcome.positive is not None:  # else there is no selection rate to divide
        ratio, _ = impact_ratio(tables["selection_rate"], "impact_ratio", selection.eligible)
        tables[ratio.name] = ratio
    against_constant = _against_constant(evaluation, predictions, seeds, records)
    train = _training_rows(predictions)
    measured = _comparison(evaluation, (arm, ""), selection, tables, against_constant, train)
    constant = tuple(constant_answers(seeds, records, outcome, selection))
    return measured.model_copy(update={"constant": constant})


def _against_constant(
    evaluation: Evaluation,
    predictions: Sequence[ArmPredictions],
    seeds: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
) -> dict[str, MetricTable]:
    """Tables of the costs against a constant model, so that a useless model can be warned of.

    The constant model predicts the class shares of the training rows for everybody. Empty where
    the training classes are not known.

    Args:
        evaluation: What the models are measured on.
        predictions: Of the model, seed by seed.
        seeds: The same, evaluated.
        records: The index of the tested records.
    """
    constant = []
    for p in predictions:
        if p.train_classes is None:
            return {}
        shares = (p.train_classes / p.train_classes.sum()).astype(np.float32)  # [Y]
        # One run, [1, n, Y], so the weights of the model's own runs do not belong to it.
        probabilities = np.broadcast_to(shares, (1, *p.probabilities.shape[1:]))
        constant.append(replace(p, probabilities=probabilities, weights=None))
    constant_seeds = evaluated(constant, evaluation.labels, records, evaluation.outcome)
    tables = costs_between(seeds, constant_seeds, records, evaluation.outcome, CONSTANT)
    # Some costs say nothing against a constant model; the registry names those that do.
    return {name: tables[name] for name in tables if base_metric(name) in costs_of_constant()}


def _training_rows(predictions: Sequence[ArmPredictions]) -> Float64:
    """Training rows of each group and of all, in the mean over seeds, ``[K + 1]``."""
    mean = np.mean([p.train_count for p in predictions], axis=0)
    return np.append(mean, mean.sum())


def _comparison(
    evaluation: Evaluation,
    arms: tuple[str, str],
    selection: GroupSelection,
    tables: Mapping[str, MetricTable],
    against_constant: Mapping[str, MetricTable],
    train: Float64,
) -> Measured:
    """Reduce tables to the numbers of every group and the gaps between groups.

    Args:
        evaluation: Names the grouping and what the intervals are about.
        arms: Key of the arm, key of its reference ("" for none).
        selection: The groups in the tested records.
        tables: Name -> table, of which numbers and gaps are made.
        against_constant: Name -> table of a cost against a constant model, of which only numbers of
            groups are made, no gaps.
        train: Training rows by group and in all, ``[K + 1]``.
    """
    shown, gaps, divided_by = {}, list[Gap](), {}
    for name, table in (*tables.items(), *against_constant.items()):
        shown[name] = replace(table, one_model=selection.one_model)
        if name not in against_constant:
            gaps += gaps_of(shown[name], selection)
        if table.divisor is not None:  # of an impact ratio: by whose rate the others are divided
            divided_by[name] = selection.names[table.divisor]
    groups = [_measure(k, selection, shown, train) for k in range(len(selection.names) + 1)]
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
    k: int, selection: GroupSelection, tables: Mapping[str, MetricTable], train: Float64
) -> GroupMeasure:
    """All numbers of group k, or of all test rows where k is K, and whether gates may read them.

    ``train``: training rows by group and in all, ``[K + 1]``.
    """
    group, reason = "", selection.too_few_seeds
    if k < len(selection.names):
        group, reason = selection.names[k], selection.too_few(k) or reason
    estimates, ungated = {}, {}
    for name, table in tables.items():
        if name.startswith("change."):  # a report holds the gaps of a change alone
            continue
        estimates[name] = estimate(checked_contrast(table, selection, k))
        if why := too_few_for_gates(table, selection, [k]):
            ungated[name] = why
    # Where no positive class is known, plain names such as ``tpr`` stand there with the reason; a
    # name that has a table above keeps its number. Accuracy is measured of every model, so its
    # name tells whether there is a reference.
    prefixes = ("", "reference.") if "reference.accuracy" in tables else ("",)
    for prefix in prefixes:
        for spec in within_model():
            if spec.needs_a_class:
                estimates.setdefault(prefix + spec.name, undefined(NO_POSITIVE, spec.unit))
    return GroupMeasure(
        group=group,
        n_test=int(selection.counts[k]),
        n_train=float(train[k]),
        gated=not reason,
        reason=reason,
        estimates=estimates,
        ungated=ungated,
    )


def _without_seeds(evaluation: Evaluation, arm: str, reference: str) -> Measured:
    """The comparison where no seed finished: every group and number is named, none has a value.

    ``reference`` is "" for a model that is measured by itself.
    """
    named = [spec.name for spec in within_model() if spec.needs_a_class]
    keys = [*evaluation.outcome.metric_names, *named]
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
    """The comparison of models whose predictions are labels.

    Numbers that need probabilities (a loss, an AUC) become undefined; their gaps are left out, and
    so are their entries in ``ungated``.

    Example:
        >>> import numpy as np
        >>> from fairaudit.data.dataset import Grouping
        >>> labels, sex = np.tile([0, 1], 100), np.repeat([0, 1], 100)
        >>> right = np.eye(2, dtype=np.float32)[labels][None]
        >>> one = ArmPredictions(0, np.arange(200), right, np.array([500, 500]))
        >>> grouping = Grouping("sex", sex, ("F", "M"), None)
        >>> evaluation = Evaluation(labels, grouping, LabelOutcome(2, positive=1), ONE_MODEL)
        >>> overall = of_labels(measure_reference(evaluation, "sgd", [one])).overall
        >>> overall.value("accuracy"), overall.estimates["auc"].reason
        (1.0, 'predictions are labels; this needs probabilities')
    """
    groups = []
    for measure in (*comparison.by_group, comparison.overall):
        estimates = dict(measure.estimates)
        for name, old in estimates.items():
            if not _needs_labels_alone(name):
                estimates[name] = undefined(NO_PROBABILITIES, old.unit, old.n_test)
        ungated = {
            name: measure.ungated[name] for name in filter(_needs_labels_alone, measure.ungated)
        }
        groups.append(measure.model_copy(update={"estimates": estimates, "ungated": ungated}))
    update = {
        "overall": groups[-1],
        "by_group": tuple(groups[:-1]),
        "gaps": tuple(gap for gap in comparison.gaps if _needs_labels_alone(gap.metric)),
    }
    return comparison.model_copy(update=update)


def _needs_labels_alone(metric: str) -> bool:
    """Whether the metric follows from predicted classes, without their probabilities."""
    return "probabilities" not in spec_of(metric).needs
