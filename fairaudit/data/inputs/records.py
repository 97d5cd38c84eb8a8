"""A table's features as records: all values of a row side by side, as bytes of one width.

A batch of a training reads a few rows out of millions. As records they cost one look-up each, in
memory or in a mapped file. A record holds what no seed changes, numbers as they were read and the
codes of categories; what a seed learns of its training rows is applied when the record is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.declared import DeclaredCategory, DeclaredColumn
from fairaudit.data.column_types import encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Int64, columns_of
from fairaudit.data.reading.stored import StoredColumns

UInt8 = NDArray[np.uint8]

CHUNK_ROWS = 16_384  # rows that are handled at once: few enough for a processor's cache
NOTHING: Mapping[str, DeclaredColumn] = {}  # the default: no column is declared
NO_LEVELS: Mapping[str, tuple[str, ...]] = {}  # the default: rows decide which levels there are
NO_FIRST: Mapping[str, str] = {}  # the default: levels are sorted
_ALIGNMENT = 8  # bytes, so that every number of a record lies where a processor wants it


@dataclass(frozen=True, slots=True)
class Field:
    """A column in a record: a number, or a category as the code of its level.

    Args:
        name: Column.
        kind: ``number``, stored as it is, or ``category``, stored as a code.
        gaps: Whether a value is missing in some row.
        levels: Of a category, sorted (that of ``zero`` first) or as declared. A value that is none
            of them has the code ``len(levels)``, a missing one the next.
        declared: What is publicly known of it, or None.
    """

    name: str
    kind: Literal["number", "category"]
    gaps: bool = True
    levels: tuple[str, ...] = ()
    declared: DeclaredColumn | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The columns of one type, whose values stand next to each other in a record.

    Args:
        column_indices: Places of its columns in the column order, ascending.
        type: numpy's name of the type.
        start: First byte in the record.
    """

    column_indices: tuple[int, ...]
    type: str
    start: int

    @property
    def stop(self) -> int:
        """One past the last byte in the record."""
        return self.start + np.dtype(self.type).itemsize * len(self.column_indices)

    def view(self, rows: UInt8) -> NDArray[np.generic]:
        """The block's values in records ``[n, width]``: ``[n, columns of the block]``.

        It is a view, so what is written into it is written into the records.
        """
        return rows[:, self.start : self.stop].view(self.type)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is in a record: numbers as float64, then the codes of categories.

    Args:
        fields: In column order.
        numbers: The block of numbers.
        codes: The block of categories, of the smallest type that holds every code.
    """

    fields: tuple[Field, ...]
    numbers: Block
    codes: Block

    @classmethod
    def of(cls, fields: Sequence[Field]) -> "Layout":
        """The layout of fields. It follows from them alone, so a released model makes the same."""
        places = range(len(fields))
        categories = tuple(i for i in places if fields[i].kind == "category")
        numbers = Block(tuple(i for i in places if i not in categories), "float64", 0)
        # The highest code of a category is that of a missing value.
        highest = max((len(fields[i].levels) + 1 for i in categories), default=0)
        codes = Block(categories, np.min_scalar_type(highest).name, numbers.stop)
        return cls(tuple(fields), numbers, codes)

    @property
    def width(self) -> int:
        """Bytes of a record, at least one, rounded up to the alignment."""
        return -(-max(self.codes.stop, 1) // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True, slots=True)
class Records:
    """All rows of a table.

    Args:
        layout: What a record holds.
        table: ``[N, width]``; in memory, or a map of a file.
    """

    layout: Layout
    table: UInt8

    def take(self, rows: Int64) -> UInt8:
        """The records of those rows, ``[n, width]``, copied."""
        return np.take(self.table, rows, axis=0)

    def chunks(self, rows: Int64) -> Iterator[tuple[slice, UInt8]]:
        """The records of those rows piece by piece: a slice of ``rows``, and its records."""
        for start in range(0, len(rows), CHUNK_ROWS):
            piece = slice(start, start + CHUNK_ROWS)
            yield piece, self.take(rows[piece])


class RecordWriter:
    """Codes every category once, then gives the records from the first row to the last.

    Args:
        features: The columns.
        declared: Declarations of some of them, whose values are all declared ones already.
        levels: Category that is not declared -> its levels. A category that is neither declared nor
            named here has the levels that occur in the rows.
        zero: Category that is not declared -> the level that comes first, before the others as they
            are sorted or given.

    Attributes:
        layout: Where each column is in a record.
    """

    def __init__(
        self,
        features: pa.Table,
        declared: Mapping[str, DeclaredColumn] = NOTHING,
        levels: Mapping[str, tuple[str, ...]] = NO_LEVELS,
        zero: Mapping[str, str] = NO_FIRST,
    ) -> None:
        self._features = features
        self._codes: dict[int, Int64] = {}  # index of a category -> the code of each row, [N]
        fields = []
        for index, (name, column) in enumerate(columns_of(features).items()):
            declaration = declared.get(name)
            gaps, kind = column.null_count > 0, kind_of(column.type)
            if kind == "number":
                fields.append(Field(name, "number", gaps, declared=declaration))
                continue
            if isinstance(declaration, DeclaredCategory):
                names = declaration.categories
                codes = StoredColumns(features).codes(name, names)
            elif name in levels or name in zero:
                names = levels[name] if name in levels else encode_levels(column).names
                # The level of ``zero`` comes first, so that its code is 0; () if there is none.
                first = [level for level in names if level == zero.get(name)]
                names = (*first, *(level for level in names if level not in first))
                codes = StoredColumns(features).codes(name, names)
            else:
                encoded = encode_levels(column)
                names = encoded.names  # all that occur, so none is unlisted; -1 is missing
                codes = np.where(encoded.codes < 0, len(names) + 1, encoded.codes)
            self._codes[index] = codes
            fields.append(Field(name, "category", gaps, names, declaration))
        self.layout = Layout.of(fields)

    def blocks(self) -> Iterator[UInt8]:
        """The records, some rows at a time, ``[n, width]`` each."""
        numbers, codes = self.layout.numbers, self.layout.codes
        for start in range(0, self._features.num_rows, CHUNK_ROWS):
            part = self._features.slice(start, CHUNK_ROWS)
            rows = np.zeros((part.num_rows, self.layout.width), np.uint8)
            for place, index in enumerate(numbers.column_indices):
                numbers.view(rows)[:, place] = numeric_values(part.column(index))
            for place, index in enumerate(codes.column_indices):
                codes.view(rows)[:, place] = self._codes[index][start : start + CHUNK_ROWS]
            yield rows
