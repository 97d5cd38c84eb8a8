"""The data of an audit as frozen values; shapes are documented here, once."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.declared import DeclaredColumn
from fairaudit.messages.base import Message

UInt8 = NDArray[np.uint8]
Shape = tuple[int, int, int]  # height, width, channels

MISSING = "(missing)"  # name of the group of rows without a value in the group column
ALL_ROWS = "(all)"  # name of the only group when no group column is given
SPLIT = "split"  # the column that says which side of a given split a row is on
_KEY_BYTES = 16  # of an image's hash, by which equal images are found


def image_column(pixels: UInt8, missing: NDArray[np.bool_] | None = None) -> pa.ChunkedArray:
    """Make pixels ``[N, H, W, C]``, C-contiguous, one Arrow column of images; nothing is copied.

    ``missing``: which of the N images are none, and so null, ``[N]``; None: all are images.
    """
    shape = pixels.shape[1:]
    storage = pa.FixedSizeListArray.from_arrays(
        pa.array(pixels.reshape(-1)),
        int(np.prod(shape)),
        mask=None if missing is None else pa.array(missing),
    )
    kind = pa.fixed_shape_tensor(pa.uint8(), shape)
    return pa.chunked_array([pa.ExtensionArray.from_storage(kind, storage)])


def shape_of(arrow_type: pa.DataType) -> Shape | None:
    """Height, width and channels of a column of images; None for any other type."""
    if not isinstance(arrow_type, pa.FixedShapeTensorType) or arrow_type.value_type != pa.uint8():
        return None
    if len(arrow_type.shape) != 3 or arrow_type.permutation is not None:
        return None
    height, width, channels = arrow_type.shape
    return height, width, channels


def image_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Names of the columns that hold decoded images."""
    return tuple(field.name for field in schema if shape_of(field.type) is not None)


def columns_of(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Name -> column of a table, in its order.

    A table makes the list of its names anew whenever it is asked for one of them, so a loop over
    columns asks once.
    """
    return dict(zip(table.column_names, table.columns, strict=True))


def pixels_of(column: pa.ChunkedArray) -> UInt8:
    """All pixels of a column, ``[N, H, W, C]``; a view where it is in one piece."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    pixels: UInt8 = array.to_numpy_ndarray()
    return pixels


def image_keys(column: pa.ChunkedArray) -> pa.Array:
    """A hash of 16 bytes of each image, ``[N]``, by which equal images are found."""
    keys = [hashlib.blake2b(image, digest_size=_KEY_BYTES).digest() for image in pixels_of(column)]
    return pa.array(keys, pa.binary(_KEY_BYTES))


Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Grouping:
    """One way to cut the rows into groups.

    Args:
        name: The column, or ``a x b`` for an intersection.
        groups: Group of each row, ``[N]`` in ``0..K-1``.
        names: Group names, ``[K]``; taken to be publicly known.
        missing: Index of the group of rows without a value, named ``(missing)``; None if there is
            none.
        fitted: Whether its edges are quantiles of the rows, so that its names are functions of
            them and no epsilon covers them.
    """

    name: str
    groups: Int64
    names: tuple[str, ...]
    missing: int | None = None
    fitted: bool = False

    def counts(self, rows: Int64 | NDArray[np.bool_]) -> dict[str, int]:
        """Group name -> its number of ``rows`` (indices, or a mask ``[N]``), without zeros."""
        counts = np.bincount(self.groups[rows], minlength=len(self.names)).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}


