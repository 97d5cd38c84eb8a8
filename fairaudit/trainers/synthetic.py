"""Our own model on a synthetic table: how the table is made, read, checked and trained on."""

from collections.abc import Sequence
from dataclasses import replace

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
        features = _features(table, real.select(dataset.features.column_names))
        labels = _places(table, dataset.label, dataset.classes, None)
        groups = {}
        for grouping in dataset.groupings:
            if grouping.name in real.column_names:
                places = _places(table, grouping.name, grouping.names, grouping.missing)
                groups[grouping.name] = places
    except DataError as error:
        if arm.trainer:
            raise OwnCodeError(f"its table: {error.message}", error.hint) from error
        raise
    # The real rows, then the table's, which are what is trained on. Of `joined` only the features
    # are read: its labels and groups are those of the real rows.
    joined = replace(dataset, features=features)
    made = dataset.n_rows + np.arange(table.num_rows)
    inputs = make_encoder(joined, plan.config.encoding).encode(
        Split(job.seed, made, encoded.split.test)
    )
    first = dataset.groupings[0]
    pool = TrainingPool(
        torch.from_numpy(inputs.train[:]),
        torch.from_numpy(labels),
        # Plain SGD reads no groups, so any will do where the table has no column of them.
        torch.from_numpy(groups.get(first.name, np.zeros_like(labels))),
        n_classes=len(dataset.classes),
        n_groups=len(first.names),
    )
    of_table = replace(encoded, test=inputs.test[:], names=inputs.names, columns=inputs.columns)
    synthetic = SeedData(dataset, of_table, pool)
    task = task_of(plan, job, arm, synthetic, None)
    trained = method_of(plan.arm(REFERENCE)).fit(task, [])
    counts = {}
    for grouping in dataset.groupings:
        if grouping.name in groups:
            k, n_classes = len(grouping.names), len(dataset.classes)
            train = encoded.split.train
            counts[grouping.name] = [  # of the real training rows, then of the table
                _counts(grouping.groups[train], dataset.labels[train], k, n_classes),
                _counts(groups[grouping.name], labels, k, n_classes),
            ]
    facts: dict[str, object] = {"event": None, "claimed": [claimed], "synthetic": counts}
    return outcome(task, trained, synthetic), facts


def _counts(groups: Int64, labels: Int64, k: int, n_classes: int) -> list[list[int]]:
    """Numbers of rows by group and class, [K, Y]; ``k`` is K, the number of groups."""
    table = np.bincount(groups * n_classes + labels, minlength=k * n_classes)
    return [[int(rows) for rows in of_group] for of_group in table.reshape(k, n_classes)]


def _table(plan: Plan, job: Job, arm: Arm, rows: pa.Table) -> Synthesised:
    """The synthetic table with its claim: read as it was given, or made by the user's code.

    ``rows``: the real training rows, from which code makes a table.
    """
    config = plan.config
    if not arm.trainer:
        assert config.synthetic is not None
        # All of its columns are read alike: no group, label or declared column is taken out.
        alone: dict[str, object] = {"data": config.synthetic, "group": (), "label": None}
        alone |= {
            "split_column": None,
            "drop": (),
            "bin": {},
            "contrast": {},
            "zero": {},
            "columns": None,
        }
        alone |= {"names": ()}
        return Synthesised(read_checked(config.model_copy(update=alone)).table, None)
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

    ``columns``: names of the groupings that are columns; others are made of two of them.
    """
    table = dataset.features
    for grouping in dataset.groupings:
        if grouping.name in columns:
            table = with_groups(table, grouping)
    names = np.array(dataset.classes, object)[dataset.labels]
    if dataset.label in table.column_names:
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
        kinds = kind_of(ours.type), kind_of(theirs.type)
        target = ours.type
        if kinds == ("number", "number"):
            target = pa.float64()
        elif "number" in kinds:
            raise DataError(f"its column {quoted(name)} holds {theirs.type}, not {ours.type}")
        try:
            columns[name] = pa.chunked_array(
                [*ours.cast(target).chunks, *theirs.cast(target).chunks]
            )
        except pa.ArrowException:
            problem = f"its column {quoted(name)} holds {theirs.type}, not {ours.type}"
            raise DataError(problem) from None
        if theirs.null_count and not ours.null_count:
            raise DataError(f"its column {quoted(name)} has missing values, the real one has none")
        if target != pa.float64():
            levels = encode_levels(ours).names
            _refuse_unseen(name, set(encode_levels(columns[name]).names) - set(levels))
    return pa.table(columns)


def _places(table: pa.Table, column: str, names: tuple[str, ...], missing: int | None) -> Int64:
    """For each row, the place in ``names`` of what it holds in a column, ``[N]``.

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
    place = [names.index(level) for level in levels.names]
    last = -1 if missing is None else missing
    return np.array([*place, last], np.int64)[levels.codes]


def _refuse_unseen(column: str, names: set[str]) -> None:
    """Refuse a synthetic column with levels (``names``) that no real row has."""
    if names:
        raise DataError(
            f"its column {quoted(column)} has levels that no real row has: {listed(sorted(names))}",
            "a synthesizer draws from the levels of the table that it is given",
        )
