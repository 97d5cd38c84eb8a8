"""What one seed's training rows teach about each column: nothing here sees any other row.

Of a declared column they teach nothing, and its values are not looked at.
"""

from collections.abc import Iterator

import numpy as np

from fairaudit.data.column import (
    MISSING_INPUT,
    Column,
    NumberColumn,
    category_column,
    declared_column,
)
from fairaudit.data.columns import Float64
from fairaudit.data.dataset import Int64
from fairaudit.data.records import Block, Field, Records

FIT_BYTES = 2**28  # of training values that are held at once, or one column if that is more


def fit(records: Records, rows: Int64, merge_rare: float) -> list[Column]:
    """Every column's constants, in column order.

    Args:
        records: The table.
        rows: Training rows.
        merge_rare: Share below which levels are merged; 0 takes lists of levels and of columns with
            missing values from all rows.
    """
    fields = records.layout.fields
    columns: dict[int, Column] = {}
    for number, field in enumerate(fields):
        if field.declared is not None:
            columns[number] = declared_column(field.name, field.declared)
    for number, values in _training_values(records, rows):
        columns[number] = _fit_number(fields[number], values, fixed=merge_rare == 0)
    block = records.layout.codes
    counts: dict[int, Int64] = {}  # of each code of a category, [levels + 2], by its place
    for place, number in enumerate(block.fields):
        field = fields[number]
        if field.declared is not None:
            continue
        if merge_rare == 0:
            columns[number] = category_column(field.name, field.levels, missing=field.gaps)
        else:
            counts[place] = np.zeros(len(field.levels) + 2, np.int64)
    for _, taken in records.chunks(rows) if counts else ():
        codes = block.of(taken)
        for place, count in counts.items():
            count += np.bincount(codes[:, place], minlength=len(count))
    for place, count in counts.items():
        field = fields[block.fields[place]]
        of_levels = count[: len(field.levels)]
        rare = (of_levels > 0) & (of_levels < merge_rare * int(count.sum()))
        if rare.sum() < 2:
            rare[:] = False
        columns[block.fields[place]] = category_column(
            field.name,
            field.levels,
            kept=np.flatnonzero((of_levels > 0) & ~rare),
            rare=np.flatnonzero(rare),
            missing=bool(count[-1]),
        )
    return [columns[number] for number in range(len(fields))]


def _training_values(records: Records, rows: Int64) -> Iterator[tuple[int, Float64]]:
    """Each number's values on some rows, ``[n]``; as many columns a pass as memory allows."""
    numbers: list[tuple[int, Block, int]] = []
    for block in records.layout.numbers:
        for place, number in enumerate(block.fields):
            if records.layout.fields[number].declared is None:
                numbers.append((number, block, place))
    at_once = max(1, FIT_BYTES // (8 * max(1, len(rows))))
    for first in range(0, len(numbers), at_once):
        group = numbers[first : first + at_once]
        values = np.empty((len(group), len(rows)))
        for piece, taken in records.chunks(rows):
            for line, (_, block, place) in zip(values, group, strict=True):
                line[piece] = block.of(taken)[:, place]
        for line, (number, _, _) in zip(values, group, strict=True):
            yield number, line


def _fit_number(field: Field, train: Float64, *, fixed: bool) -> NumberColumn:
    gaps = np.isnan(train)
    has_indicator = field.gaps if fixed else bool(gaps.any())
    indicator = (f"{field.name}={MISSING_INPUT}",) if has_indicator else ()
    present = train[~gaps]
    exponent = int(np.frexp(np.abs(present).max(initial=0.0))[1])
    median = float(np.median(np.ldexp(present, -exponent))) if len(present) else 0.0
    scaled = np.ldexp(train, -exponent)
    scaled[gaps] = median
    centre = spread = 0.0
    if len(scaled) and scaled.min() < scaled.max():
        centre, spread = float(scaled.mean()), float(scaled.std())
    assert field.kind != "category"
    return NumberColumn(
        kind=field.kind,
        name=field.name,
        inputs=(field.name, *indicator),
        exponent=exponent,
        centre=centre,
        spread=spread,
        fill=median,
        range=None,
        outside="clip",
    )
