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
from fairaudit.data.readers import read_columns
from fairaudit.data.rows import by_group, counts_by_group
from fairaudit.data.sources import TableFiles
from fairaudit.data.tabular import CheckedTable, read_checked
from fairaudit.errors import ConfigError, DataError, numbered

SEED_COLUMN = "seed"  # taken for what it says unless it is used for something else
_SAME_ROWS = (
    "give every seed the same rows in the same order, or name what identifies a row: --row-column COL"
)
_ONE_ROW = "a row is the same in every seed: one truth, the same groups"
UNPREDICTED = "prediction missing"
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
        predictions: Per column (or list of columns) of ``y_pred``: ``[n, Y]``.
        baseline: Likewise of the models to compare with, ``()`` where none are given.
        rows: Of each of them, which rows of the dataset it is on, [n]: of all models the same, unless each
            seed has rows of its own.
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
    y_pred: Sequence[str],
    baseline_pred: Sequence[str],
    seed_column: str | None = None,
    row_column: str | None = None,
) -> Scored:
    """Read a table of predictions; rows without a label or a prediction are left out and counted.

    What a model does not predict is left out for all of them, so that they are compared on the same
    rows; gates about a group that lacks some do not pass.

    Args:
        config: Its ``label`` names what was true; ``group`` and the options of groups apply.
        y_pred: Columns of predicted classes or of the positive class's probability, or for each
            model one column of probabilities per class, separated by commas.
        baseline_pred: Likewise.
        seed_column: Column of seeds; None: ``seed`` where there is one, else the files of a folder.
        row_column: Column that identifies a row in all seeds; None: its place within its seed does.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that do not fit it.
    """
    checked = read_checked(config)
    assert config.label is not None, "the caller names what was true"
    whole, named = checked.table, (*y_pred, *baseline_pred)
    layout = _layout(checked, config, y_pred, baseline_pred, (seed_column, row_column))
    table = whole if layout is None else whole.take(layout.first)
    choice = given_label(config.label, checked.source.declared, checked.source.declared_by)
    label = read_label(table, choice, config)
    _refuse_misnamed(config.label, named, table.column_names)
    read = [_read(whole, name, label, config.data.name) for name in named]
    present = np.logical_and.reduce([~np.isnan(values).any(axis=1) for values, _ in read])
    if layout is not None:  # a record that one seed lacks is left out of all
        present = np.bincount(layout.record, ~present, minlength=len(layout.first)) == 0
    groupings, said = make_groupings(table, config)
    labelled = np.flatnonzero(known := label.codes >= 0)
    used = labelled[present[labelled]]
    if not len(used):
        raise DataError(f"no row of {config.data.name} has a label and every prediction", "check the columns")
    reasons = {"label missing": ~known, UNPREDICTED: known & ~present}
    dropped = {why: counts_by_group(at, groupings, len(at)) for why, at in reasons.items() if at.any()}
    # A group of which nothing is predicted stays a group, so that rules about it are not lost with it.
    groupings = tuple(restrict(grouping, labelled) for grouping in groupings)
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
        groupings=tuple(replace(g, groups=g.groups[present[labelled]]) for g in groupings),
        split=None,
        rows_read=whole.num_rows,
        columns_read=len(checked.source.schema.names),
        dropped_rows=dropped,
        notices=(*checked.notices, *label.notices, *said, *_notices(dropped)),
        unpredicted={g.name: by_group(g.groups[~present[labelled]], g.names) for g in groupings},
    )
    require_groups(dataset)
    models, rows, names = _models([values for values, _ in read], named, layout, used)
    own = len(models) * len(y_pred) // len(named)
    _refuse_equal(names[:own], models[:own])
    _refuse_equal(names[own:], models[own:])
    return Scored(
        dataset=dataset,
        predictions=models[:own],
        baseline=models[own:],
        are_labels=any(is_label for _, is_label in read),
        rows=rows,
    )


def _models(
    values: Sequence[NDArray[np.float64]],
    named: Sequence[str],
    layout: Layout | None,
    used: Int64,
) -> tuple[tuple[Float32, ...], tuple[Int64, ...], list[str]]:
    """Each column's predictions, seed by seed where it holds several; each seed's records; their names."""
    if layout is None:
        places, rows, seeds = [used], [np.arange(len(used))], [""]
    else:
        places, rows = _by_seed(layout, used)
        seeds = [f" of seed {name}" for name in layout.names]
    return (
        tuple(_as_probabilities(column[place]) for column in values for place in places),
        tuple(rows),
        [f"{name}{seed}" for name in named for seed in seeds],
    )