def first_grouping(groupings: Sequence[Grouping], n_rows: int) -> Grouping:
    """The grouping by which rows are stratified and counted by group.

    Without any grouping it is one whose only group ``(all)`` holds all rows.
    """
    if groupings:
        return groupings[0]
    return Grouping("", np.zeros(n_rows, np.int64), (ALL_ROWS,))


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table, or images as a table of one column, read and checked before any split or encoding.

    Rows that cannot be used (no label) are already gone and counted. Counts by group name are by
    the groups of the first grouping.

    Args:
        name: File name, for people.
        format: ``csv``, ``parquet``, ``feather``, ``arrow stream``, ``arff``, ``image folder``,
            ``idx`` (files of MNIST's kind), ``npz``.
        digest: sha256 of the content of everything that was read.
        features: Raw feature columns, N rows; neither label nor (unless asked) group columns.
            Images are one column of uint8 tensors ``[H, W, C]``.
        labels: Class of each row, ``[N]`` in ``0..Y-1``.
        classes: Class names, ``[Y]``.
        label: Name of the label column.
        label_origin: ``given``, ``by its name``, or where the data declare it, as ``declared in the
            file``.
        positive: Index of the positive class, whose rates are reported; None where none is known.
        groupings: The first steers stratification, balance and the methods that read groups.
        split: Per row 0 train, 1 test when ``--split-column`` gives it, else None.
        rows_read, columns_read: Rows and columns of the file.
        dropped_rows: reason -> group name -> count of rows.
        missing: column -> group name -> count of missing values.
        dropped_columns: column -> reason.
        duplicate_rows: Rows that repeat an earlier row in all features, group columns and the
            label.
        duplicate_of: For each row the index of its first identical row, ``[N]``.
        records: For each row the index of the first row of its record, ``[N]``, where equal rows
            are copies of one; None: every row is a record of its own.
        notices: What the reader must be told.
        favourable: Index of the outcome that people want; the positive class where that is assumed.
        favourable_origin: Who said so; see :class:`fairaudit.data.infer.LabelColumn`.
        declared: feature column -> what is publicly known of it; nothing is learned of these.
        unpredicted: grouping name -> group name -> rows without a prediction, where predictions are
            given and not made by an audit.
    """

    name: str
    format: str
    digest: str
    features: pa.Table
    labels: Int64
    classes: tuple[str, ...]
    label: str
    label_origin: str
    positive: int | None
    groupings: tuple[Grouping, ...]
    split: Int64 | None
    rows_read: int
    columns_read: int
    dropped_rows: dict[str, dict[str, int]] = field(default_factory=dict)
    missing: dict[str, dict[str, int]] = field(default_factory=dict)
    dropped_columns: dict[str, str] = field(default_factory=dict)
    duplicate_rows: int = 0
    duplicate_of: Int64 | None = None
    records: Int64 | None = None
    notices: tuple[Message, ...] = ()
    favourable: int | None = None
    favourable_origin: str = ""
    declared: Mapping[str, DeclaredColumn] = field(default_factory=dict)
    unpredicted: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows that can be used."""
        return len(self.labels)

    @property
    def first_grouping(self) -> Grouping:
        """The grouping that splits are stratified by and most methods read; one group if none."""
        return first_grouping(self.groupings, self.n_rows)

    @property
    def positive_class(self) -> str | None:
        """Name of the positive class, whose rates are reported; None where none is known."""
        if self.positive is None:
            return None
        return self.classes[self.positive]

    @property
    def favourable_class(self) -> str | None:
        """Name of the outcome that people want, None where none is known."""
        if self.favourable is None:
            return None
        return self.classes[self.favourable]

    @property
    def image_shape(self) -> Shape | None:
        """Height, width and channels where the features are images, else None."""
        images = image_columns(self.features.schema)
        if images:
            return shape_of(self.features.schema.field(images[0]).type)
        return None

    @property
    def n_raw_inputs(self) -> int:
        """Values of a row before encoding: columns, or pixels times channels of an image."""
        if self.image_shape is None:
            return int(self.features.num_columns)
        return math.prod(self.image_shape)


@dataclass(frozen=True, slots=True)
class Split:
    """One seed's rows: indices into the dataset, ascending, disjoint.

    Args:
        seed: The seed that drew it.
        train: Training rows, after ``--balance`` and ``--keep`` took some out, ``[n_train]``.
        test: Test rows, ``[n_test]``.
    """

    seed: int
    train: Int64
    test: Int64


class InputRows(Protocol):
    """Model inputs by row: an array, or something that makes rows when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, d), or (n, H, W, C)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice | Int64, /) -> Float32:
        """Those rows' inputs, float32 and C-contiguous."""
