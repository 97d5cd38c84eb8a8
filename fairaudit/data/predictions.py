"""A table of given predictions: what was true, what some models said of it, and groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config import AuditConfig
from fairaudit.data.columns import encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Dataset, Float32, Grouping, Int64, Notice
from fairaudit.data.groups import make_groupings, require_groups, restrict
from fairaudit.data.infer import LabelChoice, LabelColumn, read_label, same_class
from fairaudit.data.naming import listed, near_miss, quoted
from fairaudit.data.tabular import read_checked
from fairaudit.errors import ConfigError, DataError, numbered

_SPELLINGS = 4  # of one class in one column, at most
SUM_TOLERANCE = 1e-3  # of a row's probabilities from 1; rounded tables are off by as much


@dataclass(frozen=True, slots=True)
class Scored:
    """Given predictions on one set of rows.

    Args:
        dataset: The rows with labels and groups; it has no features.
        predictions: Per column (or list of columns) of ``y_pred``: ``[n, Y]``.
        baseline: Likewise of the models to compare with, ``()`` where none are given.
        are_labels: Some are labels only, so nothing that needs probabilities is known.
    """

    dataset: Dataset
    predictions: tuple[Float32, ...]
    baseline: tuple[Float32, ...]
    are_labels: bool


def load_scored(config: AuditConfig, y_pred: Sequence[str], baseline_pred: Sequence[str]) -> Scored:
    """Read a table of predictions; rows without a label or a prediction are left out and counted.

    Args:
        config: Its ``label`` names what was true; ``group`` and the options of groups apply.
        y_pred: Columns of predicted classes or of the favourable class's probability, or for each
            model one column of probabilities per class, separated by commas.
        baseline_pred: Likewise.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that do not fit it.
    """
    checked = read_checked(config)
    table = checked.table
    assert config.label is not None, "the caller names what was true"
    choice = LabelChoice(config.label, "given", config.positive)
    label = read_label(table, choice, config)
    if len(baseline_pred) not in (0, 1, len(y_pred)):
        raise ConfigError(
            f"{len(baseline_pred)} baseline columns for {len(y_pred)} predictions",
            "give as many, or one for all",
        )
    read = [_read(table, name, label, config.data.name) for name in (*y_pred, *baseline_pred)]
    present = np.logical_and.reduce([~np.isnan(values).any(axis=1) for values, _ in read])
    groupings, said = make_groupings(table, config)
    used = np.flatnonzero((label.codes >= 0) & present)
    if not len(used):
        raise DataError(f"no row of {config.data.name} has a label and every prediction", "check the columns")
    dropped = _dropped(label.codes >= 0, present, groupings)
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
        groupings=tuple(restrict(grouping, used) for grouping in groupings),
        split=None,
        rows_read=table.num_rows,
        columns_read=len(checked.source.schema.names),
        dropped_rows=dropped,
        notices=(*checked.notices, *label.notices, *said, *_notices(dropped)),
    )
    require_groups(dataset)
    arrays = [_as_probabilities(values[used]) for values, _ in read]
    return Scored(
        dataset=dataset,
        predictions=tuple(arrays[: len(y_pred)]),
        baseline=tuple(arrays[len(y_pred) :]),
        are_labels=any(is_label for _, is_label in read),
    )


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
    return _of_favourable(numeric_values(column), columns[0], label), False


def _one_hot(codes: Int64, label: LabelColumn) -> NDArray[np.float64]:
    sure = np.eye(len(label.classes))[codes]
    sure[codes < 0] = np.nan
    return sure


def _of_favourable(values: NDArray[np.float64], name: str, label: LabelColumn) -> NDArray[np.float64]:
    """Both classes' probabilities from that of one: the favourable class, else the second."""
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
    favourable = 1 if label.positive is None else label.positive
    both = np.empty((len(values), 2))
    both[:, favourable], both[:, 1 - favourable] = values, 1 - values
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


def _dropped(
    labelled: NDArray[np.bool_], predicted: NDArray[np.bool_], groupings: Sequence[Grouping]
) -> dict[str, dict[str, int]]:
    """Rows that cannot be used: reason -> group (of the first grouping) -> count."""
    reasons = {"label missing": ~labelled, "prediction missing": labelled & ~predicted}
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
            "their counts are in the report",
        )
        for reason, counts in dropped.items()
    )
