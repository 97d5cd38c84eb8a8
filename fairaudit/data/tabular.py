"""A table or images to a Dataset.

Columns checked, groups and label coded, unusable rows counted and gone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
from fairaudit.data.declared_columns import (
    DeclaredValues,
    declaration_notices,
    read_declared,
    refuse_no_numbers,
)
from fairaudit.data.groups import label_grouping, make_groupings, named_pairs, restrict
from fairaudit.data.infer import LabelChoice, LabelColumn, choose_label, read_label
from fairaudit.data.leaks import coded_sample, leak_warnings
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_data
from fairaudit.data.reading.pixels import looks_like_pixels
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.text_columns import OddColumn, find_types
from fairaudit.data.reading.values import ValueRules
from fairaudit.data.reading.vectors import SHORTEST, holds_numbers
from fairaudit.data.usable import UsedData, choose_rows
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
        misfits: Declared column -> indices of the rows whose value was not a declared one; columns
            without such rows are not there.
        dropped: Column that is not in ``table`` -> why.
        notices: What reading it showed.
        odd: Columns of the table that are neither numbers nor categories as they stand: they are
            refused if they become features.
    """

    source: DataSource
    digest: str
    table: pa.Table
    as_declared: dict[str, pa.ChunkedArray]
    misfits: dict[str, Int64]
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


class _ColumnsToRead(NamedTuple):
    """How each column of a file is read.

    Args:
        inferred: Columns of which all values together decide the type, in the file's order.
        declared: Features that are read value by value, as they are declared, in that order.
        dropped: Columns that are not read -> why.
        unsupported: Those of ``dropped`` whose type holds neither numbers nor text.
    """

    inferred: tuple[str, ...]
    declared: tuple[str, ...]
    dropped: dict[str, str]
    unsupported: tuple[str, ...]


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
    to_read = _columns_to_read(source, config, named)
    rules = value_rules(config, names)
    raw, notices = _read_columns(source, to_read.inferred, rules, named)
    typed = find_types(raw, rules, is_untyped=source.is_untyped, by_name=named)
    table, unreadable, infinities = plain_table(typed.table)
    # Columns stored as dates are left out already. What is of such a type now is text of dates
    # alone, which `find_types` has made dates.
    dates = [field.name for field in table.schema if kind_of(field.type) == "unsupported"]
    table = table.drop_columns(dates)
    unsupported = [*to_read.unsupported, *dates, *unreadable]
    for name in named:
        if name in unsupported or name == source.image:
            raise DataError(f"column {quoted(name)} holds neither numbers nor text")
    table = _contrasted(table, config.contrast)
    _check_zero(table, config)
    kept = {*to_read.inferred, *to_read.declared}
    # Also those of groups and of `contrast`, which the table holds as they were inferred: if they
    # become features, the features are these values.
    declared = {n: column for n, column in config.declared.items() if n in kept}
    as_declared = _declared_values(source, table, declared, config.contrast, rules)
    # A declared feature stands as it was declared, all other columns as they were inferred.
    columns = columns_of(table) | {name: as_declared.values[name] for name in to_read.declared}
    return CheckedTable(
        source=source,
        digest=source.digest(),
        table=pa.table({name: columns[name] for name in names if name in columns}),
        as_declared=as_declared.values,
        misfits=as_declared.misfits,
        dropped=to_read.dropped | dict.fromkeys(dates, UNSUPPORTED) | unreadable,
        notices=(
            *notices,
            *typed.notices,
            *infinities,
            *_type_notices(source, unsupported, unreadable),
        ),
        odd=typed.odd,
    )


