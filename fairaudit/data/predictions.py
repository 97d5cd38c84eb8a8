"""A table of given predictions: what was true, what some models said of it, and groups."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import Levels, encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Dataset, Float32, Int64, Notice
from fairaudit.data.groups import make_groupings, require_groups, restrict
from fairaudit.data.infer import LabelColumn, given_label, read_label, same_class
from fairaudit.data.naming import listed, near_miss, quoted
from fairaudit.data.rows import by_group, counts_by_group
from fairaudit.data.tabular import read_checked
from fairaudit.errors import ConfigError, DataError, numbered

SEED_COLUMN = "seed"  # taken for what it says unless it is used for something else
_SAME_ROWS = (
    "give every seed the same rows in the same order, or name what identifies a row: "
    "--row-column COL"
)
_ONE_ROW = "a row is the same in every seed: one truth, the same groups"
UNLABELLED, UNPREDICTED = "label missing", "prediction missing"
_LEFT_OUT = {
    UNLABELLED: "their counts are in the report; a gate that they could turn does not pass",
    UNPREDICTED: "predict every row: no gate about their groups passes",
}
_SAME = 1e-6  # probabilities that differ by less were written with other digits
_SPELLINGS = 4  # of one class in one column, at most
SUM_TOLERANCE = 1e-3  # of a row's probabilities from 1; rounded tables are off by as much


@dataclass(frozen=True, slots=True)
class Layout:
    """How the N rows of a table are cut.

    Args:
        seed: Place of each row's seed, [N] in 0..S-1.
        record: Which record each row is, [N] in 0..n-1: the same in every seed.
        first: First row of each record, [n].
        names: Of the seeds, [S].
    """

    seed: Int64
    record: Int64
    first: Int64
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """Given predictions on one set of rows.

    Args:
        dataset: The rows with labels and groups; it has no features.
        predictions: Of each seed, ``[n, Y]``.
        baseline: Likewise of what they are compared with, ``()`` where nothing is given.
        rows: Of each seed, which rows of the dataset its predictions are on, [n].
        are_labels: Some are labels only, so nothing that needs probabilities is known.
    """

    dataset: Dataset
    predictions: tuple[Float32, ...]
    baseline: tuple[Float32, ...]
    are_labels: bool
    rows: tuple[Int64, ...]

    @property
    def same_rows(self) -> bool:
        """Whether all models are on all rows."""
        return all(len(rows) == self.dataset.n_rows for rows in self.rows)


def load_scored(
    config: AuditConfig,
    y_pred: str,
    baseline_pred: str | None = None,
    seed_column: str | None = None,
    row_column: str | None = None,
) -> Scored:
    """Read a table of predictions; rows without a label or a prediction are left out and counted.

    What a model does not predict is left out for all of them, so that they are compared on the same
    rows; gates about a group that lacks some do not pass.

    Args:
        config: Its ``label`` names what was true; ``group`` and the options of groups apply.
        y_pred: Column of predicted classes or of the positive class's probability, or one column of
            probabilities per class, separated by commas.
        baseline_pred: Likewise of what to compare with.
        seed_column: Column of seeds; None: ``seed``, where there is one.
        row_column: Column that identifies a row in all seeds; None: its place within its seed does.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that do not fit it.
    """
    checked = read_checked(config)
    assert config.label is not None, "the caller names what was true"
    whole = checked.table
    named = [y_pred] if baseline_pred is None else [y_pred, baseline_pred]
    layout = _lay_out(whole, config, named, seed_column, row_column)
    table = whole.take(layout.first)
    choice = given_label(config.label, checked.source.declared, checked.source.declared_by)
    label = read_label(table, choice, config)
    columns = [_columns(name, whole) for name in named]
    if len(columns) > 1 and columns[0] == columns[1]:
        raise ConfigError(f"prediction column {quoted(y_pred)} is its own baseline")
    if any(config.label in names for names in columns):
        raise ConfigError(
            f"{quoted(config.label)} is what was true, and is given as a prediction too"
        )
    read = [_read(whole, name, label, config.data.name) for name in named]
    lacking = np.zeros(whole.num_rows, np.bool_)
    for values, _ in read:
        lacking |= np.isnan(values).any(axis=1)
    # A record that one seed lacks is left out of all.
    present = np.bincount(layout.record, lacking, minlength=len(layout.first)) == 0
    groupings, group_notices = make_groupings(table, config)
    known = label.codes >= 0
    labelled = np.flatnonzero(known)
    used = labelled[present[labelled]]
    if not len(used):
        raise DataError(f"no row of {config.data.name} has a label and every prediction")
    dropped, notices = {}, [*checked.notices, *label.notices, *group_notices]
    for reason, rows in ((UNLABELLED, ~known), (UNPREDICTED, known & ~present)):
        if rows.any():
            dropped[reason] = counts_by_group(rows, groupings, len(rows))
            message = f"{numbered(int(rows.sum()), 'row')} left out: {reason}"
            notices.append(Notice("rows_dropped", message, _LEFT_OUT[reason]))
    # A group of which nothing is predicted stays a group, so that rules about it are not lost.
    groupings = tuple(restrict(grouping, labelled) for grouping in groupings)
    predicted = present[labelled]
    dataset = Dataset(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        features=pa.table({}),
        labels=label.codes[used],
        classes=label.classes,
        label=config.label,
        label_origin="given",
        positive=label.positive,
        favourable=label.favourable,
        favourable_origin=label.favourable_origin,
        groupings=tuple(replace(g, groups=g.groups[predicted]) for g in groupings),
        split=None,
        rows_read=whole.num_rows,
        columns_read=len(checked.source.schema.names),
        dropped_rows=dropped,
        notices=tuple(notices),
        unpredicted={g.name: by_group(g.groups[~predicted], g.names) for g in groupings},
    )
    require_groups(dataset)
    number = np.full(len(layout.first), -1, dtype=np.int64)
    number[used] = np.arange(len(used))
    of_row = number[layout.record]  # which of the used records each row of the table is
    places = []
    for seed, said in enumerate(layout.names):
        own = np.flatnonzero((layout.seed == seed) & (of_row >= 0))
        places.append(own[np.argsort(of_row[own], kind="stable")])
        if not len(own):
            raise DataError(f"no row of seed {said} has a label and every prediction")
    models = []
    for name, (values, _) in zip(named, read, strict=True):
        of_seeds = []
        for place in places:
            exact = values[place]
            rounded = exact.astype(np.float32)
            # The most probable class of a row stays what it was in float64.
            best = exact.argmax(axis=1)
            moved = np.flatnonzero(rounded.argmax(axis=1) != best)
            rounded[moved, best[moved]] = np.nextafter(rounded[moved].max(axis=1), np.float32(2))
            of_seeds.append(rounded)
        # Equal predictions are one training; counted as several they would look sure.
        for (one, a), (other, b) in combinations(zip(layout.names, of_seeds, strict=True), 2):
            if len(a) == len(b) and np.allclose(a, b, rtol=0, atol=_SAME):
                raise DataError(
                    f"{quoted(name)} of seed {one} and of seed {other} are equal in every row"
                )
        models.append(tuple(of_seeds))
    return Scored(
        dataset=dataset,
        predictions=models[0],
        baseline=models[1] if len(models) > 1 else (),
        are_labels=any(is_label for _, is_label in read),
        rows=tuple(of_row[place] for place in places),
    )


def _read(
    table: pa.Table, name: str, label: LabelColumn, name_of_file: str
) -> tuple[NDArray[np.float64], bool]:
    """Probabilities ``[N, Y]`` in float64, NaN where missing, and whether they stand for labels."""
    columns = _columns(name, table)
    for column in columns:
        if column not in table.column_names:
            known = table.column_names
            raise DataError(
                f"prediction column {quoted(column)} is not in {name_of_file} ({listed(known)})",
                near_miss(column, known),
            )
    if len(columns) > 1:
        return _per_class(table, columns, label), False
    column = table.column(columns[0])
    levels = encode_levels(column)
    # A column of many values holds no classes; looking each of them up would take a while.
    few = levels.names[: _SPELLINGS * len(label.classes) + 1]
    classes = [same_class(level, label.classes) for level in few]
    if None not in classes:
        certain = np.full((len(few) + 1, len(label.classes)), np.nan)  # the last: no prediction
        for level, of_level in enumerate(classes):
            certain[level] = np.arange(len(label.classes)) == of_level
        return certain[levels.codes], True
    if kind_of(column.type) != "number":
        raise DataError(
            f"prediction column {quoted(columns[0])} has values that are no class of the label",
            f"classes: {listed(label.classes)}",
        )
    if len(label.classes) != 2:
        raise DataError(
            f"prediction column {quoted(name)} holds numbers, and the label has "
            f"{len(label.classes)} classes",
            "give one column of probabilities per class, separated by commas",
        )
    values = numeric_values(column)
    if not np.all((values >= 0) & (values <= 1) | np.isnan(values)):
        raise DataError(
            f"prediction column {quoted(name)} holds neither classes of the label nor "
            "probabilities",
        )
    positive = 1 if label.positive is None else label.positive
    both = np.empty((len(values), 2))
    both[:, positive], both[:, 1 - positive] = values, 1 - values
    return both, False


def _columns(name: str, table: pa.Table) -> list[str]:
    """The column of that name, else one column of each class."""
    if name in table.column_names:
        return [name]
    return [part.strip() for part in name.split(",")]


def _per_class(table: pa.Table, columns: Sequence[str], label: LabelColumn) -> NDArray[np.float64]:
    if len(columns) != len(label.classes):
        raise DataError(
            f"{len(columns)} columns of probabilities for {len(label.classes)} classes",
            f"one column per class, in this order: {listed(label.classes)}",
        )
    for name in columns:
        if kind_of(table.column(name).type) != "number":
            raise DataError(f"prediction column {quoted(name)} does not hold numbers")
    values = np.stack([numeric_values(table.column(name)) for name in columns], axis=1)
    known = ~np.isnan(values).any(axis=1)
    sums = values[known].sum(axis=1)
    if np.any(values[known] < 0) or np.any(np.abs(sums - 1) > SUM_TOLERANCE):
        raise DataError("the probabilities of a row do not add up to 1")
    return values


def _lay_out(
    table: pa.Table,
    config: AuditConfig,
    named: Sequence[str],
    seed_column: str | None,
    row_column: str | None,
) -> Layout:
    """The seeds of a table by its column of them; one seed where there is none.

    Raises:
        DataError: No such column; a row without a seed; rows that are not the same in all seeds.
        ConfigError: A column of rows without one of seeds.
    """
    for column in (seed_column, row_column):
        if column is not None and column not in table.column_names:
            raise DataError(
                f"there is no column {quoted(column)}", near_miss(column, table.column_names)
            )
    # Truth and groups are the same in every seed.
    fixed = [n for n in (config.label, *config.group) if n is not None and n in table.column_names]
    used = [*fixed, *(column for name in named for column in _columns(name, table))]
    if seed_column is None and SEED_COLUMN in table.column_names and SEED_COLUMN not in used:
        seed_column = SEED_COLUMN
    if seed_column is None:
        if row_column is not None:
            raise ConfigError("--row-column is about several seeds, and there is one")
        rows = np.arange(table.num_rows, dtype=np.int64)
        return Layout(np.zeros(len(rows), np.int64), rows, rows, ("",))
    seeds = _whole(table, seed_column)
    seed, names = seeds.codes, seeds.names
    if row_column is not None:
        record = _whole(table, row_column).codes
    else:  # its place among the rows of its seed
        record = np.empty(len(seed), dtype=np.int64)
        for s in range(len(names)):
            rows = np.flatnonzero(seed == s)
            record[rows] = np.arange(len(rows))
    twice = len(seed) - np.unique(np.stack([seed, record]), axis=1).shape[1]
    if twice:
        raise DataError(f"{numbered(twice, 'row')} of {row_column} stand twice in a seed")
    _, first, record = np.unique(record, return_index=True, return_inverse=True)
    layout = Layout(seed.astype(np.int64), record.astype(np.int64), first.astype(np.int64), names)
    if row_column is None and len(record) != len(names) * len(first):
        raise DataError(f"the {len(names)} seeds have different numbers of rows", _SAME_ROWS)
    for column in dict.fromkeys(fixed):
        codes = encode_levels(table.column(column)).codes
        other = np.flatnonzero(codes != codes[layout.first][layout.record])
        if len(other):
            raise DataError(
                f"{quoted(column)} differs between seeds in {numbered(len(other), 'row')}, first "
                f"in seed {names[int(seed[other[0]])]}",
                _SAME_ROWS if row_column is None else _ONE_ROW,
            )
    return layout


def _whole(table: pa.Table, column: str) -> Levels:
    """A column that says something of every row."""
    levels = encode_levels(table.column(column))
    lacking = int((levels.codes < 0).sum())
    if lacking:
        raise DataError(f"{numbered(lacking, 'row')} without a value in {quoted(column)}")
    return levels
