"""What is publicly known of data before a row of them is read, and rows read by that alone.

An audit finds out of its rows which columns are numbers, which classes and groups there are, and
how large images are. A model for release is trained by what the audit found: each row is read by
itself, and no row can change how another is read. A row of which something cannot be read, as a
label that is no class, is left out; nothing that a row holds is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import kind_of, number_column
from fairaudit.data.dataset import Dataset, Grouping, Int64, Shape, shape_of
from fairaudit.data.declared_columns import read_declared
from fairaudit.data.groups import binned, crossed
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_alone
from fairaudit.data.reading.source import DataSource
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.tabular import TEST_WORDS, TRAIN_WORDS, value_rules
from fairaudit.errors import DataError
from fairaudit.messages.names import listed, quoted

LEFT_OUT = -1  # the place of a row that has none


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """One way to cut rows into groups, as it is known.

    Args:
        name: The group column, or ``a x b`` for an intersection.
        names: Names of the groups, ``[K]``.
        missing: Index of the group of rows without a value or with another one; None: there is no
            such group, and these rows are left out.
    """

    name: str
    names: tuple[str, ...]
    missing: int | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The groups that a value can name: all but the one of rows without a value."""
        return tuple(name for k, name in enumerate(self.names) if k != self.missing)

    def places(self, codes: Int64, names: Sequence[str]) -> Grouping:
        """The grouping of rows by the group that each of them names.

        A row whose name is no group, or that has none, belongs to the group of rows without a
        value; its group is ``LEFT_OUT`` where there is no such group.

        Args:
            codes: Index in ``names`` of the name of each row, ``[N]``; any other number: the row
                has no name.
            names: Names that rows have; other ones than those of the groups may be among them.
        """
        other = LEFT_OUT if self.missing is None else self.missing
        group_of_name = {name: k for k, name in enumerate(self.names) if k != self.missing}
        # The group of each code; the last entry is that of all codes outside of the list.
        group_of_code = np.array([*(group_of_name.get(n, other) for n in names), other], np.int64)
        is_listed = (codes >= 0) & (codes < len(names))
        groups = group_of_code[np.where(is_listed, codes, len(names))]
        return Grouping(self.name, groups, self.names, self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codebook:
    """What is known of data, with what the options declare of columns.

    Args:
        label: The label's column.
        classes: Its classes, ``[Y]``.
        positive, favourable: The class that rates are about, and the one that people want; None
            where none is known.
        groupings: How rows are cut into groups; those of columns first, then that by the label,
            then the intersection of all.
        features: Column -> the texts that it is known to hold, where it is a category (``()``: any
            text); None where it is a number, or holds images. What is declared comes before that.
        shape: Height, width and channels of all images, where the features are images.
    """

    label: str
    classes: tuple[str, ...]
    positive: str | None
    favourable: str | None
    groupings: tuple[KnownGroups, ...]
    features: Mapping[str, tuple[str, ...] | None]
    shape: Shape | None = None


def read_by(codebook: Codebook, config: AuditConfig) -> Dataset:
    """Read the rows of ``--data``, each by itself.

    A row is left out if its label is no class, if it has no place in some grouping or on a side of
    a given split, if its image cannot be used, or if it has a gap that ``--missing`` does not fill.

    Raises:
        DataError: The file cannot be read, lacks a column, or stores something else in one than
            numbers or text, or images of that shape.
    """
    stored, source = _open(codebook, config)
    labels = stored.codes(codebook.label, codebook.classes)
    groupings = _groupings(stored, codebook, config, labels)
    features = _features(stored, codebook, config)
    is_used = labels < len(codebook.classes)  # a code past the classes: the label is none of them
    lacks_group = np.zeros(len(labels), np.bool_)
    for grouping in groupings:
        is_used &= grouping.groups != LEFT_OUT
        if grouping.missing is not None:
            lacks_group |= grouping.groups == grouping.missing
    split = None
    if config.split_column is not None:
        split = _sides(stored, config.split_column)
        is_used &= split != LEFT_OUT
    has_gap = np.zeros(len(labels), np.bool_)
    for column in features.columns:
        has_gap |= column.is_null().to_numpy()
    if codebook.shape is not None:
        is_used &= ~has_gap  # an image that cannot be used
    if config.missing != "impute":  # with `error`, too: a row is left out, and never an error
        is_used &= ~(has_gap | lacks_group)
    used = np.flatnonzero(is_used)
    index = {name: code for code, name in enumerate(codebook.classes)}
    is_feature = set(features.column_names)
    return Dataset(
        name=config.data.name,
        format=source.format,
        digest=source.digest(),
        features=features if is_used.all() else features.take(pa.array(used)),
        labels=labels[used],
        classes=codebook.classes,
        label=codebook.label,
        label_origin="given",
        positive=None if codebook.positive is None else index[codebook.positive],
        favourable=None if codebook.favourable is None else index[codebook.favourable],
        groupings=tuple(replace(grouping, groups=grouping.groups[used]) for grouping in groupings),
        split=None if split is None else split[used],
        rows_read=len(labels) + stored.lost,  # rows that could not be read count, too
        columns_read=len(source.schema.names),
        declared={n: column for n, column in config.declared.items() if n in is_feature},
    )


def _open(codebook: Codebook, config: AuditConfig) -> tuple[StoredColumns, DataSource]:
    """The columns that are needed, as the data store them; and the data.

    Raises: as :func:`read_by`.
    """
    options, image = ImageOptions(), None
    if codebook.shape is not None:
        options = ImageOptions.known(
            codebook.shape, resized=config.resize is not None, pixels=config.pixels
        )
        (image,) = codebook.features  # images are the only feature
    needed = dict.fromkeys([*codebook.features, *config.group, codebook.label])  # an ordered set
    if config.split_column is not None:
        needed[config.split_column] = None
    source = open_alone(config.data, options, image, list(needed), config.text)
    name = config.data.name
    present = set(source.schema.names)
    lacking = [column for column in needed if column not in present]
    if lacking:
        raise DataError(f"{name} lacks columns of the audit: {listed(lacking)}")
    rules = value_rules(config, source.schema.names)
    stored = replace(source.stored(list(needed)), rules=rules)
    for column in needed:
        arrow_type = stored.table.schema.field(column).type
        if column == image:
            fits = shape_of(arrow_type) == codebook.shape
        else:
            fits = kind_of(arrow_type) not in ("unsupported", "image")
        if not fits:
            raise DataError(f"column {quoted(column)} of {name} holds {arrow_type}")
    return stored, source


def _features(stored: StoredColumns, codebook: Codebook, config: AuditConfig) -> pa.Table:
    """The features of all rows, in plain types."""
    declared = {n: column for n, column in config.declared.items() if n in codebook.features}
    declared_values = read_declared(stored, declared).values
    columns = {}
    for name, texts in codebook.features.items():
        if name in declared_values:
            columns[name] = declared_values[name]
        elif codebook.shape is not None:
            columns[name] = stored.table.column(name)
        elif texts is not None:
            columns[name] = stored.texts(name, texts)
        else:
            columns[name] = number_column(stored.numbers(name))
    return pa.table(columns)


def _groupings(
    stored: StoredColumns, codebook: Codebook, config: AuditConfig, labels: Int64
) -> tuple[Grouping, ...]:
    """The groupings of all rows; a row without a place in one has the group ``LEFT_OUT`` there.

    Args:
        stored: The columns of the rows.
        codebook: Which groupings there are, in their order.
        config: Says which of them are of columns and how values become groups.
        labels: Class of each row, ``[N]``; a number past the classes where it has none.
    """
    of_columns = [
        name
        for name in dict.fromkeys(config.group)
        if name != codebook.label or not config.group_by_label
    ]
    groupings: list[Grouping] = []
    for known in codebook.groupings:
        if known.name in of_columns:
            groupings.append(_of_column(known, stored, config))
        elif known.name == codebook.label:
            groupings.append(known.places(labels, codebook.classes))
        else:  # the intersection of all before it, as it is the last
            levels = crossed(groupings)
            groupings.append(known.places(levels.codes, levels.names))
    return tuple(groupings)


def _of_column(known: KnownGroups, stored: StoredColumns, config: AuditConfig) -> Grouping:
    """The grouping of all rows by one column: by its values, bins, or a value and all others."""
    name = known.name
    if name in config.bin:
        levels = binned(name, stored.numbers(name), config.bin[name])
        return known.places(levels.codes, levels.names)
    if name in config.contrast:
        value = config.contrast[name]
        # Code 0: the value, 1: any other one, which is group "not value", 2: missing, in no group.
        return known.places(stored.codes(name, (value,)), (value, f"not {value}"))
    return known.places(stored.codes(name, known.named), known.named)


def _sides(stored: StoredColumns, column: str) -> Int64:
    """Which side of a given split each row is on, ``[N]``: 0 train, 1 test, else ``LEFT_OUT``."""
    words = pc.utf8_lower(stored.texts(column))
    codes = StoredColumns(pa.table({column: words})).codes(column, (*TRAIN_WORDS, *TEST_WORDS))
    # The side of each word, then those of any other text and of a missing value.
    side_of_code = [*(0 for _ in TRAIN_WORDS), *(1 for _ in TEST_WORDS), LEFT_OUT, LEFT_OUT]
    return np.array(side_of_code, np.int64)[codes]
