"""A table or images to a Dataset.

Columns checked, groups and label coded, unusable rows counted and gone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fairaudit.config.declared import DeclaredColumn
from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import (
    NOT_TEXT,
    Levels,
    encode_levels,
    kind_of,
    levels_in_use,
    plain_table,
)
from fairaudit.data.copies import copies_notice
from fairaudit.data.dataset import SPLIT, Dataset, Grouping, Int64, columns_of, image_columns
from fairaudit.data.declared_columns import declaration_notices, lay_over, refuse_no_numbers
from fairaudit.data.groups import label_grouping, make_groupings, named_pairs, restrict
from fairaudit.data.infer import LabelChoice, LabelColumn, choose_label, read_label
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_data
from fairaudit.data.reading.pixels import looks_like_pixels
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.text_columns import OddColumn, find_types
from fairaudit.data.reading.values import ValueRules
from fairaudit.data.reading.vectors import SHORTEST, holds_numbers
from fairaudit.data.usable import Chosen, choose_rows, leaks, sampled
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.base import Message
from fairaudit.messages.data import ColumnsDropped, PixelsAsNumbers, RowsDropped, UnsupportedColumns
from fairaudit.messages.names import nearest, quoted

# Reasons why a column is no feature, as a report gives them.
BY_OPTION, NO_IMAGE = "dropped by option", "beside the images"
OF_FILES = "made of the names of the files"
UNSUPPORTED = "nested or unsupported type"
# What a given split may call its sides.
TRAIN_WORDS = ("train", "training", "0", "false")
TEST_WORDS = ("test", "testing", "1", "true")


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """The readable columns of a file, before anything is made of them.

    Args:
        source: The data.
        digest: sha256 of their content.
        table: Columns in plain types; those of ``contrast`` hold a value and ``not`` that value.
        as_declared: Declared column -> its values as the declaration reads them, each by itself.
        unlike: Declared column -> indices of the rows whose value was not a declared one.
        dropped: column -> reason.
        notices: What reading it showed.
        odd: Columns that no model should be given as they are.
    """

    source: DataSource
    digest: str
    table: pa.Table
    as_declared: dict[str, pa.ChunkedArray]
    unlike: dict[str, Int64]
    dropped: dict[str, str]
    notices: tuple[Message, ...]
    odd: tuple[OddColumn, ...] = ()


def load_dataset(config: AuditConfig) -> Dataset:
    """Read and check the table of an audit; without ``group`` it has no groupings.

    Raises:
        DataError: A file or a column that cannot be used. ConfigError: Options that contradict
            each other or name what is not there.
    """
    return make_dataset(read_checked(config), config)


def read_checked(config: AuditConfig) -> CheckedTable:
    """Read the file's columns, but those dropped by option, in plain types.

    ``contrast`` makes a column two-valued: one value against all others.

    Raises:
        DataError, ConfigError: As :func:`load_dataset`.
    """
    images = ImageOptions.of(config.resize, config.channels, config.pixels)
    source = open_data(config.data, images, config.drop, config.text)
    names = list(source.schema.names)
    _check_names(names, config)
    named = [n for n in (*config.group, config.label, config.split_column) if n is not None]
    # A dropped column that has another part, as a group, is read all the same and is no feature.
    dropped = {n: BY_OPTION for n in config.drop if n not in named and n not in config.contrast}
    # The values of these are read by what is declared of them, and not by a type of all rows.
    other_parts = {*named, *dropped, *config.contrast}
    own = {n: None for n in config.declared if n not in other_parts}
    if source.image in own:
        kind = config.declared[source.image].kind
        raise DataError(f"column {quoted(source.image)} is declared a {kind} and holds images")
    odd = []
    for field in source.schema:
        is_guess = field.name in own and source.format == "csv"
        is_feature = field.name not in dropped and field.name != source.image
        if is_feature and not is_guess and kind_of(field.type) in ("unsupported", "image"):
            odd.append(field.name)
    dropped |= dict.fromkeys(odd, UNSUPPORTED)
    columns = [n for n in names if n not in dropped]
    if not columns:
        raise DataError(f"no column of {config.data.name} can be used")
    rules = value_rules(config, names)
    by_rows = [n for n in columns if n not in own]
    read, notices = _read(source, by_rows, rules, named)
    typed_columns = find_types(read, rules, is_untyped=source.is_untyped, by_name=named)
    table, unreadable, notes = plain_table(typed_columns.table)
    # Types that values have decided: dates, of which some rows are marked as missing.
    dated = [field.name for field in table.schema if kind_of(field.type) == "unsupported"]
    table = table.drop_columns(dated)
    dropped |= dict.fromkeys(dated, UNSUPPORTED)
    odd += dated
    notices += (*typed_columns.notices, *notes)
    odd += unreadable
    notices += tuple(_form_notices(source, odd, unreadable))
    for name in named:
        if name in odd or name == source.image:
            raise DataError(f"column {quoted(name)} holds neither numbers nor text")
    table = _contrasted(table, config.contrast)
    _check_zero(table, config)
    readable = set(columns)
    declared = {n: column for n, column in config.declared.items() if n in readable}
    as_declared, unlike = _declared_values(source, table, declared, config.contrast, rules)
    typed = columns_of(table)
    in_order = {}
    for name in columns:
        if name in own:
            in_order[name] = as_declared[name]
        elif name in typed:
            in_order[name] = typed[name]
    return CheckedTable(
        source=source,
        digest=source.digest(),
        table=pa.table(in_order),
        as_declared=as_declared,
        unlike=unlike,
        dropped=dropped | unreadable,
        notices=notices,
        odd=typed_columns.odd,
    )


def _form_notices(
    source: DataSource, odd: Sequence[str], unreadable: Mapping[str, str]
) -> Iterator[Message]:
    """Notices of columns that are left out, and of some that may be pixels.

    Args:
        source: The data.
        odd: Columns that hold neither numbers nor text.
        unreadable: Those of them whose values showed it -> why.
    """
    if odd:
        types = {field.name: field.type for field in source.schema}
        has_lists = any(name in types and holds_numbers(types[name]) for name in odd)
        yield UnsupportedColumns(
            tuple(odd),
            list_length=SHORTEST if has_lists else None,
            are_bytes=NOT_TEXT in unreadable.values(),
        )
    pixels = None if source.image else looks_like_pixels(source.schema)
    if pixels is not None:
        first, last, shape = pixels
        yield PixelsAsNumbers(first, last, shape)


def value_rules(config: AuditConfig, names: Sequence[str]) -> ValueRules:
    """What the options say of values, of data with columns of these names.

    Raises:
        ConfigError: As :meth:`ValueRules.of`.
    """
    declared = {name: column.missing_values for name, column in config.declared.items()}
    return ValueRules.of(config.missing_values, config.number_format, names, declared)


def _read(
    source: DataSource, columns: Sequence[str], rules: ValueRules, by_name: Sequence[str]
) -> tuple[pa.Table, tuple[Message, ...]]:
    """The columns in that order; as text those of which a rule, not their values, says what is one.

    Args:
        source: The data.
        columns: Their names.
        rules: What options say of values.
        by_name: Columns of groups and labels, which only a rule of their own is about.
    """
    texts: dict[str, None] = {}
    for name in columns if source.is_untyped else ():
        written = rules.formats.get(name) if name in by_name else rules.format_of(name)
        if written in ("comma", "text") and name != source.image:
            texts[name] = None
    typed = [name for name in columns if name not in texts]
    read, notices = source.read(typed) if typed else (pa.table({}), ())
    if not texts:
        return read, notices
    parts = columns_of(read) | columns_of(source.stored(list(texts)).table)
    return pa.table({name: parts[name] for name in columns}), notices


def _contrasted(table: pa.Table, contrast: Mapping[str, str]) -> pa.Table:
    """The table with ``value`` and ``not value`` in each column of ``contrast``, column -> value.

    Raises:
        DataError: The value is none of the column's.
    """
    for name, value in contrast.items():
        levels = encode_levels(table.column(name))
        if value not in levels.names:
            raise DataError(
                f"contrast: {quoted(value)} is not a value of column {quoted(name)}",
                nearest(value, levels.names),
            )
        is_value = pa.array(levels.codes == levels.names.index(value), mask=levels.codes < 0)
        texts = pa.array([f"not {value}", value], pa.large_string())
        column = pa.chunked_array([texts.take(is_value.cast(pa.int8()))])
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _check_zero(table: pa.Table, config: AuditConfig) -> None:
    """Refuse a value of ``zero`` that is not one of the two of its column.

    Raises:
        ConfigError: The column is declared. DataError: It holds numbers, or not two values, or not
            this one.
    """
    for name, value in config.zero.items():
        if name in config.declared:
            raise ConfigError(
                f"zero: column {quoted(name)} is declared",
                "the first of its declared categories is coded 0",
            )
        column = table.column(name) if name in table.column_names else None
        if column is None or kind_of(column.type) != "category":
            raise DataError(f"zero: column {quoted(name)} is no feature of text values")
        levels = encode_levels(column)
        if len(levels.names) != 2:
            raise DataError(
                f"zero: column {quoted(name)} has {len(levels.names)} values and not two",
                "each value of such a column is an input of its own",
            )
        if value not in levels.names:
            raise DataError(
                f"zero: {quoted(value)} is not a value of column {quoted(name)}",
                nearest(value, levels.names),
            )


def _declared_values(
    source: DataSource,
    contrasted: pa.Table,
    declared: Mapping[str, DeclaredColumn],
    contrast: Collection[str],
    rules: ValueRules,
) -> tuple[dict[str, pa.ChunkedArray], dict[str, Int64]]:
    """What the declared columns hold, as of :func:`lay_over`.

    Args:
        source: The data.
        contrasted: Holds the columns of ``contrast`` as it makes them.
        declared: Column -> its declaration.
        contrast: Names of the columns that ``contrast`` changed.
        rules: What options say of values.

    Raises:
        DataError: A column that is declared a number holds none.
    """
    as_declared: dict[str, pa.ChunkedArray] = {}
    unlike: dict[str, Int64] = {}
    changed = {n: column for n, column in declared.items() if n in contrast}
    others = {n: column for n, column in declared.items() if n not in contrast}
    for columns in filter(None, (changed, others)):
        if columns is changed:
            stored = StoredColumns(contrasted)
        else:
            stored = replace(source.stored(list(others)), rules=rules)
        values, rows = lay_over(stored, columns)
        refuse_no_numbers(stored, values)
        as_declared |= values
        unlike |= rows
    return as_declared, unlike


def make_dataset(checked: CheckedTable, config: AuditConfig) -> Dataset:
    """Make the dataset: find label, groups and features, and leave out rows that cannot be used.

    Raises: as :func:`load_dataset`.
    """
    roles = _find_roles(checked, config)
    rows = _choose_rows(roles, checked, config)
    groupings = tuple(restrict(grouping, rows.used) for grouping in roles.groupings)
    named_pairs(config.compare, groupings)  # a name that is no group is refused before training
    in_use = _classes_in_use(roles, rows.used)
    columns_left_out = {**checked.dropped, **roles.no_features, **rows.reasons}
    unlike = _undeclared_values(roles, checked, rows.used)
    notices = (
        *checked.notices,
        *roles.notices,
        *_row_notices(rows, columns_left_out),
        *leaks(sampled(roles.features, rows), roles.choice.column, in_use.codes, groupings),
        *declaration_notices(
            rows.columns, roles.declared, unlike, asked=config.columns is not None
        ),
    )
    return Dataset(
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        features=_taken(roles.features.select(list(rows.columns)), rows.used),
        labels=in_use.codes,
        classes=in_use.names,
        label=roles.choice.column,
        label_origin=roles.choice.origin,
        positive=_index_in_use(in_use.names, roles.label, roles.label.positive),
        favourable=_index_in_use(in_use.names, roles.label, roles.label.favourable),
        favourable_origin=roles.label.favourable_origin,
        groupings=groupings,
        split=None if roles.split is None else roles.split[rows.used],
        rows_read=checked.table.num_rows,
        columns_read=len(checked.source.schema.names),
        dropped_rows=rows.dropped,
        missing=rows.missing,
        dropped_columns=columns_left_out,
        duplicate_rows=int(rows.equal.repeated.sum()),
        duplicate_of=rows.equal.first,
        records=rows.equal.first if rows.equal.are_copies else None,
        notices=notices,
        declared=roles.declared,
    )


@dataclass(frozen=True, slots=True)
class _ColumnRoles:
    """What each column of a table is to an audit; all values are of all N rows.

    Args:
        choice, label: The label column, and its classes.
        groupings: The groups.
        split: Side of each row, ``[N]``; None where no column says it.
        features: Columns that may be features, declared ones as they are declared.
        declared: Those of them that are declared -> the declaration.
        no_features: Other columns -> why they are none.
        only_groups: Group columns that are neither features nor the label.
        notices: What finding the label and the groups showed.
    """

    choice: LabelChoice
    label: LabelColumn
    groupings: tuple[Grouping, ...]
    split: Int64 | None
    features: pa.Table
    declared: dict[str, DeclaredColumn]
    no_features: dict[str, str]
    only_groups: pa.Table
    notices: tuple[Message, ...]


def _find_roles(checked: CheckedTable, config: AuditConfig) -> _ColumnRoles:
    """Find the label, the groups, a given split, and the columns that may be features.

    Raises:
        DataError: The label, a group or the split cannot be used. ConfigError: Options that
            contradict each other, or name no class.
    """
    table = checked.table
    choice = choose_label(table, checked.source.declared, checked.source.declared_by, config)
    label = read_label(table, choice, config)
    by_label = label_grouping(choice.column, label) if config.group_by_label else None
    groupings, group_notices = make_groupings(table, config, by_label)
    split = _read_split(table, config.split_column)
    features, no_features = _feature_names(table, choice, config, checked.source.sides)
    in_table, is_feature = columns_of(table), set(features)
    only_groups = [n for n in dict.fromkeys(config.group) if n not in {*features, choice.column}]
    return _ColumnRoles(
        choice=choice,
        label=label,
        groupings=groupings,
        split=split,
        features=pa.table(
            {name: checked.as_declared.get(name, in_table[name]) for name in features}
        ),
        declared={n: column for n, column in config.declared.items() if n in is_feature},
        no_features=no_features,
        only_groups=table.select(only_groups),
        notices=(*label.notices, *group_notices),
    )


def _choose_rows(roles: _ColumnRoles, checked: CheckedTable, config: AuditConfig) -> Chosen:
    """The rows and features that are used, as :func:`choose_rows` chooses them.

    In data as they were published, or split by somebody else, equal rows are people.
    """
    rows = choose_rows(
        roles.features, roles.label, roles.groupings, config, roles.only_groups, checked.odd
    )
    if config.preset is not None or roles.split is not None:
        rows = replace(rows, equal=replace(rows.equal, are_copies=False))
    return rows


def _classes_in_use(roles: _ColumnRoles, used: Int64) -> Levels:
    """The classes of the rows that are used, without those that none of them has.

    Raises:
        DataError: One class is left.
    """
    in_use = levels_in_use(Levels(roles.label.codes, roles.label.classes), used)
    if len(in_use.names) < 2:
        raise DataError(
            f"label {quoted(roles.choice.column)} has one value in the rows without missing values"
        )
    return in_use


def _undeclared_values(roles: _ColumnRoles, checked: CheckedTable, used: Int64) -> dict[str, int]:
    """Declared feature -> how many of its values in used rows are not as declared; no zeros."""
    counts = {}
    for name in roles.declared:
        unlike = np.intersect1d(checked.unlike.get(name, ()), used, assume_unique=True)
        if len(unlike):
            counts[name] = len(unlike)
    return counts


def _taken(table: pa.Table, used: Int64) -> pa.Table:
    """The rows that are used; the table itself where all are, since images are large."""
    return table.take(pa.array(used)) if len(used) < table.num_rows else table


def _check_names(names: Sequence[str], config: AuditConfig) -> None:
    """Refuse options that name a column which is absent, or one column for two roles."""
    label, split = config.label, config.split_column
    present = set(names)
    named: dict[str, Iterable[str | None]] = {
        "label column": [label],
        "split column": [split],
        "group column": config.group,
        "--drop column": config.drop,
        "--bin column": config.bin,
        "contrast column": config.contrast,
        "zero column": config.zero,
        "declared column": config.declared,
    }
    for role, columns in named.items():
        for column in columns:
            if column is not None and column not in present:
                raise DataError(
                    f"{role} {quoted(column)} is not in {config.data.name}", nearest(column, names)
                )
    if split is not None and split in (*config.group, label):
        raise ConfigError(f"split column {quoted(split)} is also the label or a group")
    if label is not None and label in config.drop:
        raise ConfigError(f"label column {quoted(label)} is also dropped")
    for name in config.group:
        if name in config.drop and config.group_as_feature:
            raise ConfigError(f"group column {quoted(name)} is both dropped and a feature")


def _read_split(table: pa.Table, column: str | None) -> Int64 | None:
    """Which side of a given split each row is on, ``[N]``: 0 train, 1 test.

    None without a column of that (``--split-column``).
    """
    if column is None:
        return None
    levels, name = encode_levels(table.column(column)), quoted(column)
    if np.any(levels.codes < 0):
        raise DataError(f"split column {name} is missing in some rows")
    words = [level.strip().casefold() for level in levels.names]
    if not set(words) <= {*TRAIN_WORDS, *TEST_WORDS}:
        raise DataError(
            f"split column {name} has values other than train and test",
            "write train or test (or 0 and 1) in every row",
        )
    sides = [int(word in TEST_WORDS) for word in words]
    if len(set(sides)) < 2:
        raise DataError(f"split column {name} puts all rows on one side")
    return np.array(sides, dtype=np.int64)[levels.codes]


def _feature_names(
    table: pa.Table, choice: LabelChoice, config: AuditConfig, sides: str | None
) -> tuple[list[str], dict[str, str]]:
    """Names of the columns that may be features; and column -> why it is none.

    Reasons leave out the label, the split and groups, whose part is known.
    """
    not_features = {choice.column, config.split_column}
    not_features |= set() if config.group_as_feature else set(config.group)
    images = image_columns(table.schema)
    if images and config.group_as_feature:
        raise ConfigError(
            "a model of images takes no group beside them", "leave --group-as-feature out"
        )
    features, reasons = [], {}
    dropped = set(config.drop)
    for name in table.column_names:
        if name in not_features:
            continue
        if name in dropped:
            reasons[name] = BY_OPTION
        elif images and name not in images:
            reasons[name] = NO_IMAGE
        elif name == sides:
            reasons[name] = OF_FILES
        else:
            features.append(name)
    return features, reasons


def _index_in_use(classes: tuple[str, ...], label: LabelColumn, of_label: int | None) -> int | None:
    """New index of a class of the label once classes without a usable row are gone.

    Args:
        classes: Names of the classes that are left.
        label: The label over all rows.
        of_label: Index of the class there, or None.

    Returns:
        Its index in ``classes``; None where there was none or it is gone.
    """
    if of_label is None or label.classes[of_label] not in classes:
        return None
    return classes.index(label.classes[of_label])


def _row_notices(rows: Chosen, reasons: dict[str, str]) -> Sequence[Message]:
    """Notices of rows and columns left out, with the reason, and of duplicate rows."""
    notices: list[Message] = []
    for reason, counts in rows.dropped.items():
        notices.append(RowsDropped(sum(counts.values()), reason))
    for why in dict.fromkeys(reasons.values()):
        if why in (BY_OPTION, UNSUPPORTED, NOT_TEXT):  # asked for, or said by `read_checked`
            continue
        names = [name for name, reason in reasons.items() if reason == why]
        brings_split = why in (NO_IMAGE, OF_FILES) and SPLIT in names
        notices.append(ColumnsDropped(tuple(names), why, split=SPLIT if brings_split else ""))
    copies = copies_notice(rows.equal)
    return notices if copies is None else [*notices, copies]