def _columns_to_read(
    source: DataSource, config: AuditConfig, named: Sequence[str]
) -> _ColumnsToRead:
    """Decide how each column of the file is read, by its name and type alone.

    Args:
        source: The data.
        config: The options.
        named: Columns that the options name as groups, label or split.

    Raises:
        DataError: The images are declared to be something else, or no column is left.
    """
    # A dropped column that has another part, as a group, is read all the same and is no feature.
    dropped = {n: BY_OPTION for n in config.drop if n not in named and n not in config.contrast}
    # Groups, label, split and two-valued columns are needed as they are, whatever is declared.
    undeclarable = {*named, *dropped, *config.contrast}
    declared = {n for n in config.declared if n not in undeclarable}
    if source.image in declared:
        kind = config.declared[source.image].kind
        raise DataError(f"column {quoted(source.image)} is declared a {kind} and holds images")
    unsupported = []
    for field in source.schema:
        # The type of a CSV's column is a guess. A declared column does not need it: its texts are
        # read as they are declared.
        is_guess = field.name in declared and source.format == "csv"
        is_wanted = field.name not in dropped and field.name != source.image
        if is_wanted and not is_guess and kind_of(field.type) in ("unsupported", "image"):
            unsupported.append(field.name)
    dropped |= dict.fromkeys(unsupported, UNSUPPORTED)
    columns = [n for n in source.schema.names if n not in dropped]
    if not columns:
        raise DataError(f"no column of {config.data.name} can be used")
    return _ColumnsToRead(
        inferred=tuple(n for n in columns if n not in declared),
        declared=tuple(n for n in columns if n in declared),
        dropped=dropped,
        unsupported=tuple(unsupported),
    )


def _type_notices(
    source: DataSource, unsupported: Sequence[str], unreadable: Mapping[str, str]
) -> Iterator[Message]:
    """Notices of columns that hold neither numbers nor text, and of some that may be pixels.

    Args:
        source: The data.
        unsupported: Columns that are left out since they hold neither.
        unreadable: Those of ``unsupported`` whose values, not their type, showed it -> why.
    """
    if unsupported:
        types = {field.name: field.type for field in source.schema}
        has_lists = any(name in types and holds_numbers(types[name]) for name in unsupported)
        yield UnsupportedColumns(
            tuple(unsupported),
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


def _read_columns(
    source: DataSource, columns: Sequence[str], rules: ValueRules, named: Sequence[str]
) -> tuple[pa.Table, tuple[Message, ...]]:
    """The columns in that order, before their types are settled; and notices of reading them.

    In a file without types (CSV) Arrow guesses the type of each column. It must not guess where an
    option says how numbers are written: it would read ``1.234`` as a fraction, where a decimal
    comma makes it 1,234. So those columns are read as text. Where an option says ``point``, the
    guess can stay: what Arrow takes for a number is the same number by that format.

    Args:
        source: The data.
        columns: Their names.
        rules: What options say of values.
        named: Columns of groups, label and split: a format counts for one of them only if it names
            that column.
    """
    as_text: dict[str, None] = {}  # a set that keeps the order
    for name in columns if source.is_untyped else ():
        number_format = rules.formats.get(name) if name in named else rules.format_of(name)
        if number_format in ("comma", "text") and name != source.image:
            as_text[name] = None
    guessed = [name for name in columns if name not in as_text]
    table, notices = source.read(guessed) if guessed else (pa.table({}), ())
    if not as_text:
        return table, notices
    read = columns_of(table) | columns_of(source.stored(list(as_text)).table)
    return pa.table({name: read[name] for name in columns}), notices


def _contrasted(table: pa.Table, contrast: Mapping[str, str]) -> pa.Table:
    """The table with two texts in each column of ``contrast``: its value, and ``not`` that value.

    Args:
        table: All columns in plain types.
        contrast: Column -> the value that is set against all others.

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
        # False and true as 0 and 1 are the indices of the two texts; null stays null.
        column = pa.chunked_array([texts.take(is_value.cast(pa.int8()))])
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _check_zero(table: pa.Table, config: AuditConfig) -> None:
    """Refuse a value of ``zero`` that is not one of the two of its column.

    Raises:
        ConfigError: The column is declared. DataError: The column holds numbers, or not two values,
            or not this value.
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
) -> DeclaredValues:
    """The values of the declared columns, each read by itself as its declaration says.

    A column of ``contrast`` is read from the table in which it has two values already, every other
    one from the file as it stands there.

    Args:
        source: The data.
        contrasted: The table as :func:`_contrasted` returns it.
        declared: Column -> its declaration.
        contrast: Names of the columns that ``contrast`` changed.
        rules: What options say of values.

    Raises:
        DataError: A column that is declared a number holds none.
    """
    of_table = {n: column for n, column in declared.items() if n in contrast}
    of_file = {n: column for n, column in declared.items() if n not in contrast}
    read = DeclaredValues({}, {})
    if of_table:
        read = _read_and_check(StoredColumns(contrasted), of_table)
    if of_file:
        stored = replace(source.stored(list(of_file)), rules=rules)
        others = _read_and_check(stored, of_file)
        read = DeclaredValues(read.values | others.values, read.misfits | others.misfits)
    return read


