"""The constants of each column, fitted to one seed's training rows: no other row's value is read.

The constants of a declared column come from its declaration, and its values are not read. Where
``merge_rare`` is 0, two things come from all rows, as the records' fields list them: the levels of
a category, and whether a column has missing values.
"""

from collections.abc import Iterator

import numpy as np

from fairaudit.data.column_types import Float64
from fairaudit.data.dataset import Int64
from fairaudit.data.inputs.column import (
    MISSING_INPUT,
    CategoryColumn,
    Column,
    NumberColumn,
    category_column,
    declared_column,
)
from fairaudit.data.inputs.records import Field, Records

FIT_BYTES = 2**28  # of training values that are held at once, or one column if that is more


def fit(records: Records, rows: Int64, merge_rare: float) -> list[Column]:
    """Every column's constants, in column order.

    Args:
        records: All rows of the table.
        rows: Indices of the training rows.
        merge_rare: Share below which levels are merged; 0 takes lists of levels and of columns with
            missing values from all rows.
    """
    fields, from_all_rows = records.layout.fields, merge_rare == 0
    columns: dict[int, Column] = {}  # index of the field -> its constants
    for index, values in _training_values(records, rows):
        columns[index] = _fit_number(fields[index], values, from_all_rows=from_all_rows)
    block = records.layout.codes
    # Of each category whose levels come from training rows: how often each code occurs there.
    counts = {}  # index of the field -> [levels + 2], the last two of unlisted and missing values
    for index in block.column_indices:
        if fields[index].declared is None and not from_all_rows:
            counts[index] = np.zeros(len(fields[index].levels) + 2, np.int64)
    # Without such a category the rows need not be read.
    chunks = records.chunks(rows) if counts else ()
    for _, chunk in chunks:
        codes = block.view(chunk)
        for place, index in enumerate(block.column_indices):
            if index in counts:
                counts[index] += np.bincount(codes[:, place], minlength=len(counts[index]))
    for index, field in enumerate(fields):  # numbers that are not declared have theirs already
        if field.declared is not None:
            columns[index] = declared_column(field.name, field.declared)
        elif index in counts:
            columns[index] = _fit_category(field, counts[index], merge_rare)
        elif field.kind == "category":
            columns[index] = category_column(field.name, field.levels, missing=field.gaps)
    return [columns[index] for index in range(len(fields))]


def _fit_category(field: Field, counts: Int64, merge_rare: float) -> CategoryColumn:
    """A category's inputs by the levels that training rows have; rare ones share an input.

    Args:
        field: The column.
        counts: Training rows of each code, ``[levels + 2]``: of each level, of unlisted texts, of
            missing values.
        merge_rare: Share of training rows below which a level is rare.
    """
    of_levels = counts[: len(field.levels)]
    rare = (of_levels > 0) & (of_levels < merge_rare * int(counts.sum()))
    if rare.sum() < 2:  # a single rare level would share its input with none
        rare[:] = False
    return category_column(
        field.name,
        field.levels,
        kept=np.flatnonzero((of_levels > 0) & ~rare),
        rare=np.flatnonzero(rare),
        missing=bool(counts[-1]),
    )


def _training_values(records: Records, rows: Int64) -> Iterator[tuple[int, Float64]]:
    """The field's index and the values ``[n]`` on ``rows`` of each number that is not declared.

    A pass over the records collects as many columns as ``FIT_BYTES`` holds.
    """
    block = records.layout.numbers
    at_once = max(1, FIT_BYTES // (8 * max(1, len(rows))))  # columns; a float64 has 8 bytes
    for first in range(0, len(block.column_indices), at_once):
        places = slice(first, first + at_once)
        indices = block.column_indices[places]
        values = np.empty((len(indices), len(rows)))
        for piece, chunk in records.chunks(rows):
            values[:, piece] = block.view(chunk)[:, places].T
        for index, of_field in zip(indices, values, strict=True):
            if records.layout.fields[index].declared is None:  # declared ones were read along
                yield index, of_field


def _fit_number(field: Field, train: Float64, *, from_all_rows: bool) -> NumberColumn:
    """Fit mean, standard deviation and median to a number's training values, ``[n]``.

    A missing value (NaN) becomes the median. The spread is 0 where all values are equal or missing.

    Args:
        field: The column.
        train: Its training values.
        from_all_rows: Whether the column gets an indicator of missing values if any row lacks one,
            and not only if a training row does.
    """
    gaps = np.isnan(train)
    has_indicator = field.gaps if from_all_rows else bool(gaps.any())
    indicator = (f"{field.name}={MISSING_INPUT}",) if has_indicator else ()
    median = centre = spread = 0.0
    if not gaps.all():
        median = float(np.median(train[~gaps]))
        values = np.where(gaps, median, train)
        if values.min() < values.max():
            centre, spread = float(values.mean()), float(values.std())
    return NumberColumn(
        kind="number",
        name=field.name,
        inputs=(field.name, *indicator),
        centre=centre,
        spread=spread,
        fill=median,
        range=None,
        outside="clip",
    )
