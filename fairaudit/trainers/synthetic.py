"""Our own model on a synthetic table: how the table is made, read, checked and trained on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from fairaudit.data.column_types import encode_levels, kind_of
from fairaudit.data.dataset import Dataset, Int64, Split
from fairaudit.data.inputs.encode import make_encoder
from fairaudit.data.tabular import read_checked
from fairaudit.engine.pool import TrainingPool
from fairaudit.errors import DataError, OwnCodeError
from fairaudit.execution.outcomes import outcome
from fairaudit.execution.seed_data import SeedData
from fairaudit.execution.trained import method_of
from fairaudit.execution.worker import task_of
from fairaudit.messages.names import listed, quoted
from fairaudit.methods.catalog import REFERENCE
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Job, Plan
from fairaudit.results.jobs import JobContent
from fairaudit.trainers.answers import Synthesised
from fairaudit.trainers.child import TrainerRequest
from fairaudit.trainers.handed import asked_of, run_seed, with_groups
from fairaudit.trainers.process import answer_of


def train_on_table(plan: Plan, job: Job, arm: Arm, prepared: SeedData) -> JobContent:
    """Train our model on a synthetic table, and predict the real test rows.

    It is trained by the reference's method, plain SGD, without noise. Scales and levels of inputs
    are learned from the table, as they are from the training rows for the reference.

    Args:
        plan, job, arm: The audit's plan, the job to train and its arm.
        prepared: The seed's real data.

    Returns:
        Arrays as of every job. Facts: ``claimed``, what the code says of the table's privacy, and
        ``synthetic``: grouping -> the counts [K, Y] of the real training rows and of the table.

    Raises:
        OwnCodeError: The code failed, or made no such table.
        DataError: The table that was given cannot be used.
    """
    dataset, encoded = prepared.dataset, prepared.encoded
    real = _with_groups_and_label(dataset, plan.config.group)
    table, claimed = _table(plan, job, arm, real.take(encoded.split.train))
    try:
        rows = _checked_rows(table, real, dataset)
    except DataError as error:
        if arm.trainer:  # the user's code made the table
            raise OwnCodeError(f"its table: {error.message}", error.hint) from error
        raise
    synthetic = _seed_data(plan, job, prepared, rows)
    task = task_of(plan, job, arm, synthetic, None)  # None: no other arm's result is read
    trained = method_of(plan.arm(REFERENCE)).fit(task, [])
    counts = _group_counts(prepared, rows)
    facts: dict[str, object] = {"event": None, "claimed": [claimed], "synthetic": counts}
    return outcome(task, trained, synthetic), facts


class _SyntheticRows(NamedTuple):
    """The rows of a synthetic table, checked, in the classes and groups of the real rows.

    Args:
        features: Of all real rows, and after them of the N synthetic rows, as one table.
        labels: [N], places in the dataset's classes.
        groups: Name of a grouping -> places in its names, [N]; without groupings that are made of
            two columns.
    """

    features: pa.Table
    labels: Int64
    groups: dict[str, Int64]


def _checked_rows(table: pa.Table, real: pa.Table, dataset: Dataset) -> _SyntheticRows:
    """Read a synthetic table, and check that it could be a table of real rows.

    Args:
        table: The synthetic table.
        real: The real rows with their groups and label.
        dataset: The real data.

    Raises:
        DataError: A column is not there or holds what no real row has.
    """
    features = _features(table, real.select(dataset.features.column_names))
    labels = _places(table, dataset.label, dataset.classes, None)
    groups = {}
    for grouping in dataset.groupings:
        if grouping.name in real.column_names:
            places = _places(table, grouping.name, grouping.names, grouping.missing)
            groups[grouping.name] = places
    return _SyntheticRows(features, labels, groups)


def _seed_data(plan: Plan, job: Job, prepared: SeedData, rows: _SyntheticRows) -> SeedData:
    """A seed's data with the synthetic rows as training rows; test rows are the real ones.

    Scales and levels of inputs are fitted on the synthetic rows.
    """
    dataset, encoded = prepared.dataset, prepared.encoded
    # The encoder reads the features of `joined` alone: its labels and groups are still those of the
    # real rows, and too few.
    joined = replace(dataset, features=rows.features)
    synthetic_places = dataset.n_rows + np.arange(len(rows.labels))
    split = Split(job.seed, synthetic_places, encoded.split.test)
    inputs = make_encoder(joined, plan.config.encoding).encode(split)
    first = dataset.groupings[0]
    pool = TrainingPool(
        torch.from_numpy(inputs.train[:]),
        torch.from_numpy(rows.labels),
        # Plain SGD reads no groups, so zeros will do where the table has no column of them.
        torch.from_numpy(rows.groups.get(first.name, np.zeros_like(rows.labels))),
        n_classes=len(dataset.classes),
        n_groups=len(first.names),
    )
    # The split and the training inputs of `encoded` stay those of the real rows; the engine trains
    # on the pool.
    of_table = replace(encoded, test=inputs.test[:], names=inputs.names, columns=inputs.columns)
    return SeedData(dataset, of_table, pool)


def _group_counts(prepared: SeedData, rows: _SyntheticRows) -> dict[str, list[list[list[int]]]]:
    """Name of a grouping -> counts [K, Y] of the real training rows, then of the synthetic rows."""
    dataset, train = prepared.dataset, prepared.encoded.split.train
    n_classes = len(dataset.classes)
    counts = {}
    for grouping in dataset.groupings:
        if grouping.name in rows.groups:  # not if it is made of two columns
            k = len(grouping.names)
            counts[grouping.name] = [
                _counts(grouping.groups[train], dataset.labels[train], k, n_classes),
                _counts(rows.groups[grouping.name], rows.labels, k, n_classes),
            ]
    return counts


def _counts(groups: Int64, labels: Int64, k: int, n_classes: int) -> list[list[int]]:
    """Numbers of rows by group and class, [K, Y]; ``k`` is K, the number of groups."""
    # Group and class as one number, whose counts are then a row for each group.
    table = np.bincount(groups * n_classes + labels, minlength=k * n_classes)
    return [[int(count) for count in of_group] for of_group in table.reshape(k, n_classes)]


def _table(plan: Plan, job: Job, arm: Arm, rows: pa.Table) -> Synthesised:
    """The synthetic table with its claim: read as it was given, or made by the user's code.

    Args:
        plan, job, arm: As of :func:`train_on_table`.
        rows: The real training rows with groups and label, from which code makes a table.
    """
    config = plan.config
    if not arm.trainer:
        assert config.synthetic is not None
        # The audit's options without all that say of columns: each column is read as a feature, and
        # the table is then held to the real columns.
        without_columns: dict[str, object] = {
            "data": config.synthetic,
            "group": (),
            "label": None,
            "split_column": None,
            "drop": (),
            "bin": {},
            "contrast": {},
            "zero": {},
            "columns": None,
            "names": (),
        }
        return Synthesised(read_checked(config.model_copy(update=without_columns)).table, None)
    request = TrainerRequest(
        trainer=arm.trainer,
        data=rows.to_pandas(),
        # A synthesizer's twin is made without privacy; an infinite epsilon is for trainers.
        privacy=None if job.is_twins else asked_of(plan, job, arm),
        seed=run_seed(job, arm, 0),
        memory=config.trainer_memory,
        timeout=config.trainer_timeout,
    )
    return answer_of(request, Synthesised)


def _with_groups_and_label(dataset: Dataset, columns: Sequence[str]) -> pa.Table:
    """The features of every real row with its groups and its label as columns of text.

    Args:
        dataset: The real data.
        columns: Names of the groupings that are columns; others are made of two of them.
    """
    table = dataset.features
    for grouping in dataset.groupings:
        if grouping.name in columns:
            table = with_groups(table, grouping)
    names = np.array(dataset.classes, object)[dataset.labels]
    if dataset.label in table.column_names:  # the label is a group, too: its column is there
        return table
    return table.append_column(dataset.label, pa.array(names, pa.large_string()))


def _features(table: pa.Table, real: pa.Table) -> pa.Table:
    """The features of the real rows, then those of the synthetic table, as one table.

    Raises:
        DataError: The synthetic table has no rows; it lacks a column, or has one of another type,
            with missing values where the real column has none, or with a level of no real row.
    """
    if not table.num_rows:
        raise DataError("it has no rows")
    columns = {}
    for name in real.column_names:
        if name not in table.column_names:
            raise DataError(f"it lacks the column {quoted(name)}")
        ours, theirs = real.column(name), table.column(name)
        other_type = f"its column {quoted(name)} holds {theirs.type}, not {ours.type}"
        kinds = kind_of(ours.type), kind_of(theirs.type)
        target = ours.type
        if kinds == ("number", "number"):
            target = pa.float64()  # a whole number and a fraction are of one kind
        elif "number" in kinds:  # one column is of numbers, the other is not
            raise DataError(other_type)
        # Beyond 2^53 a whole number becomes the nearest float64, as in every encoding.
        is_safe = target != pa.float64()
        try:
            columns[name] = pa.chunked_array(
                [*ours.cast(target, safe=is_safe).chunks, *theirs.cast(target, safe=is_safe).chunks]
            )
        except pa.ArrowException:
            raise DataError(other_type) from None
        if theirs.null_count and not ours.null_count:
            raise DataError(f"its column {quoted(name)} has missing values, the real one has none")
        if target != pa.float64():  # categories; any number may occur
            levels = encode_levels(ours).names
            _refuse_unseen(name, set(encode_levels(columns[name]).names) - set(levels))
    return pa.table(columns)


def _places(table: pa.Table, column: str, names: tuple[str, ...], missing: int | None) -> Int64:
    """The place in ``names`` of each row's class or group, ``[N]``.

    Args:
        table: The synthetic table.
        column: Its column of a label or of groups.
        names: The classes or groups of the real rows.
        missing: The place of a row without a value; None: such a row is refused.

    Raises:
        DataError: The column is not there, or a row holds none of the names.
    """
    if column not in table.column_names:
        raise DataError(f"it lacks the column {quoted(column)}")
    levels = encode_levels(table.column(column))
    _refuse_unseen(column, set(levels.names) - set(names))
    if missing is None and (levels.codes < 0).any():
        raise DataError(f"its column {quoted(column)} has missing values, the real one has none")
    # Place of each level in `names`; the last entry is read by the code -1 of a missing value.
    places = [names.index(level) for level in levels.names]
    places.append(-1 if missing is None else missing)
    return np.array(places, np.int64)[levels.codes]


def _refuse_unseen(column: str, names: set[str]) -> None:
    """Refuse a synthetic column that has levels which no real row has; ``names`` are these."""
    if names:
        raise DataError(
            f"its column {quoted(column)} has levels that no real row has: {listed(sorted(names))}",
            "a synthesizer draws from the levels of the table that it is given",
        )
