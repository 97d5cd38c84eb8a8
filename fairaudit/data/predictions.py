"""A table of given predictions: the true label, what models predicted for it, and groups.

A record is what was predicted; the table has a row for each record at each seed (training run of
the model). A table without seeds has one row for each record.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.class_columns import class_columns, named_class
from fairaudit.data.column_types import Levels, encode_codes, encode_levels, kind_of, numeric_values
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

SEED_COLUMN = "seed"  # taken for what it says unless it is used for something else
_SAME_ROWS = (  # the hint where seeds do not match row by row
    "give every seed the same rows in the same order, or name what identifies a row: "
    "--row-column COL"
)
# Why records are left out, as keys of ``Dataset.dropped_rows``.
UNLABELLED, UNPREDICTED = "label missing", "prediction missing"
_LEFT_OUT = {UNLABELLED: UnlabelledDropped, UNPREDICTED: UnpredictedDropped}
_SAME = 1e-6  # probabilities that differ by less were written with other digits
_SPELLINGS = 4  # of one class in one column, at most
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

    def places(self, used: Int64) -> tuple[Int64, ...]:
        """For each seed, the rows of the table that hold its predictions of some records.

        Args:
            used: Indices of the records, ascending.

        Returns:
            An array for each seed, in the order of the records; it is shorter than ``used`` where
            the seed lacks some.

        Raises:
            DataError: A seed has none of the records.
        """
        places = []
        for seed, name in enumerate(self.names):
            rows = np.flatnonzero((self.seed == seed) & np.isin(self.record, used))
            if not len(rows):
                raise DataError(f"no row of seed {name} has a label and every prediction")
            places.append(rows[np.argsort(self.record[rows], kind="stable")])
        return tuple(places)


@dataclass(frozen=True, slots=True)
class Scored:
    """Given predictions beside the labels and groups of the records that they are of.

    Args:
        dataset: The records with labels and groups, one per row; it has no features.
        predictions: For each seed, the probabilities of the Y classes, ``[n, Y]``.
        baseline: The same of the model to compare with; ``()`` where none is given.
        rows: For each seed, the rows of the dataset that its predictions are on, [n].
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

    A record without a prediction at one seed or of one model is left out for all, so that they are
    compared on the same records; gates about a group that lacks some do not pass.

    Args:
        config: Its ``label`` names the column of true labels; ``group`` and the options of groups
            apply.
        y_pred: Column of predicted classes or of the positive class's probability, or one column of
            probabilities per class, separated by commas.
        baseline_pred: Likewise of what to compare with.
        seed_column: Column of seeds; None: a column ``seed``, where there is one.
        row_column: Column that identifies a record at all seeds; None: its place among the rows of
            the seed does.
        classes: The classes in the order of the columns of probabilities, or the one class of a
            single column; empty: names say which is whose.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that do not fit it.
    """
    checked = read_checked(config)
    assert config.label is not None, "the caller names what was true"
    table = checked.table
    named = [y_pred] if baseline_pred is None else [y_pred, baseline_pred]
    predicted_in = _predicted_in(table, named, config)
    used_names = [column for columns in predicted_in for column in columns]
    odd = [column for column in checked.odd if column.name in used_names]
    if odd:
        raise unusable(odd, {})
    # Truth and groups are the same in every seed.
    fixed = list(dict.fromkeys([config.label, *config.group]))
    seeds = seed_column
    if seeds is None:
        seeds = _default_seed_column(table, [*fixed, *used_names])
    layout = _lay_out(table, fixed, seeds, row_column)
    records = table.take(layout.first)
    choice = given_label(config.label, checked.source.declared, checked.source.declared_by)
    label = read_label(records, choice, config)
    read = [_read_predictions(table, columns, label, classes) for columns in predicted_in]
    equal, shared = _equal_records(table, layout, used_names, (seeds or "", row_column or ""))
    fates = _fates_of(layout, label, [values for values, _ in read], equal)
    if not len(fates.used):
        raise DataError(f"no row of {config.data.name} has a label and every prediction")
    notices = [*checked.notices, *label.notices]
    groupings, group_notices = make_groupings(records, config)
    notices += [*group_notices, *_notices_of_equal(equal, shared), *fates.notices()]
    for columns, (_, are_classes) in zip(predicted_in, read, strict=True):
        by_name = None if classes or are_classes else _read_by_name(columns, label)
        notices += [] if by_name is None else [by_name]
    dataset = _scored_dataset(checked, config, label, groupings, fates)
    dataset = replace(dataset, notices=tuple(notices))
    require_groups(dataset)
    places = layout.places(fates.used)
    models = []
    for name, (values, _) in zip(named, read, strict=True):
        models.append(_by_seed(name, values, places, layout))
    return Scored(
        dataset=dataset,
        predictions=models[0],
        baseline=models[1] if len(models) > 1 else (),
        are_labels=any(is_label for _, is_label in read),
        rows=tuple(np.searchsorted(fates.used, layout.record[place]) for place in places),
    )


@dataclass(frozen=True, slots=True)
class _RecordFates:
    """What becomes of each of the n records of a table of predictions; masks ``[n]``.

    Args:
        is_labelled: It has a label.
        is_predicted: It has a prediction of every model at every seed.
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
        """Why records are left out -> which; reasons that hold of none are not there."""
        reasons = {
            UNLABELLED: ~self.is_labelled,
            UNPREDICTED: self.is_labelled & ~self.is_predicted,
            COPY: self.is_labelled & self.is_predicted & ~self.is_first,
        }
        return {reason: records for reason, records in reasons.items() if records.any()}

    def notices(self) -> Iterator[Message]:
        """What a reader is told of them; of copies :func:`_notices_of_equal` tells."""
        for reason, records in self.left_out.items():
            if reason != COPY:
                yield _LEFT_OUT[reason](int(records.sum()), reason)


