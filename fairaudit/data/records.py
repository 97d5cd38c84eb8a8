"""A table's features as records of bytes.

Everything about a row side by side, for any number of rows.

A batch of a training reads a few rows out of millions. Side by side they cost one look-up each, in
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
from fairaudit.data.columns import encode_levels, kind_of, listed_codes, numeric_values
from fairaudit.data.dataset import Int64

UInt8 = NDArray[np.uint8]

CHUNK_ROWS = 16_384  # rows that are handled at once: few enough for a processor's cache
NOTHING: Mapping[str, DeclaredColumn] = {}  # is declared of any column
_ALIGNMENT = 8  # bytes, so that every number of a record lies where a processor wants it


@dataclass(frozen=True, slots=True)
class Field:
    """A column in a record: a number, a time in s, or a category as the code of its level.

    Args:
        name: Column.
        kind: What it is.
        type: numpy's of a number: ``float32`` where that holds every value exactly.
        gaps: Whether a value is missing in some row; of a declared category, whether one may be.
        levels: Of a category, sorted or as declared. A value that is none of them has the code
            ``len(levels)``, a missing one the next.
        declared: What is publicly known of it, or None.
    """

    name: str
    kind: Literal["number", "time", "category"]
    type: str = "float64"
    gaps: bool = True
    levels: tuple[str, ...] = ()
    declared: DeclaredColumn | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Fields of one type, next to each other in the record.

    Args:
        fields: Their indices in the column order, ascending.
        type: numpy's name of it.
        start: First byte in the record.
        gaps: Whether values may be missing.
    """

    fields: tuple[int, ...]
    type: str
    start: int
    gaps: bool

    @property
    def stop(self) -> int:
        """One past the last byte."""
        return self.start + np.dtype(self.type).itemsize * len(self.fields)

    def of(self, rows: UInt8) -> NDArray[np.generic]:
        """The values in records ``[n, width]``, a view ``[n, len(fields)]``."""
        return rows[:, self.start : self.stop].view(self.type)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is in a record; numbers first, by type, then the codes.

    Args:
        fields: In column order.
        numbers: Blocks of numbers.
        codes: The block of categories.
    """

    fields: tuple[Field, ...]
    numbers: tuple[Block, ...]
    codes: Block

    @classmethod
    def of(cls, fields: Sequence[Field]) -> "Layout":
        """The layout of those fields; the same for the same fields."""
        blocks, start = [], 0
        for kind in (("float64", False), ("float64", True), ("float32", False), ("float32", True)):
            members = []
            for i, field in enumerate(fields):
                if field.kind != "category" and (field.type, field.gaps) == kind:
                    members.append(i)
            if members:
                blocks.append(Block(tuple(members), kind[0], start, kind[1]))
                start = blocks[-1].stop
        categories = tuple(i for i, field in enumerate(fields) if field.kind == "category")
        highest = max((len(fields[i].levels) + 1 for i in categories), default=0)
        gaps = any(fields[i].gaps for i in categories)
        codes = Block(categories, np.min_scalar_type(highest).name, start, gaps)
        return cls(tuple(fields), tuple(blocks), codes)

    @property
    def width(self) -> int:
        """Bytes of a record."""
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
        """Some records, ``[n, width]``."""
        return np.take(self.table, rows, axis=0)

    def chunks(self, rows: Int64) -> Iterator[tuple[slice, UInt8]]:
        """Some records piece by piece, with the place of each piece in ``rows``."""
        for start in range(0, len(rows), CHUNK_ROWS):
            piece = slice(start, start + CHUNK_ROWS)
            yield piece, self.take(rows[piece])


class RecordWriter:
    """Looks at every column once, then gives the records from the first row to the last.

    Args:
        features: The columns.
        declared: What is publicly known of some of them; they hold nothing else.
    """

    def __init__(
        self, features: pa.Table, declared: Mapping[str, DeclaredColumn] = NOTHING
    ) -> None:
        self._features, self._declared = features, declared
        self._codes: dict[int, NDArray[np.generic]] = {}
        self.layout = Layout.of(
            [self._field(i, name) for i, name in enumerate(features.column_names)]
        )

    def blocks(self) -> Iterator[UInt8]:
        """The records, some rows at a time, ``[n, width]`` each."""
        layout = self.layout
        for start in range(0, self._features.num_rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, self._features.num_rows)
            rows = np.zeros((stop - start, layout.width), np.uint8)
            for block in layout.numbers:
                for place, number in enumerate(block.fields):
                    part = self._features.column(layout.fields[number].name).slice(
                        start, stop - start
                    )
                    block.of(rows)[:, place] = numeric_values(part)
            for place, number in enumerate(layout.codes.fields):
                layout.codes.of(rows)[:, place] = self._codes[number][start:stop]
            yield rows

    def in_memory(self) -> Records:
        """All records at once."""
        table = np.empty((self._features.num_rows, self.layout.width), np.uint8)
        start = 0
        for rows in self.blocks():
            table[start : start + len(rows)] = rows
            start += len(rows)
        return Records(self.layout, table)

    def _field(self, number: int, name: str) -> Field:
        column = self._features.column(name)
        declared = self._declared.get(name)
        kind = kind_of(column.type)
        if kind == "number" or kind == "time":
            return self._number(name, kind, declared)
        if isinstance(declared, DeclaredCategory):
            levels, gaps = declared.categories, declared.missing is None
            codes = listed_codes(column, levels)
        else:
            found = encode_levels(column)
            levels, codes = found.names, found.codes
            gaps = bool((codes < 0).any())
            codes[codes < 0] = len(levels) + 1
        self._codes[number] = codes.astype(np.min_scalar_type(len(levels) + 1))
        return Field(name, "category", gaps=gaps, levels=levels, declared=declared)

    def _number(
        self, name: str, kind: Literal["number", "time"], declared: DeclaredColumn | None
    ) -> Field:
        gaps, exact = False, True
        for start in range(0, self._features.num_rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, self._features.num_rows)
            values = numeric_values(self._features.column(name).slice(start, stop - start))
            with np.errstate(over="ignore"):  # what becomes infinite is not exact
                exact = exact and np.array_equal(values.astype(np.float32), values, equal_nan=True)
            gaps = gaps or bool(np.isnan(values).any())
        return Field(name, kind, "float32" if exact else "float64", gaps, declared=declared)