def _layout(
    checked: CheckedTable,
    config: AuditConfig,
    y_pred: Sequence[str],
    baseline_pred: Sequence[str],
    columns: tuple[str | None, str | None],
) -> Layout | None:
    """Seeds in the rows, with columns of seeds and rows; None where each column is a training."""
    if len(baseline_pred) not in (0, 1, len(y_pred)):
        raise ConfigError(
            f"{len(baseline_pred)} baseline columns for {len(y_pred)} predictions",
            "give as many, or one for all",
        )
    known = checked.table.column_names
    fixed = [name for name in (config.label, *config.group) if name is not None and name in known]
    named = {part.strip() for name in (*y_pred, *baseline_pred) for part in (name, *name.split(","))}
    layout = lay_out(checked, *columns, used=(*fixed, *named), fixed=fixed)
    if layout is not None and (len(y_pred) > 1 or len(baseline_pred) > 1):
        raise ConfigError(
            f"{len(y_pred)} columns of predictions beside {numbered(len(layout.names), 'seed')}",
            "with seeds in rows or files give one --y-pred and at most one --baseline-pred",
        )
    return layout


def _by_seed(layout: Layout, used: Int64) -> tuple[list[Int64], list[Int64]]:
    """For each seed the rows of the table that are used, and which of the used records they are."""
    number = np.full(len(layout.first), -1, dtype=np.int64)
    number[used] = np.arange(len(used))
    of_row = number[layout.record]
    places = []
    for seed in range(len(layout.names)):
        own = np.flatnonzero((layout.seed == seed) & (of_row >= 0))
        places.append(own[np.argsort(of_row[own], kind="stable")])
    empty = [name for name, place in zip(layout.names, places, strict=True) if not len(place)]
    if empty:
        raise DataError(f"no row of seed {empty[0]} has a label and every prediction", "check the columns")
    return places, [of_row[place] for place in places]


def _read(
    table: pa.Table, name: str, label: LabelColumn, name_of_file: str
) -> tuple[NDArray[np.float64], bool]:
    """Probabilities ``[N, Y]`` in float64, NaN where missing, and whether they stand for labels."""
    columns = [name] if name in table.column_names else [part.strip() for part in name.split(",")]
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
        codes = np.array([*(c for c in classes if c is not None), -1])[levels.codes]
        sure = np.eye(len(label.classes))[codes]
        sure[codes < 0] = np.nan
        return sure, True
    if kind_of(column.type) != "number":
        raise DataError(
            f"prediction column {quoted(columns[0])} has values that are no class of the label",
            f"classes: {listed(label.classes)}",
        )
    return _of_positive(numeric_values(column), columns[0], label), False


def _of_positive(values: NDArray[np.float64], name: str, label: LabelColumn) -> NDArray[np.float64]:
    """Both classes' probabilities from that of one: the positive class, else the second."""
    if len(label.classes) != 2:
        raise DataError(
            f"prediction column {quoted(name)} holds numbers, and the label has {len(label.classes)} classes",
            "give one column of probabilities per class, separated by commas",
        )
    if not np.all((values >= 0) & (values <= 1) | np.isnan(values)):
        raise DataError(
            f"prediction column {quoted(name)} holds neither classes of the label nor probabilities",
            "a probability lies between 0 and 1",
        )
    positive = 1 if label.positive is None else label.positive
    both = np.empty((len(values), 2))
    both[:, positive], both[:, 1 - positive] = values, 1 - values
    return both


def _per_class(table: pa.Table, columns: Sequence[str], label: LabelColumn) -> NDArray[np.float64]:
    if len(columns) != len(label.classes):
        raise DataError(
            f"{len(columns)} columns of probabilities for {len(label.classes)} classes",
            f"one column per class, in this order: {listed(label.classes)}",
        )
    bad = [name for name in columns if kind_of(table.column(name).type) != "number"]
    if bad:
        raise DataError(f"prediction column {quoted(bad[0])} does not hold numbers", "give probabilities")
    values = np.stack([numeric_values(table.column(name)) for name in columns], axis=1)
    known = ~np.isnan(values).any(axis=1)
    sums = values[known].sum(axis=1)
    if np.any(values[known] < 0) or np.any(np.abs(sums - 1) > SUM_TOLERANCE):
        raise DataError("the probabilities of a row do not add up to 1", "give one column per class")
    return values


def _as_probabilities(values: NDArray[np.float64]) -> Float32:
    """In float32, with the most probable class of each row kept as it was in float64."""
    rounded = values.astype(np.float32)
    best = values.argmax(axis=1)
    rows = np.flatnonzero(rounded.argmax(axis=1) != best)
    rounded[rows, best[rows]] = np.nextafter(rounded[rows].max(axis=1), np.float32(2))
    return rounded


def _refuse_misnamed(label: str, columns: Sequence[str], known: Sequence[str]) -> None:
    """A column that is given again is not another training, nor is a model its own baseline.

    And what was true is no prediction of it: every such model would be right.
    """
    names = [",".join(part.strip() for part in column.split(",")) for column in columns]
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise ConfigError(
            f"prediction column {quoted(doubled[0])} is given {names.count(doubled[0])} times",
            "give each model's own column once",
        )
    if any(label in ([name] if name in known else map(str.strip, name.split(","))) for name in columns):
        raise ConfigError(
            f"{quoted(label)} is what was true, and is given as a prediction too",
            "name the column that a model wrote with --y-pred or --baseline-pred",
        )