def _fates_of(
    layout: PredictionLayout,
    label: LabelColumn,
    predictions: Sequence[NDArray[np.float64]],
    equal: EqualRows,
) -> _RecordFates:
    """Which records are labelled, predicted and no copies.

    Args:
        layout: Which record each of the N rows is.
        label: Of the records.
        predictions: Of each model, ``[N, Y]``; NaN is none.
        equal: Which records are equal, and whether they are copies.
    """
    lacking = np.zeros(len(layout.record), np.bool_)
    for values in predictions:
        lacking |= np.isnan(values).any(axis=1)
    # A record that one seed lacks is left out of all.
    present = np.bincount(layout.record, lacking, minlength=len(layout.first)) == 0
    is_first = ~equal.repeated if equal.are_copies else np.ones_like(present)
    return _RecordFates(label.codes >= 0, present, is_first)


def _scored_dataset(
    checked: CheckedTable,
    config: AuditConfig,
    label: LabelColumn,
    groupings: Sequence[Grouping],
    fates: _RecordFates,
) -> Dataset:
    """The records that are measured as a dataset without features.

    Args:
        checked, config: The table, and the options that its label and groups are read by.
        label, groupings: Of all records.
        fates: What becomes of them.
    """
    counted = first_grouping(groupings, len(fates.is_labelled))
    labelled = np.flatnonzero(fates.is_labelled)
    # A group of which nothing is predicted stays a group, so that rules about it are not lost.
    of_labelled = [restrict(grouping, labelled) for grouping in groupings]
    is_used = (fates.is_predicted & fates.is_first)[labelled]
    unpredicted = ~fates.is_predicted[labelled]
    assert config.label is not None
    return Dataset(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        features=pa.table({}),
        labels=label.codes[fates.used],
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
        dropped_rows={why: counted.counts(rows) for why, rows in fates.left_out.items()},
        unpredicted={g.name: g.counts(unpredicted) for g in of_labelled},
    )


def _refuse_equal_seeds(
    column: str, predictions: Sequence[Float32], layout: PredictionLayout
) -> None:
    """Refuse one training that is given as two seeds: it would look sure.

    Args:
        column: What was given as the model's predictions.
        predictions: Of each seed, ``[n, Y]``.
        layout: Says what the seeds are called.

    Raises:
        DataError: Those of two seeds are equal.
    """
    for one, other in combinations(range(len(predictions)), 2):
        a, b = predictions[one], predictions[other]
        if len(a) == len(b) and np.allclose(a, b, rtol=0, atol=_SAME):
            raise DataError(
                f"{quoted(column)} of seed {layout.names[one]} and of seed "
                f"{layout.names[other]} are equal in every row"
            )


