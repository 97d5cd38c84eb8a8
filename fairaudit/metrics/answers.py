"""Whether a model gives a group more than one answer, and every answer that its reference gives.

An answer is a predicted class. One that the arm predicts for a group less than a fifth as often as
the reference does is doubtful; whether it counts as lost is decided in ``analysis/family.py``,
together with every other difference that a report asserts. Source: docs/methods.md 6.5.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fairaudit.metrics.gaps import GroupSelection, checked_contrast
from fairaudit.metrics.intervals import EvaluatedRecords, Influences, MetricTable, estimate
from fairaudit.metrics.registry import MetricSpec
from fairaudit.metrics.tables import metric_table
from fairaudit.metrics.within_model import ClassMetric, EvaluatedSeed, LabelOutcome
from fairaudit.results.estimates import ClassShare, ConstantAnswer, Estimate

KEPT = 0.2  # a class is doubtful where the arm's share is below this part of the reference's
# Of a target class: the share of rows for which the model predicts it. No metric of a report.
PREDICTED = MetricSpec(
    name="predicted",
    words="share predicted as a class",
    worst="lowest",
    compute=lambda rows: (rows.chosen, rows.everyone),
)
# Of a target class: the share of rows that are of it.
_OF_CLASS = replace(PREDICTED, name="of_class", compute=lambda rows: (rows.truth, rows.everyone))
LEAST_OF_EACH = 10  # a group has a class if at least so many of its test rows are of it


def constant_answers(
    seeds: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    selection: GroupSelection,
) -> Iterator[ConstantAnswer]:
    """Find the groups that a model gives one answer, though their rows are of several classes.

    The answer is the class that is predicted most often. A group is found where, of every other
    class that the group has, the share of rows predicted as that class is less than a fifth of the
    share of rows that are of that class, by the point estimates. A group has a class if at least
    ten of its rows are of that class. The finding is certain where no row at all is predicted as
    another class, or where the upper ends of the intervals are below that fifth, too.

    Args:
        seeds: The model, seed by seed.
        records: The index of the test rows.
        outcome: Which classes there are.
        selection: The groups in these rows.

    Yields:
        One ``ConstantAnswer`` for each group that is found.

    Example:
        >>> import numpy as np
        >>> from fairaudit.metrics.tables import evaluated
        >>> from fairaudit.metrics.within_model import ArmPredictions
        >>> labels, sex = np.tile([0, 1], 100), np.repeat([0, 1], 100)
        >>> rows, outcome = np.arange(200), LabelOutcome(2, positive=1)
        >>> right = np.eye(2, dtype=np.float32)[labels]
        >>> same = np.where((sex == 0)[:, None], np.float32([0.9, 0.1]), right)  # says 0 of every F
        >>> records = EvaluatedRecords.of([rows], sex, 2)
        >>> model = ArmPredictions(0, rows, same[None], np.array([9, 9]))
        >>> seeds = evaluated([model], labels, records, outcome)
        >>> selection = GroupSelection(("F", "M"), None, records.count(), n_seeds=1, one_model=True)
        >>> found = constant_answers(seeds, records, outcome, selection)
        >>> [(one.group, one.answer) for one in found]
        [('F', 0)]
    """
    predicted, true = [], []  # a table of each class
    for target in range(outcome.n_classes):
        predicted.append(_share_table(PREDICTED, target, seeds, records, selection))
        true.append(_share_table(_OF_CLASS, target, seeds, records, selection))
    for k, group in enumerate(selection.names):
        given = [_group_estimate(table, selection, k) for table in predicted]  # [Y]
        # 0.0 in place of None: a group without test rows has no class, so it is passed over below.
        truth = [_group_estimate(table, selection, k).value or 0.0 for table in true]  # [Y]
        rows = [share * selection.counts[k] for share in truth]  # of each class, [Y]
        present = [y for y, count in enumerate(rows) if count >= LEAST_OF_EACH]
        # In a group of one class, one answer is no fault; None: the group has no test rows.
        if len(present) < 2 or any(share.value is None for share in given):
            continue
        values = [share.value or 0.0 for share in given]  # `or` is for mypy: no value is None here
        answer = values.index(max(values))
        others = [y for y in present if y != answer]
        if any(values[y] >= KEPT * truth[y] for y in others):
            continue  # at least one other class is predicted often enough
        # Shares predicted as another class than the answer, at each seed.
        elsewhere = [table.by_seed[:, k] for y, table in enumerate(predicted) if y != answer]
        is_every_row = not np.any(np.array(elsewhere) > 0)
        # Of each other class: upper limit of the share predicted, a fifth of the true share.
        highs = [(given[y].high, KEPT * truth[y]) for y in others]
        is_below = all(high is not None and high < limit for high, limit in highs)
        # Of the other classes, the one that is predicted most often: the report shows its share.
        most = max(others, key=lambda y: values[y])
        yield ConstantAnswer(
            group=group,
            answer=answer,
            other=given[most],
            truth=truth[most],
            is_every_row=is_every_row,
            is_certain=is_every_row or is_below,
        )


def _share_table(
    spec: MetricSpec,
    target: int,
    seeds: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    selection: GroupSelection,
) -> MetricTable:
    """The table of the share of each group's rows that ``spec`` counts, of one class.

    Args:
        spec: ``PREDICTED`` or ``_OF_CLASS``.
        target: The class.
        seeds, records, selection: As of :func:`constant_answers`.
    """
    influences = Influences(records)
    for seed, place in zip(seeds, records.places, strict=True):
        influences.add(place, seed.score(ClassMetric(spec.name, spec, target)))
    # A share of a group's rows, as a selection rate is: by that name the table gets its bounds and
    # the floor of its variance.
    return metric_table("selection_rate", influences, selection.counts)


def _group_estimate(table: MetricTable, selection: GroupSelection, k: int) -> Estimate:
    """The number of group k with its interval, or with the reason why it has none."""
    # `metric_table` does not set ``one_model``, by which a single seed is enough for an interval.
    table = replace(table, one_model=selection.one_model)
    return estimate(checked_contrast(table, selection, k))


def doubtful_classes(
    ours: Sequence[EvaluatedSeed],
    theirs: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    selection: GroupSelection,
) -> Iterator[ClassShare]:
    """Find each group's classes that the arm predicts less than a fifth as often as the reference.

    The point estimates decide here; the intervals go along, so that the report can judge later
    whether the class is lost (``is_lost`` is None until then).

    Args:
        ours, theirs: The arm and its reference, seed by seed, on the same test rows.
        records: The index of these rows.
        outcome: Which classes there are.
        selection: The groups in these rows.

    Yields:
        One ``ClassShare`` for each such group and class.

    Example:
        >>> import numpy as np
        >>> from fairaudit.metrics.tables import evaluated
        >>> from fairaudit.metrics.within_model import ArmPredictions
        >>> labels, sex = np.tile([0, 1], 100), np.repeat([0, 1], 100)
        >>> rows, outcome = np.arange(200), LabelOutcome(2, positive=1)
        >>> right = np.eye(2, dtype=np.float32)[labels]
        >>> same = np.where((sex == 0)[:, None], np.float32([0.9, 0.1]), right)  # says 0 of every F
        >>> records = EvaluatedRecords.of([rows], sex, 2)
        >>> def of(model):
        ...     one = ArmPredictions(0, rows, model[None], np.array([9, 9]))
        ...     return evaluated([one], labels, records, outcome)
        >>> selection = GroupSelection(("F", "M"), None, records.count(), n_seeds=1, one_model=True)
        >>> found = doubtful_classes(of(same), of(right), records, outcome, selection)
        >>> [(share.group, share.answer) for share in found]
        [('F', 1)]
    """
    # Of each class three tables: the arm's share, the reference's, and arm - KEPT * reference.
    tables_by_class: list[tuple[MetricTable, MetricTable, MetricTable]] = []
    # How many classes either model predicts for anybody of each group, at any seed, [K + 1].
    n_answers = np.zeros(len(selection.names) + 1, dtype=np.int64)
    for target in range(outcome.n_classes):
        metric = ClassMetric(PREDICTED.name, PREDICTED, target)
        arm, reference, kept = (Influences(records) for _ in range(3))
        for ours_at_seed, theirs_at_seed, place in zip(ours, theirs, records.places, strict=True):
            arm_scores, reference_scores = ours_at_seed.score(metric), theirs_at_seed.score(metric)
            arm.add(place, arm_scores)
            reference.add(place, reference_scores)
            kept.add(place, arm_scores.minus(reference_scores, times=KEPT))
        # Named as in `_share_table`; `kept_table` is a difference, whose bounds reach below 0.
        arm_table = metric_table("selection_rate", arm, selection.counts)
        reference_table = metric_table("selection_rate", reference, selection.counts)
        kept_table = metric_table("change.selection_rate", kept, selection.counts)
        tables_by_class.append((arm_table, reference_table, kept_table))
        n_answers += ((arm_table.by_seed > 0) | (reference_table.by_seed > 0)).any(axis=0)
    for k, group in enumerate(selection.names):
        for target, tables in enumerate(tables_by_class):
            arm_share, reference_share, contrast = (
                _group_estimate(table, selection, k) for table in tables
            )
            if contrast.value is not None and contrast.value < 0:
                yield ClassShare(
                    group=group,
                    answer=target,
                    private=arm_share,
                    reference=reference_share,
                    kept=contrast,
                    given=int(n_answers[k]),
                    looked_at=len(selection.names) * outcome.n_classes,
                )
