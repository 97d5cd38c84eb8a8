"""A table or images to a Dataset: columns checked, groups and label coded, unusable rows counted and gone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import Levels, PlainColumns, encode_levels, kind_of, levels_in_use
from fairaudit.data.dataset import SPLIT, Dataset, Grouping, Int64, Notice, image_columns
from fairaudit.data.declare import Laid, declaration_notices, lay_over, refuse_unknown
from fairaudit.data.groups import label_grouping, make_groupings, named_pairs, restrict
from fairaudit.data.infer import LabelChoice, LabelColumn, choose_label, read_label
from fairaudit.data.naming import (
    is_prediction_name,
    like_group,
    listed,
    near_miss,
    nearest,
    protected,
    quoted,
    typed,
)
from fairaudit.data.rows import Chosen, choose_rows, counts_by_group, leaks, sampled
from fairaudit.data.sources import DataSource, open_data
from fairaudit.data.spool import Spool
from fairaudit.errors import ConfigError, DataError, numbered

BESIDE_IMAGES = "beside the images"
# Of columns as they are in memory: a table of more is read by and by and kept in a file beside the output.
IN_MEMORY_BYTES = 2**28
_TRAIN_WORDS = frozenset({"train", "training", "0", "false"})
_TEST_WORDS = frozenset({"test", "testing", "1", "true"})


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """The readable columns of a file, before anything is made of them.

    Args:
        source: The data.
        digest: sha256 of their content.
        table: Columns in plain types, ``contrast`` applied.
        dropped: column -> reason.
        notices: What reading it showed.
        spool: Where the columns of a large table are, or None where they are in memory.
    """

    source: DataSource
    digest: str
    table: pa.Table
    dropped: dict[str, str]
    notices: tuple[Notice, ...]
    spool: Spool | None = None


def load_dataset(config: AuditConfig) -> Dataset:
    """Read and check the table of an audit; without ``group`` it has no groupings.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that contradict
            each other or name what is not there.
    """
    return make_dataset(read_checked(config), config)


def read_checked(config: AuditConfig) -> CheckedTable:
    """The file's columns but those dropped by option, in plain types.

    Raises:
        DataError, ConfigError: As :func:`load_dataset`.
    """
    source = open_data(config)
    names = list(source.schema.names)
    _check_names(names, config)
    needed = {*config.group, config.label, config.split_column, *config.contrast}
    dropped = {n: "dropped by option" for n in config.drop if n not in needed}
    for name in names:
        if name in dropped or name == source.image:
            continue
        if kind_of(source.schema.field(name).type) in ("unsupported", "image"):
            dropped[name] = "nested or unsupported type"
    wanted = [n for n in names if n not in dropped]
    if not wanted:
        raise DataError(f"no column of {config.data.name} can be used", "give columns of numbers or text")
    spool = Spool(config.out) if source.size(wanted) > IN_MEMORY_BYTES else None
    table, unreadable, notices = _read_plain(source, wanted, spool)
    odd = [n for n, why in dropped.items() if why != "dropped by option"] + list(unreadable)
    if odd:
        notices += (Notice("unsupported_columns", f"left out, not numbers or text: {listed(odd)}"),)
    named = [n for n in (*config.group, config.label, config.split_column) if n is not None]
    used = [n for n in named if n in odd or n == source.image]
    if used:
        raise DataError(f"column {quoted(used[0])} holds neither numbers nor text", "choose another column")
    for name, value in config.contrast.items():
        table = _contrast(table, name, value)
    return CheckedTable(source, source.digest(), table, {**dropped, **unreadable}, notices, spool)


def _read_plain(
    source: DataSource, wanted: Sequence[str], spool: Spool | None
) -> tuple[pa.Table, dict[str, str], tuple[Notice, ...]]:
    """The columns in plain types: all at once, or some at a time where there is a spool for them."""
    columns = PlainColumns()
    if spool is None:
        read, notices = source.read(wanted)
        columns.add(read)
    else:
        notices = ()
        at_once = max(1, len(wanted) * IN_MEMORY_BYTES // source.size(wanted))
        for first in range(0, len(wanted), at_once):
            read, said = source.read(wanted[first : first + at_once])
            columns.add(read, spool.keep)
            notices += tuple(notice for notice in said if notice not in notices)
            del read
            pa.default_memory_pool().release_unused()
    table, dropped, said = columns.finish()
    return table, dropped, (*notices, *said)


def make_dataset(checked: CheckedTable, config: AuditConfig) -> Dataset:
    """The dataset behind a checked table. Raises: as :func:`load_dataset`."""
    table = checked.table
    choice = choose_label(table, checked.source.declared, checked.source.declared_by, config)
    label = read_label(table, choice, config)
    by_label = label_grouping(choice.column, label) if config.group_by_label else None
    groupings, group_notices = make_groupings(table, config, by_label)
    split = _read_split(table, config)
    features, reasons = _feature_names(table, choice, config)
    beside = [name for name in dict.fromkeys(config.group) if name not in (*features, choice.column)]
    declared = {name: told for name, told in config.declared.items() if name in features}
    laid = lay_over(table.select(features), declared, *([checked.spool.keep] if checked.spool else []))
    rows = choose_rows(laid.table, label, groupings, config, table.select(beside))
    reasons = {**checked.dropped, **reasons, **rows.reasons}
    kept = tuple(restrict(g, rows.used) for g in groupings)
    labels, classes = _restrict_label(label, choice, rows.used)
    named_pairs(config.compare, kept)  # a name that is no group is refused before any training
    if image_columns(table.schema):
        _refuse_single_images(labels, classes)
    outside = _outside(laid, rows.used, groupings)
    notices = (
        *checked.notices,
        *_label_notices(choice, label),
        *group_notices,
        *_row_notices(rows, reasons, len(labels)),
        *leaks(sampled(laid.table, rows), choice.column, labels, kept),
        *declaration_notices(rows.columns, declared, outside, asked=config.columns is not None),
    )
    return Dataset(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        features=_taken(laid.table.select(list(rows.columns)), rows.used, checked.spool),
        labels=labels,
        classes=classes,
        label=choice.column,
        label_origin=choice.origin,
        positive=_among(classes, label, label.positive),
        favourable=_among(classes, label, label.favourable),
        favourable_origin=label.favourable_origin,
        groupings=kept,
        split=None if split is None else split[rows.used],
        rows_read=table.num_rows,
        columns_read=len(checked.source.schema.names),
        dropped_rows=rows.dropped,
        missing=rows.missing,
        dropped_columns=reasons,
        duplicate_rows=rows.doubled.count,
        duplicate_of=rows.doubled.first,
        notices=notices,
        declared=declared,
        outside=outside,
    )


def _check_names(names: Sequence[str], config: AuditConfig) -> None:
    asked = [("group column", n) for n in config.group]
    asked += [("label column", config.label)] if config.label is not None else []
    asked += [("split column", config.split_column)] if config.split_column is not None else []
    asked += [("--drop column", n) for n in config.drop] + [("--bin column", n) for n in config.bin]
    asked += [("contrast column", n) for n in config.contrast]
    for role, name in asked:
        if name not in names:
            raise _unknown_column(role, name, names, config)
    refuse_unknown(config.declared, names, config.data.name)
    if config.split_column is not None and config.split_column in (*config.group, config.label):
        raise ConfigError(f"split column {quoted(config.split_column)} is also the label or a group")
    if config.label in config.drop:
        raise ConfigError(f"label column {quoted(str(config.label))} is also dropped", "leave --drop out")
    both = [n for n in config.group if n in config.drop]
    if both and config.group_as_feature:
        raise ConfigError(f"group column {quoted(both[0])} is both dropped and a feature", "choose one")


def _unknown_column(role: str, name: str, names: Sequence[str], config: AuditConfig) -> DataError:
    hint = near_miss(name, names)
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) & set(names):
        option = role.split()[0] if role.startswith("--") else "--group"
        hint = "repeat the option: " + " ".join(f"{option} {typed(part)}" for part in parts)
    elif role == "group column" and (meant := like_group(name, names)) is not None:
        hint = f"did you mean {quoted(meant)}? use --group {typed(meant)}"
    elif role == "group column" and not hint and (known := protected(names)):
        hint = f"columns named like groups: {listed(known)}"
    return DataError(f"{role} {quoted(name)} is not in {config.data.name} ({listed(names)})", hint)


def _contrast(table: pa.Table, name: str, value: str) -> pa.Table:
    """The column made ``value`` / ``not value``; missing stays missing."""
    levels = encode_levels(table.column(name))
    if value not in levels.names:
        raise DataError(
            f"contrast: {quoted(value)} is not a value of column {quoted(name)}", nearest(value, levels.names)
        )
    chosen = levels.codes == levels.names.index(value)
    text = [pa.scalar(t, pa.large_string()) for t in (value, f"not {value}")]
    column = pa.chunked_array([pc.if_else(pa.array(chosen, mask=levels.codes < 0), *text)])
    return table.set_column(table.column_names.index(name), name, column)


def _read_split(table: pa.Table, config: AuditConfig) -> Int64 | None:
    """0 train, 1 test per row of the file, from the given column."""
    if config.split_column is None:
        return None
    levels = encode_levels(table.column(config.split_column))
    words = [level.strip().casefold() for level in levels.names]
    sides = [0 if word in _TRAIN_WORDS else 1 if word in _TEST_WORDS else None for word in words]
    name = quoted(config.split_column)
    if np.any(levels.codes < 0):
        raise DataError(f"split column {name} is missing in some rows", "write train or test in every row")
    if None in sides:
        raise DataError(
            f"split column {name} has values other than train and test ({sides.count(None)} of them)",
            "write train or test (or 0 and 1) in every row",
        )
    side = np.array(sides, dtype=np.int64)[levels.codes]
    if len(np.unique(side)) < 2:
        raise DataError(f"split column {name} puts all rows on one side", "write both train and test")
    return np.asarray(side, dtype=np.int64)


def _feature_names(
    table: pa.Table, choice: LabelChoice, config: AuditConfig
) -> tuple[list[str], dict[str, str]]:
    """Columns that may be features, and why the others are not (label, groups and split aside)."""
    not_features = {choice.column, config.split_column}
    not_features |= set() if config.group_as_feature else set(config.group)
    images = image_columns(table.schema)
    if images and config.group_as_feature:
        raise ConfigError("a model of images takes no group beside them", "leave --group-as-feature out")
    features, reasons = [], {}
    for name in table.column_names:
        if name in not_features:
            continue
        if name in config.drop:
            reasons[name] = "dropped by option"
        elif is_prediction_name(name) and name not in config.group:
            reasons[name] = "named like a prediction"
        elif images and name not in images:
            reasons[name] = BESIDE_IMAGES
        else:
            features.append(name)
    return features, reasons


def _taken(table: pa.Table, rows: Int64, spool: Spool | None) -> pa.Table:
    """Those rows; the table itself where that is all of them, since images are large."""
    if len(rows) == table.num_rows:
        return table
    if spool is None:
        return table.take(pa.array(rows))
    return pa.table(
        {name: spool.keep(table.column(name).take(pa.array(rows))) for name in table.column_names}
    )


def _outside(laid: Laid, used: Int64, groupings: Sequence[Grouping]) -> dict[str, dict[str, int]]:
    """Column -> group -> values of rows that are used and not as declared."""
    found = {name: np.intersect1d(rows, used, assume_unique=True) for name, rows in laid.outside.items()}
    total = laid.table.num_rows
    return {name: counts_by_group(rows, groupings, total) for name, rows in found.items() if len(rows)}


def _refuse_single_images(labels: Int64, classes: Sequence[str]) -> None:
    """A class of one image is either never trained on or never tested."""
    counts = np.bincount(labels, minlength=len(classes))
    if (counts == 1).any():
        name = classes[int(np.flatnonzero(counts == 1)[0])]
        raise DataError(
            f"class {quoted(name)} has one image", "a class needs images to train and to test on; add some"
        )


def _restrict_label(label: LabelColumn, choice: LabelChoice, used: Int64) -> tuple[Int64, tuple[str, ...]]:
    levels = levels_in_use(Levels(label.codes, label.classes), used)
    labels, classes = levels.codes, levels.names
    if len(classes) < 2:
        raise DataError(
            f"label {quoted(choice.column)} has one value in the rows without missing values",
            "use --missing impute",
        )
    return labels, classes


def _among(classes: tuple[str, ...], label: LabelColumn, of_label: int | None) -> int | None:
    """A class of the whole label among those in use, or None."""
    name = None if of_label is None else label.classes[of_label]
    return classes.index(name) if name in classes else None


def _label_notices(choice: LabelChoice, label: LabelColumn) -> tuple[Notice, ...]:
    if choice.origin != "inferred from the name":
        return label.notices
    message = f"label {quoted(choice.column)} was inferred from its name"
    return (Notice("label_inferred", message, "confirm it with --label", "notice"), *label.notices)


def _row_notices(rows: Chosen, reasons: dict[str, str], n_rows: int) -> Sequence[Notice]:
    notices = []
    for reason, counts in rows.dropped.items():
        message = f"{numbered(sum(counts.values()), 'row')} left out: {reason}"
        notices.append(Notice("rows_dropped", message, "their counts by group are in the report"))
    named = [n for n, why in reasons.items() if why == "named like a prediction"]
    if named:
        message = f"left out, named like a model's prediction: {listed(named)}"
        notices.append(Notice("prediction_columns", message, "rename a column that is a true input"))
    for why in ("looks like an id", "constant", "all values missing", BESIDE_IMAGES):
        found = [n for n, reason in reasons.items() if reason == why]
        if found:
            message = f"left out, {why}: {listed(found)}"
            is_split = why == BESIDE_IMAGES and SPLIT in found
            fix = f"a split that the data bring is used with --split-column {SPLIT}" if is_split else ""
            notices.append(Notice("columns_dropped", message, fix, "notice"))
    if rows.doubled.count:
        verb = "repeats" if rows.doubled.count == 1 else "repeat"
        message = f"{rows.doubled.count:,} of {numbered(n_rows, 'row')} {verb} an earlier row"
        fix = "epsilon protects a row, not a person who has several"
        notices.append(Notice("duplicate_rows", message, fix, "notice"))
    return notices
