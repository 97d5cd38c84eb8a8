"""A table of given predictions: what was true, what some models said of it, and groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Dataset, Float32, Grouping, Int64, Notice
from fairaudit.data.groups import make_groupings, require_groups, restrict
from fairaudit.data.infer import LabelColumn, given_label, read_label, same_class
from fairaudit.data.naming import listed, near_miss, quoted
from fairaudit.data.seeds import Layout, lay_out
from fairaudit.data.tabular import CheckedTable, read_checked
from fairaudit.errors import ConfigError, DataError, numbered

UNPREDICTED = "prediction missing"
_SAME = 1e-6  # probabilities that differ by less were written with other digits
_SPELLINGS = 4  # of one class in one column, at most
SUM_TOLERANCE = 1e-3  # of a row's probabilities from 1; rounded tables are off by as much


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
    _refuse_named_twice(named)
    _refuse_label(config.label, named, table.column_names)
    read = [_read(whole, name, label, config.data.name) for name in named]
    present = np.logical_and.reduce([~np.isnan(values).any(axis=1) for values, _ in read])
    if layout is not None:  # a record that one seed lacks is left out of all
        present = np.bincount(layout.record, ~present, minlength=len(layout.first)) == 0
    groupings, said = make_groupings(table, config)
    labelled = np.flatnonzero(known := label.codes >= 0)
    used = labelled[present[labelled]]
    if not len(used):
        raise DataError(f"no row of {config.data.name} has a label and every prediction", "check the columns")
    dropped = _dropped({"label missing": ~known, UNPREDICTED: known & ~present}, groupings)
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
        unpredicted={g.name: _counts(g.groups[~present[labelled]], g.names) for g in groupings},
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
        return _one_hot(np.array([*(c for c in classes if c is not None), -1])[levels.codes], label), True
    if kind_of(column.type) != "number":
        raise DataError(
            f"prediction column {quoted(columns[0])} has values that are no class of the label",
            f"classes: {listed(label.classes)}",
        )
    return _of_positive(numeric_values(column), columns[0], label), False


def _one_hot(codes: Int64, label: LabelColumn) -> NDArray[np.float64]:
    sure = np.eye(len(label.classes))[codes]
    sure[codes < 0] = np.nan
    return sure


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


def _refuse_named_twice(columns: Sequence[str]) -> None:
    """A column that is given again is not another training, nor is a model its own baseline."""
    names = [",".join(part.strip() for part in column.split(",")) for column in columns]
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise ConfigError(
            f"prediction column {quoted(doubled[0])} is given {names.count(doubled[0])} times",
            "give each model's own column once",
        )


def _refuse_label(label: str, columns: Sequence[str], known: Sequence[str]) -> None:
    """What was true is no prediction of it: every such model would be right."""
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


def _dropped(
    reasons: Mapping[str, NDArray[np.bool_]], groupings: Sequence[Grouping]
) -> dict[str, dict[str, int]]:
    """Rows that cannot be used: reason -> group (of the first grouping) -> count."""
    return {
        reason: _counts(groupings[0].groups[rows], groupings[0].names)
        if groupings
        else {"(all)": int(rows.sum())}
        for reason, rows in reasons.items()
        if rows.any()
    }


def _counts(groups: Int64, names: Sequence[str]) -> dict[str, int]:
    counts = np.bincount(groups, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}


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
