"""Declared columns laid over a table: every value becomes one that was declared, or missing."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fairaudit.config.declared import DeclaredColumn, DeclaredNumber
from fairaudit.data.columns import kind_of, listed_codes, numeric_values, within
from fairaudit.data.dataset import Int64, Notice
from fairaudit.data.naming import listed, quoted
from fairaudit.errors import DataError, numbered


def lay_over(
    table: pa.Table, declared: Mapping[str, DeclaredColumn]
) -> tuple[pa.Table, dict[str, Int64]]:
    """Make every value of a declared column one that is declared, or missing.

    A number outside its range is clipped or missing; a text that is not listed counts as missing.
    What becomes of a value depends on no other row, so it says nothing of other records.

    Args:
        table: Columns in plain types.
        declared: Column -> its declaration, for some or all of them.

    Returns:
        The table; and column -> indices of the rows whose value was not a declared one, without
        columns that have no such row.

    Raises:
        DataError: A column holds something else than what is declared.
    """
    outside: dict[str, Int64] = {}
    for name, declaration in declared.items():
        column = table.column(name)
        if isinstance(declaration, DeclaredNumber):
            kind = kind_of(column.type)
            if kind not in ("number", "empty"):
                raise DataError(f"column {quoted(name)} is declared a number and holds none")
            values = numeric_values(column) if kind == "number" else np.full(len(column), np.nan)
            values, beyond = within(values, declaration.range, declaration.outside)
            declared_values = pa.array(values, pa.float64(), from_pandas=True)  # NaN is missing
        else:
            if kind_of(column.type) == "image":
                raise DataError(f"column {quoted(name)} is declared a category and holds images")
            codes = listed_codes(column, declaration.categories)
            # Codes past the categories: one of any value that is not listed, then the missing one.
            beyond = codes == len(declaration.categories)
            is_gap = codes >= len(declaration.categories)
            if declaration.missing is not None:
                codes[is_gap] = declaration.categories.index(declaration.missing)
                is_gap = np.zeros(len(codes), np.bool_)
            places = pa.array(codes, pa.int64(), mask=is_gap)
            declared_values = pa.array(declaration.categories, pa.large_string()).take(places)
        rows = np.flatnonzero(beyond)
        table = table.set_column(table.column_names.index(name), name, declared_values)
        if len(rows):
            outside[name] = rows
    return table, outside


def declaration_notices(
    columns: Sequence[str],
    declared: Mapping[str, DeclaredColumn],
    outside: Mapping[str, Mapping[str, int]],
    *,
    asked: bool,
) -> Iterator[Notice]:
    """Notices of features that are not declared although others are, and of undeclared values.

    Args:
        columns: Names of the features.
        declared: Feature -> its declaration.
        outside: Feature -> group -> how many of its values were not as declared.
        asked: Whether the user declared columns at all.
    """
    lacking = [name for name in columns if name not in declared]
    if asked and lacking:
        message = f"not declared, so they are scaled by what training rows hold: {listed(lacking)}"
        yield Notice(
            "undeclared_columns", message, "declare them too, or leave them out with --drop"
        )
    if outside:
        values = numbered(
            sum(sum(counts.values()) for counts in outside.values()), "value is", "values are"
        )
        message = f"{values} not as declared in {listed(outside)}"
        fix = (
            "each was clipped or counts as missing, as declared; their counts by group are in "
            "the report"
        )
        yield Notice("outside_declaration", message, fix)
