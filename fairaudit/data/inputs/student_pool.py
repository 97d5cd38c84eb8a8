"""PATE's student pool, and inputs that are encoded by constants of it.

The student pool is the set of records, taken as public, on which PATE's teachers vote and from
which its student learns: those of ``--public-data``, else half of the test rows of the seed.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from fairaudit.config.declared import Declaration
from fairaudit.config.options import AuditConfig
from fairaudit.data.column_types import encode_levels, kind_of, number_column
from fairaudit.data.dataset import Dataset, Grouping, InputRows, Int64, Split, columns_of
from fairaudit.data.inputs.encode import DecodedRows, Encoded, Encoder, make_encoder
from fairaudit.data.inputs.split import holdout_size
from fairaudit.data.inputs.spool import Spool
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_data
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.tabular import read_checked
from fairaudit.errors import DataError
from fairaudit.messages.names import listed, quoted
from fairaudit.privacy.streams import numpy_stream


class PoolEncoded(NamedTuple):
    """One seed's inputs, encoded by constants of the student pool.

    Args:
        encoded: Training rows, and those test rows that are not in the pool.
        pool: Inputs of the pool's records, [m, d].
        groups: Groups of the pool's records by the first grouping, [m]; None where not known.
    """

    encoded: Encoded
    pool: InputRows
    groups: Int64 | None


class PublicRows(NamedTuple):
    """The m rows of ``--public-data`` beside the n audited ones, in columns of the same types.

    Args:
        audited: The features of the audited rows.
        features: Those of the public rows, whose values alone decide what each column holds.
        groups: Of the public rows by the first grouping, [m]; None where these are not known: the
            file lacks the column, or a value in it, or has another group there, or the groups are
            bins of numbers.
    """

    audited: pa.Table
    features: pa.Table
    groups: Int64 | None


def pool_size(dataset: Dataset, config: AuditConfig) -> int:
    """m, the records of the student pool: those of ``--public-data``, else half of the test rows.

    Raises:
        DataError: As :func:`load_public`.
    """
    if config.public_data is not None:
        # Read in full, so that what training could not use is refused here.
        return int(load_public(dataset, config).features.num_rows)
    return holdout_size(dataset, config.split) // 2


def pool_digest(config: AuditConfig) -> str | None:
    """sha256 of ``--public-data`` in hexadecimal; None where the option is not given."""
    if config.public_data is None:
        return None
    images = ImageOptions.of(config.resize, config.channels, config.pixels)
    return open_data(config.public_data, images, config.drop).digest()


def read_public(config: AuditConfig, features: Sequence[str]) -> pa.Table:
    """Read ``--public-data`` by itself: no row of the audited table says what a column of it is.

    Args:
        config: The options.
        features: Columns that it must have, those that the options declare as they are declared.

    Returns:
        All its columns in plain types.

    Raises:
        DataError: The file cannot be read, or lacks a feature.
    """
    assert config.public_data is not None
    name = config.public_data.name
    declared = {n: column for n, column in config.declared.items() if n in features}
    images = ImageOptions.of(config.resize, config.channels, config.pixels)
    present = dict.fromkeys(open_data(config.public_data, images, config.drop).schema.names)
    # Formats for all columns, and for those that the file has: others it need not have.
    formats = [text for text in config.number_format if text.rpartition("=")[0] in ("", *present)]
    alone = AuditConfig(
        data=config.public_data,
        # The file need not have what is left out; of a group it may tell who its rows are.
        drop=tuple(n for n in config.drop if n in present and n not in config.group),
        contrast=config.contrast,
        missing_values=config.missing_values,
        number_format=tuple(formats),
        resize=config.resize,
        channels=config.channels,
        pixels=config.pixels,
    )
    lacking = [feature for feature in features if feature not in present]
    if lacking:
        raise DataError(f"public data {name} lacks {len(lacking)} features: {listed(lacking)}")
    if declared:
        alone = alone.model_copy(update={"columns": Declaration(columns=declared)})
    table = read_checked(alone).table
    usable = columns_of(table)
    for feature in features:
        if feature not in usable:
            raise DataError(f"public data {name}: column {quoted(feature)} cannot be used")
    return table


def load_public(dataset: Dataset, config: AuditConfig) -> PublicRows:
    """Read ``--public-data``; a label in it is not looked at.

    Raises:
        DataError: The file cannot be read, lacks a feature of the audited table, or holds one of
            another kind.
    """
    assert config.public_data is not None
    table = read_public(config, dataset.features.column_names)
    features = table.select(dataset.features.column_names)
    audited = _read_as(dataset.features, features, config.public_data.name)
    groups = _public_groups(table, dataset.groupings[0], config)
    # The same types, so that the rows of both can stand in one table. Whole numbers beyond 2^53
    # become the nearest float64; a safe cast would refuse them.
    return PublicRows(audited, features.cast(audited.schema, safe=False), groups)


def _public_groups(table: pa.Table, grouping: Grouping, config: AuditConfig) -> Int64 | None:
    """Groups of public rows, ``[m]``; None where they are not known (:class:`PublicRows`)."""
    if grouping.name not in table.column_names or grouping.name in config.bin:
        return None
    levels = encode_levels(table.column(grouping.name))
    if not set(levels.names) <= set(grouping.names) or (levels.codes < 0).any():
        return None
    group_of_level = [grouping.names.index(level) for level in levels.names]
    return np.array(group_of_level, np.int64)[levels.codes]


def known_by(public: pa.Table) -> dict[str, tuple[str, ...] | None]:
    """What the rows of ``--public-data`` say of each column, so that private rows need not.

    Returns:
        Column -> its levels where it is a category, None where it is a number or an image.
    """
    known: dict[str, tuple[str, ...] | None] = {}
    for name in public.column_names:
        column = public.column(name)
        is_text = kind_of(column.type) in ("category", "empty")
        known[name] = encode_levels(column).names if is_text else None
    return known


def _read_as(features: pa.Table, public: pa.Table, name: str) -> pa.Table:
    """The features of the audited table, of the kinds that the public rows' columns have.

    Args:
        features: Features of the audited rows, in any plain types.
        public: Features of the public rows.
        name: Name of the public file, for messages.

    Raises:
        DataError: Images of another shape; a column whose values cannot be of the public kind.
    """
    stored, columns = StoredColumns(features), {}
    for column, levels in known_by(public).items():
        audited_column, public_type = features.column(column), public.column(column).type
        if kind_of(public_type) == "image":
            columns[column] = audited_column
            fits = audited_column.type == public_type
        elif levels is None:
            columns[column] = number_column(stored.numbers(column))
            # Some value must be a number, unless all of them were missing before.
            has_number = columns[column].null_count < len(audited_column)
            had_no_value = audited_column.null_count == len(audited_column)
            fits = has_number or had_no_value
        else:
            columns[column] = stored.texts(column, levels)
            # A public column without any value (kind "empty") says nothing, so any kind fits it.
            is_category = kind_of(public_type) == "category"
            fits = not (is_category and kind_of(audited_column.type) == "number")
        if not fits:
            raise DataError(
                f"public data {name}: column {quoted(column)} holds {public_type}, "
                f"in the audited table {audited_column.type}"
            )
    return pa.table(columns)


class PoolEncoder:
    """Encodes training and test rows by constants of the student pool.

    What is fitted on training rows would let one record move every teacher's vote; what is fitted
    on the pool says nothing about them. The pool's own records are not protected. Source:
    docs/methods.md 5.2.

    Args:
        encoder: Encodes the audited rows and, after them, any public ones; it must take its lists
            of levels from the rows that it is fitted to.
        audited: Groups of the audited rows by the first grouping, [N].
        public: With ``--public-data``, the encoder's rows that are the pool, and their groups or
            None; None as a whole where the pool is half of the test rows.
    """

    def __init__(
        self, encoder: Encoder, audited: Int64, public: tuple[Int64, Int64 | None] | None
    ) -> None:
        self._encoder, self._audited, self._public = encoder, audited, public

    @classmethod
    def of(cls, dataset: Dataset, config: AuditConfig, spool: Spool | None = None) -> Self:
        """Prepare the audited rows and, below them, those of ``--public-data`` if it is given.

        Raises: as :func:`load_public`.
        """
        combined, public, levels = dataset, None, {}
        if config.public_data is not None:
            audited, rows, groups = load_public(dataset, config)
            # Labels and groups stay those of the audited rows alone: an encoder does not read them.
            combined = replace(dataset, features=pa.concat_tables([audited, rows]))
            levels = {name: names for name, names in known_by(rows).items() if names is not None}
            public = dataset.n_rows + np.arange(rows.num_rows), groups
        # A share above 0, however small: lists of levels come from the pool then, not from all
        # rows.
        share = max(config.merge_rare, sys.float_info.min)
        encoding = config.encoding._replace(merge_rare=share)
        encoder = make_encoder(combined, encoding, spool, levels)
        return cls(encoder, dataset.groupings[0].groups, public)

    def encode(self, split: Split, least: int = 0) -> PoolEncoded:
        """Fit to the student pool, and encode it and the rows of one seed.

        Args:
            split: Training and test rows of the seed.
            least: As of :func:`halve`; it is not read with ``--public-data``.
        """
        if self._public is None:
            pool, test = halve(split, least)
            groups: Int64 | None = self._audited[pool]
        else:
            (pool, groups), test = self._public, split.test
        # The encoder learns of what it takes for training rows: the pool, and nobody else.
        extended = Split(split.seed, pool, np.concatenate([split.train, test]))
        # `fitted.train` is the pool then, `fitted.test` the training rows, then the test rows.
        fitted = self._encoder.encode(extended)
        train = len(split.train)
        encoded = Encoded(
            split=Split(split.seed, split.train, test),
            train=_selected(fitted.test, slice(train)),
            test=_selected(fitted.test, slice(train, None)),
            names=fitted.names,
            fitted=(),  # nothing is learned from training rows
            merged=fitted.merged,
            columns=fitted.columns,
        )
        return PoolEncoded(encoded, fitted.train, groups)


def _selected(rows: InputRows, piece: slice) -> InputRows:
    """A slice of inputs; decoded only when it is read, where ``rows`` are."""
    if isinstance(rows, DecodedRows):
        return rows.part(piece)
    return rows[piece]


def halve(split: Split, least: int = 0) -> tuple[Int64, Int64]:
    """Draw half of a seed's test rows for the student pool; the same half at every call.

    Args:
        split: The rows of the seed.
        least: Records that the student needs. The pool is larger than half of the test rows where
            half are too few, up to all of them.

    Returns:
        The rows of the pool, and those that are left to test on; each ascending.
    """
    order = numpy_stream(split.seed, "split", "student pool").permutation(len(split.test))
    half = min(max(len(split.test) // 2, least), len(split.test))
    return np.sort(split.test[order[:half]]), np.sort(split.test[order[half:]])