def _refuse_equal(columns: Sequence[str], models: Sequence[Float32]) -> None:
    """Equal predictions on every row are one training; counted as several they would look certain."""
    for (one, a), (other, b) in combinations(zip(columns, models, strict=True), 2):
        if len(a) == len(b) and np.allclose(a, b, rtol=0, atol=_SAME):
            raise DataError(
                f"prediction columns {quoted(one)} and {quoted(other)} are equal in every row",
                "each column is one training; give a copy once",
            )


def _notices(dropped: dict[str, dict[str, int]]) -> tuple[Notice, ...]:
    return tuple(
        Notice(
            "rows_dropped",
            f"{numbered(sum(counts.values()), 'row')} left out: {reason}",
            "predict every row: no gate about their groups passes"
            if reason == UNPREDICTED
            else "their counts are in the report; a gate that they could turn does not pass",
        )
        for reason, counts in dropped.items()
    )


def lay_out(
    checked: CheckedTable,
    seed_column: str | None,
    row_column: str | None,
    *,
    used: Sequence[str],
    fixed: Sequence[str],
) -> Layout | None:
    """Seeds of a table: its column of them, else the files of a folder; None where there is neither.

    Args:
        checked: The table.
        seed_column: Column of seeds; None: ``seed``, where there is one that is not used otherwise.
        row_column: Column that identifies rows; None: their order within a seed does.
        used: Columns that are predictions, truth or groups.
        fixed: Those of them that must agree over the seeds of a record: truth and groups.

    Raises:
        DataError: No such column; a row without a seed; rows that are not the same in all seeds.
    """
    table = checked.table
    for column in filter(None, (seed_column, row_column)):
        if column not in table.column_names:
            raise DataError(f"there is no column {quoted(column)}", near_miss(column, table.column_names))
    if seed_column is None and SEED_COLUMN in table.column_names and SEED_COLUMN not in used:
        seed_column = SEED_COLUMN
    found = _seeds(checked, seed_column)
    if found is None:
        if row_column is not None:
            raise ConfigError("--row-column is about several seeds, and there is one", "add --seed-column")
        return None
    seed, names = found.codes, found.names
    record = _places(seed, len(names)) if row_column is None else _whole(table, row_column).codes
    twice = len(seed) - np.unique(np.stack([seed, record]), axis=1).shape[1]
    if twice:
        raise DataError(f"{numbered(twice, 'row')} of {row_column} stand twice in a seed", "give each once")
    _, first, record = np.unique(record, return_index=True, return_inverse=True)
    layout = Layout(seed.astype(np.int64), record.astype(np.int64), first.astype(np.int64), names)
    if row_column is None and len(record) != len(names) * len(first):
        raise DataError(f"the {len(names)} seeds have different numbers of rows", _SAME_ROWS)
    _refuse_changed(table, layout, fixed, _SAME_ROWS if row_column is None else _ONE_ROW)
    return layout


def _seeds(checked: CheckedTable, column: str | None) -> Levels | None:
    """The seed of each row: by the column, else by the file that it is in."""
    source = checked.source
    if column is not None:
        return _whole(checked.table, column)
    if not isinstance(source, TableFiles) or len(source.files) < 2:
        return None
    counts = [read_columns(file, source.schema.names[:1])[0].num_rows for file in source.files]
    return Levels(np.repeat(np.arange(len(counts)), counts), tuple(file.path.name for file in source.files))


def _refuse_changed(table: pa.Table, layout: Layout, fixed: Sequence[str], hint: str) -> None:
    """What is true of a record, and its groups, are the same whatever was predicted."""
    for column in dict.fromkeys(fixed):
        codes = encode_levels(table.column(column)).codes
        other = np.flatnonzero(codes != codes[layout.first][layout.record])
        if len(other):
            where = layout.names[int(layout.seed[other[0]])]
            rows = numbered(len(other), "row")
            raise DataError(f"{quoted(column)} differs between seeds in {rows}, first in seed {where}", hint)


def _places(seed: Int64, seeds: int) -> Int64:
    """The place of each row among those of its seed."""
    order = np.argsort(seed, kind="stable")
    counts = np.bincount(seed, minlength=seeds)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.empty(len(seed), dtype=np.int64)
    places[order] = np.arange(len(seed)) - starts
    return places


def _whole(table: pa.Table, column: str) -> Levels:
    """A column that says something of every row."""
    levels = encode_levels(table.column(column))
    lacking = int((levels.codes < 0).sum())
    if lacking:
        raise DataError(f"{numbered(lacking, 'row')} without a value in {quoted(column)}", "give one to each")
    return levels
