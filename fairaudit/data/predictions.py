"""A table of given predictions: the true label, what models predicted for it, and groups.

A record is one person or thing that was predicted for. A seed is one training of the model. The
table has a row for each record at each seed; a table without seeds has one row for each record.
Shapes: N rows of the table, n records, S seeds, Y classes.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.class_columns import class_columns, named_class
from fairaudit.data.column_types import (
    Codes,
    Float64,
    Levels,
    encode_codes,
    encode_levels,
    kind_of,
    numeric_values,
)
from fairaudit.data.copies import (
    COPY,
    EqualRows,
    are_copies,
    copies_notice,
    first_alike,
    has_many_values,
    mixed_in,
)
from fairaudit.data.dataset import Dataset, Float32, Grouping, Int64, first_grouping
from fairaudit.data.groups import make_groupings, require_groups, restrict
from fairaudit.data.ids import is_id_name, is_row_number
from fairaudit.data.infer import LabelColumn, given_label, read_label, same_class
from fairaudit.data.tabular import CheckedTable, read_checked
from fairaudit.data.usable import unusable
from fairaudit.errors import ConfigError, DataError, numbered
from fairaudit.messages.base import Message
from fairaudit.messages.data import ProbabilityOf, SharedIds, UnlabelledDropped, UnpredictedDropped
from fairaudit.messages.names import listed, nearest, quoted

SEED_COLUMN = "seed"  # the default column of seeds, unless it is used for something else
_SAME_ROWS = (  # the hint where seeds do not match row by row
    "give every seed the same rows in the same order, or name what identifies a row: "
    "--row-column COL"
)
# Why records are left out, as keys of ``Dataset.dropped_rows``.
UNLABELLED, UNPREDICTED = "label missing", "prediction missing"
_LEFT_OUT = {UNLABELLED: UnlabelledDropped, UNPREDICTED: UnpredictedDropped}
_SAME = 1e-6  # probabilities that differ by less are the same, rounded to other digits
_SPELLINGS = 4  # of one class in one column, at most: ``1``, ``1.0``, ``True``, ``true``
SUM_TOLERANCE = 1e-3  # of a row's probabilities from 1; rounded tables are off by as much


@dataclass(frozen=True, slots=True)
class PredictionLayout:
    """Which seed and which record each of the N rows of a table belongs to.

    Args:
        seed: Index in ``names`` of each row's seed, [N] in 0..S-1.
        record: Index of each row's record, [N] in 0..n-1; a record has one index at all seeds.
        first: The first row of each record, [n].
        names: Names of the seeds, [S].
    """

    seed: Int64
    record: Int64
    first: Int64
    names: tuple[str, ...]

    def rows_of(self, records: Int64) -> tuple[Int64, ...]:
        """For each seed, the rows of the table that hold its predictions of some records.

        Args:
            records: Indices of the records, ascending.

        Returns:
            Row indices for each seed, in the order of the records; fewer than records where the
            seed lacks some.

        Raises:
            DataError: A seed has none of the records.
        """
        rows_of_seeds = []
        for seed, name in enumerate(self.names):
            rows = np.flatnonzero((self.seed == seed) & np.isin(self.record, records))
            if not len(rows):
                raise DataError(f"no row of seed {name} has a label and every prediction")
            rows_of_seeds.append(rows[np.argsort(self.record[rows], kind="stable")])
        return tuple(rows_of_seeds)


@dataclass(frozen=True, slots=True)
class Scored:
    """Given predictions beside the labels and groups of the records that they are of.

    Args:
        dataset: The records with labels and groups, one per row; it has no features.
        predictions: For each seed, the probabilities of the Y classes, ``[rows, Y]``.
        baseline: The same of the model to compare with; ``()`` where none is given.
        rows: For each seed, the rows of the dataset that its predictions are on, ascending.
        are_labels: Whether some predictions are classes, stored as probabilities of 0 and 1; then
            no metric that needs probabilities is known.
    """

    dataset: Dataset
    predictions: tuple[Float32, ...]
    baseline: tuple[Float32, ...]
    are_labels: bool
    rows: tuple[Int64, ...]

    @property
    def same_rows(self) -> bool:
        """Whether the predictions of every seed are on all rows of the dataset."""
        return all(len(rows) == self.dataset.n_rows for rows in self.rows)


def load_scored(
    config: AuditConfig,
    y_pred: str,
    baseline_pred: str | None = None,
    seed_column: str | None = None,
    row_column: str | None = None,
    classes: Sequence[str] = (),
) -> Scored:
    """Read a table of predictions; rows without a label or a prediction are left out and counted.

    A record without a prediction at one seed or of one model is left out for all seeds and models,
    so that these are compared on the same records; gates about a group that lacks some do not pass.

    Args:
        config: Its ``label`` names the column of true labels; ``group`` and the options of groups
            apply.
        y_pred: Column of predicted classes or of the positive class's probability, or one column of
            probabilities per class, separated by commas.
        baseline_pred: The same of the model to compare with; None: there is none.
        seed_column: Column of seeds; None: a column ``seed``, where there is one.
        row_column: Column that identifies a record at all seeds; None: its place among the rows of
            the seed does.
        classes: The classes in the order of the columns of probabilities, or the one class of a
            single column; empty: names say which column is which class's.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that do not fit it.
    """
    checked = read_checked(config)
    assert config.label is not None, "the caller names what was true"
    table = checked.table
    model_names = [y_pred] if baseline_pred is None else [y_pred, baseline_pred]
    columns_of_models = _prediction_columns(table, model_names, config)
    predicted = [column for columns in columns_of_models for column in columns]
    # Odd columns of predictions are refused; other odd columns are not used here.
    odd = [column for column in checked.odd if column.name in predicted]
    if odd:
        raise unusable(odd, too_many={})
    # Truth and groups must be the same of a record at every seed.
    fixed = list(dict.fromkeys([config.label, *config.group]))
    if seed_column is None:
        seed_column = _default_seed_column(table, [*fixed, *predicted])
    layout = _find_layout(table, fixed, seed_column, row_column)
    records = table.take(layout.first)  # one row for each record
    choice = given_label(config.label, checked.source.declared, checked.source.declared_by)
    label = read_label(records, choice, config)
    models = [_read_predictions(table, columns, label, classes) for columns in columns_of_models]
    equal = _equal_records(table, layout, predicted, seed_column, row_column)
    status = _record_status(layout, label, models, equal.rows)
    if not len(status.used):
        raise DataError(f"no row of {config.data.name} has a label and every prediction")
    groupings, group_notices = make_groupings(records, config)
    notices = [*checked.notices, *label.notices, *group_notices]
    notices += [*_equality_notices(equal), *status.notices()]
    if not classes:  # else the user said which column is which class's, and no name decided
        notices += [notice for model in models for notice in _name_notices(model, label)]
    dataset = _scored_dataset(checked, config, label, groupings, status)
    dataset = replace(dataset, notices=tuple(notices))
    require_groups(dataset)
    rows_of_seeds = layout.rows_of(status.used)
    of_models = []  # for each model: its predictions of each seed
    for name, model in zip(model_names, models, strict=True):
        of_seeds = tuple(model.probabilities[rows].astype(np.float32) for rows in rows_of_seeds)
        _refuse_equal_seeds(name, of_seeds, layout)
        of_models.append(of_seeds)
    return Scored(
        dataset=dataset,
        predictions=of_models[0],
        baseline=of_models[1] if len(of_models) > 1 else (),
        are_labels=any(model.are_classes for model in models),
        # Row k of the dataset is record ``used[k]``.
        rows=tuple(np.searchsorted(status.used, layout.record[rows]) for rows in rows_of_seeds),
    )


class _ModelPredictions(NamedTuple):
    """One model's predictions, on all N rows of the table.

    Args:
        columns: The columns that they were read from: one, or one for each class.
        probabilities: ``[N, Y]``, NaN where a row has no prediction.
        are_classes: Whether the column held classes, of which each became a probability of 1.
    """

    columns: Sequence[str]
    probabilities: Float64
    are_classes: bool


@dataclass(frozen=True, slots=True)
class _RecordStatus:
    """Which of the n records of a table of predictions are measured; masks ``[n]``.

    Args:
        is_labelled: The record has a label.
        is_predicted: It has a prediction of every model at every seed at which it has a row.
        is_first: It is no copy of an earlier record.
    """

    is_labelled: NDArray[np.bool_]
    is_predicted: NDArray[np.bool_]
    is_first: NDArray[np.bool_]

    @property
    def used(self) -> Int64:
        """Indices of the records that are measured, ascending."""
        return np.flatnonzero(self.is_labelled & self.is_predicted & self.is_first)

    @property
    def left_out(self) -> dict[str, NDArray[np.bool_]]:
        """Reason -> which records are left out for it, ``[n]``; no reasons without records.

        A record has the first reason that holds: no label, no prediction, a copy.
        """
        reasons = {
            UNLABELLED: ~self.is_labelled,
            UNPREDICTED: self.is_labelled & ~self.is_predicted,
            COPY: self.is_labelled & self.is_predicted & ~self.is_first,
        }
        return {reason: records for reason, records in reasons.items() if records.any()}

    def notices(self) -> Iterator[Message]:
        """Notices of records left out; of copies :func:`_equality_notices` tells."""
        for reason, records in self.left_out.items():
            if reason != COPY:
                yield _LEFT_OUT[reason](int(records.sum()), reason)


def _record_status(
    layout: PredictionLayout,
    label: LabelColumn,
    models: Sequence[_ModelPredictions],
    equal: EqualRows,
) -> _RecordStatus:
    """Which records are labelled, predicted and no copies.

    Args:
        layout: Which record each of the N rows is.
        label: The label of each of the n records; codes below 0: none.
        models: The models' predictions, by row of the table.
        equal: Which records are equal, and whether they are copies.
    """
    lacks_prediction = np.zeros(len(layout.record), np.bool_)  # by row
    for model in models:
        lacks_prediction |= np.isnan(model.probabilities).any(axis=1)
    # ``[n]``: at how many of a record's seeds a prediction is lacking. One is enough to leave the
    # record out.
    n_lacking = np.bincount(layout.record, lacks_prediction, minlength=len(layout.first))
    is_predicted = n_lacking == 0
    is_first = ~equal.repeated if equal.are_copies else np.ones_like(is_predicted)
    return _RecordStatus(label.codes >= 0, is_predicted, is_first)


def _scored_dataset(
    checked: CheckedTable,
    config: AuditConfig,
    label: LabelColumn,
    groupings: Sequence[Grouping],
    status: _RecordStatus,
) -> Dataset:
    """The records that are measured as a dataset without features.

    Args:
        checked: The table.
        config: The options by which its label and groups are read.
        label, groupings: Classes and groups of all n records.
        status: Which of the records are measured.
    """
    # Records that are left out are counted by the groups of the first grouping.
    counted = first_grouping(groupings, len(status.is_labelled))
    labelled = np.flatnonzero(status.is_labelled)
    # Groups are those of labelled records: one of which nothing is predicted stays a group, so that
    # gate rules about it do not pass unseen.
    of_labelled = [restrict(grouping, labelled) for grouping in groupings]
    is_used = (status.is_predicted & status.is_first)[labelled]
    unpredicted = ~status.is_predicted[labelled]
    assert config.label is not None
    return Dataset(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        features=pa.table({}),
        labels=label.codes[status.used],
        classes=label.classes,
        label=config.label,
        label_origin="given",
        positive=label.positive,
        favourable=label.favourable,
        favourable_origin=label.favourable_origin,
        groupings=tuple(replace(g, groups=g.groups[is_used]) for g in of_labelled),
        split=None,
        rows_read=checked.table.num_rows,
        columns_read=len(checked.source.schema.names),
        dropped_rows={why: counted.counts(rows) for why, rows in status.left_out.items()},
        unpredicted={g.name: g.counts(unpredicted) for g in of_labelled},
    )


def _refuse_equal_seeds(
    column: str, predictions: Sequence[Float32], layout: PredictionLayout
) -> None:
    """Refuse one training that is given as two seeds: intervals over seeds would be too narrow.

    Args:
        column: What was given as the model's predictions, for the error.
        predictions: For each seed, probabilities ``[rows, Y]``.
        layout: Says what the seeds are called.

    Raises:
        DataError: The predictions of two seeds are equal.
    """
    for one, other in combinations(range(len(predictions)), 2):
        a, b = predictions[one], predictions[other]
        if len(a) == len(b) and np.allclose(a, b, rtol=0, atol=_SAME):
            raise DataError(
                f"{quoted(column)} of seed {layout.names[one]} and of seed "
                f"{layout.names[other]} are equal in every row"
            )


class _EqualRecords(NamedTuple):
    """Which records are equal, and how many only share an id.

    Args:
        rows: Which of the n records are equal, and whether equal ones are copies.
        n_shared_ids: How many share their id with an earlier record and are equal to no earlier
            record.
    """

    rows: EqualRows
    n_shared_ids: int


def _equal_records(
    table: pa.Table,
    layout: PredictionLayout,
    predicted: Sequence[str],
    seed_column: str | None,
    row_column: str | None,
) -> _EqualRecords:
    """Find the records that are equal in all that the table says of them, predictions included.

    Where a column of ids says who is one person, equal records are copies and records of different
    ids are different people. Without such a column, or if it is empty, whether equal records are
    copies is decided as in an audit, by :mod:`fairaudit.data.copies`.

    Args:
        table: Rows of all seeds.
        layout: Which seed and record each row is.
        predicted: Columns of predictions.
        seed_column: Column of seeds, which says nothing of a record; None: there is one seed.
        row_column: Column of ids, whatever its name; None: names tell which columns are ids.
    """
    n_records = len(layout.first)
    hashes = np.zeros(n_records, np.uint64)
    codes_of_columns: list[NDArray[np.integer]] = []  # of the records, [n] each
    first_of_id: Int64 | None = None  # by the first column of ids: the first record of the same id
    is_identifying = False  # whether some number has so many values that few people share one
    for name in table.column_names:
        is_id = name == row_column or is_id_name(name)
        # A row's number says nothing of the person, unless the user names it as the id.
        is_number_of_row = is_id and name != row_column and is_row_number(name)
        if name == seed_column or is_number_of_row or kind_of(table.column(name).type) == "image":
            continue
        codes = encode_codes(table.column(name))
        of_records = codes.take(layout.first)
        codes_of_columns.append(of_records.codes)
        if name in predicted:
            hashes = _mixed_in_by_seed(hashes, codes, layout)
        else:  # the same at all seeds
            hashes = mixed_in(hashes, of_records.codes)
            is_identifying = is_identifying or (not is_id and has_many_values(of_records))
        lacks_id = of_records.missing()
        if is_id and first_of_id is None and not lacks_id.all():
            # Codes serve as the hashes that this takes: equal where the ids are.
            first_of_id = first_alike(of_records.codes.astype(np.uint64))
            first_of_id[lacks_id] = np.flatnonzero(lacks_id)  # these share an id with no record
    first = first_alike(hashes)
    if first_of_id is None:
        are_one = is_identifying and are_copies(codes_of_columns, first)
        return _EqualRecords(EqualRows(first, are_one), 0)
    own = np.arange(n_records)
    is_shared = (first_of_id != own) & (first == own)  # the id of an earlier record, and no copy
    return _EqualRecords(EqualRows(first, are_copies=True), int(is_shared.sum()))


def _mixed_in_by_seed(
    hashes: NDArray[np.uint64], codes: Codes, layout: PredictionLayout
) -> NDArray[np.uint64]:
    """Mix what a column of predictions says of each record at every seed into the records' hashes.

    Args:
        hashes: Hash of each record, ``[n]``.
        codes: The column, of all N rows.
        layout: Which seed and record each row is.
    """
    mixed = hashes.copy()  # the caller's array stays as it is
    for seed in range(len(layout.names)):
        rows = np.flatnonzero(layout.seed == seed)
        records = layout.record[rows]
        mixed[records] = mixed_in(mixed[records], codes.codes[rows])
    return mixed


def _equality_notices(equal: _EqualRecords) -> Iterator[Message]:
    """Notices of equal records, and of records that share an id only."""
    copies = copies_notice(equal.rows, are_predicted=True)
    if copies is not None:
        yield copies
    if equal.n_shared_ids:
        yield SharedIds(equal.n_shared_ids)


def _prediction_columns(
    table: pa.Table, model_names: Sequence[str], config: AuditConfig
) -> list[list[str]]:
    """The columns of each model's predictions.

    Args:
        table: All rows.
        model_names: What options name for each model: a column, or several separated by commas.
        config: Names the label.

    Raises:
        ConfigError: One of the columns is the label, or a model is its own baseline.
        DataError: A column is not in the table.
    """
    columns_of_models: list[list[str]] = []
    for name in model_names:
        # A column's own name may hold commas.
        columns = [name]
        if name not in table.column_names:
            columns = [part.strip() for part in name.split(",")]
        if columns in columns_of_models:  # there are at most two models: this one is the baseline
            raise ConfigError(f"prediction column {quoted(model_names[0])} is its own baseline")
        columns_of_models.append(columns)
    for column in (column for columns in columns_of_models for column in columns):
        if column == config.label:
            raise ConfigError(f"{quoted(column)} is what was true, and is given as a prediction")
        if column not in table.column_names:
            raise DataError(
                f"prediction column {quoted(column)} is not in {config.data.name}",
                nearest(column, table.column_names),
            )
    return columns_of_models


def _read_predictions(
    table: pa.Table, columns: Sequence[str], label: LabelColumn, classes: Sequence[str]
) -> _ModelPredictions:
    """Read one model's predictions, as classes or as probabilities.

    Args:
        table: All rows.
        columns: A column of classes or of the positive class's probability, or one of probabilities
            for each class.
        label: The true label, whose classes they predict.
        classes: As of :func:`load_scored`.

    Raises:
        DataError: The columns hold neither, or not one column for each class.
        ConfigError: ``classes`` are not those of the label.
    """
    if len(columns) == 1:
        certain = _certain_probabilities(table.column(columns[0]), label.classes)
        if certain is not None:
            return _ModelPredictions(columns, certain, are_classes=True)
    for column in columns:
        if kind_of(table.column(column).type) != "number":
            raise DataError(
                f"prediction column {quoted(column)} has values that are no class of the label",
                f"classes: {listed(label.classes)}",
            )
    values = np.stack([numeric_values(table.column(column)) for column in columns], axis=1)
    if len(columns) == 1 and len(label.classes) == 2:
        values = np.concatenate([1 - values, values], axis=1)  # taken for the second class's
        if probable_class(columns[0], label, classes) == 0:  # they are the first class's
            values = values[:, ::-1]
    else:
        # [N, Y], in the order of the label's classes.
        values = values[:, class_columns(columns, label.classes, classes)]
    complete = values[~np.isnan(values).any(axis=1)]
    if np.any(complete < 0) or np.any(np.abs(complete.sum(axis=1) - 1) > SUM_TOLERANCE):
        raise DataError(
            f"{listed(columns)} holds neither classes of the label nor probabilities: they are "
            "negative or do not add up to 1"
        )
    return _ModelPredictions(columns, values, are_classes=False)


def _certain_probabilities(column: pa.ChunkedArray, classes: Sequence[str]) -> Float64 | None:
    """Probabilities ``[N, Y]`` of 1 for the class that each row of a column names, else 0.

    Rows without a value are NaN. None where some value of the column spells no class.
    """
    levels = encode_levels(column)
    # A column of so many values holds probabilities. To compare each value with all classes would
    # take a while.
    if len(levels.names) > _SPELLINGS * len(classes):
        return None
    # A row of 0 and 1 for each level; the last, which a missing value's -1 reads, stays NaN.
    of_levels = np.full((len(levels.names) + 1, len(classes)), np.nan)
    for level, name in enumerate(levels.names):
        named = same_class(name, classes)  # index of the class; None: the value spells none
        if named is None:
            return None
        of_levels[level] = np.arange(len(classes)) == named
    return of_levels[levels.codes]


def probable_class(column: str, label: LabelColumn, given: Sequence[str] = ()) -> int | None:
    """Index of the class, of two, whose probability a single column holds; None: not known.

    It is the class that was given; else the class that the column's name ends in, as ``p_bad``;
    else the positive class. A class that is a number is not looked for: ``guess_0`` may be the
    first of several columns.

    Args:
        column: Name of the column.
        label: The label, of two classes.
        given: The classes of ``--classes``; empty: the name decides.

    Raises:
        ConfigError: What was given is not one of the classes.
    """
    if given:
        place = same_class(given[0], label.classes) if len(given) == 1 else None
        if place is None:
            raise ConfigError(
                f"--classes names {listed(given)}, and {quoted(column)} is of one class",
                f"name one of {listed(label.classes)}",
            )
        return place
    # "" in the place of a class that is a number: `named_class` finds no column of it.
    worded = [name if any(map(str.isalpha, name)) else "" for name in label.classes]
    named = named_class(column, worded)
    return label.positive if named is None else named


def _name_notices(model: _ModelPredictions, label: LabelColumn) -> Iterator[Message]:
    """A notice where names of columns of probabilities decided which class each is about.

    There is no notice where the columns' names say what would be taken without them: that a single
    column is the positive class's, that several stand in the order of the sorted classes.
    """
    columns, classes = model.columns, label.classes
    if model.are_classes:
        return
    if len(columns) == 1:
        named = probable_class(columns[0], label)
        if named is not None and named != label.positive:
            yield ProbabilityOf(tuple(columns), (classes[named],))
        return
    column_of_class = class_columns(columns, classes)
    if column_of_class != sorted(column_of_class):
        of_columns = [classes[column_of_class.index(k)] for k in range(len(columns))]
        yield ProbabilityOf(tuple(columns), tuple(of_columns))


def _default_seed_column(table: pa.Table, used: Collection[str]) -> str | None:
    """The column ``seed``, where there is one that is neither truth, group nor prediction."""
    return SEED_COLUMN if SEED_COLUMN in table.column_names and SEED_COLUMN not in used else None


def _find_layout(
    table: pa.Table, fixed: Sequence[str], seed_column: str | None, row_column: str | None
) -> PredictionLayout:
    """Find which seed and which record each row is; a table without seeds is one seed.

    Args:
        table: Rows of all seeds.
        fixed: Columns that must say the same of a record at every seed: the label and the groups.
        seed_column: Column of seeds; None: there is one seed.
        row_column: As of :func:`load_scored`.

    Raises:
        DataError: No such column; a row without a seed or id; an id twice in a seed; seeds of
            different numbers of rows, without ``row_column``; records that differ between seeds.
        ConfigError: ``row_column`` in a table without seeds.
    """
    for column in (seed_column, row_column):
        if column is not None and column not in table.column_names:
            raise DataError(
                f"there is no column {quoted(column)}", nearest(column, table.column_names)
            )
    if seed_column is None:
        if row_column is not None:
            raise ConfigError("--row-column is about several seeds, and there is one")
        rows = np.arange(table.num_rows, dtype=np.int64)
        # Every row is a record, and the only seed has no name.
        return PredictionLayout(np.zeros(len(rows), np.int64), rows, rows, ("",))
    seeds = _complete_levels(table, seed_column)
    # What identifies each row's record at all seeds: its id, or its place within its seed.
    if row_column is not None:
        ids = _complete_levels(table, row_column).codes
    else:
        ids = _places_within_seeds(seeds.codes)
    # A record at a seed as one number, which may occur once. Places within a seed never repeat, so
    # only ids of `row_column` can.
    cells = np.unique(ids * len(seeds.names) + seeds.codes)
    if len(cells) < table.num_rows:
        twice = numbered(table.num_rows - len(cells), "row")
        raise DataError(f"{twice} of {row_column} stand twice in a seed")
    _, first, record = np.unique(ids, return_index=True, return_inverse=True)
    layout = PredictionLayout(
        seeds.codes, record.astype(np.int64), first.astype(np.int64), seeds.names
    )
    if row_column is None and len(record) != len(seeds.names) * len(first):
        raise DataError(f"the {len(seeds.names)} seeds have different numbers of rows", _SAME_ROWS)
    _refuse_differing(table, fixed, layout)
    return layout


def _places_within_seeds(seeds: Int64) -> Int64:
    """Each row's place among the rows of its seed, ``[N]``, from 0; ``seeds``: each row's seed."""
    by_seed = np.argsort(seeds, kind="stable")
    first_of_seed = np.searchsorted(seeds[by_seed], seeds)  # of each row's seed, in that order
    places = np.empty_like(by_seed)
    places[by_seed] = np.arange(len(by_seed)) - first_of_seed[by_seed]
    return places


def _refuse_differing(table: pa.Table, fixed: Sequence[str], layout: PredictionLayout) -> None:
    """Refuse truth and groups that are not the same of a record at every seed.

    Args:
        table: Rows of all seeds.
        fixed: The columns of truth and groups.
        layout: Which seed and record each row is.

    Raises:
        DataError: Names the column, and the first seed that differs.
    """
    for column in fixed:
        codes = encode_levels(table.column(column)).codes
        of_first_rows = codes[layout.first][layout.record]  # what each row's record has first
        differing = np.flatnonzero(codes != of_first_rows)
        if len(differing):
            raise DataError(
                f"{quoted(column)} differs between seeds in {numbered(len(differing), 'row')}, "
                f"first in seed {layout.names[int(layout.seed[differing[0]])]}",
                _SAME_ROWS,
            )


def _complete_levels(table: pa.Table, column: str) -> Levels:
    """The levels of a column; DataError where a row has no value in it."""
    levels = encode_levels(table.column(column))
    lacking = int((levels.codes < 0).sum())
    if lacking:
        raise DataError(f"{numbered(lacking, 'row')} without a value in {quoted(column)}")
    return levels