def _read_and_check(
    stored: StoredColumns, declared: Mapping[str, DeclaredColumn]
) -> DeclaredValues:
    """Declared columns, read; DataError where one is declared a number and holds none."""
    read = read_declared(stored, declared)
    refuse_no_numbers(stored, read.values)
    return read


def make_dataset(checked: CheckedTable, config: AuditConfig) -> Dataset:
    """Make the dataset of an audit from a table that was read.

    The label becomes classes and group columns become groupings; the other columns are features.
    Of the N rows that were read the n that can be used stay, in their order; the others are
    counted with the reason.

    Raises: as :func:`load_dataset`.
    """
    roles = _find_roles(checked, config)  # of all N rows
    rows = _choose_rows(roles, checked, config)
    used = rows.used
    groupings = tuple(restrict(grouping, used) for grouping in roles.groupings)
    named_pairs(config.compare, groupings)  # refuses a pair that is not there, before training
    in_use = _classes_in_use(roles, used)
    dropped_columns = {**checked.dropped, **roles.no_features, **rows.reasons}
    return Dataset(
        # The file
        name=config.data.name,
        format=checked.source.format,
        digest=checked.digest,
        rows_read=checked.table.num_rows,
        columns_read=len(checked.source.schema.names),
        # Features of the n rows
        features=_on_rows(roles.features.select(list(rows.columns)), used),
        declared=roles.declared,
        dropped_columns=dropped_columns,
        # The label
        label=roles.choice.column,
        label_origin=roles.choice.origin,
        labels=in_use.codes,
        classes=in_use.names,
        positive=_index_in_use(roles.label.positive, roles.label.classes, in_use.names),
        favourable=_index_in_use(roles.label.favourable, roles.label.classes, in_use.names),
        favourable_origin=roles.label.favourable_origin,
        # Groups and sides of the n rows, and rows that are left out
        groupings=groupings,
        split=None if roles.split is None else roles.split[used],
        dropped_rows=rows.dropped,
        missing=rows.missing,
        # Equal rows; without copies every row is a record of its own
        duplicate_rows=int(rows.equal.repeated.sum()),
        duplicate_of=rows.equal.first,
        records=rows.equal.first if rows.equal.are_copies else None,
        notices=(
            *checked.notices,
            *roles.notices,
            *_row_notices(rows, dropped_columns),
            *leak_warnings(
                coded_sample(roles.features, rows.columns, used),
                roles.choice.column,
                in_use.codes,
                groupings,
            ),
            *declaration_notices(
                rows.columns,
                roles.declared,
                _misfit_counts(roles, checked, used),
                asked=config.columns is not None,
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class _ColumnRoles:
    """What each column of a table is to an audit. Arrays and tables have all N rows.

    Args:
        choice: Which column is the label, and who says so.
        label: Its classes.
        groupings: The groups, one grouping for each group column and then any intersection.
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
        # The table holds a group column as it was inferred, even if it is declared.
        features=pa.table(
            {name: checked.as_declared.get(name, in_table[name]) for name in features}
        ),
        declared={n: column for n, column in config.declared.items() if n in is_feature},
        no_features=no_features,
        only_groups=table.select(only_groups),
        notices=(*label.notices, *group_notices),
    )


def _choose_rows(roles: _ColumnRoles, checked: CheckedTable, config: AuditConfig) -> UsedData:
    """The rows and features that are used, as :func:`choose_rows` chooses them.

    With a preset or a given split, equal rows always count as different people. As copies of one
    record they would all go to one side of the split, and a published split must stay as it is.
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
        DataError: Only one class is left.
    """
    in_use = levels_in_use(Levels(roles.label.codes, roles.label.classes), used)
    if len(in_use.names) < 2:
        raise DataError(
            f"label {quoted(roles.choice.column)} has one value in the rows without missing values"
        )
    return in_use


def _misfit_counts(roles: _ColumnRoles, checked: CheckedTable, used: Int64) -> dict[str, int]:
    """Declared feature -> how many of its values in used rows are not as declared; no zeros."""
    counts = {}
    for name in roles.declared:
        rows = np.intersect1d(checked.misfits.get(name, ()), used, assume_unique=True)
        if len(rows):
            counts[name] = len(rows)
    return counts


def _on_rows(table: pa.Table, used: Int64) -> pa.Table:
    """The rows that are used; the table itself, uncopied, where all are, since images are large."""
    return table.take(pa.array(used)) if len(used) < table.num_rows else table


def _check_names(names: Sequence[str], config: AuditConfig) -> None:
    """Refuse options that name a column which is absent, or one column for two roles.

    Args:
        names: Names of the file's columns.
        config: The options.

    Raises:
        DataError: A column is absent. ConfigError: One has two roles.
    """
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

    Args:
        table: All rows.
        column: That of ``--split-column``; None: no split is given, and None is returned.

    Raises:
        DataError: A row has no value or another one than train and test, or all are on one side.
    """
    if column is None:
        return None
    name, levels = quoted(column), encode_levels(table.column(column))
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

    The label, the split and, without ``--group-as-feature``, group columns are in neither: they
    have another part, which the user gave them.

    Args:
        table: All readable columns.
        choice: Which column is the label.
        config: The options.
        sides: The column that the names of files made (``train``, ``test``); None: there is none.

    Raises:
        ConfigError: Group columns are to be features beside images.
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


def _index_in_use(index: int | None, classes: Sequence[str], in_use: Sequence[str]) -> int | None:
    """New index of a class once the classes without a usable row are gone.

    Args:
        index: Its index in ``classes``; None where there is no such class.
        classes: Names of all classes of the label.
        in_use: Names of the classes that some usable row has.

    Returns:
        Its index in ``in_use``; None where there was none, or no usable row has it.
    """
    if index is None or classes[index] not in in_use:
        return None
    return in_use.index(classes[index])


def _row_notices(rows: UsedData, reasons: Mapping[str, str]) -> Sequence[Message]:
    """Notices of rows and columns left out, with the reason, and of duplicate rows.

    Args:
        rows: The rows that are used, and how many others are not.
        reasons: Column that is no feature -> why.
    """
    notices: list[Message] = []
    for reason, counts in rows.dropped.items():
        notices.append(RowsDropped(sum(counts.values()), reason))
    for why in dict.fromkeys(reasons.values()):
        if why in (BY_OPTION, UNSUPPORTED, NOT_TEXT):  # asked for, or said by `read_checked`
            continue
        names = [name for name, reason in reasons.items() if reason == why]
        # Such a column may hold a split that the user has to ask for (``--split-column``).
        brings_split = why in (NO_IMAGE, OF_FILES) and SPLIT in names
        notices.append(ColumnsDropped(tuple(names), why, split=SPLIT if brings_split else ""))
    copies = copies_notice(rows.equal)
    return notices if copies is None else [*notices, copies]
