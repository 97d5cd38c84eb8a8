"""Declared columns laid over a table: every value becomes one that was declared, or missing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fairaudit.config.declared import DeclaredCategory, DeclaredColumn, DeclaredNumber
from fairaudit.data.columns import encode_codes, kind_of, level_names, numeric_values
from fairaudit.data.dataset import Int64, Notice
from fairaudit.data.naming import listed, nearest, quoted
from fairaudit.errors import DataError, numbered


@dataclass(frozen=True, slots=True)
class Laid:
    """A table with declared columns in it.

    Args:
        table: All its columns, the declared ones as declared.
        outside: Column -> rows whose value was not one that is declared.
    """

    table: pa.Table
    outside: dict[str, Int64] = field(default_factory=dict)


def refuse_unknown(declared: Mapping[str, DeclaredColumn], known: Sequence[str], name: str) -> None:
    """Refuse a declaration of a column that a table lacks.

    Raises:
        DataError: The first such column.
    """
    for column in declared:
        if column not in known:
            raise DataError(
                f"column {quoted(column)} is declared, and not in {name} ({listed(known)})",
                nearest(column, known),
            )


def lay_over(
    table: pa.Table,
    declared: Mapping[str, DeclaredColumn],
    keep: Callable[[pa.ChunkedArray], pa.ChunkedArray] = lambda column: column,
) -> Laid:
    """The table as declared; each value becomes what it does by itself, whatever other rows hold.

    Args:
        table: Columns in plain types.
        declared: Of some or all of them.
        keep: May move a column that was made to where a large table's columns are.

    Raises:
        DataError: A column holds something else than what is declared.
    """
    outside: dict[str, Int64] = {}
    for name, told in declared.items():
        column = table.column(name)
        made, rows = (
            _number(name, column, told) if isinstance(told, DeclaredNumber) else _category(name, column, told)
        )
        table = table.set_column(table.column_names.index(name), name, keep(made))
        if len(rows):
            outside[name] = rows
    return Laid(table, outside)


def declaration_notices(
    columns: Sequence[str],
    declared: Mapping[str, DeclaredColumn],
    outside: Mapping[str, Mapping[str, int]],
    *,
    asked: bool,
) -> Iterator[Notice]:
    """Which features are not declared though others are, and how many values are not as declared."""
    lacking = [name for name in columns if name not in declared]
    if asked and lacking:
        message = f"not declared, so they are scaled by what training rows hold: {listed(lacking)}"
        yield Notice("undeclared_columns", message, "declare them too, or leave them out with --drop")
    if outside:
        values = numbered(sum(sum(counts.values()) for counts in outside.values()), "value is", "values are")
        message = f"{values} not as declared in {listed(outside)}"
        fix = "each was clipped or counts as missing, as declared; their counts by group are in the report"
        yield Notice("outside_declaration", message, fix)


def _number(name: str, column: pa.ChunkedArray, told: DeclaredNumber) -> tuple[pa.ChunkedArray, Int64]:
    kind = kind_of(column.type)
    if kind not in ("number", "empty"):
        what = "times" if kind == "time" else "text"
        raise DataError(
            f"column {quoted(name)} is declared a number and holds {what}",
            "declare its categories, or write numbers into it",
        )
    values = numeric_values(column) if kind == "number" else np.full(len(column), np.nan)
    low, high = told.range
    rows = np.flatnonzero((values < low) | (values > high))
    if told.outside == "clip":
        values = np.clip(values, low, high)
    else:
        values[rows] = np.nan
    return pa.chunked_array([pa.array(values, pa.float64(), from_pandas=True)]), rows


def _category(name: str, column: pa.ChunkedArray, told: DeclaredCategory) -> tuple[pa.ChunkedArray, Int64]:
    if kind_of(column.type) == "image":
        raise DataError(f"column {quoted(name)} is declared a category and holds images")
    found = encode_codes(column)
    missing = None if told.missing is None else told.categories.index(told.missing)
    place = {level: code for code, level in enumerate(told.categories)}
    known = [place.get(level, missing) for level in level_names(found.values)]
    listed_at = np.array([level in place for level in level_names(found.values)] + [True], np.bool_)
    codes = pa.array([*known, missing], pa.int64()).take(pa.array(found.codes))
    made = pa.array(told.categories, pa.large_string()).take(codes)
    return pa.chunked_array([made]), np.flatnonzero(~listed_at[found.codes])
