"""Columns read as they are declared: every value becomes one that was declared, or missing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairaudit.config.declared import DeclaredCategory, DeclaredColumn, DeclaredNumber
from fairaudit.data.column_types import number_column, within
from fairaudit.data.dataset import Int64
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.errors import DataError
from fairaudit.messages.base import Message
from fairaudit.messages.data import UndeclaredColumns, UndeclaredValues
from fairaudit.messages.names import quoted


class DeclaredValues(NamedTuple):
    """Columns as their declarations read them.

    Args:
        values: Column -> its N values, each a declared one or null.
        misfits: Column -> indices of the rows whose value was not a declared one; columns without
            such rows are not there.
    """

    values: dict[str, pa.ChunkedArray]
    misfits: dict[str, Int64]


def read_declared(stored: StoredColumns, declared: Mapping[str, DeclaredColumn]) -> DeclaredValues:
    """Read columns as they are declared, every value by itself.

    A number outside its range is clipped or missing; what is no number, and a text that is not
    listed, counts as missing. What becomes of a value depends on no other row, so it says nothing
    of other records.

    Args:
        stored: Holds the columns.
        declared: Column -> its declaration.
    """
    values: dict[str, pa.ChunkedArray] = {}
    misfits: dict[str, Int64] = {}
    for name, declaration in declared.items():
        if isinstance(declaration, DeclaredNumber):
            values[name], is_misfit = _declared_numbers(stored, name, declaration)
        else:
            values[name], is_misfit = _declared_texts(stored, name, declaration)
        if is_misfit.any():
            misfits[name] = np.flatnonzero(is_misfit)
    return DeclaredValues(values, misfits)


def _declared_numbers(
    stored: StoredColumns, name: str, declaration: DeclaredNumber
) -> tuple[pa.ChunkedArray, NDArray[np.bool_]]:
    """Numbers within the declared range or null; and which values were no such numbers, ``[N]``."""
    numbers = stored.numbers(name)
    is_misfit = np.isnan(numbers)
    if is_misfit.any():  # NaN stands for a gap, too, which is no misfit
        is_misfit &= stored.present(name)
    values, is_beyond = within(numbers, declaration.range, declaration.outside)
    return number_column(values), is_misfit | is_beyond


def _declared_texts(
    stored: StoredColumns, name: str, declaration: DeclaredCategory
) -> tuple[pa.ChunkedArray, NDArray[np.bool_]]:
    """Declared categories or null; and which values were another text, ``[N]``.

    A missing value is the category that the declaration names for it, if it names one.
    """
    categories = declaration.categories
    codes = stored.codes(name, categories)
    # Codes past the categories: first that of any other text, then that of a missing value.
    is_misfit = codes == len(categories)
    is_gap = codes >= len(categories)
    if declaration.missing is not None:
        codes[is_gap] = categories.index(declaration.missing)
        is_gap = np.zeros(len(codes), np.bool_)
    texts = pa.array(categories, pa.large_string()).take(pa.array(codes, pa.int64(), mask=is_gap))
    return pa.chunked_array([texts]), is_misfit


def refuse_no_numbers(stored: StoredColumns, values: Mapping[str, pa.ChunkedArray]) -> None:
    """Refuse a column that is declared a number and holds values of which none is a number.

    This looks at all rows together, so a release, which reads each row by itself, must not do it.

    Args:
        stored: Holds the columns.
        values: Column -> its declared values, as of :func:`read_declared`.

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
    misfits: Mapping[str, int],
    *,
    asked: bool,
) -> Iterator[Message]:
    """Notices of features that are not declared although others are, and of undeclared values.

    Args:
        columns: Names of the features.
        declared: Feature -> its declaration.
        misfits: Feature -> how many of its values were not as declared.
        asked: Whether the user declared columns at all.
    """
    lacking = [name for name in columns if name not in declared]
    if asked and lacking:
        yield UndeclaredColumns(tuple(lacking))
    if misfits:
        yield UndeclaredValues(sum(misfits.values()), columns=tuple(misfits))
