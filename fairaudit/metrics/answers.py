"""Whether a model gives a group more than one answer, and every answer that its reference gives.

An answer is a predicted class. One that the arm predicts for a group less than a fifth as often as
the reference does is doubtful; whether it counts as lost is decided in ``analysis/family.py``,
together with every other difference that a report asserts. Source: docs/methods.md 6.5.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fairaudit.metrics.gaps import GroupSelection, reading
from fairaudit.metrics.intervals import EvaluatedRecords, Influences, MetricTable, estimate
from fairaudit.metrics.registry import MetricSpec
from fairaudit.metrics.tables import metric_table
from fairaudit.metrics.within_model import ClassMetric, EvaluatedSeed, LabelOutcome
from fairaudit.results.estimates import ClassShare, ConstantAnswer

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
LEAST_OF_EACH = 10  # test rows of a class for a group to have that outcome


def constant_answers(
    seeds: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    cut: GroupSelection,
) -> Iterator[ConstantAnswer]:
    """Find the groups that a model gives one answer, though their rows are of several classes.

    That is so where every row of a group is predicted as one class, or each other class that it has
    rows of is predicted for less than a fifth of the share that is of it, by the upper limit or, in
    doubt, by the estimate.

    Args:
        seeds: The model, seed by seed.
        records: The index of the test rows.
        outcome: Which classes there are.
        cut: The groups in these rows.

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
        >>> cut = GroupSelection(("F", "M"), None, records.count(), n_seeds=1, one_model=True)
        >>> [(one.group, one.answer) for one in constant_answers(seeds, records, outcome, cut)]
        [('F', 0)]
    """
    predicted: list[MetricTable] = []  # of each class
    true: list[MetricTable] = []
    for target in range(outcome.n_classes):
        for spec, tables in ((PREDICTED, predicted), (_OF_CLASS, true)):
            shares = Influences(records)
            for model, place in zip(seeds, records.places, strict=True):
                shares.add(place, model.score(ClassMetric(spec.name, spec, target)))
            tables.append(metric_table("selection_rate", shares, cut.counts))
    for k, group in enumerate(cut.names):
        given = [
            estimate(reading(replace(table, one_model=cut.one_model), cut, k))
            for table in predicted
        ]
        truth = [estimate(reading(table, cut, k)).value or 0.0 for table in true]
        present = [y for y, share in enumerate(truth) if share * cut.counts[k] >= LEAST_OF_EACH]
        if len(present) < 2 or any(share.value is None for share in given):
            continue
        answer = max(range(len(given)), key=lambda y: given[y].value or 0.0)
        others = [y for y in range(len(given)) if y != answer]
        is_every_row = not any((predicted[y].by_seed[:, k] > 0).any() for y in others)
        having = [y for y in present if y != answer]
        if not all((given[y].value or 0.0) < KEPT * truth[y] for y in having):
            continue
        limits = [(given[y].high, KEPT * truth[y]) for y in having]
        most = max(having, key=lambda y: given[y].value or 0.0)
        yield ConstantAnswer(
            group=group,
            answer=answer,
            other=given[most],
            truth=truth[most],
            is_every_row=is_every_row,
            is_certain=is_every_row
            or all(high is not None and high < limit for high, limit in limits),
        )


def doubtful_classes(
    ours: Sequence[EvaluatedSeed],
    theirs: Sequence[EvaluatedSeed],
    records: EvaluatedRecords,
    outcome: LabelOutcome,
    cut: GroupSelection,
) -> Iterator[ClassShare]:
    """Find each group's classes that the arm predicts less than a fifth as often as the reference.

    The point estimates decide here; the intervals go along, so that the report can judge later
    whether the class is lost (``is_lost`` is None until then).

    Args:
        ours, theirs: The arm and its reference, seed by seed, on the same test rows.
        records: The index of these rows.
        outcome: Which classes there are.
        cut: The groups in these rows.

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
        >>> cut = GroupSelection(("F", "M"), None, records.count(), n_seeds=1, one_model=True)
        >>> found = doubtful_classes(of(same), of(right), records, outcome, cut)
        >>> [(share.group, share.answer) for share in found]
        [('F', 1)]
    """
    shares = []  # of each class three tables: the arm's share, the reference's, their contrast
    # How many classes either model predicts for anybody of each group, [K + 1].
    n_answers = np.zeros(len(cut.names) + 1, dtype=np.int64)
    for target in range(outcome.n_classes):
        metric = ClassMetric(PREDICTED.name, PREDICTED, target)
        private, reference, kept = (Influences(records) for _ in range(3))
        for a, b, place in zip(ours, theirs, records.places, strict=True):
            arm_scores, reference_scores = a.score(metric), b.score(metric)
            private.add(place, arm_scores)
            reference.add(place, reference_scores)
            kept.add(place, arm_scores.minus(reference_scores, KEPT))
        # Shares of a group's rows, as selection rates are: by that name the tables get their bounds
        # and the floor of their variance.
        arm_table = metric_table("selection_rate", private, cut.counts)
        of_reference = metric_table("selection_rate", reference, cut.counts)
        contrast = metric_table("change.selection_rate", kept, cut.counts)
        shares.append((arm_table, of_reference, contrast))
        # Either model predicts it for somebody of the group, at some seed.
        n_answers += ((arm_table.by_seed > 0) | (of_reference.by_seed > 0)).any(axis=0)
    for k, group in enumerate(cut.names):
        for target, tables in enumerate(shares):
            arm_share, reference_share, contrast_of = (
                estimate(reading(replace(table, one_model=cut.one_model), cut, k))
                for table in tables
            )
            if contrast_of.value is not None and contrast_of.value < 0:
                yield ClassShare(
                    group=group,
                    answer=target,
                    private=arm_share,
                    reference=reference_share,
                    kept=contrast_of,
                    given=int(n_answers[k]),
                    looked_at=len(cut.names) * outcome.n_classes,
                )