def _equal_records(
    table: pa.Table, layout: PredictionLayout, predicted: Sequence[str], no_features: Sequence[str]
) -> tuple[EqualRows, int]:
    """Which records are equal in all that the table says of them, and whether these are copies.

    They are as in an audit (:mod:`fairaudit.data.copies`), or where a column of ids says that they
    are of one person. Those of different ids are different people.

    Args:
        table: Rows of all seeds.
        layout: Which seed and record each row is.
        predicted: Columns of predictions.
        no_features: The column of seeds, and the one that names a record in all of them, an id.

    Returns:
        The equal records, and how many share an id with an earlier one that is not equal.
    """
    seed_column, row_column = no_features
    hashes = np.zeros(len(layout.first), np.uint64)
    seen: list[NDArray[np.integer]] = []
    of_ids: list[Int64] = []
    tells_apart = False
    for name in table.column_names:
        column = table.column(name)
        is_id = name == row_column or is_id_name(name)
        no_feature = name == seed_column or kind_of(column.type) == "image"
        if no_feature or (is_id and name != row_column and is_row_number(name)):
            continue
        codes = encode_codes(column)
        for seed in range(len(layout.names)) if name in predicted else ():
            rows = np.flatnonzero(layout.seed == seed)
            records = layout.record[rows]
            hashes[records] = mixed_in(hashes[records], codes.codes[rows])
        of_records = codes.take(layout.first)
        seen.append(of_records.codes)
        if name not in predicted:
            hashes = mixed_in(hashes, of_records.codes)
            tells_apart = tells_apart or (not is_id and has_many_values(of_records))
        if is_id:
            of_ids.append(first_alike(mixed_in(np.zeros_like(hashes), of_records.codes)))
    first = first_alike(hashes)
    one = bool(of_ids) or (tells_apart and are_copies(seen, first))
    shared = 0
    for of_id in of_ids[:1]:
        shared = int(((of_id != np.arange(len(of_id))) & (first == np.arange(len(first)))).sum())
    return EqualRows(first, one), shared


def _notices_of_equal(equal: EqualRows, shared: int) -> Iterator[Message]:
    """What a reader is told of equal records, and of ``shared`` ones that share an id."""
    copies = copies_notice(equal, are_predicted=True)
    if copies is not None:
        yield copies
    if shared:
        yield SharedIds(shared)


def _predicted_in(
    table: pa.Table, named: Sequence[str], config: AuditConfig
) -> list[Sequence[str]]:
    """The columns of each model's predictions, by what an option names: one, or one of each class.

    Raises:
        ConfigError: One is the label, or a model is its own baseline. DataError: There is none.
    """
    predicted_in: list[Sequence[str]] = []
    for name in named:
        columns = [name]
        if name not in table.column_names:  # then it names one column of each class
            columns = [part.strip() for part in name.split(",")]
        if columns in predicted_in:
            raise ConfigError(f"prediction column {quoted(named[0])} is its own baseline")
        predicted_in.append(columns)
    for column in (column for columns in predicted_in for column in columns):
        if column == config.label:
            raise ConfigError(f"{quoted(column)} is what was true, and is given as a prediction")
        if column not in table.column_names:
            raise DataError(
                f"prediction column {quoted(column)} is not in {config.data.name}",
                nearest(column, table.column_names),
            )
    return predicted_in


def _read_predictions(
    table: pa.Table, columns: Sequence[str], label: LabelColumn, classes: Sequence[str]
) -> tuple[NDArray[np.float64], bool]:
    """Read one model's predictions, as classes or as probabilities.

    Args:
        table: All rows.
        columns: A column of classes or of the positive class's probability, or one of probabilities
            for each class.
        label: The true label, whose classes they predict.
        classes: As of :func:`load_scored`.

    Returns:
        Probabilities ``[N, Y]`` in float64, NaN where missing; and whether the column held classes,
        of which each became a probability of 1.

    Raises:
        DataError: The columns hold neither.
    """
    if len(columns) == 1:
        levels = encode_levels(table.column(columns[0]))
        # A column of many values holds no classes; looking each of them up would take a while.
        few = levels.names[: _SPELLINGS * len(label.classes) + 1]
        predicted = [same_class(level, label.classes) for level in few]
        # A row of 0 and 1 for each level; the last, which a missing value's -1 reads, stays NaN.
        certain = np.full((len(few) + 1, len(label.classes)), np.nan)
        for code, place in enumerate(predicted):
            certain[code] = np.arange(len(label.classes)) == place
        if None not in predicted:
            return certain[levels.codes], True
    for column in columns:
        if kind_of(table.column(column).type) != "number":
            raise DataError(
                f"prediction column {quoted(column)} has values that are no class of the label",
                f"classes: {listed(label.classes)}",
            )
    values = np.stack([numeric_values(table.column(column)) for column in columns], axis=1)
    if len(columns) == 1 and len(label.classes) == 2:
        values = np.concatenate([1 - values, values], axis=1)
        if probable_class(columns[0], label, classes) == 0:
            values = values[:, ::-1]
    else:
        values = values[:, class_columns(columns, label.classes, classes)]
    complete = values[~np.isnan(values).any(axis=1)]
    if np.any(complete < 0) or np.any(np.abs(complete.sum(axis=1) - 1) > SUM_TOLERANCE):
        raise DataError(
            f"{listed(columns)} holds neither classes of the label nor probabilities: they are "
            "negative or do not add up to 1"
        )
    return values, False


