"""Declared columns laid over a table: every value becomes one that was declared, or missing."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fairaudit.config.declared import DeclaredColumn, DeclaredNumber
from fairaudit.data.column_types import number_column, within
from fairaudit.data.dataset import Int64
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.errors import DataError
from fairaudit.messages.base import Message
from fairaudit.messages.data import UndeclaredColumns, UndeclaredValues
from fairaudit.messages.names import quoted


def lay_over(
    stored: StoredColumns, declared: Mapping[str, DeclaredColumn]
) -> tuple[dict[str, pa.ChunkedArray], dict[str, Int64]]:
    """Make every value of the declared columns one that is declared, or missing.

    A number outside its range is clipped or missing; what is no number, and a text that is not
    listed, counts as missing. What becomes of a value depends on no other row, so it says nothing
    of other records.

    Args:
        stored: Holds the columns.
        declared: Column -> its declaration.

    Returns:
        Column -> its declared values; and column -> indices of the rows whose value was not a
        declared one, without columns that have no such row.
    """
    values_of: dict[str, pa.ChunkedArray] = {}
    misfits: dict[str, Int64] = {}
    for name, declaration in declared.items():
        if isinstance(declaration, DeclaredNumber):
            numbers = stored.numbers(name)
            unlike = np.isnan(numbers)
            if unlike.any():
                unlike &= stored.present(name)
            values, beyond = within(numbers, declaration.range, declaration.outside)
            unlike |= beyond
            values_of[name] = number_column(values)
        else:
            codes = stored.codes(name, declaration.categories)
            # Codes past the categories: one of any value that is not listed, then the missing one.
            unlike = codes == len(declaration.categories)
            is_gap = codes >= len(declaration.categories)
            if declaration.missing is not None:
                codes[is_gap] = declaration.categories.index(declaration.missing)
                is_gap = np.zeros(len(codes), np.bool_)
            places = pa.array(codes, pa.int64(), mask=is_gap)
            names = pa.array(declaration.categories, pa.large_string())
            values_of[name] = pa.chunked_array([names.take(places)])
        rows = np.flatnonzero(unlike)
        if len(rows):
            misfits[name] = rows
    return values_of, misfits


def refuse_no_numbers(stored: StoredColumns, values: Mapping[str, pa.ChunkedArray]) -> None:
    """Refuse a column that is declared a number and holds none.

    All its rows together say so, so it is a help for audits alone, whose data are not protected.

    Args:
        stored: Holds the columns.
        values: Column -> its declared values, as of :func:`lay_over`.

    Raises:
        DataError: A number's column has values and none is a number.
    """
    for name, column in values.items():
        if pa.types.is_floating(column.type) and column.null_count == len(column):
            has_number = (~np.isnan(stored.numbers(name))).any()
            if stored.present(name).any() and not has_number:
                raise DataError(f"column {quoted(name)} is declared a number and holds none")


def declaration_notices(
    columns: Sequence[str],
    declared: Mapping[str, DeclaredColumn],
    unlike: Mapping[str, int],
    *,
    asked: bool,
) -> Iterator[Message]:
    """Notices of features that are not declared although others are, and of undeclared values.

    Args:
        columns: Names of the features.
        declared: Feature -> its declaration.
        unlike: Feature -> how many of its values were not as declared.
        asked: Whether the user declared columns at all.
    """
    lacking = [name for name in columns if name not in declared]
    if asked and lacking:
        yield UndeclaredColumns(tuple(lacking))
    if unlike:
        yield UndeclaredValues(sum(unlike.values()), columns=tuple(unlike))
