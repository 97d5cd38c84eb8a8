"""What one seed's training rows teach about each column: nothing here sees any other row.

Of a declared column they teach nothing, and its values are not looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairaudit.data.dataset import Float32, Int64
from fairaudit.data.records import Block, CategoryField, Field, Float64, NumberField, Records

OTHER = "(other)"
MISSING_INPUT = "(missing)"
FIT_BYTES = 2**28  # of training values that are held at once, or one column if that is more
_NEITHER = 0.5  # a two-valued column's input for a value that training rows did not show


@dataclass(frozen=True, slots=True)
class FittedNumber:
    """A number, in units of ``2**exponent`` so that squares of huge values do not overflow.

    Args:
        names: Of the input and, where there is one, of the indicator of missing values.
        fitted: What was learned.
        exponent: Exact, so nothing is rounded by it.
        median, mean, deviation: Of the training values; a deviation of 0 is a constant column.
    """

    names: tuple[str, ...]
    fitted: tuple[str, ...]
    exponent: int
    median: float
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class FittedCategory:
    """A category: every code sets one of the column's inputs to a value.

    Args:
        names: Of the inputs, ``[w]``.
        fitted: What was learned.
        places: Which input a code sets, ``[levels + 1]`` in ``0..w-1``; the last code is a gap's.
        values: To what, ``[levels + 1]``; 0 for a code that has no input.
        one_hot: Whether each code that training rows show sets its input to 1; else two share an input.
        merged: Rare levels that share an input.
        levels: Whose codes these are.
        unseen: Input and value of a level that is none of them.
    """

    names: tuple[str, ...]
    fitted: tuple[str, ...]
    places: Int64
    values: Float32
    one_hot: bool
    merged: int
    levels: tuple[str, ...]
    unseen: tuple[int, float]


Fitted = FittedNumber | FittedCategory


def fit(records: Records, rows: Int64, merge_rare: float) -> list[Fitted]:
    """Every column's constants, in column order.

    Args:
        records: The table.
        rows: Training rows.
        merge_rare: Share below which levels are merged; 0 takes lists of levels and of columns with missing
            values from all rows.
    """
    found: dict[int, Fitted] = {
        number: as_declared(field) for number, field in enumerate(records.layout.fields) if field.declared
    }
    for number, values in _training_values(records, rows):
        field = records.layout.fields[number]
        assert isinstance(field, NumberField)
        found[number] = _fit_number(field, values, fixed=merge_rare == 0)
    for number, counts in _training_counts(records, rows):
        field = records.layout.fields[number]
        assert isinstance(field, CategoryField)
        found[number] = _fit_category(field, counts, merge_rare)
    return [found[number] for number in range(len(found))]


def _training_values(records: Records, rows: Int64) -> Iterator[tuple[int, Float64]]:
    """Each number's values on some rows, ``[n]``; as many columns a pass as memory allows."""
    fields = records.layout.fields
    numbers = [
        (n, block, place)
        for block in records.layout.numbers
        for place, n in enumerate(block.fields)
        if not fields[n].declared
    ]
    at_once = max(1, FIT_BYTES // (8 * max(1, len(rows))))
    for first in range(0, len(numbers), at_once):
        group: list[tuple[int, Block, int]] = numbers[first : first + at_once]
        values = np.empty((len(group), len(rows)))
        for piece, taken in records.chunks(rows):
            for line, (_, block, place) in zip(values, group, strict=True):
                line[piece] = block.of(taken)[:, place]
        for line, (number, _, _) in zip(values, group, strict=True):
            yield number, line


def _training_counts(records: Records, rows: Int64) -> Iterator[tuple[int, Int64]]:
    """Rows of each code of each category, ``[levels + 1]``."""
    block = records.layout.codes
    counts: dict[int, tuple[int, Int64]] = {}
    for place, number in enumerate(block.fields):
        field = records.layout.fields[number]
        if isinstance(field, CategoryField) and not field.declared:
            counts[place] = number, np.zeros(len(field.levels) + 1, np.int64)
    for _, taken in records.chunks(rows) if counts else ():
        codes = block.of(taken)
        for place, (_, count) in counts.items():
            count += np.bincount(codes[:, place], minlength=len(count))
    yield from counts.values()


def as_declared(field: Field) -> Fitted:
    """A declared column's constants; no row is handed in."""
    if isinstance(field, CategoryField):
        nothing_seen = np.zeros(len(field.levels) + 1, np.int64)
        return replace(_fit_category(field, nothing_seen, merge_rare=0), fitted=())
    told = field.declared
    assert told is not None, f"{field.name} is not declared"
    return FittedNumber(
        names=(field.name, f"{field.name}={MISSING_INPUT}")[: 1 + (told.missing is not None)],
        fitted=(),
        exponent=0,
        median=told.middle if told.missing is None else told.missing,
        mean=told.middle,
        deviation=told.scale,
    )


def _fit_number(field: NumberField, train: Float64, *, fixed: bool) -> FittedNumber:
    gaps = np.isnan(train)
    indicator = field.gaps if fixed else bool(gaps.any())
    present = train[~gaps]
    exponent = int(np.frexp(np.abs(present).max(initial=0.0))[1])
    median = float(np.median(np.ldexp(present, -exponent))) if len(present) else 0.0
    scaled = np.ldexp(train, -exponent)
    scaled[gaps] = median
    varies = len(scaled) > 0 and scaled.min() < scaled.max()
    learned = ("mean and standard deviation", "median")[: 1 + indicator]
    return FittedNumber(
        names=(field.name, f"{field.name}={MISSING_INPUT}")[: 1 + indicator],
        fitted=tuple(f"{what} of {field.name}" for what in learned),
        exponent=exponent,
        median=median,
        mean=float(scaled.mean()) if varies else 0.0,
        deviation=float(scaled.std()) if varies else 0.0,
    )


def _fit_category(field: CategoryField, counts: Int64, merge_rare: float) -> FittedCategory:
    """Two levels in one input, others one-hot."""
    kept, merged, missing = _levels(field, counts, merge_rare)
    learned = (f"levels of {field.name}",)
    if len(kept) == 2 and not len(merged):
        places = np.zeros(len(counts), np.int64)
        values = np.full(len(counts), _NEITHER, np.float32)
        values[kept] = (0.0, 1.0)
        if missing:
            places[-1], values[-1] = 1, 1.0
        pair = (f"{field.name}={field.levels[int(kept[1])]}", f"{field.name}={MISSING_INPUT}")[: 1 + missing]
        return FittedCategory(pair, learned, places, values, False, 0, field.levels, (0, _NEITHER))
    names = [f"{field.name}={field.levels[int(level)]}" for level in kept]
    names += [f"{field.name}={OTHER}"] if len(merged) else []
    names += [f"{field.name}={MISSING_INPUT}"] if missing else []
    # Levels that training rows did not show, and a gap where it has no input: with the rare, or nowhere.
    unseen = (len(kept), 1.0) if len(merged) else (0, 0.0)
    places = np.full(len(counts), unseen[0], np.int64)
    values = np.full(len(counts), unseen[1], np.float32)
    places[kept], values[kept] = np.arange(len(kept)), 1.0
    if missing:
        places[-1], values[-1] = len(names) - 1, 1.0
    return FittedCategory(tuple(names), learned, places, values, True, len(merged), field.levels, unseen)


def _levels(field: CategoryField, counts: Int64, merge_rare: float) -> tuple[Int64, Int64, bool]:
    """Levels with an input of their own, those merged, and whether missing has an input."""
    levels = np.arange(len(field.levels))
    if merge_rare == 0:
        return levels, levels[:0], field.gaps
    seen, missing = counts[:-1] > 0, bool(counts[-1])
    rare = seen & (counts[:-1] < merge_rare * int(counts.sum()))
    if rare.sum() < 2:
        rare[:] = False
    return levels[seen & ~rare], levels[rare], missing