def probable_class(column: str, label: LabelColumn, given: Sequence[str] = ()) -> int | None:
    """Index of the class, of two, whose probability a single column holds.

    The one that was given; else the class that the column's name ends in, as ``p_bad``; else the
    positive class. A class that is a number is not looked for: ``guess_0`` may be the first of
    several columns.

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
    worded = [name if any(map(str.isalpha, name)) else "" for name in label.classes]
    named = named_class(column, worded)
    return label.positive if named is None else named


def _read_by_name(columns: Sequence[str], label: LabelColumn) -> Message | None:
    """What the names of columns decided of their probabilities; None where their places say it too.

    Without names a single column would be the positive class's, several those of the sorted
    classes.
    """
    if len(columns) == 1:
        place = probable_class(columns[0], label)
        if place is None or place == label.positive:
            return None
        return ProbabilityOf(tuple(columns), (label.classes[place],))
    order = class_columns(columns, label.classes)
    if order == sorted(order):
        return None
    of_columns = [label.classes[order.index(place)] for place in range(len(order))]
    return ProbabilityOf(tuple(columns), tuple(of_columns))


def _by_seed(
    model: str, values: NDArray[np.float64], places: Sequence[Int64], layout: PredictionLayout
) -> tuple[Float32, ...]:
    """A model's predictions of the records that are used, ``[n, Y]`` for each seed.

    Args:
        model: Its columns, for an error.
        values: Of all rows of the table, ``[N, Y]``.
        places: Rows of each seed, in the order of the records.
        layout: Which seed each row is.

    Raises:
        DataError: Two seeds are equal in every prediction.
    """
    of_seeds = tuple(values[place].astype(np.float32) for place in places)
    _refuse_equal_seeds(model, of_seeds, layout)
    return of_seeds


def _default_seed_column(table: pa.Table, used: Collection[str]) -> str | None:
    """The column ``seed``, where there is one that is neither truth, group nor prediction."""
    return SEED_COLUMN if SEED_COLUMN in table.column_names and SEED_COLUMN not in used else None


def _lay_out(
    table: pa.Table, fixed: Sequence[str], seed_column: str | None, row_column: str | None
) -> PredictionLayout:
    """Find which seed and which record each row is; a table without seeds is one seed.

    Args:
        table: Rows of all seeds.
        fixed: Columns that must say the same of a record at every seed: the label and the groups.
        seed_column: Column of seeds; None: there is one seed.
        row_column: As of :func:`load_scored`.

    Raises:
        DataError: No such column; a row without a seed; records that differ between seeds.
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
        return PredictionLayout(np.zeros(len(rows), np.int64), rows, rows, ("",))
    seeds = _complete_levels(table, seed_column)
    if row_column is not None:
        names_of_rows = _complete_levels(table, row_column).codes
    else:
        names_of_rows = _places_within_seeds(seeds.codes)
    # A record at a seed as one number, which may occur once.
    cells = np.unique(names_of_rows * len(seeds.names) + seeds.codes)
    if len(cells) < table.num_rows:
        twice = numbered(table.num_rows - len(cells), "row")
        raise DataError(f"{twice} of {row_column} stand twice in a seed")
    _, first, record = np.unique(names_of_rows, return_index=True, return_inverse=True)
    layout = PredictionLayout(
        seeds.codes, record.astype(np.int64), first.astype(np.int64), seeds.names
    )
    if row_column is None and len(record) != len(seeds.names) * len(first):
        raise DataError(f"the {len(seeds.names)} seeds have different numbers of rows", _SAME_ROWS)
    _refuse_differing(table, fixed, layout)
    return layout


def _places_within_seeds(seeds: Int64) -> Int64:
    """Each row's place among the rows of its seed, ``[n]``, from 0; ``seeds``: each row's seed."""
    order = np.argsort(seeds, kind="stable")
    starts = np.searchsorted(seeds[order], seeds)
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) - starts[order]
    return places


def _refuse_differing(table: pa.Table, fixed: Sequence[str], layout: PredictionLayout) -> None:
    """Refuse truth and groups that are not the same of a record at every seed.

    Raises:
        DataError: Names the column, and the first seed that differs.
    """
    for column in fixed:
        codes = encode_levels(table.column(column)).codes
        odd = np.flatnonzero(codes != codes[layout.first][layout.record])
        if len(odd):
            raise DataError(
                f"{quoted(column)} differs between seeds in {numbered(len(odd), 'row')}, first "
                f"in seed {layout.names[int(layout.seed[odd[0]])]}",
                _SAME_ROWS,
            )


def _complete_levels(table: pa.Table, column: str) -> Levels:
    """The levels of a column; DataError where a row has no value in it."""
    levels = encode_levels(table.column(column))
    lacking = int((levels.codes < 0).sum())
    if lacking:
        raise DataError(f"{numbered(lacking, 'row')} without a value in {quoted(column)}")
    return levels
